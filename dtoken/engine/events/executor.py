"""The one executor: compiled, it runs the part of a stretch of events that falls to the nodes it hosts.

Visits of a node run in schedule order, each after the local steps of its node that precede it, and so do visits of a
token; nothing else decides the bits. The executor takes them in the order of the schedule as long as it can. A visit
waits until its token is there, that is until ``ready[k]`` says that all earlier visits of token k are done. Meanwhile
later visits of other nodes go ahead whose tokens are there, which can then travel on, and local steps of nodes that are
visited later. The globally first visit that is not done never waits, so executors of several threads or workers cannot
block each other for ever.

Executors that share memory hand tokens over by that number alone. One that has looked for long sleeps, and says so in
``sleeps``: then somebody has to wake it up (`dtoken.engine.events.sleeping`).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import literal_unroll

from dtoken.compiled import compiled
from dtoken.engine.events.plan import FLUSH
from dtoken.engine.events.primitives import load_acquire, pause, store_release
from dtoken.engine.events.sleeping import must_tell
from dtoken.problem.prefetch import LINE, fetch_row, fetch_row_state, prefetch, prefetch_entry

DONE, WAITING, LEAVING = range(3)

NOBODY = -1
AHEAD_STEPS = 16  # local steps that run ahead before the token is looked for again
AHEAD_VISITS = 512  # how far down the list of visits to look for steps that can run ahead
READY_VISITS = 64  # how far to look for a visit that can go ahead, because its token is here
LOOKS_AT_ONE = 16  # looks for the token of the first visit from one look for those of later ones to the next
ROW_STATE_AHEAD = 8  # local steps between asking where a row is, and what the node remembers of it, and using that
ROW_AHEAD = 4  # local steps between asking for a row and using it
ENTRIES_AHEAD = 1  # local steps between asking for what a row will be multiplied with, and that
VISITS_AHEAD = 4  # visits between asking for a node's state, if it is short, and using it
SHORT_STATE = 256  # features up to which a node's state is fetched as a whole
LONG_STATE = 2048  # features from which a node's state does not stay in the nearest cache


@compiled
def fork(c: Any, tokens: Any, k: int, other: int, t: float) -> None:
    """Token ``other`` becomes a copy of token k: what two tokens do whose method lets none meet."""
    for array in literal_unroll(tokens):
        array[other] = array[k]


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
def _is_done(plan: Any, cursor: Any, v: int) -> bool:
    """Whether a visit (-1: none) is over: then its next local step is one that does not exist."""
    return bool(v < 0 or cursor[1 + v] > plan.first[v + 1])


@compiled
def ready_visit(plan: Any, cursor: Any, ready: Any) -> int:
    """The first visit whose tokens are there and which none before at its node holds up; NOBODY: there is none."""
    for v in range(cursor[0], min(cursor[0] + READY_VISITS, len(plan.node))):
        k, other = plan.token[v], plan.other[v]
        if (
            k != FLUSH
            and load_acquire(ready, k) == plan.turn[v]
            and (other < 0 or load_acquire(ready, other) == plan.other_turn[v])
            and _is_done(plan, cursor, plan.before[v])
        ):
            return v
    return NOBODY


@compiled
def _later(plan: Any, cursor: Any) -> int:
    """A visit with local steps that no visit before at its node holds up; NOBODY: there is none."""
    for v in range(cursor[0], min(cursor[0] + AHEAD_VISITS, len(plan.node))):
        if cursor[1 + v] < plan.first[v + 1] and _is_done(plan, cursor, plan.before[v]):
            return v
    return NOBODY


@cache
def executor(local: Callable[..., None], visit: Callable[..., None], meet: Callable[..., None] | None) -> Any:
    """Compile the executor of a method from its steps.

    The result is ``run(plan, c, rows, nodes, tokens, ready, sleeps, cursor, told, patience)``. It works on ``plan``
    from where ``cursor`` says (the first visit that is not done, then the next local step of each visit) and returns
    DONE, WAITING when no token came within ``patience`` looks, or LEAVING after visit ``told[1]``, if its token goes to
    a thread that must be told. ``told[0]`` counts the looks.
    """
    meet = meet or fork

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
        told: Any,
        patience: int,
    ) -> int:
        last, looks = len(plan.row), 0
        while cursor[0] < len(plan.node):
            v = cursor[0]
            if cursor[1 + v] > plan.first[v + 1]:  # done; no call that passes the plan where every visit comes by
                cursor[0] += 1
                continue
            k, other = plan.token[v], plan.other[v]
            waits = k != FLUSH and (
                load_acquire(ready, k) != plan.turn[v]
                or (other >= 0 and load_acquire(ready, other) != plan.other_turn[v])
            )
            if waits and looks % LOOKS_AT_ONE == 0:
                ahead = ready_visit(plan, cursor, ready)
                if ahead != NOBODY:
                    v, waits = ahead, False
                    k, other = plan.token[v], plan.other[v]
            if waits and looks > patience:
                return WAITING
            # whose local steps run now: one loop for both cases, or a method's steps would be compiled twice
            most = last
            if waits:
                v, most = _later(plan, cursor) if looks == 0 else NOBODY, AHEAD_STEPS
            if v == NOBODY:
                looks += 1
                told[0] += 1
                pause()
                continue
            i, end = plan.node[v], plan.first[v + 1]
            stop = min(cursor[1 + v] + most, end)
            for step in range(cursor[1 + v], stop):
                if step + ROW_STATE_AHEAD < last:
                    fetch_row_state(rows, nodes, plan.row[step + ROW_STATE_AHEAD])
                if step + ROW_AHEAD < last:
                    fetch_row(rows, plan.row[step + ROW_AHEAD])
                if step + ENTRIES_AHEAD < end:
                    fetch_entries(rows, nodes[0], i, plan.row[step + ENTRIES_AHEAD])
                local(c, rows, nodes, i, plan.row[step], plan.at[step])
            cursor[1 + v] = stop
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
            cursor[1 + v], looks = end + 1, 0
            if must_tell(sleeps, plan.leave[v]) or must_tell(sleeps, plan.other_leave[v]):
                told[1] = v
                return LEAVING
        return DONE

    return run
