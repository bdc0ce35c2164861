"""Where a run starts: the margins z_ij, from which all the rest follows (Hendrikx 2022 leaves z_0 free).

With slopes g_ij = phi_ij'(z_ij) nodes begin at theta_i = -sum_j g_ij a_ij / sigma~ and tokens at 0, so that
sigma~ (sum_i theta_i + sum_k theta_k) + sum_ij g_ij a_ij = 0 holds from the first event on.

======  ================================================================================================
zero    z_ij = 0, as in the paper's experiment
labels  z_ij = c y_ij: every sample is on its right side, by the margin c
local   one pass of dual coordinate ascent on f_i + sigma~ / 2 ||.||^2 at each node, from theta_i = 0 and
        slopes of 0: for one row after the other, u solves u = a^T theta_i - (||a||^2 / sigma~) phi'(u),
        z = u, theta_i <- theta_i - phi'(u) a / sigma~, after which a^T theta_i = u
warm    margins and models of an earlier run, which are handed over (`Origin`)
======  ================================================================================================
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Facts, Method, Origin, Vector, check_choice
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows
from dtoken.problem.kernels import add_row, row_dot, row_square
from dtoken.problem.losses import derivative, prox_root

STARTS = ("zero", "labels", "local", "warm")
MARGIN = 2.0  # of labels, as in the authors' code for DVR


class Dual(NamedTuple):
    """The part of a method's state that a start fills, as views of its arrays."""

    theta: Vector  # (hosted, d) models of the nodes, in units of the method
    z: Vector  # (rows,) margins
    g: Vector  # (rows,) slopes
    sigma_t: float  # theta_i = -sum_j g_ij a_ij / sigma_t
    unit: float = 1.0  # of theta


@dataclass(frozen=True)
class Starting:
    """A method that keeps margins, and so may start at any of them.

    Parameters
    ----------
    start
        First margins: ``zero``; ``labels``, ``start_margin`` times the labels; ``local``, from one pass of dual
        coordinate ascent at each node, whose gradients and time are counted; ``warm``, those of an earlier run.
    start_margin
        The factor of ``labels``.
    start_from
        Directory of the finished run from which ``warm`` goes on: the same data; sigma, tokens and graph may differ.
    """

    start: str = "zero"
    start_margin: float = MARGIN
    start_from: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the method that this is mixed into
        check_choice("start", self.start, STARTS)
        if not math.isfinite(self.start_margin):
            raise InputError(f"algorithm.start_margin={self.start_margin} must be a finite number")
        if self.start_margin != MARGIN and self.start != "labels":
            raise InputError(
                f"algorithm.start_margin={self.start_margin:g} belongs to algorithm.start=labels, not to {self.start}"
            )
        if self.start == "warm" and self.start_from is None:
            raise InputError(
                "algorithm.start=warm goes on from an earlier run; give its directory: algorithm.start_from=DIR"
            )
        if self.start_from is not None and self.start != "warm":
            raise InputError(
                f"algorithm.start_from={self.start_from} belongs to algorithm.start=warm, not to {self.start}"
            )

    def dual(self, c: Arrays, nodes: Arrays) -> Dual:
        """What a start fills."""
        raise NotImplementedError

    def put_tokens(self, c: Arrays, tokens: Arrays, models: Vector) -> None:
        """Let the tokens begin at ``models``."""
        raise NotImplementedError

    def start_gradients(self, facts: Facts) -> NDArray[np.int64]:
        """A local pass uses every row once."""
        return facts.rows if self.start == "local" else np.zeros_like(facts.rows)

    def begin(self, c: Arrays, rows: HostedRows, nodes: Arrays) -> None:
        """Margins, slopes, and theta_i, which follows from them."""
        if self.start == "warm":
            raise RuntimeError("a warm start is made by begin_from")
        if self.start == "local":
            pass_over_rows(rows, *self.dual(c, nodes))
        else:
            start_at_margins(self.start_margin if self.start == "labels" else 0.0, rows, *self.dual(c, nodes))

    def begin_from(self, c: Arrays, rows: HostedRows, nodes: Arrays, tokens: Arrays, origin: Origin) -> None:
        """Go on from where an earlier run was; entries of rows are not needed."""
        theta, z, g, _, unit = self.dual(c, nodes)
        theta[...] = unit * origin.nodes
        z[...] = origin.margins
        slopes(rows, z, g)
        self.put_tokens(c, tokens, origin.tokens)

    def margins(self, c: Arrays, nodes: Arrays) -> Vector | None:
        """The margins z_ij at which the rows begin."""
        return self.dual(c, nodes).z


def from_zero(method: Method) -> Method:
    """The same method with a start that takes nothing."""
    if not isinstance(method, Starting):
        return method
    return cast(Method, replace(method, start="zero", start_margin=MARGIN, start_from=None))


@compiled
def start_at_margins(
    margin: float, rows: Any, theta: Vector, z: Vector, g: Vector, sigma_t: float, unit: float
) -> None:
    """z = margin y; theta_i = -sum_j g_ij a_ij / sigma~."""
    for i in range(len(rows.w)):
        for r in range(rows.first[i], rows.first[i + 1]):
            z[r] = margin * rows.y[r]
            g[r] = rows.w[i] * derivative(rows.loss, z[r], rows.y[r])
            add_row(rows.data, rows.indices, rows.start[r], rows.stop[r], -g[r] / sigma_t * unit, theta[i])


@compiled
def pass_over_rows(rows: Any, theta: Vector, z: Vector, g: Vector, sigma_t: float, unit: float) -> None:
    """Dual coordinate ascent from slopes of 0, row by row: afterwards z = a^T theta_i of that moment."""
    for i in range(len(rows.w)):
        for r in range(rows.first[i], rows.first[i + 1]):
            start, stop, y, w = rows.start[r], rows.stop[r], rows.y[r], rows.w[i]
            t0 = row_dot(rows.data, rows.indices, start, stop, theta[i]) / unit
            z[r] = prox_root(rows.loss, y, w, t0, row_square(rows.data, start, stop) / sigma_t, 0.0, t0)
            g[r] = w * derivative(rows.loss, z[r], y)
            add_row(rows.data, rows.indices, start, stop, -g[r] / sigma_t * unit, theta[i])


@compiled
def slopes(rows: Any, z: Vector, g: Vector) -> None:
    """g = phi'(z)."""
    for i in range(len(rows.w)):
        for r in range(rows.first[i], rows.first[i + 1]):
            g[r] = rows.w[i] * derivative(rows.loss, z[r], rows.y[r])
