"""Which jobs a sweep directory has already, which are to run, and in which folders."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from hydra_dask.compose import Compositions, packed
from hydra_dask.identity import folder_of, give_number, identity, not_swept
from hydra_dask.manifest import (
    RECORDS,
    TO_DO,
    WAITING,
    Job,
    Manifest,
    believe_records,
    now,
    read_manifest,
)
from hydra_dask.plain import values


@dataclass(frozen=True)
class Plan:
    """The jobs of a batch."""

    jobs: list[Job]  # in the order of the batch
    todo: list[Job]  # those that are not done
    configs: dict[int, bytes]  # of those, by index; forgotten when a job is over
    alike: dict[Any, list[int]]  # indices of those, by what the application's check said of them
    wrong: list[tuple[Job, Exception]]  # those that the check refused
    spread: list[str] = field(default_factory=list)  # which conditions of spreading hold for any of them


def open_manifest(directory: Path, resume: bool) -> Manifest:
    """The manifest of a sweep directory, as it is now; an empty one where there is none, or it is not wanted."""
    found = read_manifest(directory) if resume else None
    if found is not None:
        believe_records(found)
        return found
    return Manifest(directory, list(sys.argv), os.getcwd(), now())


def discard_records(directory: Path) -> None:
    """Forget the jobs of a sweep that is about to be overwritten."""
    for record in (directory / RECORDS).glob("*.json"):
        if record.stem.isdigit():
            record.unlink(missing_ok=True)


class Planner:
    """Finds the job and the folder of each point of a batch."""

    def __init__(
        self, manifest: Manifest, sweep_dir: str, resume: bool, ignore: Sequence[str], spread: Sequence[str] = ()
    ) -> None:
        self._manifest, self._sweep_dir = manifest, sweep_dir
        self._resume, self._ignore, self._spread = resume, ignore, spread
        self._known: dict[str, list[Job]] = defaultdict(list)
        for job in manifest.jobs if resume else ():
            self._known[job.id].append(job)
        self._folders = {job.folder for job in manifest.jobs}
        self._indices = {job.index for job in manifest.jobs}

    def plan(
        self,
        batch: Sequence[Sequence[str]],
        first: int,
        compositions: Compositions,
        check: Callable[[DictConfig], Any] | None = None,
        watched: Callable[[Sequence[Sequence[str]]], Iterable[Sequence[str]]] = iter,
    ) -> Plan:
        """Take up the jobs of a batch into the manifest; let the application ``check`` those that are to run."""
        ignore = not_swept(self._ignore, batch)
        plan = Plan([], [], {}, {}, [])
        for number, overrides in enumerate(watched(batch), first):
            config = compositions.borrow(overrides)
            job = self._find(identity(config, ignore), config, number)
            plan.jobs.append(job)
            if job.status not in TO_DO:
                continue
            job.status, job.error = WAITING, None
            plan.todo.append(job)
            plan.configs[job.index] = packed(config)
            plan.spread.extend(self.spread_of(config))
            try:
                kind = job.index if check is None else check(config)
                plan.alike.setdefault(kind, []).append(job.index)
            except Exception as error:
                plan.wrong.append((job, error))
        return plan

    def spread_of(self, config: DictConfig) -> list[str]:
        """The conditions, as ``engine.kind=dask``, that hold for a job and say that it uses workers beside its own."""
        pairs = ((condition, *condition.split("=", 1)) for condition in self._spread)
        return [condition for condition, key, value in pairs if str(OmegaConf.select(config, key)) == value]

    def _find(self, id: str, config: DictConfig, number: int) -> Job:
        if self._known[id]:
            job = self._known[id].pop(0)
            give_number(config, job.index, self._sweep_dir, job.folder)
            return job
        index, folder = self._place(config, number)
        overrides = [str(word) for word in values(config.hydra.overrides.task)]
        log = os.path.join(folder, f"{config.hydra.job.name}.log")
        job = Job(id, index, folder, overrides, log=log)
        self._manifest.jobs.append(job)
        self._folders.add(folder)
        self._indices.add(index)
        return job

    def _place(self, config: DictConfig, number: int) -> tuple[int, str]:
        """A number and a folder that nobody has; without resuming, those that Hydra gives."""
        index = number
        while index in self._indices:
            index += 1
        give_number(config, index, self._sweep_dir)
        folder = folder_of(config)
        while self._resume and self._taken(folder):
            index += 1
            if index in self._indices:
                continue
            give_number(config, index, self._sweep_dir)
            if folder_of(config) == folder:  # it does not depend on the number
                return index, self._numbered(config, index, folder)
            folder = folder_of(config)
        return index, folder

    def _numbered(self, config: DictConfig, index: int, folder: str) -> str:
        count = 1
        while self._taken(f"{folder}-{count}"):
            count += 1
        give_number(config, index, self._sweep_dir, f"{folder}-{count}")
        return f"{folder}-{count}"

    def _taken(self, folder: str) -> bool:
        return folder in self._folders or (self._manifest.directory / folder).exists()
