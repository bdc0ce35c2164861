"""Tokens that are lost, and nodes that make up for them (Egger et al. 2024, arXiv 2407.11762).

Tokens are lost on a jump to another node (``edge``), after a visit (``token``), at nodes that swallow them (``nodes``),
or many at a time (``burst``). DECAFORK keeps their number without anybody who could count them. Node i notes when it
saw each token last, and how long tokens took to come back. When token k is there at time t, it estimates

    theta_i = 1/2 + sum_{l != k, seen before} S_i(t - last_il),      S_i(a) = share of the returns to i that took longer

and forks token k with probability 1/K if theta_i is below a threshold. DECAFORK+ also ends token k with probability 1/K
if theta_i is above a second one. Where returns are about exponential, as between independent visits, S_i of the age of
a token that is alive is uniform in [0, 1], so theta_i is half the number of tokens on average; of a lost one it goes
to 0. By default the thresholds are what K tokens miss once in a thousand visits, by the law of a sum of K - 1 uniform
numbers. Where most returns are short, as on a ring, E[S_i] is less than 1/2, and thresholds must be given.

All that is a function of the seed: chance comes from a key made of it, the token and the number of its jumps, and what
nodes noted travels in ``Start``. Returns are counted in four bins an octave.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from dtoken.errors import InputError

WAYS = ("token", "edge", "nodes", "burst")  # to lose tokens
CONTROLS = ("none", "decafork", "decafork_plus")
MISSED = 1e-3  # share of the visits at which the thresholds are missed though K tokens are alive
LEARN = 10  # jumps of a token for each node, before nodes act


@dataclass(frozen=True)
class Failures:
    """Tokens that are lost, and what nodes do about it.

    Parameters
    ----------
    token
        Probability that a token is lost after it has mixed with a node.
    edge
        Probability that a token is lost on a jump to another node.
    nodes
        Nodes that swallow every token that comes to them; null: none.
    burst
        So many tokens are lost at once, drawn from those that there are.
    burst_at
        When that happens: after so many jumps of all tokens.
    control
        ``none``; ``decafork``: nodes that miss tokens fork the one they see; ``decafork_plus``: nodes that see too many
        also end one.
    most
        The largest number of tokens, at which no more are forked; null: twice ``algorithm.tokens``, at most ``nodes``.
    below
        Threshold of the estimate, about half the number of tokens, below which tokens are forked; null: what K tokens
        are below at one visit in a thousand, if visits are independent.
    above
        Threshold of ``decafork_plus`` above which tokens are ended; null: what K tokens are above as rarely.
    learn
        Jumps of all tokens during which nodes only learn how long tokens take to come back; null: 10 for each node and
        token, which is too few where walks mix slowly.
    """

    token: float = 0.0
    edge: float = 0.0
    nodes: tuple[int, ...] | None = None
    burst: int = 0
    burst_at: int | None = None
    control: str = "none"
    most: int | None = None
    below: float | None = None
    above: float | None = None
    learn: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", None if self.nodes is None else tuple(self.nodes))
        for name in ("token", "edge"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"failures.{name}={getattr(self, name)} is a probability; it must lie in [0, 1]")
        if self.burst < 0:
            raise InputError(f"failures.burst={self.burst}, but it is a number of tokens; use 0 for none")
        if (self.burst > 0) != (self.burst_at is not None):
            raise InputError(
                f"failures.burst={self.burst} and burst_at={show(self.burst_at)} belong together: how many tokens are "
                "lost, and after how many jumps"
            )
        if self.burst_at is not None and self.burst_at < 1:
            raise InputError(f"failures.burst_at={self.burst_at} must be at least 1, a number of jumps")
        if self.control not in CONTROLS:
            raise InputError(f"failures.control={self.control} is not known; use one of {', '.join(CONTROLS)}")
        self._check_control()

    def _check_control(self) -> None:
        if self.forks and not self.on:
            raise InputError(
                f"failures.control={self.control}, but no token is ever lost; give failures.token, edge, nodes or burst"
            )
        for name in ("most", "below", "above", "learn"):
            value = getattr(self, name)
            needed = "decafork_plus" if name == "above" else "decafork"
            if value is not None and not (self.ends if name == "above" else self.forks):
                raise InputError(f"failures.{name}={value} belongs to failures.control={needed}, not to {self.control}")
            if value is not None and value < 0:
                raise InputError(f"failures.{name}={value} must not be negative")
        if self.below is not None and self.above is not None and self.below >= self.above:
            raise InputError(f"failures.below={self.below} must be less than failures.above={self.above}")

    @property
    def on(self) -> bool:
        """Whether tokens come and go."""
        return any(getattr(self, way) for way in WAYS)

    @property
    def forks(self) -> bool:
        """Whether nodes fork tokens."""
        return self.control != "none"

    @property
    def ends(self) -> bool:
        """Whether nodes end tokens."""
        return self.control == "decafork_plus"

    def slots(self, tokens: int, n: int) -> int:
        """The largest number of tokens of a run that begins with so many.

        Examples
        --------
        >>> Failures(token=0.1).slots(4, 9), Failures(token=0.1, control="decafork").slots(4, 9)
        (4, 8)
        """
        if not self.forks:
            return tokens
        return self.most if self.most is not None else max(tokens, min(2 * tokens, n))

    def check(self, tokens: int, n: int) -> None:
        """Refuse what makes no sense for so many tokens on so many nodes."""
        if self.burst > tokens:
            raise InputError(f"failures.burst={self.burst}, but there are only {tokens} tokens; use algorithm.tokens")
        if strange := [i for i in self.nodes or () if not 0 <= i < n]:
            raise InputError(f"failures.nodes has {strange[0]}, but nodes are 0 to {n - 1}")
        if self.most is not None and not tokens <= self.most <= n:
            raise InputError(
                f"failures.most={self.most}, but the run begins with algorithm.tokens={tokens} and has {n} nodes; use "
                f"a number from {tokens} to {n}"
            )
        if self.forks and tokens < 2:
            raise InputError(
                f"failures.control={self.control} needs algorithm.tokens>=2: who knows one token cannot miss another"
            )

    def thresholds(self, tokens: int) -> tuple[float, float]:
        """Below which a token is forked, and above which one is ended."""
        usual = 0.5 + quantile_of_sum(tokens - 1, MISSED) if self.forks else 0.0
        least = usual if self.below is None else self.below
        most = tokens - usual if self.above is None else self.above
        return least, most if self.ends else math.inf


NO_FAILURES = Failures()


def show(value: object) -> str:
    """A value as YAML has it."""
    return "null" if value is None else str(value)


def quantile_of_sum(count: int, probability: float) -> float:
    """What a sum of so many independent uniform numbers is below with this probability (the law of Irwin and Hall).

    Examples
    --------
    >>> quantile_of_sum(1, 0.25), round(quantile_of_sum(2, 0.125), 9)
    (0.25, 0.5)
    """
    low, high = 0.0, float(count)
    for _ in range(60):
        middle = (low + high) / 2
        x = Fraction(middle)
        total = sum((-1) ** j * math.comb(count, j) * (x - j) ** count for j in range(math.floor(middle) + 1))
        low, high = (middle, high) if float(total / math.factorial(count)) < probability else (low, middle)
    return high


def told(failures: Failures, tokens: int, n: int) -> tuple[str, ...]:
    """What a user should know of it before a run."""
    if not failures.on:
        return ()
    text = "no theorem covers tokens that are lost: what they carried is lost, too, and the run may end off the optimum"
    if not failures.forks:
        return (text,)
    least, most = failures.thresholds(tokens)
    law = f"fork below {least:.3g}" + (f", end above {most:.3g}" if failures.ends else "")
    return (text, f"failures.control={failures.control}: {law}; at most {failures.slots(tokens, n)} tokens")
