"""Random walks of tokens over a topology ("General graphs" in the paper).

Three walks: ``simple`` (uniform over the out-neighbours), ``lazy`` (stay with probability ``stay``, 1/2 unless
given, else simple) and ``metropolis`` (Metropolis-Hastings, uniform stationary law, undirected graphs only). A node
without a way out in one graph of a varying sequence keeps the token for that jump. On the complete graph the simple
and the Metropolis walk are independent uniform draws over all n nodes, the present one included, as in the
paper's algorithms.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components, shortest_path

from dtoken.errors import InputError
from dtoken.graph import chain
from dtoken.graph.sampler import sums_of_rows
from dtoken.graph.topology import Topology, written_out
from dtoken.text import use_one_of

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse

KINDS = ("simple", "lazy", "metropolis")

HOPS_NODES = 2000  # nodes up to which a table of all pairs is small
MOST_HITTING = 2_000  # nodes up to which hitting times come from dense algebra
STAY = 0.5  # of the lazy walk, unless another probability is given


@dataclass(frozen=True, eq=False)
class Walk:
    """A walk as tables for the compiled ``step``, and its facts, computed when first asked for.

    Row i of table s holds ``neighbours[a:b]`` and ``cumulative[a:b]`` with ``a, b = indptr[s, i : i + 2]``.
    When ``iid``, the rows are empty: every jump is uniform over all nodes.

    Examples
    --------
    >>> from dtoken.graph import build, walk
    >>> ring = walk(build("ring", 4), "lazy")
    >>> ring.stationary.tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> round(ring.spectral_gap, 12), ring.mixing(0.01)
    (0.5, 6)
    """

    kind: str
    topology: Topology
    indptr: NDArray[np.int64]  # (period, n + 1) row bounds inside the two arrays below
    neighbours: NDArray[np.int32]  # possible next nodes, increasing inside a row
    cumulative: NDArray[np.float64]  # probability of this and the earlier nodes of the row; the last is exactly 1
    period: int  # number of tables; one unless the graph varies
    hold: int  # jumps that use one table before the next
    iid: bool  # every jump is uniform over all nodes, wherever the token is
    n: int
    stay: float | None = None  # of the lazy walk: probability to stay, beside what the simple one has
    law: Any = None  # a `dtoken.schedule.walks.contract.OwnWalk`, of a walk that is more than one of the three

    def table(self, jump: int) -> int:
        """Return the table of jump number ``jump``, counted from 0."""
        return jump // self.hold % self.period

    def transition(self, table: int = 0) -> "Sparse":
        """Return the transition matrix P of one table: P[i, j] is the probability to jump from i to j."""
        if self.iid:
            return csr_array(written_out(self.n, "the transition matrix of graph=complete") / self.n)
        start, end = self.indptr[table, 0], self.indptr[table, -1]
        rows = self.indptr[table] - start
        before = np.concatenate(([0.0], self.cumulative[start : end - 1]))
        before[rows[:-1]] = 0.0
        data = self.cumulative[start:end] - before
        return csr_array((data, self.neighbours[start:end], rows), shape=(self.n, self.n))

    @property
    def name(self) -> str:
        """The walk as a user would write it, for messages."""
        return f"the {in_words(self.kind, self.stay)} on {self.topology.name}"

    @property
    def reversible(self) -> bool:
        """Whether detailed balance holds: pi_i P_ij = pi_j P_ji."""
        if self.law is not None:
            return self.law.reversible and not self.law.remembers
        return not self.topology.directed and self.period == 1

    @property
    def remembers(self) -> bool:
        """Whether a jump depends on more than where the token is: then the tables are those of the walk's beginning."""
        return self.law is not None and self.law.remembers

    @property
    def moves(self) -> float:
        """Mean number of edges of a jump."""
        return 1.0 if self.law is None else float(self.law.mean_moves)

    @cached_property
    def phase_laws(self) -> NDArray[np.float64]:
        """Stationary law of the token at each of the period * hold jumps of a period, one per row."""
        given = None if self.law is None else self.law.stationary(self.topology)
        if given is not None:
            return np.asarray(given, dtype=np.float64)[None]
        uniform = np.full((1, self.n), 1 / self.n)
        if self.iid or (self.reversible and self.kind == "metropolis"):
            return uniform
        if self.reversible and self.law is None:
            adjacency = self.topology.adjacency
            degree = np.diff(adjacency[0].indptr) if adjacency else np.full(self.n, self.n)
            return np.asarray(degree / degree.sum(), dtype=np.float64)[None]
        return chain.phase_laws(self._tables, self.hold)

    @cached_property
    def stationary(self) -> NDArray[np.float64]:
        """Stationary law pi: the long-run share of jumps that land at each node.

        Degree over twice the number of edges, or uniform, in closed form where the walk is reversible; else
        the Perron vector of one period, averaged over the jumps of the period (its law may differ from jump
        to jump).
        """
        return np.asarray(self.phase_laws.mean(axis=0), dtype=np.float64)

    def visit_law(self, jumps: int) -> NDArray[np.float64]:
        """Return the long-run share of visits at each node when a token makes ``jumps`` jumps before each visit.

        The token's own jumps are its clock: jump t of a token uses table ``table(t)``. So visits happen in some phases
        of the period only, every gcd(jumps, period * hold)-th, and this is the law in these.
        """
        phases = self.period * self.hold
        stride = math.gcd(jumps, phases)
        if jumps > 1 and not self.remembers and math.gcd(jumps, phases * self.period_of_chain) != stride:
            raise InputError(
                f"algorithm.jumps={jumps}, but {self.name} has period {self.period_of_chain}, so that a token would "
                f"visit only some of the nodes; use graph.walk=lazy, or jumps without a common divisor with the period"
            )
        law = np.asarray(self.phase_laws[::stride].mean(axis=0), dtype=np.float64)
        if law.min() <= 0:
            raise InputError(
                f"algorithm.jumps={jumps}, but every {jumps} jumps {self.name} is never at node {int(law.argmin())}; "
                f"use algorithm.jumps=1 or graph.walk=lazy"
            )
        return law

    @cached_property
    def hops(self) -> NDArray[np.int32]:
        """Hops of the shortest way from each node (row) to each other; (0, 0): one to any, the graph is complete."""
        if self.period > 1:
            raise InputError(f"{self.topology.name} varies, so that there is no shortest way from node to node")
        if self.topology.complete:
            return np.empty((0, 0), np.int32)
        if self.n > HOPS_NODES:
            raise InputError(f"nodes={self.n}, but all shortest ways are kept for up to {HOPS_NODES:,} nodes only")
        return np.asarray(shortest_path(self.topology.adjacency[0], unweighted=True), dtype=np.int32)

    @cached_property
    def hitting_time(self) -> float:
        """The longest mean number of jumps until a token comes to a given node, from any other.

        Of a walk that remembers: of the chain that it begins from.

        Examples
        --------
        >>> from dtoken.graph import build, walk
        >>> round(walk(build("ring", 8)).hitting_time, 9)  # (n / 2)^2
        16.0
        """
        if self.iid:
            return float(self.n)
        if self.period > 1 or self.n > MOST_HITTING:
            raise InputError(
                f"the hitting time of {self.name} is not known: it takes a graph that does not change, with at most "
                f"{MOST_HITTING} nodes"
            )
        return chain.hitting_time(self.transition(), self.stationary)

    @cached_property
    def period_of_chain(self) -> int:
        """Greatest common divisor of the return times (counted in whole periods when the graph varies)."""
        return 1 if self.iid else chain.chain_period(self._tables, self.hold)

    @property
    def aperiodic(self) -> bool:
        """Whether the walk forgets where it started."""
        return self.period_of_chain == 1

    @property
    def spectral_gap(self) -> float:
        """One minus the second largest modulus of an eigenvalue of P, per jump; 0 for a periodic walk.

        Of a walk that remembers: of the chain that it begins from.
        """
        return 1.0 - self._second_modulus[0]

    @property
    def gap_error(self) -> float:
        """How far the gap may be off: the residual of an estimate by Lanczos on many nodes; 0: it is exact."""
        return self._second_modulus[1]

    @cached_property
    def _second_modulus(self) -> tuple[float, float]:
        if self.iid or not self.aperiodic:
            return 1.0 - float(self.iid), 0.0
        pi = self.stationary if self.reversible else None
        try:
            return chain.second_modulus(self._tables, self.hold, pi)
        except ArithmeticError:
            raise InputError(
                f"the spectral gap of {self.name} cannot be found; use at most {chain.DENSE} nodes"
            ) from None

    def correlation(self, jumps: int) -> float | None:
        """Return the largest l^jumps over the eigenvalues l of P other than 1: how alike visits in a row are.

        None where it is not known: for walks that are not reversible, or on many nodes.
        """
        if self.iid:
            return 0.0
        if self.remembers or not self.reversible or self.n > chain.DENSE:
            return None
        return float(max(self._spectrum[:-1] ** jumps, default=0.0))

    @cached_property
    def _spectrum(self) -> NDArray[np.float64]:
        return chain.reversible_spectrum(self._tables[0], self.stationary)

    def mixing(self, eps: float) -> int:
        """Return the smallest N >= 1 with max_ij |P^N_ij - pi_j| <= eps, over all starts within a period.

        Exact while period * hold * n^2 <= 4 million (2000 nodes); for larger reversible walks the bound
        sqrt(pi_max / pi_min) (1 - gap)^N <= eps, which is never smaller than the exact N; the gap less its error.
        """
        if eps not in self._mixing:
            self._mixing[eps] = self._smallest_mixing(eps)
        return self._mixing[eps]

    def _smallest_mixing(self, eps: float) -> int:
        if not 1e-12 <= eps < 1:
            raise InputError(
                f"{self.name} is to come within {eps:.2g} (algorithm.mixing times the smallest probability) of one "
                f"law, which must be at least 1e-12 and below 1; use a larger algorithm.mixing"
            )
        if self.iid:
            return 1
        self.require_mixing(eps)
        if self.period * self.hold * self.n**2 <= chain.MIXING_ENTRIES:
            return chain.smallest_mixing(self._tables, self.hold, self.stationary, eps)
        if not self.reversible:
            raise InputError(f"{self.name} is too large to find its mixing; set algorithm.jumps to a number")
        gap = self.spectral_gap - self.gap_error
        if gap <= 0:
            raise InputError(
                f"the spectral gap of {self.name} is too small to be told from 0 ({self.spectral_gap:.1g} within "
                f"{self.gap_error:.1g}); set algorithm.jumps to a number"
            )
        spread = np.sqrt(self.stationary.max() / self.stationary.min())
        return max(1, int(np.ceil(np.log(eps / spread) / np.log1p(-gap))))

    def require_mixing(self, eps: float = 1.0) -> None:
        """Refuse a walk whose law never comes within ``eps`` of pi from every start."""
        if self.remembers:
            raise InputError(
                f"{self.name} remembers where it was, so that no number of jumps makes visits independent; use "
                "algorithm.jumps=1 or another number"
            )
        if not self.aperiodic:
            raise InputError(
                f"{self.name} is periodic (period {self.period_of_chain}) and never mixes; use graph.walk=lazy"
            )
        distance = float(np.abs(self.phase_laws - self.stationary).max())
        if distance > eps:
            needed = distance / float(self.stationary.min())
            remedy = f"algorithm.mixing above {needed:.2g}" if needed < 1 else "algorithm.jumps=1 or another number"
            raise InputError(
                f"{self.name} never comes within {eps:.2g} (algorithm.mixing times the smallest probability) of one "
                f"law, because its law changes by {distance:.2g} inside the period; use {remedy} or, on undirected "
                f"graphs, graph.walk=metropolis"
            )

    @cached_property
    def _mixing(self) -> dict[float, int]:
        return {}

    @cached_property
    def _tables(self) -> "tuple[Sparse, ...]":
        return tuple(self.transition(table) for table in range(self.period))


def walk(topology: Topology, kind: str = "simple", stay: float | None = None) -> Walk:
    """Return the walk ``simple``, ``lazy`` or ``metropolis`` over a topology.

    Parameters
    ----------
    topology, kind
        Where and how the token walks.
    stay
        Of the lazy walk: the probability to stay, in [0, 1); None: 1/2.

    Examples
    --------
    >>> from dtoken.graph import build, walk
    >>> walk(build("star", 5)).stationary.tolist()
    [0.5, 0.125, 0.125, 0.125, 0.125]
    >>> walk(build("ring", 3), "lazy", stay=1 / 3).mixing(1e-3)
    1
    """
    if kind not in KINDS:
        raise InputError(f"graph.walk={kind} is not known; {use_one_of(kind, KINDS)}")
    if kind != "lazy" and stay is not None:
        raise InputError(f"graph.stay={stay:g} belongs to graph.walk=lazy, not to {kind}; use that, or graph.stay=null")
    if kind == "lazy":
        stay = STAY if stay is None else stay
        if not 0 <= stay < 1:
            raise InputError(f"graph.stay={stay:g} is the probability to stay; it must lie in [0, 1)")
    if kind == "metropolis" and topology.directed:
        raise InputError(f"graph.walk=metropolis needs an undirected graph, not {topology.name}; use simple or lazy")
    n, period = topology.n, max(1, len(topology.adjacency))
    if topology.complete and not stay:
        empty = np.zeros((1, n + 1), dtype=np.int64)
        return Walk(kind, topology, empty, np.empty(0, np.int32), np.empty(0), period, 1, True, n, stay)
    graphs = topology.adjacency or (written_out(n, "graph.walk=lazy on graph=complete"),)
    tables = tuple(_jumps(kind, stay or 0.0, _with_way_out(graph)) for graph in graphs)
    if period > 1 and not stay:
        chain.require_one_class(tables, topology.hold, f"the {kind} walk on {topology.name}")
    offsets = np.cumsum([0, *(table.nnz for table in tables[:-1])], dtype=np.int64)
    indptr = np.stack([table.indptr + offset for table, offset in zip(tables, offsets, strict=True)])
    neighbours = np.concatenate([table.indices for table in tables]).astype(np.int32)
    cumulative = np.concatenate([cumulative_rows(table) for table in tables])
    return Walk(kind, topology, indptr, neighbours, cumulative, period, topology.hold, False, n, stay)


def by_law(topology: Topology, kind: str, law: Any) -> Walk:
    """Return the walk that has a law of its own, after a look at whether it reaches every node.

    Examples
    --------
    >>> from dtoken.graph import build
    >>> from dtoken.schedule.walks.weighted import Weighted
    >>> by_law(build("path", 3), "weighted", Weighted((1, 2, 1))).stationary.tolist()
    [0.25, 0.5, 0.25]
    """
    n, P = topology.n, law.transition(topology)
    P = csr_array(P)
    P.eliminate_zeros()
    P.sort_indices()
    rows = np.asarray(P.sum(axis=1)).ravel()
    if P.shape != (n, n) or (P.data < 0).any() or not np.allclose(rows, 1):
        raise InputError(f"graph.walk={kind} has a transition that is no {n} x {n} matrix of probabilities")
    parts, part = connected_components(P, connection="strong")
    if parts > 1:
        raise InputError(
            f"graph.walk={kind} on {topology.name} cannot get from node 0 to node {int(np.argmax(part != part[0]))} "
            "and back; use another walk, or another graph"
        )
    indptr, neighbours = P.indptr.astype(np.int64)[None], P.indices.astype(np.int32)
    return Walk(kind, topology, indptr, neighbours, cumulative_rows(P), 1, 1, False, n, None, law)


def in_words(kind: str, stay: float | None) -> str:
    """How a token walks.

    Examples
    --------
    >>> in_words("lazy", 0.5), in_words("lazy", 1 / 3)
    ('lazy walk', 'lazy walk (stay 0.333)')
    """
    return f"{kind} walk" + ("" if stay in (None, STAY) else f" (stay {stay:.3g})")


def _jumps(kind: str, stay: float, graph: "Sparse") -> "Sparse":
    """The transition matrix; without a probability to stay no zeros on its diagonal, which would look like moves."""
    P = _metropolis(graph) if kind == "metropolis" else _simple(graph)
    return csr_array(stay * eye_array(graph.shape[0]) + (1 - stay) * P) if stay else P


def _simple(graph: "Sparse") -> "Sparse":
    degree = np.diff(graph.indptr)
    return csr_array((np.repeat(1 / degree, degree), graph.indices, graph.indptr), shape=graph.shape)


def _metropolis(graph: "Sparse") -> "Sparse":
    degree = np.diff(graph.indptr)
    rows = np.repeat(np.arange(len(degree)), degree)
    accepted = 1 / np.maximum(degree[rows], degree[graph.indices])
    # Summed refusals, not one minus the rest: zero must be exactly zero, or a periodic walk looks aperiodic.
    refused = np.bincount(rows, 1 / degree[rows] - accepted, minlength=len(degree))
    moves = csr_array((accepted, graph.indices, graph.indptr), shape=graph.shape)
    P = csr_array(moves + diags_array(refused))
    P.eliminate_zeros()
    return P


def _with_way_out(graph: "Sparse") -> "Sparse":
    stuck = np.diff(graph.indptr) == 0
    return csr_array(graph + diags_array(stuck, dtype=np.bool_)) if stuck.any() else graph


def cumulative_rows(P: "Sparse") -> NDArray[np.float64]:
    """Cumulative sums inside each row; the last is set to one, so that no u below one can miss the row."""
    P.sort_indices()
    return sums_of_rows(P.indptr, P.data)
