"""The run directory: what a run leaves (trajectory.parquet, summary.json, result.zarr), complete or absent."""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from dtoken.algorithms.contract import Models, Vector
from dtoken.config.settings import FREE, Settings, flat
from dtoken.config.values import show
from dtoken.data.files import reason, writing
from dtoken.engine.loop import checkpoint
from dtoken.engine.loop.arrays import read_arrays, write_arrays
from dtoken.engine.loop.recorder import Record, columns_of
from dtoken.engine.loop.run import FLOOR, LOST, is_accurate
from dtoken.errors import InputError
from dtoken.schedule.arrow import arrow_array
from hydra_dask.durable import Batch, write_complete

TRAJECTORY, SUMMARY, RESULT, MEMORY = "trajectory.parquet", "summary.json", "result.zarr", "memory.parquet"
RUNNING, DONE, DIVERGED, FAILED, INTERRUPTED = "running", "done", "diverged", "failed", "interrupted"


def check_writable(directory: Path) -> None:
    """Refuse a directory in which nothing can be written, before any work; nothing is left there."""
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror or error}; use another directory") from error
    finally:
        for folder in new:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def write_file(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = True) -> None:
    """Let ``write`` fill a file, and put it in the place of ``path``; RunError names what cannot be written."""
    with writing(path):
        write_complete(path, write, durable=durable)


@contextmanager
def together(directory: Path) -> Iterator[Batch]:
    """Files of a run that get their names when all of them are on disk; RunError names what cannot be written."""
    with writing(directory), Batch() as files:
        yield files


def write_trajectory(files: Batch, directory: Path, records: Sequence[Record]) -> str:
    """Write ``trajectory.parquet``, one row per record point; its digest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = columns_of(records)
    columns = [np.array([getattr(record, name) for record in records]) for name in names]
    table = pa.Table.from_arrays([arrow_array(column) for column in columns], names)
    content = io.BytesIO()
    pq.write_table(table, content, write_page_checksum=True)
    with writing(directory / TRAJECTORY):
        files.file(directory / TRAJECTORY, lambda file: file.write(content.getbuffer()))
    return hashlib.sha256(content.getbuffer()).hexdigest()


def read_records(directory: Path) -> list[Record]:
    """Read ``trajectory.parquet``."""
    import pyarrow.parquet as pq

    path = directory / TRAJECTORY
    try:
        content = path.read_bytes()
        listed = listed_digest(directory, TRAJECTORY)
        if listed is not None and hashlib.sha256(content).hexdigest() != listed:
            raise ValueError
        table = pq.read_table(io.BytesIO(content), page_checksum_verification=True)
        return [Record(**row) for row in table.to_pylist()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}; use another directory") from None
    except (ValueError, TypeError):
        raise InputError(f"{path} is missing or damaged; use another directory") from None


def write_memory(directory: Path, samples: Sequence[tuple[float, int]], budget: int) -> None:
    """Write ``memory.parquet``: seconds since the run began to be prepared, resident bytes of the process, budget."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    wall, resident = np.array([seconds for seconds, _ in samples]), np.array([size for _, size in samples])
    columns = [wall, resident, np.full(len(samples), budget)]
    table = pa.Table.from_arrays([arrow_array(column) for column in columns], ["wall", "resident", "budget"])
    write_file(directory / MEMORY, lambda file: pq.write_table(table, file, write_page_checksum=True))


def write_result(files: Batch, directory: Path, models: Models, margins: Vector | None = None) -> str:
    """Write ``result.zarr``: final models of tokens and nodes, the estimate, margins if there are some; its digest."""
    arrays = {"tokens": models.tokens, "nodes": models.nodes, "theta": final_model(models)}
    if margins is not None:
        arrays["margins"] = margins
    digests: list[str] = []
    with writing(directory / RESULT):
        files.folder(directory / RESULT, lambda folder: digests.append(write_arrays(folder, arrays)))
    return digests[0]


def read_result(directory: Path) -> dict[str, Any]:
    """The arrays of ``result.zarr``."""
    if not (directory / RESULT).is_dir():
        raise InputError(f"{directory} does not hold a finished run: it has no {RESULT}")
    try:
        return read_arrays(directory / RESULT, listed_digest(directory, RESULT))
    except Exception as error:  # zarr and its codecs raise many kinds
        raise InputError(f"{directory / RESULT} is damaged ({error}); run it again") from error


def result_digest(directory: Path) -> str:
    """A hash of what a run that goes on from ``directory`` depends on: arrays, regulariser and data."""
    summary, arrays = load_summary(directory) or {}, read_result(directory)
    digest = hashlib.sha256(json.dumps([summary["config"]["problem"], summary["data"]["key"]]).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return digest.hexdigest()


def load_summary(directory: Path) -> dict[str, Any] | None:
    """The content of ``summary.json``; None: there is none."""
    try:
        summary: dict[str, Any] = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
        if not isinstance(summary["config"], dict):
            raise TypeError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{directory / SUMMARY} cannot be read: {reason(error)}; use another directory") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{directory / SUMMARY} is damaged; delete it, or use another directory") from None
    return summary


def listed_digest(directory: Path, name: str) -> str | None:
    """The digest that the summary has of another file; None: it tells of none."""
    digest: str | None = ((load_summary(directory) or {}).get("files") or {}).get(name)
    return digest


def final_model(models: Models) -> Any:
    """The model that a run ends with: the mean of the tokens."""
    return models.tokens.mean(axis=0)


def write_summary(files: Batch, directory: Path, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json``; numbers that JSON does not know are null."""
    with writing(directory / SUMMARY):
        files.file(directory / SUMMARY, lambda file: file.write(_json(summary)))


def write_json(path: Path, content: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write JSON; numbers that it does not know are null."""
    write_file(path, lambda file: file.write(_json(content)), durable=durable)


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(_finite(content), indent=2, allow_nan=False) + "\n").encode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def earlier_summary(directory: Path, settings: Settings) -> dict[str, Any] | None:
    """The summary of a run of the same settings in ``directory``; other settings are refused."""
    summary = load_summary(directory)
    if summary is None:
        return None
    before, now = flat(summary["config"]), settings.identity()
    before = {key: value for key, value in before.items() if not key.startswith(FREE)}
    other = [key for key in now | before if before.get(key) != now.get(key)]
    if other:
        listed = ", ".join(f"{key}={show(before.get(key))} (now {show(now.get(key))})" for key in other[:4])
        more = f" and {len(other) - 4} more" if len(other) > 4 else ""
        raise InputError(f"{directory} holds a run with other settings: {listed}{more}; use another directory")
    _check_same_origin(directory, summary, settings)
    return summary


def _check_same_origin(directory: Path, summary: Mapping[str, Any], settings: Settings) -> None:
    """Refuse to go on with a run whose start is not there any more: the earlier run has another result now."""
    started = getattr(settings.method, "start_from", None)
    if started is None or not (Path(started) / RESULT).is_dir():
        return
    if summary.get("start_from") != result_digest(Path(started)):
        raise InputError(
            f"{directory} holds a run that started from what was in {started} before; use another directory"
        )


def is_kept(directory: Path) -> bool:
    """Whether there is a checkpoint from which a run goes on."""
    return (directory / checkpoint.NAME).is_file()


def recorded_choice(directory: Path | None) -> dict[str, Any] | None:
    """The p_comm that was chosen when the run in ``directory`` began, and what it was chosen by."""
    try:
        found = json.loads((directory / SUMMARY).read_text(encoding="utf-8")) if directory else {}
    except (OSError, ValueError):
        return None
    choice: dict[str, Any] | None = found.get("p_comm")
    return choice


def is_over(directory: Path, summary: Mapping[str, Any], settings: Settings) -> bool:
    """Whether the run in ``directory`` has nothing left to do: it failed, or went as far as ``settings`` ask for."""
    if summary["status"] not in (DONE, DIVERGED):
        return bool(summary["status"] == FAILED and summary["end"])
    if summary.get("stopped") in (FLOOR, LOST):
        return True
    stop, end, rows = settings.stop, summary["end"], summary["data"]["rows"]
    return bool(
        summary["config"]["stop"] == settings.as_config()["stop"]
        or (stop.passes is not None and end["gradients"] >= math.ceil(stop.passes * rows))
        or (stop.jumps is not None and end["jumps"] >= stop.jumps)
        or (stop.events is not None and end["event"] >= stop.events)
        or (stop.suboptimality and is_accurate(read_records(directory), stop, settings.record, rows))
    )
