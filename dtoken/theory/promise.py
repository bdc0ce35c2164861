"""What a method promises: its rate, and on what ground."""

from typing import NamedTuple

PROVED = "proved"
PROVED_AT_A_TIME = f"{PROVED}, at a time: steps are those that the Poisson clock expects until then"
UNSTABLE = "no rate: visits of this walk are not independent; neither stability nor speed is proved"


class Promise(NamedTuple):
    """The contraction of the squared error at each step (of methods with rounds: at each round), and why.

    Attributes
    ----------
    rate
        Share by which the squared error falls at each step; None: the theory has none.
    basis
        Why this rate is believed, in words that begin with ``proved`` only where a theorem covers what is run.
    paper_rate
        A faster rate that was observed but is not proved; None: there is none.
    """

    rate: float | None
    basis: str
    paper_rate: float | None = None
