"""A method whose steps do not commute, in whole numbers: one event out of order, missing or doubled changes the result.

``happen`` is the same arithmetic in plain Python, one event after the other.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import Walking
from dtoken.algorithms.contract import Facts, Models
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.schedule.clock import Costs
from dtoken.schedule.events import KINDS, LOADING, Events
from dtoken.schedule.samples import Samples, row_of
from dtoken.schedule.stream import Law


class Constants(NamedTuple):
    bad_row: int  # a step with this row fails


class Nodes(NamedTuple):
    h: NDArray[np.int64]  # (hosted,)
    rows: NDArray[np.int64]  # (rows,)


class Tokens(NamedTuple):
    h: NDArray[np.int64]  # (K,)


@compiled
def local(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    if r == c.bad_row:
        raise ValueError("the bad row")
    nodes.h[i] = 31 * nodes.h[i] + 7 * nodes.rows[r] + r + np.int64(t)
    nodes.rows[r] = 5 * nodes.rows[r] + nodes.h[i]


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    token, node = tokens.h[k], nodes.h[i]
    tokens.h[k] = 17 * token + 5 * node + r + np.int64(t)
    nodes.h[i] = 13 * node + 3 * token + 1


@compiled
def meet(c: Any, tokens: Any, k: int, other: int, t: float) -> None:
    a, b = tokens.h[k], tokens.h[other]
    tokens.h[k] = 11 * a + 3 * b + np.int64(t)
    tokens.h[other] = 7 * b + 2 * a + 1


@dataclass(frozen=True)
class Ordered(Walking):
    tokens: int = 3
    p_visit: float = 0.2
    p_meet: float = 0.1
    jumps: int = 1
    bad_row: int = -5

    draws_samples = True
    local = staticmethod(local)
    visit = staticmethod(visit)
    meet = staticmethod(meet)

    def constants(self, facts: Facts) -> Constants:
        return Constants(self.bad_row)

    def law(self, c: Constants, facts: Facts) -> Law:
        nodes = facts.samples / facts.samples.sum()
        return Law(self.tokens, self.p_visit, self.p_meet, nodes, self.jumps, computing_visits=True)

    def notes(self, c: Constants, facts: Facts) -> tuple[str, ...]:
        return ()

    def costs(self, facts: Facts) -> Costs:
        return Costs(np.ones(facts.n, np.int64), np.ones(facts.n, np.int64))

    def weights(self, c: Constants, L: NDArray[np.float64]) -> None:
        return None

    def begin(self, c: Constants, rows: HostedRows, nodes: Nodes) -> None:
        pass

    def states(self, c: Constants, rows: HostedRows) -> tuple[Nodes, Tokens]:
        nodes = Nodes(np.arange(len(rows.w)), np.arange(len(rows.y)))
        return nodes, Tokens(1000 + np.arange(self.tokens))

    def models(self, c: Constants, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        return Models(nodes.h[:, None].astype(float), tokens.h[:, None].astype(float))


def wrapped(value: int) -> int:
    """As int64 does."""
    return (value + 2**63) % 2**64 - 2**63


def happen(events: Events, samples: Samples, first_row: NDArray[np.int64], tokens: int) -> list[list[int]]:
    """Nodes, rows and tokens after ``events``, in order, from the start."""
    n = len(first_row) - 1
    h, of_row, token_h = list(range(n)), list(range(int(first_row[-1]))), [1000 + k for k in range(tokens)]
    columns = (events.kind, events.node, events.token, events.other, events.draw, events.at)
    for kind, i, k, other, draw, at in zip(*(column.tolist() for column in columns), strict=True):
        t = int(at)
        match KINDS[kind]:
            case "local":
                r = int(row_of(samples, first_row, i, draw))
                h[i] = wrapped(31 * h[i] + 7 * of_row[r] + r + t)
                of_row[r] = wrapped(5 * of_row[r] + h[i])
            case "visit" | "load" | "deliver":
                r = LOADING if KINDS[kind] == "load" else int(row_of(samples, first_row, i, draw))
                a, b = token_h[k], h[i]
                token_h[k], h[i] = wrapped(17 * a + 5 * b + r + t), wrapped(13 * b + 3 * a + 1)
            case "meet":
                a, b = token_h[k], token_h[other]
                token_h[k], token_h[other] = wrapped(11 * a + 3 * b + t), wrapped(7 * b + 2 * a + 1)
    return [h, of_row, token_h]
