"""A search by Optuna that never waits for a batch: each worker that is idle gets a trial by all that is known then."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from hydra_dask.errors import SweepError
from hydra_dask.manifest import DONE, Job
from hydra_dask.plain import readable
from hydra_dask.pruning import Pruned, files_of, prune, reports

LOG, RESULTS = "optuna.log", "optimization_results.yaml"
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


def space(words: Sequence[str], params: Mapping[str, str]) -> tuple[dict[str, BaseDistribution], list[str]]:
    """What is searched, by key, and the words that all trials have in common.

    Examples
    --------
    >>> searched, fixed = space(["seed=1", "a=x,y"], {"b": "tag(log, interval(0.1, 10))"})
    >>> searched["a"].choices, searched["b"].log, fixed
    (('x', 'y'), True, ['seed=1'])
    """
    parser = OverridesParser.create()
    given = {parser.parse_override(word).key_or_group for word in words}
    more = [f"{key}={value}" for key, value in params.items() if key.lstrip("+~") not in given]
    searched: dict[str, BaseDistribution] = {}
    fixed = []
    for override in parser.parse_overrides([*words, *more]):
        if override.is_sweep_override():
            searched[override.get_key_element()] = distribution(override)
        else:
            fixed.append(str(override.input_line))
    if not searched:
        raise SweepError("nothing is searched; give at least one KEY=interval(a,b), KEY=range(a,b) or KEY=V1,V2")
    return searched, fixed


def distribution(override: Override) -> BaseDistribution:
    """What Optuna calls a sweep of Hydra.

    Examples
    --------
    >>> parse = OverridesParser.create().parse_override
    >>> distribution(parse("a=range(1,8,2)"))
    IntDistribution(high=7, log=False, low=1, step=2)
    >>> distribution(parse("a=int(tag(log,interval(1,64)))"))
    IntDistribution(high=64, log=True, low=1, step=1)
    >>> distribution(parse("a=tvr:tokens:1,gd")).choices
    ('tvr:tokens:1', 'gd')
    """
    value = override.value()
    if isinstance(value, IntervalSweep):
        low, high = value.start, value.end
        assert low is not None
        assert high is not None
        log = "log" in value.tags
        if isinstance(low, int) and isinstance(high, int):
            return IntDistribution(low, high, log=log)
        return FloatDistribution(low, high, log=log)
    if isinstance(value, RangeSweep) and not value.shuffle:
        start, stop, step = value.start, value.stop, value.step
        assert start is not None
        assert stop is not None
        last = start + step * (math.ceil((stop - start) / step) - 1)
        if all(isinstance(number, int) for number in (start, stop, step)):
            return IntDistribution(int(start), int(last), step=int(step))
        return FloatDistribution(start, last, step=step)
    assert isinstance(value, ChoiceSweep | RangeSweep)
    return CategoricalDistribution([readable(str(word)) for word in override.sweep_string_iterator()])


class Search:
    """The trials of a study, for the driver of a sweep."""

    def __init__(
        self, study: optuna.Study, searched: dict[str, BaseDistribution], fixed: list[str], trials: int, directory: Path
    ) -> None:
        self._study, self._searched, self._fixed = study, searched, fixed
        self._directory = directory
        self._left = max(0, trials - len(study.get_trials(deepcopy=False, states=ENDED)))
        self._asked: dict[int, Trial] = {}  # by number
        self._running: dict[int, tuple[Trial, int]] = {}  # by index of the job: and how many reports were read
        for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):  # its driver died
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)

    def ask(self) -> tuple[int, list[str]] | None:
        """The next trial, while there are to be more."""
        if not self._left:
            return None
        self._left -= 1
        trial = self._study.ask(self._searched)
        self._asked[trial.number] = trial
        return trial.number, [*self._fixed, *(f"{key}={value}" for key, value in trial.params.items())]

    def begin(self, number: int, job: Job) -> None:
        """Remember which job a trial has."""
        self._running[job.index] = self._asked.pop(number), 0

    def look(self) -> None:
        """Hand on what jobs have reported, and end those that are not worth going on."""
        for index in list(self._running):
            if self._read(index).should_prune():
                prune(files_of(self._directory, index))

    def _read(self, index: int) -> Trial:
        trial, seen = self._running[index]
        new = reports(files_of(self._directory, index), seen)
        for step, value in new:
            trial.report(value, step)
        self._running[index] = trial, seen + len(new)
        return trial

    def over(self, job: Job, value: Any) -> None:
        """Tell Optuna how a trial ended."""
        trial = self._read(job.index)
        del self._running[job.index]
        if job.status == Pruned.status:
            self._study.tell(trial, state=TrialState.PRUNED)
        elif job.status != DONE:
            self._study.tell(trial, state=TrialState.FAIL)
        elif isinstance(value, int | float) and not math.isnan(value):
            self._study.tell(trial, float(value))
        else:
            self._study.tell(trial, state=TrialState.FAIL)
            raise SweepError(f"a job must return a number for the sweeper, but {job.folder} returned {value!r}")


def open_study(storage: str | None, name: str, direction: str, sampler: Any, pruner: Any, folder: Path) -> optuna.Study:
    """The study, as it was left if there is one."""
    if direction not in ("minimize", "maximize"):
        raise SweepError(f"hydra.sweeper.direction={direction} is not known; use minimize or maximize")
    folder.mkdir(parents=True, exist_ok=True)
    place: str | BaseStorage = storage or JournalStorage(JournalFileBackend(str(folder / LOG)))
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=place,
            study_name=name,
            direction=StudyDirection[direction.upper()],
            sampler=sampler,
            pruner=pruner or optuna.pruners.NopPruner(),
            load_if_exists=True,
        )
        if study.get_trials(deepcopy=False):
            study.sampler.reseed_rng()  # or it would think of the same trials again
        return study
    finally:
        optuna.logging.set_verbosity(before)


def best_of(study: optuna.Study) -> FrozenTrial | None:
    """The best trial so far; None: none is complete."""
    with suppress(ValueError):
        return study.best_trial
    return None


def write_best(best: FrozenTrial, folder: Path) -> None:
    """Leave the best trial as Hydra's own sweepers do."""
    content = {"name": "optuna", "best_params": best.params, "best_value": best.value}
    (folder / RESULTS).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
