"""The node of every row as a user gives it, because real federated data have nodes of their own."""

import hashlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoken.data.files import existing_file
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError

NUMBERING = "number them 0, 1, ... without gaps, for instance by numpy.unique(ids, return_inverse=True)[1]"


@dataclass(frozen=True, eq=False)
class NodeNumbers:
    """The number of the node of every row; every node from 0 to the largest number has at least one."""

    values: NDArray[np.int32]
    where: str

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.values.max()) + 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each node."""
        return np.bincount(self.values)

    @cached_property
    def digest(self) -> str:
        """A hash of the numbers."""
        return hashlib.sha256(np.ascontiguousarray(self.values).data).hexdigest()

    def check(self, rows: int, nodes: int) -> None:
        """Refuse a dataset of another size, or another number of nodes."""
        if self.nodes != nodes:
            raise InputError(f"nodes={nodes} but {self.where} has {self.nodes} nodes; use nodes={self.nodes}")
        if len(self.values) != rows:
            raise InputError(f"{self.where} has {len(self.values)} node numbers for {rows} rows")


def node_numbers(values: Any, where: str = "partition") -> NodeNumbers:
    """Check node numbers that were given.

    Examples
    --------
    >>> node_numbers([0, 2, 1, 2]).sizes
    array([1, 1, 2])
    >>> node_numbers([0, 2])
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: partition: node 1 has no rows; number them 0, 1, ... without gaps, ...
    """
    found = np.asarray(values)
    if found.ndim != 1 or not len(found):
        raise InputError(f"{where} has the shape {found.shape}; give the number of a node for each row")
    if found.dtype.kind not in "iuf":
        raise InputError(f"{where} holds {found.dtype} instead of the numbers of nodes; {NUMBERING}")
    numbers = _whole(found, where)
    present = np.unique(numbers)  # not counted: a wild number would take as much memory
    gaps = np.flatnonzero(present != np.arange(len(present)))
    if len(gaps):
        raise InputError(f"{where}: node {gaps[0]} has no rows; {NUMBERING}")
    return NodeNumbers(numbers, where)


def _whole(found: NDArray[Any], where: str) -> NDArray[np.int32]:
    """The numbers as integers from 0 on."""
    wrong = np.flatnonzero(~((found >= 0) & (found < 2**31 - 1) & (found == np.floor(found))))
    if len(wrong):
        raise InputError(f"{where}: {found[wrong[0]]} of row {wrong[0]} is not the number of a node; {NUMBERING}")
    return found.astype(np.int32)


def read_node_numbers(path: Path) -> NodeNumbers:
    """Node numbers from a file: ``.npy``, else text with one number a line."""
    existing_file(path)
    try:
        if path.suffix == ".npy":
            return node_numbers(np.load(path, allow_pickle=False), str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without numbers, which is refused below
            return node_numbers(np.loadtxt(path, dtype=np.float64, ndmin=1), str(path))
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} holds no node numbers ({error}); write one number a line, or an .npy file") from None


def take_column(block: RowBlock, column: int, nodes: int, first_row: int) -> tuple[RowBlock, NDArray[np.int32]]:
    """The node numbers that stand in a column of some rows, and the rows without it: it is no feature."""
    here = block.indices == column
    row_of = np.repeat(np.arange(block.rows), np.diff(block.indptr))
    numbers = np.zeros(block.rows)
    numbers[row_of[here]] = block.data[here]
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < nodes) & (numbers == np.floor(numbers))))
    if len(wrong):
        raise InputError(
            f"partition.column: {numbers[wrong[0]]:g} of row {first_row + wrong[0]} is not the number of one of "
            f"{nodes} nodes; number them 0 to {nodes - 1}, or use another nodes=N"
        )
    kept = ~here
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_of[kept], minlength=block.rows))]).astype(np.int64)
    return RowBlock(block.data[kept], block.indices[kept], indptr, block.y), numbers.astype(np.int32)
