"""Memory of runs that have a budget, over time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dtoken.report.cells import Cell
from dtoken.session.files import MEMORY

MOST_RUNS = 12  # that are drawn
MOST_POINTS = 300  # of a run: more cannot be seen


@dataclass(frozen=True)
class MemoryUse:
    """Resident memory of one run's process."""

    cell: Cell
    run: str
    wall: NDArray[np.float64]  # seconds
    resident: NDArray[np.float64]  # MB
    budget: float  # MB


def memory_use(cells: Sequence[Cell]) -> list[MemoryUse]:
    """What the first runs with a budget used."""
    found: list[MemoryUse] = []
    for cell in cells:
        for run in cell.runs:
            path = run.directory / MEMORY if run.directory else None
            if path is not None and path.is_file() and len(found) < MOST_RUNS:
                try:
                    samples = pd.read_parquet(path)
                except (OSError, ValueError):  # of a run that is being deleted, or damaged: the rest is worth showing
                    continue
                wall, resident = thinned(samples.wall.to_numpy(), samples.resident.to_numpy() / 1e6, MOST_POINTS)
                found.append(MemoryUse(cell, run.name, wall, resident, float(samples.budget.iloc[0]) / 1e6))
    return found


def thinned(
    x: NDArray[np.float64], y: NDArray[np.float64], most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most so many points, the largest of every stretch: no peak is lost.

    Examples
    --------
    >>> x, y = thinned(np.arange(6.0), np.array([1.0, 5.0, 2.0, 3.0, 9.0, 4.0]), 3)
    >>> x.tolist(), y.tolist()
    ([1.0, 3.0, 4.0], [5.0, 3.0, 9.0])
    """
    if len(x) <= most:
        return x, y
    stretches = np.array_split(np.arange(len(x)), most)
    chosen = np.array([stretch[np.argmax(y[stretch])] for stretch in stretches])
    return x[chosen], y[chosen]
