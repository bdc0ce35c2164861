"""The one executor: compiled, it runs the part of a stretch of events that falls to the nodes it hosts.

Visits run in schedule order, each after the local steps of its node that precede it. A visit waits until its token is
there, that is until ``ready[k]`` says that all earlier visits of token k are done. While it waits, local steps of nodes
that are visited later run ahead. The globally first visit that is not done never waits, so executors of several threads
or workers cannot block each other for ever.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from dtoken.compiled import compiled
from dtoken.engine.plan import FLUSH
from dtoken.engine.primitives import load_acquire, prefetch, store_release

DONE, WAITING, LEAVING = range(3)

AHEAD_STEPS = 16  # local steps that run ahead before the token is looked for again
AHEAD_VISITS = 512  # how far down the list of visits to look for steps that can run ahead
PREFETCH = 4  # local steps between asking for a row and using it


@compiled
def _no_meet(c: Any, tokens: Any, k: int, other: int, t: float) -> None:
    pass


@compiled
def publish(ready: Any, k: int, turn: int) -> None:
    """Say that token k is here and has been part of ``turn`` visits and meets."""
    store_release(ready, k, turn)


@cache
def executor(local: Callable[..., None], visit: Callable[..., None], meet: Callable[..., None] | None) -> Any:
    """Compile the executor of a method from its steps.

    The result is ``run(plan, c, rows, nodes, tokens, ready, cursor, patience)``. It works on ``plan`` from where
    ``cursor`` says (the next visit, then the next local step of each node) and returns DONE, WAITING when a token did
    not come within ``patience`` looks, or LEAVING after a visit whose token goes to another host.
    """
    meet = meet or _no_meet

    @compiled
    def run_queue(plan: Any, c: Any, rows: Any, nodes: Any, i: int, start: int, stop: int) -> None:
        for step in range(start, stop):
            ahead = step + PREFETCH
            if ahead < stop and plan.row[ahead] >= 0:
                entry = rows.start[plan.row[ahead]]
                prefetch(rows.data, entry)
                prefetch(rows.indices, entry)
            local(c, rows, nodes, i, plan.row[step], plan.at[step])

    @compiled
    def run_ahead(plan: Any, c: Any, rows: Any, nodes: Any, cursor: Any, v: int) -> bool:
        """Some local steps that the visit ``v``, which waits, does not hold up; False: there are none."""
        for later in range(v, min(v + AHEAD_VISITS, len(plan.node))):
            i = plan.node[later]
            if i >= 0 and plan.before[later] < v and cursor[1 + i] < plan.upto[later]:
                stop = min(cursor[1 + i] + AHEAD_STEPS, plan.upto[later])
                run_queue(plan, c, rows, nodes, i, cursor[1 + i], stop)
                cursor[1 + i] = stop
                return True
        return False

    @compiled
    def run(plan: Any, c: Any, rows: Any, nodes: Any, tokens: Any, ready: Any, cursor: Any, patience: int) -> int:
        for v in range(cursor[0], len(plan.node)):
            k, other, i = plan.token[v], plan.other[v], plan.node[v]
            looks = 0
            while k != FLUSH and (
                load_acquire(ready, k) != plan.turn[v]
                or (other >= 0 and load_acquire(ready, other) != plan.other_turn[v])
            ):
                if looks == 0 and run_ahead(plan, c, rows, nodes, cursor, v):
                    continue
                looks += 1
                if looks > patience:
                    cursor[0] = v
                    return WAITING
            if i >= 0:
                run_queue(plan, c, rows, nodes, i, cursor[1 + i], plan.upto[v])
                cursor[1 + i] = plan.upto[v]
            if other >= 0:
                meet(c, tokens, k, other, plan.visit_at[v])
                store_release(ready, other, plan.other_turn[v] + 1)
            elif k != FLUSH:
                visit(c, rows, nodes, tokens, i, k, plan.visit_row[v], plan.visit_at[v])
            if k != FLUSH:
                store_release(ready, k, plan.turn[v] + 1)
            if plan.leave[v] >= 0 or plan.other_leave[v] >= 0:
                cursor[0] = v + 1
                return LEAVING
        cursor[0] = len(plan.node)
        return DONE

    return run
