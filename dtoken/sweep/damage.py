"""What is wrong with the files of a run: it is shown as damaged, and the rest of a report is made without it."""

import hashlib
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dtoken.engine.loop.recorder import COLUMNS
from dtoken.session.files import TRAJECTORY

Fits = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


def _moment(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _constants(value: Any) -> bool:
    return _object(value) and all(map(_constant, value.values()))


def _constant(value: Any) -> bool:
    return value is None or isinstance(value, bool | str) or _number(value) or _numbers(value)


def _command(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


NEEDED: dict[str, Fits] = {
    "status": _text,
    "algorithm": _text,
    "config": _object,
    "config.data": _object,
    "config.graph": _object,
    "config.algorithm": _object,
    "config.record": _object,
}
# of a part that is there, these are, too
PARTS: dict[str, dict[str, Fits]] = {
    "data": {"path": _text, "nodes": _count, "features": _count, "rows": _count, "nonzeros": _count},
    "graph": {"kind": _text, "walk": _text, "nodes": _count},
    "conditions": {"engine": _text, "processors": _count, "load": _number},
    "provenance.git": {"commit": _text, "dirty": lambda value: isinstance(value, bool)},
}
# may be absent or null
KNOWN: dict[str, Fits] = {
    "failure": _text,
    "constants": _constants,
    "graph.spectral_gap": _number,
    "graph.stay": _number,
    "graph.jumps_per_visit": _number,
    "provenance": _object,
    "provenance.packages": _object,
    "provenance.command": _command,
    "provenance.started": _moment,
    "provenance.ended": _moment,
    "predicted_rate": _number,
    "paper_rate": _number,
    "measured_rate": _number,
    "rate_is_proved": lambda value: isinstance(value, bool),
    "end": _object,
    "files": _object,
    "config.data.kind": _text,
    "config.graph.kind": _text,
    "config.record.accuracies": _numbers,
    "conditions.threads": _count,
    **{f"end.{name}": _number for name in COLUMNS},
    **{f"provenance.{name}": _text for name in ("dtoken", "python", "host", "platform", "data")},
}


def is_whole(summary: Any) -> bool:
    """Whether a summary has what a report looks for, each of its kind.

    Examples
    --------
    >>> is_whole({"status": "done"}), is_whole(["done"])
    (False, False)
    """
    if not _object(summary) or summary.get("conditions", {}) is None:
        return False
    there = {part: found for part in PARTS if (found := _at(summary, part)) is not None}
    if not all(map(_object, there.values())):
        return False
    parts = {f"{part}.{key}": fits for part in there for key, fits in PARTS[part].items()}
    needed = all((found := _at(summary, key)) is not None and fits(found) for key, fits in (NEEDED | parts).items())
    return needed and all((found := _at(summary, key)) is None or fits(found) for key, fits in KNOWN.items())


def _at(content: Any, key: str) -> Any:
    for name in key.split("."):
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def trajectory_is_whole(directory: Path, summary: Mapping[str, Any]) -> bool:
    """Whether the trajectory is the one that the summary vouches for, or, of earlier versions, can be read."""
    path = directory / TRAJECTORY
    if not path.is_file():
        return True
    import pyarrow.parquet as pq
    import pyarrow.types as types

    try:
        if listed := (summary.get("files") or {}).get(TRAJECTORY):
            return bool(hashlib.sha256(path.read_bytes()).hexdigest() == listed)
        table = pq.read_table(path, columns=list(COLUMNS), page_checksum_verification=True)
    except Exception:  # what a damaged file makes its reader raise
        return False
    kinds = [table.schema.field(name).type for name in table.schema.names]
    numbers = all(types.is_integer(kind) or types.is_floating(kind) for kind in kinds)
    return (
        table.schema.names == list(COLUMNS)
        and numbers
        and table.num_rows > 0
        and not any(column.null_count for column in table.columns)
    )
