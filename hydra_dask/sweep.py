"""The driver of a sweep: check all jobs, see which are done, run the others, say how it went."""

import gc
import os
import pickle
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, configure_log, setup_globals
from hydra.types import HydraContext, TaskFunction
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from hydra_dask.cluster import Cluster, LocalWorkers, fork_server
from hydra_dask.compose import Compositions, unpacked
from hydra_dask.errors import Interrupted, JobDied, NoWorkers, SweepError
from hydra_dask.identity import give_number, swept_keys
from hydra_dask.interrupts import interruptible
from hydra_dask.launcher_options import DaskLauncherConf
from hydra_dask.manifest import DONE, FAILED, RUNNING, TO_DO, WAITING, Job, Manifest, only_driver, read_record
from hydra_dask.options import CLUSTER_KEYS, cluster_of, for_runs, waits, with_logs
from hydra_dask.plain import readable
from hydra_dask.plan import Plan, Planner, discard_records, open_manifest
from hydra_dask.queue_file import QueueFile
from hydra_dask.returned import Returned
from hydra_dask.screen import Screen, closing, opening, say, short, watched

COMPLAINTS_SHOWN = 5


class Trials(Protocol):
    """Thinks of jobs one by one, by what the ones before have come to."""

    def ask(self) -> tuple[int, list[str]] | None:
        """The number and the words of the next job; None: there are no more."""

    def begin(self, number: int, job: Job) -> None:
        """The job of a number is this."""

    def over(self, job: Job, value: Any) -> None:
        """A job is over; ``value`` is what it returned, if it is done."""

    def look(self) -> None:
        """Some time has gone by."""


@dataclass(frozen=True)
class Options:
    """The options of the launcher; ``DaskLauncherConf`` describes them."""

    cluster: Cluster
    timeout: float | None = None
    attempts: int = 2
    on_failure: str = "continue"
    resume: bool = False
    ignore: Sequence[str] = ()
    spread: Sequence[str] = ()
    check: str | None = None
    prepare: str | None = None
    preload: Sequence[str] = ()
    dry_run: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        if self.on_failure not in ("continue", "stop"):
            raise ValueError(f"hydra.launcher.on_failure={self.on_failure} is not known; use continue or stop")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"hydra.launcher.timeout={self.timeout} must be positive, or null for no limit")
        if self.attempts < 1:
            raise ValueError(f"hydra.launcher.attempts={self.attempts} must be at least 1")


def options_of(given: Mapping[str, Any]) -> Options:
    """The options that Hydra gives."""
    values: dict[str, Any] = {
        key: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        for key, value in given.items()
    }
    unknown = sorted(set(values) - {entry.name for entry in fields(DaskLauncherConf)})
    if unknown:
        raise SweepError(f"hydra.launcher.{unknown[0]} is not an option of hydra/launcher=dask")
    more = dict(values.pop("options", None) or {})
    for key, name in CLUSTER_KEYS.items():
        if (value := values.pop(key, None)) is not None:
            more[name] = value
    try:
        cluster = cluster_of(values.pop("cluster", "local"), more)
        return Options(cluster, **values)
    except ValueError as error:
        raise SweepError(str(error)) from error


@dataclass
class Sweep:
    """A sweep, batch by batch."""

    options: Options
    context: HydraContext
    task: TaskFunction
    config: DictConfig
    compositions: Compositions = field(init=False)
    _manifest: Manifest | None = None

    def __post_init__(self) -> None:
        self.compositions = Compositions(self.context, self.config)
        self.compositions.defer()
        if isinstance(self.options.cluster, LocalWorkers) and self.options.dry_run is None:
            fork_server.start(self.options.preload)

    def launch(self, batch: Sequence[Sequence[str]], first: int) -> Sequence[JobReturn]:
        """Run a batch of jobs, whose first has the number ``first``."""
        self.compositions.stop()
        try:
            with _modules_set_aside():
                return self._launch([[readable(word) for word in words] for words in batch], first)
        except ValueError as error:
            raise SweepError(str(error)) from error
        finally:
            self.compositions.defer()  # for the next batch

    def search(self, trials: Trials) -> None:
        """Run jobs that ``trials`` thinks of one by one, whenever a worker has none."""
        self.compositions.stop()
        try:
            with _modules_set_aside(), self._opened() as (manifest, planner, sweep_dir):
                plan = Plan([], [], {}, {}, [], planner.spread_of(self.config))
                manifest.save()
                self._run(manifest, plan, partial(self._next, trials, planner, plan), trials)
                for line in closing(plan.jobs, Path(sweep_dir)):
                    say(line)
        except ValueError as error:
            raise SweepError(str(error)) from error

    def _next(self, trials: Trials, planner: Planner, plan: Plan) -> Job | None:
        """The job of the next trial that is to run; of others what is known is told at once."""
        assert self._manifest is not None
        check = None if self.options.check is None else get_method(self.options.check)
        while (asked := trials.ask()) is not None:
            number, words = asked
            one = planner.plan([[readable(word) for word in words]], number, self.compositions, check)
            (job,) = one.jobs
            plan.jobs.append(job)
            trials.begin(number, job)
            if one.wrong:
                job.status, job.error = FAILED, str(one.wrong[0][1])
                trials.over(job, None)
            elif not one.todo:
                trials.over(job, (read_record(self._manifest.directory, job) or {}).get("value"))
            else:
                plan.todo.append(job)
                plan.configs.update(one.configs)
                return job
        return None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Manifest, Planner, str]]:
        """The manifest and the planner of the sweep directory, of which we are the only driver."""
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        sweep_dir = str(self.config.hydra.sweep.dir)
        directory = Path(sweep_dir).absolute()
        with only_driver(directory):
            manifest = self._manifest or open_manifest(directory, self.options.resume)
            if self._manifest is None and not self.options.resume and self.options.dry_run is None:
                discard_records(directory)
            if self.options.dry_run is None:
                self._manifest = manifest
            yield manifest, self._planner(manifest, sweep_dir), sweep_dir

    def _planner(self, manifest: Manifest, sweep_dir: str) -> Planner:
        options = self.options
        return Planner(manifest, sweep_dir, options.resume, options.ignore, options.spread)

    def _launch(self, batch: Sequence[Sequence[str]], first: int) -> Sequence[JobReturn]:
        if not batch:
            raise SweepError(f"this sweep has no jobs{self._empty()}")
        with self._opened() as (manifest, planner, sweep_dir):
            plan = self._plan(planner, batch, first)
            if self.options.dry_run is not None:
                configs = (unpacked(plan.configs[job.index]) for job in plan.todo)
                cluster = self._cluster(manifest, plan)
                get_method(self.options.dry_run)(plan.jobs, zip(plan.todo, configs, strict=True), cluster)
                return [JobReturn(status=JobStatus.COMPLETED) for _ in plan.jobs]
            manifest.save()
            say(opening(len(plan.jobs), len(plan.todo), Path(sweep_dir), self.options.check is not None))
            values = self._run(manifest, plan) if plan.todo else {}
            if plan.todo:
                for line in closing(plan.jobs, Path(sweep_dir)):
                    say(line)
                if any(job.status in TO_DO for job in plan.jobs):
                    say(self._hint(sweep_dir), "resume")
            return [self._returned(job, words, values, sweep_dir) for job, words in zip(plan.jobs, batch, strict=True)]

    def _empty(self) -> str:
        """Which keys have no values."""
        words = [*self.config.hydra.overrides.task]
        words += [f"{key}={value}" for key, value in (self.config.hydra.sweeper.get("params") or {}).items()]
        found = OverridesParser.create(self.context.config_loader).parse_overrides(words)
        empty = [
            one.input_line for one in found if one.is_sweep_override() and not any(True for _ in one.sweep_iterator())
        ]
        return f": {', '.join(map(str, empty))} has no values" if empty else ""

    def _plan(self, planner: Planner, batch: Sequence[Sequence[str]], first: int) -> Plan:
        """Compose all jobs and let the application look at them before anything happens."""
        check = None if self.options.check is None else get_method(self.options.check)
        plan = planner.plan(batch, first, self.compositions, check, partial(watched, doing="configurations checked"))
        if plan.wrong:
            swept, shown = swept_keys([job.overrides for job in plan.jobs]), plan.wrong[:COMPLAINTS_SHOWN]
            texts = [f"{short(job, swept)}: {error}".removeprefix(": ").rstrip(".") for job, error in shown]
            more = f"; and {len(plan.wrong) - len(shown)} more" if len(plan.wrong) > len(shown) else ""
            count = f"{len(plan.wrong)} of {len(plan.jobs)} jobs cannot run, so nothing was started"
            raise SweepError(f"{count}: {'; '.join(texts)}{more}")
        return plan

    def _run(
        self,
        manifest: Manifest,
        plan: Plan,
        more: Callable[[], Job | None] | None = None,
        trials: Trials | None = None,
    ) -> dict[int, tuple[Any, str | None]]:
        """Run what is to be done; what the jobs returned, by index."""
        with interruptible():
            try:
                if self.options.prepare is not None and plan.todo:
                    kinds = plan.alike.values()
                    prepare = get_method(self.options.prepare)
                    prepare([(unpacked(plan.configs[indices[0]]), len(indices)) for indices in kinds])
                return self._run_on_cluster(manifest, plan, more, trials)
            except BaseException as error:
                for job in plan.todo:
                    if job.status == RUNNING:
                        job.status = WAITING
                if isinstance(error, KeyboardInterrupt | NoWorkers):
                    counts = closing(plan.jobs, manifest.directory)[0]
                    how = "interrupted" if isinstance(error, KeyboardInterrupt) else "stopped"
                    say(f"{how} with {counts}; to go on: {self._hint(str(self.config.hydra.sweep.dir))}")
                if isinstance(error, KeyboardInterrupt):
                    raise Interrupted from None
                raise
            finally:
                manifest.save()

    def _run_on_cluster(
        self, manifest: Manifest, plan: Plan, more: Callable[[], Job | None] | None, trials: Trials | None
    ) -> dict[int, tuple[Any, str | None]]:
        from hydra_dask.pool import NO_WORKER_SECONDS, Pool, Rules
        from hydra_dask.worker import Station, pack

        options, token = self.options, secrets.token_hex(6)
        patience = float("inf") if waits(options.cluster) else NO_WORKER_SECONDS
        rules = Rules(options.timeout, options.attempts, options.on_failure == "stop", patience)
        content = pack(self.context, self.task, self._environment())
        with ExitStack() as stack:
            spread = bool(plan.spread)
            cluster = (
                self._cluster(manifest, plan) if trials is None else with_logs(options.cluster, manifest.directory)
            )
            try:
                connection = stack.enter_context(cluster.open())
            except RuntimeError as error:
                raise SweepError(str(error)) from error
            link = f"   dashboard {connection.dashboard}" if connection.dashboard else ""
            say(connection.text + link, "cluster")
            connection.client.register_plugin(Station(token, content))
            stack.callback(_forget_station, connection.client, f"hydra-launcher-{token}")
            screen = stack.enter_context(Screen(plan.jobs, manifest.directory))
            queue = stack.enter_context(QueueFile(manifest.directory))

            def changed(job: Job | None) -> None:
                if trials is not None and job is None:
                    trials.look()
                elif trials is not None and job is not None and job.index in pool.returned:
                    trials.over(job, pickle.loads(pool.returned[job.index].value) if job.status == DONE else None)
                manifest.save_soon()
                queue.update(connection.jobs())
                if (news := connection.news()) is not None:
                    screen.note(news)
                screen.update()

            pool = Pool(connection.client, token, manifest.directory, rules, plan.configs, changed, connection.trouble)
            pool.fate, pool.note, pool.listens = connection.fate, screen.note, trials is not None
            pool.demand = None if spread else connection.demand
            pool.run(plan.todo, more)
            return {
                index: (pickle.loads(outcome.value), outcome.working_dir) for index, outcome in pool.returned.items()
            }

    def _cluster(self, manifest: Manifest, plan: Plan) -> Cluster:
        """The cluster, with no more workers than its jobs need."""
        cluster = with_logs(self.options.cluster, manifest.directory)
        return for_runs(cluster, len(plan.todo)) if plan.todo and not plan.spread else cluster

    def _environment(self) -> dict[str, str]:
        """Variables of this machine that jobs are to have."""
        return {name: os.environ[name] for name in self.config.hydra.job.env_copy if name in os.environ}

    def _hint(self, sweep_dir: str) -> str:
        hint = self.options.hint
        if hint is not None:
            return hint.format(shlex.quote(sweep_dir))
        again = "" if self.options.resume else " hydra.launcher.resume=true"
        return f"the same command with hydra.sweep.dir={sweep_dir}{again}"

    def _returned(
        self, job: Job, words: Sequence[str], values: Mapping[int, tuple[Any, str | None]], sweep_dir: str
    ) -> JobReturn:
        assert self._manifest is not None
        directory = self._manifest.directory
        value: Any = None
        working_dir = None
        if job.index in values:
            value, working_dir = values[job.index]
        elif job.status == DONE:
            value = (read_record(directory, job) or {}).get("value")
        else:
            value = JobDied(job.error or f"job {job.index} was not started, because of hydra.launcher.on_failure=stop")
        return Returned(
            partial(self._compose_again, list(words), job, sweep_dir),
            job.status == DONE,
            value,
            overrides=job.overrides,
            working_dir=working_dir or str(directory / job.folder),
            task_name=JobRuntime.instance().get("name"),
        )

    def _compose_again(self, words: Sequence[str], job: Job, sweep_dir: str) -> DictConfig:
        config = self.compositions.compose(words)
        give_number(config, job.index, sweep_dir, job.folder)
        OmegaConf.update(
            config, "hydra.runtime.output_dir", str(Path(sweep_dir).absolute() / job.folder), force_add=True
        )
        return config


@contextmanager
def _modules_set_aside() -> Iterator[None]:
    """Keep the garbage collector from what is loaded already: configurations, full of cycles, call it all the time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _forget_station(client: Any, name: str) -> None:
    with suppress(Exception):  # the cluster may be gone
        client.unregister_worker_plugin(name)
