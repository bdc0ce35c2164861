"""API-BCD, block-coordinate descent on a penalised objective with several tokens (Chen, Ye, Xiao, Skoglund 2022).

With F_i = f_i + sigma / 2 ||.||^2, nodes x_i and tokens z_k are the blocks of

    P(x, z) = sum_i F_i(x_i) + tau / 2 sum_ik ||x_i - z_k||^2.

Node i keeps a copy z_ik of each token as it left, and x_ik, the model that token k has of it. Token k at node i:

    z_ik <- z_k,      x_i <- argmin_x F_i(x) + tau / 2 sum_l ||x - z_il||^2,
    z_k <- z_k + (x_i - x_ik) / n,      x_ik <- x_i,      z_ik <- z_k,

or in place of the argmin, with one gradient and w = L_b + sigma,

    x_i <- [tau sum_l z_il + w x_i - grad F_i(x_i)] / (K tau + w).

All begin at 0, so that z_k is the mean over i of x_ik: what minimises P in z_k, as far as token k knows. The steps are
derived from P: the paper's equations could not be consulted. One token stands for its I-BCD, and the form with a
gradient for its gAPI-BCD; that each token remembers nodes by itself, x_ik, is a choice made here.

**Where it goes** is not the optimum. At rest all tokens are z, the minimiser of the sum of the Moreau envelopes

    E_i(z) = min_x F_i(x) + K tau / 2 ||x - z||^2,

and the nodes are off by x_i - z = -grad F_i(x_i) / (K tau): they agree only where all nodes want the same. z goes to
the optimum as K tau grows, and the steps become shorter.

**Why it goes there**: let E be the largest distance of any x_i, x_ik, z_k, z_ik from its limit. Means and copies do not
enlarge E, and a visit brings x_i to within q E, q = K tau / (K tau + sigma) (with a gradient 1 - sigma / (K tau + w)).
So E has shrunk by q when each token has been twice at every node, on any walk, in any order, however late.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.base import WHOLE_NODES, SmoothMethod, Visiting
from dtoken.algorithms.contract import Facts, Models, Vector, check_choice
from dtoken.algorithms.newton import node_prox
from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem.hosted import HostedRows, node_gradient
from dtoken.schedule.clock import Costs
from dtoken.theory.promise import Promise

MODES = ("proximal", "gradient")


class Penalised(NamedTuple):
    """Constants of API-BCD."""

    n: int
    tokens: int  # K
    sigma: float
    L_b: float  # smoothness of the nodes' losses
    tau: float
    pull: float  # K tau
    hold: float  # w, of the form with a gradient
    q: float  # by which a cover brings nodes closer, at least
    proximal: bool
    inner: int  # Newton steps that a visit may take


class Nodes(NamedTuple):
    """State of the hosted nodes."""

    x: Vector  # (hosted, d)
    given: NDArray[np.float64]  # (hosted, K, d) x_ik
    seen: NDArray[np.float64]  # (hosted, K, d) z_ik
    failed: NDArray[np.int64]  # (hosted,) visits whose problem could not be solved


class Tokens(NamedTuple):
    """State of the tokens."""

    z: Vector  # (K, d)


@compiled
def visit(c: Any, rows: Any, nodes: Any, tokens: Any, i: int, k: int, r: int, t: float) -> None:
    """Token k arrives at node i."""
    x, z, seen, given = nodes.x[i], tokens.z[k], nodes.seen[i], nodes.given[i]
    seen[k] = z
    mean = np.zeros(len(x))
    for other in range(c.tokens):
        mean += seen[other]
    mean /= c.tokens
    if c.proximal:
        if not node_prox(rows, i, c.sigma, c.pull, mean, c.inner, x):
            nodes.failed[i] += 1
    else:
        gradient = np.empty(len(x))
        node_gradient(rows, i, c.sigma, x, gradient)
        x += (c.pull * (mean - x) - gradient) / (c.pull + c.hold)
    z += (x - given[k]) / c.n
    given[k] = x
    seen[k] = z


@dataclass(frozen=True)
class APIBCD(Visiting, SmoothMethod):
    """Asynchronous parallel incremental block-coordinate descent.

    Parameters
    ----------
    smoothness, factor
        As for Token GD.
    tokens
        Number of tokens, K.
    penalty
        K tau, in units of L_b + sigma. Larger: nearer to the optimum, and slower.
    mode
        ``proximal``: the node's problem is solved; ``gradient``: one gradient of the node a visit.
    inner
        Newton steps that a visit may take before the run is given up.
    """

    tokens: int = 1
    penalty: float = 1.0
    mode: str = "proximal"
    inner: int = 50

    name = "api_bcd"
    refuses = WHOLE_NODES
    visit = staticmethod(visit)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mode", self.mode, MODES)
        if self.tokens < 1:
            raise InputError(f"algorithm.tokens={self.tokens}, but a token method needs at least one")
        if not 0 < self.penalty < math.inf:
            raise InputError(f"algorithm.penalty={self.penalty} must be positive; 1 stands for K tau = L_b + sigma")
        if self.inner < 1:
            raise InputError(f"algorithm.inner={self.inner}, but a visit needs at least one Newton step")

    def constants(self, facts: Facts) -> Penalised:
        """The penalty, and by how much a cover brings nodes closer."""
        L_b, proximal = self.batch_smoothness(facts), self.mode == "proximal"
        hold = L_b + facts.sigma
        pull = self.penalty * hold
        q = pull / (pull + facts.sigma) if proximal else 1 - facts.sigma / (pull + hold)
        tau = pull / self.tokens
        return Penalised(facts.n, self.tokens, facts.sigma, L_b, tau, pull, hold, q, proximal, self.inner)

    def costs(self, facts: Facts) -> Costs:
        """A full gradient a visit."""
        return Costs(np.zeros(facts.n, np.int64), facts.rows)

    def promise(self, c: Penalised, facts: Facts) -> Promise:
        """No rate to the optimum, where it does not go."""
        return Promise(None, "no rate: its limit is not the optimum, but that of a penalty")

    def notes(self, c: Penalised, facts: Facts) -> tuple[str, ...]:
        """Where it stops getting better."""
        return (
            *super().notes(c, facts),
            f"api_bcd goes to the minimiser of a penalised objective, not to the optimum; with tau={c.tau:.3g} every "
            f"two visits of all tokens everywhere bring it there by a factor of at most {c.q:.6g}; a larger "
            "algorithm.penalty ends nearer to the optimum, later",
        )

    def states(self, c: Penalised, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero."""
        hosted, d = len(rows.w), rows.d
        known = np.zeros((hosted, self.tokens, d)), np.zeros((hosted, self.tokens, d))
        nodes = Nodes(np.zeros((hosted, d)), *known, np.zeros(hosted, np.int64))
        return nodes, Tokens(np.zeros((self.tokens, d)))

    def models(self, c: Penalised, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The model x_i of each node, and z_k of each token."""
        failure = None
        if nodes.failed.any():
            failure = (
                f"the inner solve of api_bcd did not converge in {c.inner} Newton steps at node "
                f"{int(np.argmax(nodes.failed > 0))}; raise algorithm.inner or algorithm.penalty, or use mode=gradient"
            )
        return Models(nodes.x.copy(), tokens.z.copy(), failure)
