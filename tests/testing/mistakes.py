"""Methods with one mistake each, as a user might make it; in a file of its own, which worker processes can import."""

import os
import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtoken.algorithms.base import VisitMethod
from dtoken.algorithms.contract import Facts, Models
from dtoken.algorithms.tvr import TVR
from dtoken.algorithms.tvr import visit as mix_with_token
from dtoken.algorithms.walkman import Walkman
from dtoken.algorithms.walkman import visit as walk_on
from dtoken.compiled import compiled
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot
from dtoken.problem.losses import derivative
from dtoken.schedule.clock import Costs
from dtoken.theory.promise import Promise

LITTLE = 1e-7


@dataclass(frozen=True)
class NoModels(VisitMethod):
    """Lacks a member."""

    visit = staticmethod(walk_on)
    constants = Walkman.constants
    states = Walkman.states


class Counting(NamedTuple):
    """Constants with room for a number per node."""

    n: int
    sigma: float
    beta: float
    proximal: bool
    inner: int
    visits: Any  # (n,)


@compiled
def count_visits(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    walk_on(c, rows, nodes, tokens, i, k, r, t)
    c.visits[i] += 1.0
    tokens.x[k] += LITTLE / c.visits[i]


@dataclass(frozen=True)
class StateInConstants(Walkman):
    """Keeps what changes among the constants, which no checkpoint has."""

    visit = staticmethod(count_visits)

    def constants(self, facts: Facts) -> Any:
        c = super().constants(facts)
        return Counting(c.n, c.sigma, c.beta, c.proximal, c.inner, np.zeros(facts.n))


class OneBuffer(Walkman):
    """Begins where the last run in this process ended."""

    buffers: ClassVar[dict[Any, Any]] = {}

    def states(self, c: Any, rows: HostedRows) -> Any:
        size = (len(rows.w), rows.d)
        if size not in self.buffers:
            self.buffers[size] = super().states(c, rows)
        return self.buffers[size]


@compiled
def shake(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    walk_on(c, rows, nodes, tokens, i, k, r, t)
    tokens.x[k] += LITTLE * np.random.random(rows.d)  # noqa: NPY002


@dataclass(frozen=True)
class RandomSteps(Walkman):
    """Draws random numbers that no seed decides."""

    visit = staticmethod(shake)


@compiled
def look_around(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    mix_with_token(c, rows, nodes, tokens, i, k, r, t)
    tokens.theta[k] += LITTLE * (tokens.theta[0] - tokens.theta[k])


@dataclass(frozen=True)
class OtherToken(TVR):
    """Reads a token that may be anywhere."""

    visit = staticmethod(look_around)


@compiled
def wear_down(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    walk_on(c, rows, nodes, tokens, i, k, r, t)
    rows.data[rows.start[rows.first[i]]] *= 1.0 - LITTLE


@dataclass(frozen=True)
class ChangesRows(Walkman):
    """Changes the data."""

    visit = staticmethod(wear_down)


class ByTheClock(Walkman):
    """Constants that depend on when they are computed."""

    def constants(self, facts: Facts) -> Any:
        c = super().constants(facts)
        return c._replace(beta=c.beta * (1 + LITTLE * (time.time() % 1000)))


@compiled
def follow_row(rows: Any, r: int, x: Any) -> None:
    slope = row_dot(rows.data, rows.indices, rows.start[r], rows.stop[r], x)
    add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], -LITTLE * slope, x)


@compiled
def take_sample(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    follow_row(rows, r, tokens.x[k])


@dataclass(frozen=True)
class SampleNotDeclared(Walkman):
    """A visit with a sample, of which the law knows nothing."""

    visit = staticmethod(take_sample)


class CountsOne(Walkman):
    """A full gradient that is counted as one of a sample."""

    def costs(self, facts: Facts) -> Costs:
        return Costs(np.zeros(facts.n, np.int64), np.ones(facts.n, np.int64))


class Remembers(Walkman):
    """Models that depend on what this process measured first."""

    first: ClassVar[dict[Any, Any]] = {}

    def models(self, c: Any, nodes: Any, tokens: Any, t: float) -> Models:
        found = super().models(c, nodes, tokens, t)
        began = self.first.setdefault(found.tokens.shape, t)
        return found._replace(tokens=found.tokens + 1e-12 * began)


class ProvedInWords(Walkman):
    """A rate in words."""

    def promise(self, c: Any, facts: Facts) -> Promise:
        return Promise("linear", "proved")  # type: ignore[arg-type]


class StaleConstants(Walkman):
    """Constants of the first problem for all others of the same size."""

    known: ClassVar[dict[int, Any]] = {}

    def constants(self, facts: Facts) -> Any:
        return self.known.setdefault(facts.n, super().constants(facts))


class LongSteps(Walkman):
    """Steps that are far too long."""

    def constants(self, facts: Facts) -> Any:
        c = super().constants(facts)
        return c._replace(beta=c.beta / 50)


class ForgetsSigma(Walkman):
    """The optimum of another problem: half the regulariser."""

    def constants(self, facts: Facts) -> Any:
        c = super().constants(facts)
        return c._replace(sigma=c.sigma / 2)


class OfThisProcess(Walkman):
    """Begins at a place that is different in every process."""

    def states(self, c: Any, rows: HostedRows) -> Any:
        nodes, tokens = super().states(c, rows)
        nodes.y[...] = LITTLE * os.getpid()
        return nodes, tokens


@compiled
def next_row_ends_it(c: Any, rows: Any, nodes: Any, i: int, r: int, t: float) -> None:
    """As TVR, of a row that ends where the next one begins."""
    stop = rows.start[r + 1] if r + 1 < len(rows.start) else rows.stop[r]
    stop = min(max(stop, rows.start[r]), rows.start[r] + rows.d)
    theta, w = nodes.theta[i], rows.w[i]
    L = rows.c * w * rows.q[r]
    rho = c.rho_comp / (1.0 + c.importance * L / c.sigma_t)
    nodes.z[r] += rho * (row_dot(rows.data, rows.indices, rows.start[r], stop, theta) - nodes.z[r])
    g = w * derivative(rows.loss, nodes.z[r], rows.y[r])
    add_row(rows.data, rows.indices, rows.start[r], stop, -(g - nodes.g[r]) / c.sigma_t, theta)
    nodes.g[r] = g


@dataclass(frozen=True)
class RowsInOrder(TVR):
    """Takes rows to lie one after the other."""

    local = staticmethod(next_row_ends_it)
