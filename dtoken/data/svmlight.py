"""svmlight / LIBSVM text, plain or compressed, read as a stream of row blocks.

The text is cut at line ends into pieces of some megabytes; threads parse the pieces in compiled code, and the
blocks come out in the order of the file. Nothing but the pieces in flight is in memory.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoken.compiled import compiled
from dtoken.data.decimal import HARD, MALFORMED, parse_decimal
from dtoken.data.files import TextStream, file_identity
from dtoken.data.rows import RowBlock
from dtoken.errors import InputError

PIECE_BYTES = 2 << 20
MOST_THREADS = 8  # a piece in flight may take five times its size in memory; more threads would only wait
LONGEST_LINE = 32 << 20
LARGEST_INDEX = 2**31 - 2  # an index and its successor fit in int32

_FINE, _BAD_LABEL, _BAD_VALUE, _NO_COLON, _BAD_INDEX = range(5)
_NEGATIVE, _TOO_LARGE, _TOO_SMALL, _ORDER, _TWICE = range(5, 10)
_NEWLINE, _HASH, _COLON, _MINUS = b"\n#:-"
_Q, _I, _D = b"qid"


@dataclass(frozen=True)
class Svmlight:
    """An svmlight file as a source of rows.

    Parameters
    ----------
    path
        The file: plain, gzip, bzip2 or xz (recognised by its first bytes).
    index_base
        Number of the first feature, 0 or 1; None takes 0 if index 0 occurs anywhere in the file, else 1.
    features
        Number of features; None takes the largest index.
    threads
        How many threads parse; None takes the number of CPUs, 8 at most.
    """

    path: Path
    index_base: Literal[0, 1] | None = None
    features: int | None = None
    threads: int | None = None
    kind: ClassVar[str] = "svmlight"

    @property
    def name(self) -> str:
        """The file's name, as messages show it."""
        return self.path.name

    def identity(self) -> dict[str, object]:
        """What makes this dataset this dataset: the file as it is now and how it is read."""
        settings = {"kind": self.kind, "index_base": self.index_base, "features": self.features}
        return settings | file_identity(self.path)

    def blocks(self, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        """Yield the rows in the order of the file; ``advance`` is told the fraction of it that was read."""
        line = 1
        with TextStream(self.path) as text:
            for piece, parsed in self._parsed_pieces(text):
                if parsed.error:
                    line += piece.count(b"\n", 0, parsed.position)
                    raise InputError(f"{self.path}, line {line}: {_explain(piece, parsed)}")
                line += parsed.lines
                if advance is not None:
                    advance(text.fraction())
                if parsed.block.rows:
                    yield parsed.block

    def _parsed_pieces(self, text: TextStream) -> Iterator[tuple[bytes, "_Parsed"]]:
        """Yield every piece with what was found in it, while threads parse those that follow."""
        lowest = 1 if self.index_base == 1 else 0
        threads = self.threads or min(MOST_THREADS, os.cpu_count() or 1)
        waiting: deque[tuple[bytes, Future[_Parsed]]] = deque()
        with ThreadPoolExecutor(threads, "dtoken-parse") as pool:
            for piece in _pieces(text):
                waiting.append((piece, pool.submit(_parse_piece, piece, lowest)))
                if len(waiting) > threads:
                    earliest, future = waiting.popleft()
                    yield earliest, future.result()
            for earliest, future in waiting:
                yield earliest, future.result()


class _Parsed(NamedTuple):
    block: RowBlock
    error: int
    position: int  # where in the piece the error is
    previous: int  # the index before it, for errors of order
    lines: int  # line ends in the piece


def _pieces(text: TextStream) -> Iterator[bytes]:
    """Cut the text behind the last line end of every ``PIECE_BYTES``."""
    rest = b""
    lines = 1
    while chunk := text.read(PIECE_BYTES):
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            rest += chunk
            if len(rest) > LONGEST_LINE:
                limit = f"longer than {LONGEST_LINE >> 20} MB"
                raise InputError(f"{text.path}, line {lines}: {limit}; this is not an svmlight file")
            continue
        piece = rest + chunk[:cut]
        rest = chunk[cut:]
        lines += piece.count(b"\n")
        yield piece
    if rest:
        yield rest


def _parse_piece(piece: bytes, lowest: int) -> _Parsed:
    text = np.frombuffer(piece, np.uint8)
    lines, colons = _count(text)
    y = np.empty(lines + 1)
    indptr = np.zeros(lines + 2, np.int64)
    indices = np.empty(colons, np.int32)
    data = np.empty(colons)
    hard = np.empty((64, 3), np.int64)
    result = _parse(text, lowest, y, indptr, indices, data, hard)
    if result[2] > len(hard):  # once more, with room for all of them
        hard = np.empty((result[2], 3), np.int64)
        result = _parse(text, lowest, y, indptr, indices, data, hard)
    rows, entries, n_hard, error, position, previous = result
    for slot, start, stop in hard[:n_hard].tolist():
        value = float(piece[start:stop].split(b":")[-1])
        if not math.isfinite(value):  # comes before the place where _parse may have stopped
            error, position = (_BAD_VALUE if slot >= 0 else _BAD_LABEL), start
            break
        if slot >= 0:
            data[slot] = value
        else:
            y[-1 - slot] = value
    block = RowBlock(data[:entries], indices[:entries], indptr[: rows + 1], y[:rows])
    return _Parsed(block, error, position, previous, lines)


@compiled
def _count(text: NDArray[np.uint8]) -> tuple[int, int]:
    """Line ends and colons: no more rows and entries than that can come."""
    lines = colons = 0
    for byte in text:
        lines += byte == _NEWLINE
        colons += byte == _COLON
    return lines, colons


@compiled
def _set_row(table: NDArray[np.int64], row: int, first: int, second: int, third: int) -> None:
    """table[row] = first, second, third; written so, numba compiles the sentence of an error along with it."""
    table[row, 0] = first
    table[row, 1] = second
    table[row, 2] = third


@compiled
def _parse(
    text: NDArray[np.uint8],
    lowest: int,
    y: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    hard: NDArray[np.int64],
) -> tuple[int, int, int, int, int, int]:
    """Parse whole lines; return rows, entries, hard numbers, and (error, position, previous index).

    A row of ``hard`` is a number left to ``float()``: its place in ``data`` (or -1 - row for a label) and
    where its word starts and stops. Those for which it has no rows are only counted.
    """
    size = len(text)
    rows = entries = n_hard = 0
    position = 0
    while position < size:
        in_row = False
        previous = -1
        while True:
            while position < size and _is_blank(text[position]):
                position += 1
            if position == size:
                break
            if text[position] == _NEWLINE:
                position += 1
                break
            if text[position] == _HASH:
                while position < size and text[position] != _NEWLINE:
                    position += 1
                continue
            start = position
            colon = -1
            while position < size and not _ends_word(text[position]):
                if text[position] == _COLON and colon < 0:
                    colon = position
                position += 1
            if not in_row:
                value, status = parse_decimal(text, start, position)
                if status == MALFORMED:
                    return rows, entries, n_hard, _BAD_LABEL, start, previous
                if status == HARD:
                    if n_hard < len(hard):
                        _set_row(hard, n_hard, -1 - rows, start, position)
                    n_hard += 1
                y[rows] = value
                rows += 1
                in_row = True
                indptr[rows] = entries
                continue
            if colon < 0:
                return rows, entries, n_hard, _NO_COLON, start, previous
            if colon == start + 3 and text[start] == _Q and text[start + 1] == _I and text[start + 2] == _D:
                continue
            index, error = _parse_index(text, start, colon, lowest, previous)
            if error != _FINE:
                return rows, entries, n_hard, error, start, previous
            value, status = parse_decimal(text, colon + 1, position)
            if status == MALFORMED:
                return rows, entries, n_hard, _BAD_VALUE, start, previous
            if status == HARD:
                if n_hard < len(hard):
                    _set_row(hard, n_hard, entries, start, position)
                n_hard += 1
            indices[entries] = index
            data[entries] = value
            entries += 1
            indptr[rows] = entries
            previous = index
    return rows, entries, n_hard, _FINE, 0, 0


@compiled
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13 or byte == 11 or byte == 12


@compiled
def _ends_word(byte: int) -> bool:
    # one comparison decides for all bytes of a number
    return byte <= _HASH and (byte in (_NEWLINE, _HASH) or _is_blank(byte))


@compiled
def _parse_index(text: NDArray[np.uint8], start: int, colon: int, lowest: int, previous: int) -> tuple[int, int]:
    if start == colon:
        return 0, _BAD_INDEX
    if text[start] == _MINUS:
        return 0, _NEGATIVE
    index = 0
    for position in range(start, colon):
        byte = text[position]
        if byte < 48 or byte > 57:
            return 0, _BAD_INDEX
        index = index * 10 + int(np.int64(byte)) - 48
        if index > LARGEST_INDEX:
            return 0, _TOO_LARGE
    if index < lowest:
        return 0, _TOO_SMALL
    if index == previous:
        return 0, _TWICE
    if index < previous:
        return 0, _ORDER
    return index, _FINE


def _explain(piece: bytes, parsed: _Parsed) -> str:
    """One sentence about the word at which parsing stopped."""
    word = piece[parsed.position :].split(maxsplit=1)[0].split(b"#")[0]
    shown = repr(word[:40])[1:] + ("..." if len(word) > 40 else "")
    index = repr(word.split(b":")[0][:40])[2:-1]
    table = "; a table with commas is read by pandas, from Python: data=(frame, LABEL)" if b"," in word else ""
    return {
        _BAD_LABEL: f"label {shown} is not a finite number{table}",
        _NO_COLON: f"{shown} is not of the form index:value",
        _BAD_INDEX: f"{shown} does not begin with an index",
        _NEGATIVE: f"index {index} is negative",
        _TOO_LARGE: f"index {index} is larger than {LARGEST_INDEX}",
        _TOO_SMALL: "index 0, but the first index was said to be 1; use index_base=0",
        _ORDER: f"index {index} follows index {parsed.previous}; indices of a row must increase",
        _TWICE: f"index {index} appears twice in a row",
        _BAD_VALUE: f"the value in {shown} is not a finite number",
    }[parsed.error]
