"""The one executor: compiled, it runs the part of a stretch of events that falls to the nodes it hosts.

Visits run in schedule order, each after the local steps of its node that precede it. A visit waits until its token is
there, that is until ``ready[k]`` says that all earlier visits of token k are done. While it waits, local steps of nodes
that are visited later run ahead. The globally first visit that is not done never waits, so executors of several threads
or workers cannot block each other for ever.

Executors that share memory hand tokens over by that number alone. One that has looked for long sleeps, and says so in
``sleeps``: then somebody has to wake it up (`dtoken.engine.events.sleeping`).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from dtoken.compiled import compiled
from dtoken.engine.events.plan import FLUSH
from dtoken.engine.events.primitives import load_acquire, pause, store_release
from dtoken.engine.events.sleeping import must_tell
from dtoken.problem.prefetch import LINE, fetch_row, fetch_row_state, prefetch, prefetch_entry

DONE, WAITING, LEAVING = range(3)

NOBODY = -1
AHEAD_STEPS = 16  # local steps that run ahead before the token is looked for again
AHEAD_VISITS = 512  # how far down the list of visits to look for steps that can run ahead
ROW_STATE_AHEAD = 8  # local steps between asking where a row is, and what the node remembers of it, and using that
ROW_AHEAD = 4  # local steps between asking for a row and using it
ENTRIES_AHEAD = 1  # local steps between asking for what a row will be multiplied with, and that
VISITS_AHEAD = 4  # visits between asking for a node's state, if it is short, and using it
SHORT_STATE = 256  # features up to which a node's state is fetched as a whole
LONG_STATE = 2048  # features from which a node's state does not stay in the nearest cache


@compiled
def _no_meet(c: Any, tokens: Any, k: int, other: int, t: float) -> None:
    pass


@compiled
def publish(ready: Any, k: int, turn: int) -> None:
    """Say that token k is here and has been part of ``turn`` visits and meets."""
    store_release(ready, k, turn)


@compiled
def fetch_entries(rows: Any, state: Any, i: int, r: int) -> None:
    """Ask for what node i has at the features of row r, if it is a row and the node's state long enough to matter."""
    if r >= 0 and rows.d >= LONG_STATE:
        for entry in range(rows.start[r], rows.stop[r]):
            prefetch_entry(state, i, rows.indices[entry])


@compiled
def fetch_state(rows: Any, state: Any, i: int) -> None:
    """Ask for what is known of node i, and for all of its state, if that is short."""
    if i >= 0 and rows.d <= SHORT_STATE:
        prefetch(rows.w, i)
        prefetch(rows.first, i + 1)
        for s in range(0, rows.d, LINE // 8):
            prefetch_entry(state, i, s)
        prefetch_entry(state, i, rows.d - 1)  # states do not begin where lines do


@compiled
def _later(plan: Any, cursor: Any, v: int) -> int:
    """A visit with local steps that the visit ``v``, which waits, does not hold up; NOBODY: there is none."""
    for later in range(v, min(v + AHEAD_VISITS, len(plan.node))):
        if plan.before[later] < v and cursor[1 + later] < plan.first[later + 1]:
            return later
    return NOBODY


@cache
def executor(local: Callable[..., None], visit: Callable[..., None], meet: Callable[..., None] | None) -> Any:
    """Compile the executor of a method from its steps.

    The result is ``run(plan, c, rows, nodes, tokens, ready, sleeps, cursor, looked, patience)``. It works on ``plan``
    from where ``cursor`` says (the next visit, then the next local step of each visit) and returns DONE, WAITING when a
    token did not come within ``patience`` looks, or LEAVING after a visit whose token goes to a thread that must be
    told. ``looked[0]`` counts the looks.
    """
    meet = meet or _no_meet

    @compiled
    def run(
        plan: Any,
        c: Any,
        rows: Any,
        nodes: Any,
        tokens: Any,
        ready: Any,
        sleeps: Any,
        cursor: Any,
        looked: Any,
        patience: int,
    ) -> int:
        v, last, looks = cursor[0], len(plan.row), 0
        while v < len(plan.node):
            k, other = plan.token[v], plan.other[v]
            waits = k != FLUSH and (
                load_acquire(ready, k) != plan.turn[v]
                or (other >= 0 and load_acquire(ready, other) != plan.other_turn[v])
            )
            if waits and looks > patience:
                cursor[0] = v
                return WAITING
            # whose local steps run now: one loop for both cases, or a method's steps would be compiled twice
            w, most = v, last
            if waits:
                w, most = _later(plan, cursor, v) if looks == 0 else NOBODY, AHEAD_STEPS
            if w == NOBODY:
                looks += 1
                looked[0] += 1
                pause()
                continue
            i, end = plan.node[w], plan.first[w + 1]
            stop = min(cursor[1 + w] + most, end)
            for step in range(cursor[1 + w], stop):
                if step + ROW_STATE_AHEAD < last:
                    fetch_row_state(rows, nodes, plan.row[step + ROW_STATE_AHEAD])
                if step + ROW_AHEAD < last:
                    fetch_row(rows, plan.row[step + ROW_AHEAD])
                if step + ENTRIES_AHEAD < end:
                    fetch_entries(rows, nodes[0], i, plan.row[step + ENTRIES_AHEAD])
                local(c, rows, nodes, i, plan.row[step], plan.at[step])
            cursor[1 + w] = stop
            if waits:
                continue
            if v + VISITS_AHEAD < len(plan.node):
                fetch_state(rows, nodes[0], plan.node[v + VISITS_AHEAD])
            if other >= 0:
                meet(c, tokens, k, other, plan.visit_at[v])
                store_release(ready, other, plan.other_turn[v] + 1)
            elif k != FLUSH:
                visit(c, rows, nodes, tokens, i, k, plan.visit_row[v], plan.visit_at[v])
            if k != FLUSH:
                store_release(ready, k, plan.turn[v] + 1)
            cursor[0] = v + 1
            if must_tell(sleeps, plan.leave[v], k) or must_tell(sleeps, plan.other_leave[v], other):
                return LEAVING
            v, looks = v + 1, 0
        cursor[0] = v
        return DONE

    return run
