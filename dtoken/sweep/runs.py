"""The runs of a sweep as the disk has them: finished, diverged, failed, under way, or only planned in the manifest."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dtoken.algorithms.registry import method_name
from dtoken.config.loader import expanded
from dtoken.config.settings import flat
from dtoken.data.files import reason
from dtoken.errors import InputError
from dtoken.session.files import DIVERGED, DONE, FAILED, INTERRUPTED, SUMMARY, TRAJECTORY
from dtoken.sweep.damage import is_whole, trajectory_is_whole
from hydra_dask.manifest import MANIFEST, RUNNING, WAITING, driver_lives

HYDRA_SWEEP, HYDRA_FOLDER = "multirun.yaml", ".hydra"
STARTED = "started"  # there is a folder, but no summary in it: still preparing, or refused before the first event
DAMAGED = "damaged"  # a file of the run cannot be read
# settings that choose one of several kinds are known by the name of their group, as on the command line
KINDS = {
    "algorithm._target_": "algorithm",
    "graph.kind": "graph",
    "data.kind": "data",
    "engine.kind": "engine",
    "cluster.kind": "cluster",
}
NO_SETTINGS = ("theory", "objective")  # keys of what the command does and tells
GROUP_KEYS = {"problem": "problem.loss"}  # groups whose choice is the value of another key


@dataclass(frozen=True)
class Run:
    """One run of a sweep.

    Parameters
    ----------
    name
        Its folder, relative to the sweep; of several sweeps, with the name of the sweep in front.
    sweep
        Name of the sweep's folder.
    directory
        Where its files are, if it has begun.
    status
        ``done``, ``diverged``, ``failed``, ``running``, ``interrupted``, ``waiting``, ``started`` or ``damaged``.
    error
        Why it diverged or failed, in a sentence.
    given
        What its command line said, by key.
    config
        All settings by full key; of a run that has not begun, only those that its command line gave.
    composed
        Keys of ``config`` that are settings. What the command line gave beyond them chose groups of settings, as
        ``+experiment=NAME`` does. Empty: the run has not begun.
    summary
        The content of ``summary.json``, if there is one.
    """

    name: str
    sweep: str
    directory: Path | None
    status: str
    error: str | None
    given: Mapping[str, Any]
    config: Mapping[str, Any]
    composed: frozenset[str]
    summary: Mapping[str, Any] | None

    @property
    def trajectory(self) -> Path | None:
        """The file with its record points, if there is one."""
        if self.directory is None or self.status == DAMAGED:
            return None
        path = self.directory / TRAJECTORY
        return path if path.is_file() else None


def find_runs(directories: Sequence[str | Path]) -> list[Run]:
    """All runs of the given sweeps (or run directories), in the order of the manifests and of the folders' numbers.

    Examples
    --------
    >>> [run.name for run in find_runs(["multirun/tokens"])]  # doctest: +SKIP
    ['0', '1', '2']
    """
    places = [Path(directory) for directory in directories]
    if not places:
        raise InputError("no directory was given; name at least one directory of a sweep or run")
    for place in places:
        if not place.is_dir():
            raise InputError(f"{place} is not a directory; give the directory of a sweep or of a run")
    names = _names(places)
    runs: list[Run] = []
    for place, name in zip(places, names, strict=True):
        found = list(_runs_of(place, name, f"{name}/" if len(places) > 1 else ""))
        if not found and not any((place / file).exists() for file in (MANIFEST, HYDRA_SWEEP)):
            raise InputError(f"{place} holds no runs; give the directory of a sweep or of a run")
        runs += found
    return runs


def _names(places: Sequence[Path]) -> list[str]:
    """A short name for each place; the path as given where two would be called the same."""
    if len({place.resolve() for place in places}) < len(places):
        raise InputError("the same directory was given twice; name each directory once")
    short = [place.resolve().name for place in places]
    return short if len(set(short)) == len(short) else [str(place) for place in places]


def _runs_of(place: Path, sweep: str, prefix: str) -> Iterator[Run]:
    if _is_run(place):
        yield _read(place, place.resolve().name, sweep, {})
        return
    folders, jobs = _search(place)
    for folder in sorted({*folders, *jobs}, key=_natural):
        path = place / folder
        yield _read(path if path.is_dir() else None, f"{prefix}{folder}", sweep, jobs.get(folder, {}))


def _search(place: Path) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    """Folders of runs below ``place``, and the jobs of its manifests by folder."""
    folders: list[str] = []
    jobs: dict[str, Mapping[str, Any]] = {}
    for root, below, files in os.walk(place):
        here = Path(root)
        if MANIFEST in files:
            jobs |= {
                (here / str(job["folder"])).relative_to(place).as_posix(): job for job in _manifest(here / MANIFEST)
            }
        for name in list(below):
            if _is_run(here / name):
                folders.append((here / name).relative_to(place).as_posix())
                below.remove(name)
            elif name.startswith(".") or name.endswith(".zarr"):
                below.remove(name)
    return folders, jobs


def _is_run(path: Path) -> bool:
    return (path / SUMMARY).is_file() or (path / HYDRA_FOLDER).is_dir()


def _manifest(path: Path) -> list[Mapping[str, Any]]:
    """The jobs of a manifest; those that ran when its driver was lost are to run again."""
    try:
        jobs = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        jobs = [job for job in jobs if isinstance(job["folder"], str)]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} is damaged; delete it to collect the runs that are there") from None
    if driver_lives(path.parent):
        return jobs
    return [job | {"status": WAITING} if job.get("status") == RUNNING else job for job in jobs]


def _natural(folder: str) -> list[tuple[int, int | str]]:
    """Order folders as people count: 2 before 10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in folder.split("/")]


def _read(directory: Path | None, name: str, sweep: str, job: Mapping[str, Any]) -> Run:
    summary, damage = _summary(directory)
    given = _overrides(directory, job)
    nested = summary["config"] if summary else _hydra_config(directory)
    status, error = _status(directory, summary, job)
    if damage:
        status, error = DAMAGED, damage
    config = named(nested)
    return Run(name, sweep, directory, status, error, given, given | config, frozenset(config), summary)


def _summary(directory: Path | None) -> tuple[Mapping[str, Any] | None, str | None]:
    """The summary, and what is wrong with the files of the run."""
    if directory is None or not (directory / SUMMARY).is_file():
        return None, None
    try:
        summary: Mapping[str, Any] = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
    except OSError as error:
        return None, f"{directory / SUMMARY} cannot be read: {reason(error)}"
    except (ValueError, RecursionError):
        summary = {}
    if not is_whole(summary):
        return None, f"{directory / SUMMARY} is damaged; delete it and run again"
    if not trajectory_is_whole(directory, summary):
        return summary, f"{directory / TRAJECTORY} is damaged; delete the folder and run again"
    return summary, None


def _status(
    directory: Path | None, summary: Mapping[str, Any] | None, job: Mapping[str, Any]
) -> tuple[str, str | None]:
    """What the summary says of a run that ended well, else what the manifest says, which outlives the process."""
    own, planned = summary["status"] if summary else None, job.get("status")
    ended = own == DONE or not planned or (planned == DONE and own)
    status = str((own or STARTED) if ended else planned)
    reason = job.get("error") or (summary or {}).get("failure")
    return status, str(reason) if reason and status in (DIVERGED, FAILED, INTERRUPTED) else None


def _overrides(directory: Path | None, job: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line said: from the manifest, or from Hydra's own notes."""
    words = job.get("overrides")
    if words is None:
        words = _yaml(directory / HYDRA_FOLDER / "overrides.yaml") if directory else None
    pairs = [_override(word) for word in expanded(map(str, words))] if isinstance(words, list) else []
    settings = [(key, value) for key, value in pairs if not key.startswith("hydra.") and key not in NO_SETTINGS]
    return {GROUP_KEYS.get(key, KINDS.get(key, key)): value for key, value in settings}


@lru_cache(maxsize=10_000)
def _override(word: str) -> tuple[str, Any]:
    """Key and value of a word of the command line, read as Hydra reads it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
        return override.key_or_group, override.value()
    except HydraException:  # of another Hydra application, or of another version
        key, _, value = word.lstrip("+~").partition("=")
        return key, value


def _hydra_config(directory: Path | None) -> Mapping[str, Any]:
    found = _yaml(directory / HYDRA_FOLDER / "config.yaml") if directory else None
    return found if isinstance(found, Mapping) else {}


def _yaml(path: Path) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, YAMLError, OmegaConfBaseException):
        return None


def named(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names that tables use: full keys, and the group's name for what a group chooses.

    Examples
    --------
    >>> named({"algorithm": {"_target_": "dtoken.algorithms.tvr.TVR", "tokens": 4}, "graph": {"kind": "ring"}})
    {'algorithm': 'tvr', 'algorithm.tokens': 4, 'graph': 'ring'}
    """
    found = {}
    for key, value in flat(config).items():
        found[KINDS.get(key, key)] = method_name(str(value)) if key == "algorithm._target_" else value
    return found
