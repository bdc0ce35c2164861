"""Rows that no node has: what the estimate is worth on them, measured at record points."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.errors import InputError
from dtoken.problem import kernels
from dtoken.problem.losses import LOGISTIC, Loss, value
from dtoken.problem.shards import BlockReader, Shards

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOut:
    """Rows to test a model on.

    Parameters
    ----------
    shards
        The rows, with the labels of their source.
    loss
        That of the problem.
    classes
        What labels of the source mean, -1 or +1; None: they are numbers.
    constant
        Value of the column of the intercept, the last one of a model; None: there is none.
    memory
        Bytes of rows that are kept from one measurement to the next.
    """

    shards: Shards
    loss: Loss
    classes: Mapping[float, float] | None = None
    constant: float | None = None
    memory: int = 256 * 1024**2
    reader: BlockReader = field(init=False, repr=False, compare=False)
    labels: Vector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reader", BlockReader(self.shards, self.memory))
        raw = np.concatenate(
            [block.rows.y for group in range(self.reader.groups) for block in self.reader.blocks(group)]
        )
        object.__setattr__(self, "labels", raw if self.classes is None else _signs(raw, self.classes))

    def measure(self, theta: Vector) -> dict[str, float]:
        """The mean loss of the rows; of two classes also accuracy, log-loss and the area under the ROC curve."""
        margins = self.margins(theta)
        found = {"test_loss": _mean_loss(self.loss.code, margins, self.labels)}
        if self.classes is not None:
            found["test_accuracy"] = float(np.count_nonzero((margins > 0) == (self.labels > 0)) / len(margins))
            found["test_log_loss"] = _mean_loss(LOGISTIC, margins, self.labels)
            found["test_auc"] = area_under_curve(margins, self.labels)
        return found

    def margins(self, theta: Vector) -> Vector:
        """a^T theta + intercept of all rows; features that the training rows do not have count nothing."""
        weights, intercept = np.zeros(max(self.shards.d, len(theta))), 0.0
        weights[: len(theta)] = theta
        if self.constant is not None:
            weights[len(theta) - 1], intercept = 0.0, self.constant * float(theta[-1])
        found = np.empty(len(self.labels))
        for group in range(self.reader.groups):
            for rows, _, row in self.reader.blocks(group):
                kernels.margins(rows.data, rows.indices, rows.indptr, weights, found[row : row + rows.rows])
        return found + intercept


def _signs(raw: Vector, classes: Mapping[float, float]) -> Vector:
    unknown = raw[~np.isin(raw, list(classes))]
    if len(unknown):
        listed = " and ".join(f"{label:g}" for label in classes)
        raise InputError(f"data.test has the label {unknown[0]:g}, but the rows to train on have {listed}")
    positive = next(label for label, sign in classes.items() if sign > 0)
    return np.where(raw == positive, 1.0, -1.0)


def area_under_curve(scores: Vector, labels: Vector) -> float:
    """The share of pairs of a positive and a negative row whose scores are in the right order; equal ones count half.

    Examples
    --------
    >>> area_under_curve(np.array([0.1, 0.4, 0.35, 0.8]), np.array([-1.0, -1.0, 1.0, 1.0]))
    0.75
    """
    positive = scores[labels > 0]
    negative = np.sort(scores[labels <= 0])
    pairs = len(positive) * len(negative)
    if pairs == 0:
        return math.nan
    below = np.searchsorted(negative, positive, "left").sum()
    not_above = np.searchsorted(negative, positive, "right").sum()
    return float(int(below) + int(not_above)) / (2 * pairs)


def _mean_loss(code: int, margins: Vector, labels: Vector) -> float:
    total = np.zeros(2)
    _add_losses(code, margins, labels, total)
    return float(kernels.compensated(total) / len(margins))


@compiled
def _add_losses(code: int, margins: Vector, labels: Vector, total: Vector) -> None:
    for j in range(len(margins)):
        kernels.add_compensated(total, value(code, margins[j], labels[j]))
