"""A method whose states are pairs (x, v): where it begins, and what its models are (see ``starts`` and ``pairs``)."""

from dataclasses import dataclass
from typing import Protocol

from dtoken.algorithms.contract import Models, Origin, Vector
from dtoken.algorithms.pairs import Nodes, Tokens, relaxed, zero_pairs
from dtoken.algorithms.starts import Dual, Starting
from dtoken.problem.hosted import HostedRows
from dtoken.theory.accelerated import Accelerated


class _HasTokens(Protocol):
    tokens: int


@dataclass(frozen=True)
class Paired(Starting):
    """A method with margins whose states are pairs.

    Parameters
    ----------
    start, start_margin, start_from
        As for all methods with margins.
    """

    start: str = "local"  # saves up to a quarter of the jumps

    def states(self: _HasTokens, c: Accelerated, rows: HostedRows) -> tuple[Nodes, Tokens]:
        """All zero: x = v = 0 belongs to slopes of 0."""
        return zero_pairs(rows, self.tokens)

    def begin(self, c: Accelerated, rows: HostedRows, nodes: Nodes) -> None:
        """With ``zero`` there is nothing to do: nodes do not begin far away as those of TVR do."""
        if self.start != "zero":
            super().begin(c, rows, nodes)
            _same_slopes(nodes, rows.first[0], rows.first[-1])

    def begin_from(self, c: Accelerated, rows: HostedRows, nodes: Nodes, tokens: Tokens, origin: Origin) -> None:
        """x = v, for slopes and models."""
        super().begin_from(c, rows, nodes, tokens, origin)
        _same_slopes(nodes, 0, len(rows.y))

    def dual(self, c: Accelerated, nodes: Nodes) -> Dual:
        """x + v = 2 sigma~ theta; the last root stands for the margin."""
        return Dual(nodes.pair[:, :, 0], nodes.sample[:, 3], nodes.sample[:, 1], c.sigma_t, 2 * c.sigma_t)

    def put_tokens(self, c: Accelerated, tokens: Tokens, models: Vector) -> None:
        """Begin with both copies equal: x = v."""
        tokens.x[...] = tokens.v[...] = c.sigma_t * models

    def models(self, c: Accelerated, nodes: Nodes, tokens: Tokens, t: float) -> Models:
        """The primal models that belong to the dual ones: x / sigma~."""
        x_nodes, x_tokens = relaxed(c.rho, nodes, tokens, t)
        return Models(x_nodes / c.sigma_t, x_tokens / c.sigma_t)


def _same_slopes(nodes: Nodes, first: int, stop: int) -> None:
    """Give both copies the same slopes: gx = gv."""
    nodes.sample[first:stop, 0] = nodes.sample[first:stop, 1]
