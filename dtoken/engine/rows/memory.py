"""How much memory a process needs for the nodes that it hosts, and how much of a budget is left for their rows.

What is needed per node, per row and per token stays in memory; rows beyond the budget are read when they are needed
(`row_cache`). A budget that does not even hold the former is refused before anything starts.
"""

import math
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dtoken.algorithms.checks import check_states
from dtoken.algorithms.contract import Method
from dtoken.data.row_files import ENTRY_BYTES
from dtoken.engine.rows.row_cache import reaches, table_bytes, unit_rows
from dtoken.errors import InputError
from dtoken.problem.hosted import sizes_only
from dtoken.text import show_bytes

MB = 1e6
BUFFERS = 16_000_000  # events of three segments, and the plans made from them
SAMPLE_BYTES = 16  # of a row: its number, and its entry in the alias table
EDGE_BYTES = 17  # of a jump that the walk can make: where to, how probable, and the graph's own entry
NODE_BYTES = 240  # of every node of the run: bounds, sizes, constants, law, place, clock, costs, and where steps wait
LIMIT_SHARE = 0.6  # of a worker's memory limit, for a run that has no budget of its own
PYTHON = 250_000_000  # what Python, its libraries and compiled code take beside a budget
LEAST_ENTRIES = 1 << 18  # of the arena, where there are as many: below, pieces are too short to be worth it

SIZE = re.compile(
    r"(?P<number>\d+\.?\d*(e[+-]?\d{1,2})?|\.\d+)\s*(?:(?P<prefix>[kmgtp])(?P<binary>i?))?b?", re.IGNORECASE
)


class Room(NamedTuple):
    """What is left for rows that are not all in memory."""

    entries: int  # size of the arena
    read_ahead: bool = True


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that one process needs, by purpose."""

    nodes: int
    features: int
    rows: int
    nonzeros: int
    largest: int  # entries that a single step uses
    state: int  # of nodes and tokens, and the copies that are measured
    tables: int  # what is kept of every row: label, norm, place, digest, and how it is drawn
    graph: int  # the walk and its graph, and what is kept of every node of the run, wherever it is hosted
    in_blocks: bool = True  # steps use blocks of rows, or all rows of a node block by block

    @property
    def fixed(self) -> int:
        """Everything but entries of rows."""
        return self.state + self.tables + self.graph + BUFFERS

    @property
    def everything(self) -> int:
        """Bytes with all rows in memory."""
        return self.fixed + ENTRY_BYTES * self.nonzeros

    @property
    def least(self) -> int:
        """The smallest budget."""
        return self.fixed + ENTRY_BYTES * min(max(2 * self.largest, LEAST_ENTRIES), self.nonzeros)

    def room(self, budget: int | None, read_ahead: bool = True, workers: bool = False) -> Room | None:
        """What a budget leaves for rows; None: all rows fit. InputError if it is too small.

        Of a process that is one of several ``workers``, more of them are a remedy.
        """
        if budget is None or self.everything <= budget:
            return None
        if budget < self.least:
            raise InputError(self.refusal(budget, workers))
        return Room((budget - self.fixed) // ENTRY_BYTES, read_ahead)

    def refusal(self, budget: int, workers: bool = False) -> str:
        """Why a budget is too small, with the arithmetic, and what would help."""
        remedies = [f"engine.memory>={math.ceil(1.1 * self.least / MB)}MB", *self._remedies(budget, workers)]
        listed = remedies[0] if len(remedies) == 1 else f"{', '.join(remedies[:-1])}, or {remedies[-1]}"
        state, tables, graph = (show_bytes(size) for size in (self.state, self.tables, self.graph))
        buffers, steps, least, given = map(show_bytes, (BUFFERS, self._steps, self.least, budget))
        return (
            f"The state of {self.nodes:,} nodes with {self.features:,} features and {self.rows:,} rows needs "
            f"{state}, the tables of the rows {tables}, the graph and its nodes {graph}, buffers {buffers} and the "
            f"rows of two steps {steps}: {least} of the {given} budget. Use {listed}"
        )

    @property
    def _steps(self) -> int:
        """Bytes of the rows of two steps."""
        return self.least - self.fixed

    def _remedies(self, budget: int, workers: bool) -> list[str]:
        """What else would bring the need below the budget; nothing does if that does not even hold the buffers."""
        long_steps = self.largest > LEAST_ENTRIES // 2
        found = []
        if long_steps and self.fixed < budget:
            found += ["smaller blocks"] if self.in_blocks else ["more nodes", "a method that draws samples"]
        if BUFFERS + self._steps + self.tables < budget and not long_steps:
            found.append("fewer nodes")
        if BUFFERS + self._steps + self.graph < budget and workers:
            found.append("more workers")
        return found


def memory_need(
    method: Method, n: int, features: int, node_rows: ArrayLike, node_nonzeros: ArrayLike, jumps: int = 0
) -> MemoryNeed:
    """What a process needs that hosts nodes of the given sizes, out of ``n`` nodes; no data are read.

    The walk's tables list so many ``jumps`` from a node to another: two an edge, none on the complete graph.

    Examples
    --------
    >>> from dtoken.algorithms.tvr import TVR
    >>> need = memory_need(TVR(tokens=2), 4, 1000, [500] * 4, [40_000] * 4)
    >>> need.state  # theta of 4 nodes and 2 tokens, z and g of 2000 rows; the copies of 4 + 2 * 2 models
    144000
    >>> need.room(10**9) is None
    True
    """
    sizes, entries = np.asarray(node_rows, np.int64), np.asarray(node_nonzeros, np.int64)
    rows, hosted = int(sizes.sum()), len(sizes)
    make: Any = method.states  # constants are not known yet; a state needs no more of them than n
    try:
        states = make(SimpleNamespace(n=n), sizes_only(hosted, rows, features))
    except AttributeError as error:
        used = f"{type(method).__name__}.states uses the constant {error.name}"
        raise InputError(f"{used}, but memory is counted before constants are known; use c.n alone") from None
    check_states(states, hosted, rows, len(method.token_start(n)), type(method).__name__)
    kept = sum(array.nbytes for state in states for array in state)
    if getattr(method, "start_from", None) is not None:
        kept += 8 * (rows + (hosted + len(method.token_start(n))) * features)  # the origin
    copies = (hosted + 2 * len(method.token_start(n))) * features * 8
    unit, by_units = unit_rows(method), method.draws_samples or bool(method.phases)
    drawn = SAMPLE_BYTES / unit if method.draws_samples else 0
    units = np.ceil(np.minimum(1.0, unit / np.maximum(1, sizes)) * entries)
    of_unit = int(units.max(initial=0)) if unit > 1 else 0
    visits = np.ceil(np.minimum(1.0, reaches(method, sizes) / np.maximum(1, sizes)) * entries)
    largest = of_unit if by_units else int(visits.max(initial=0))
    tables = math.ceil((table_bytes(unit) + drawn) * rows)
    graph = EDGE_BYTES * jumps + NODE_BYTES * n
    return MemoryNeed(hosted, features, rows, int(entries.sum()), largest, kept + copies, tables, graph, by_units)


def parse_memory(key: str, value: int | float | str | None) -> int | None:
    """Bytes from a number or a text such as ``300MB``, as Dask reads it; without Dask, which takes memory itself.

    Examples
    --------
    >>> parse_memory("engine.memory", "300MB")
    300000000
    """
    if value is None:
        return None
    found = SIZE.fullmatch(str(value).strip())
    if found is None:
        raise InputError(f"{key}={value} is not a size; use for instance 300MB, 2GiB, or null for no limit")
    base = 1024 if found["binary"] else 1000
    size = int(float(found["number"]) * base ** " KMGTP".index((found["prefix"] or " ").upper()))
    if size <= 0:
        raise InputError(f"{key}={value} must be positive; null is no limit")
    if size >= 2**63:
        raise InputError(
            f"{key}={value} is more memory than there can be; use for instance 300MB, or null for no limit"
        )
    return size
