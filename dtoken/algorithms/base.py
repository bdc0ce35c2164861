"""Hyper-parameters that all token methods of the paper have, and what follows from them."""

from dataclasses import dataclass

from dtoken.algorithms.contract import Facts, check_choice
from dtoken.errors import InputError

SMOOTHNESS = ("theory", "batch", "factor")
SAMPLING = ("uniform", "importance")


@dataclass(frozen=True)
class TokenMethod:
    """Hyper-parameters that all token methods of the paper have.

    Parameters
    ----------
    tokens
        Number of tokens, K.
    smoothness
        What kappa is made of: ``theory``, the sum of a node's L_ij; ``batch``, the true smoothness of the node's loss;
        ``factor``, the paper's heuristic, ``factor`` times the sum.
    factor
        The heuristic factor; 0.02 in the paper, safe or not depending on the data.
    jumps
        Jumps of a token before it mixes with a node; ``auto``: until the walk has mixed.
    mixing
        How close ``auto`` brings the walk to its stationary law, relative to the smallest probability.
    """

    tokens: int = 1
    smoothness: str = "batch"
    factor: float = 0.02
    jumps: int | str = 1
    mixing: float = 0.25

    def __post_init__(self) -> None:
        check_choice("smoothness", self.smoothness, SMOOTHNESS)
        if self.tokens < 1:
            raise InputError(f"algorithm.tokens={self.tokens}, but a token method needs at least one")
        if not 0 < self.factor <= 1:
            raise InputError(f"algorithm.factor={self.factor} must lie in (0, 1]")
        if not 0 < self.mixing < 1:
            raise InputError(f"algorithm.mixing={self.mixing} must lie in (0, 1)")
        if self.jumps != "auto" and not (isinstance(self.jumps, int) and self.jumps >= 1):
            raise InputError(f"algorithm.jumps={self.jumps} is neither a positive integer nor auto")

    def batch_smoothness(self, facts: Facts) -> float:
        """L_b by the chosen rule."""
        largest_sum = float(facts.sum_L.max())
        match self.smoothness:
            case "theory":
                return largest_sum
            case "batch":
                return float(facts.batch_L().max())
            case _:
                return self.factor * largest_sum

    def jumps_per_visit(self, facts: Facts) -> int:
        """N."""
        if self.jumps == "auto":
            return facts.walk.mixing(self.mixing * float(facts.walk.stationary.min()))
        return int(self.jumps)
