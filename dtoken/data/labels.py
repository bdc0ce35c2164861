"""Which values the labels take, and how they become -1 and +1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError

Labels = Literal["auto", "classes", "real"]


class LabelCounts:
    """Counts how often each label occurs, as long as there are at most two different ones."""

    def __init__(self) -> None:
        self._counts: dict[float, int] | None = {}

    def add(self, y: NDArray[np.float64]) -> None:
        """Count the labels of a block."""
        if self._counts is None:
            return
        for value, count in zip(*(a.tolist() for a in np.unique(y, return_counts=True)), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
            if len(self._counts) > 2:
                self._counts = None
                return

    def values(self) -> Mapping[float, int] | None:
        """The different labels with their counts; None: more than two."""
        return self._counts


@dataclass(frozen=True)
class LabelMap:
    """From labels of the source to labels of the store; no classes: real numbers, kept as they are."""

    negative: float | None
    positive: float | None
    positives: int | None  # how many rows are +1

    @property
    def classes(self) -> bool:
        """Whether the labels are two classes."""
        return self.positives is not None

    def apply(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The labels as they are stored."""
        return np.where(y == self.positive, 1.0, -1.0) if self.classes else y

    def as_dict(self) -> dict[str, float]:
        """For the store's attributes."""
        if self.negative is None or self.positive is None:
            return {}
        return {_shown(self.negative): -1.0, _shown(self.positive): 1.0}


def _shown(label: float) -> str:
    """A label with all its digits, so that two labels never look the same: 1, -0.5, 1e-07."""
    return repr(label).removesuffix(".0")


def check_labels(labels: str) -> None:
    """Refuse what is not one of the ways to take labels."""
    if labels not in get_args(Labels):
        raise InputError(f"labels={labels} is not known; use one of {', '.join(get_args(Labels))}")


def decide(counts: Mapping[float, int] | None, wanted: Labels, name: str) -> LabelMap:
    """Choose how the labels of the source called ``name`` are stored.

    Examples
    --------
    >>> decide({2.0: 10, 1.0: 5}, "auto", "x.svm").as_dict()
    {'1': -1.0, '2': 1.0}
    """
    if wanted == "real" or (wanted == "auto" and counts is None):
        return LabelMap(None, None, None)
    if counts is None:
        raise InputError(f"labels=classes, but {name} has more than two different labels; use labels=real")
    if len(counts) < 2:
        raise InputError(
            f"{name} has only one class (every label is {_shown(next(iter(counts)))}), a classification loss "
            "needs two; use labels=real to keep the labels as numbers for the squared loss"
        )
    negative, positive = sorted(counts)
    return LabelMap(negative, positive, counts[positive])
