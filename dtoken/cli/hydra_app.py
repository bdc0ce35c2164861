"""dtoken as a plain Hydra application: composing a configuration, and running a task in Hydra's output directory.

``hydra.main`` would do the same, but it creates the output directory before a task can look at its settings, reports
errors in its own words, and knows only its own config sources.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, configure_log, run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, read_write

from dtoken.cli.complaints import complaint, is_complaint
from dtoken.config.loader import Loader
from dtoken.config.source import SCHEME, SchemaConfigSource, config_folder
from dtoken.data.files import writing
from dtoken.errors import InputError
from hydra_dask.plain import values

NAME = "dtoken"
QUIET = "hydra.hydra_logging.root.level=WARNING"  # Hydra's own log would be that of all libraries, on the console


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Hydra's command line; options may stand between overrides."""
    parser = get_args_parser()
    parser.prog = NAME
    return parser.parse_intermixed_args(arguments)


class Application:
    """Hydra, set up for one command line."""

    def __init__(self, arguments: argparse.Namespace, hydra: Hydra) -> None:
        self.arguments = arguments
        self.hydra = hydra
        self.config_name: str = arguments.config_name or "config"

    def options(self, group: str) -> list[str]:
        """The options of a config group."""
        return list(self.hydra.config_loader.get_group_options(group))

    def compose(self) -> DictConfig:
        """The configuration of a single run."""
        return self.hydra.compose_config(
            self.config_name, self.arguments.overrides, run_mode=RunMode.RUN, with_log_configuration=False
        )

    def plain(self) -> dict[str, Any]:
        """The configuration of a run for which nothing was asked, as plain values."""
        config = self.hydra.compose_config(self.config_name, [], run_mode=RunMode.RUN, with_log_configuration=False)
        found: dict[str, Any] = values(config)
        return found

    @property
    def sweeps(self) -> bool:
        """Whether several runs are asked for."""
        if self.arguments.multirun:
            return True
        return (self.given("hydra.mode") or "").upper() == "MULTIRUN"

    def run(self, config: DictConfig, task: Callable[[DictConfig], Any]) -> Any:
        """Run ``task`` in the output directory of ``config``; what it raises comes through."""
        with read_write(config.hydra):
            config.hydra.mode = RunMode.RUN
        callbacks = Callbacks(config)
        callbacks.on_run_start(config=config, config_name=self.config_name)
        context = HydraContext(config_loader=self.hydra.config_loader, callbacks=callbacks)
        with writing(output_directory(config)):  # what the task raises does not come from here
            done: JobReturn = run_job(
                hydra_context=context,
                task_function=task,
                config=config,
                job_dir_key="hydra.run.dir",
                job_subdir_key=None,
            )
        callbacks.on_run_end(config=config, config_name=self.config_name, job_return=done)
        if isinstance(done._return_value, Exception):
            raise done._return_value
        return done.return_value

    def given(self, key: str) -> str | None:
        """The last value of a key on the command line."""
        asked = [value for value in self.arguments.overrides if value.startswith(f"{key}=")]
        return asked[-1].partition("=")[2] if asked else None

    def compose_sweep(self, more: Sequence[str] = ()) -> DictConfig:
        """What all runs of the sweep have in common that the command line, and ``more`` overrides, ask for."""
        overrides = [*self.arguments.overrides, *more, "hydra.mode=MULTIRUN"]
        return self.hydra.compose_config(
            self.config_name, overrides, run_mode=RunMode.MULTIRUN, with_log_configuration=False
        )

    def sweep(self, config: DictConfig, task: Callable[[DictConfig], Any]) -> Any:
        """Run ``task`` for all combinations that ``config`` stands for; ``Hydra.multirun`` would compose it again."""
        _check_one_cluster(values(config.hydra.overrides.task))
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        callbacks = Callbacks(config)
        callbacks.on_multirun_start(config=config, config_name=self.config_name)
        context = HydraContext(config_loader=self.hydra.config_loader, callbacks=callbacks)
        sweeper = Plugins.instance().instantiate_sweeper(config=config, hydra_context=context, task_function=task)
        returned = sweeper.sweep(arguments=values(config.hydra.overrides.task))
        callbacks.on_multirun_end(config=config, config_name=self.config_name)
        return returned

    def show(self) -> bool:
        """Do what the options of Hydra ask for that run nothing; False: they ask for nothing of the kind."""
        asked, hydra = self.arguments, self.hydra
        if asked.hydra_help:
            hydra.hydra_help(self.config_name, args_parser=get_args_parser(), args=asked)
        elif asked.cfg:
            hydra.show_cfg(self.config_name, asked.overrides, asked.cfg, asked.package, asked.resolve)
        elif asked.shell_completion:
            hydra.shell_completion(self.config_name, asked.overrides)
        elif asked.info:
            hydra.show_info(asked.info, self.config_name, asked.overrides)
        else:
            return False
        return True


def _hydra(search_path: ConfigSearchPath) -> Hydra:
    """Hydra with our loader, as its ``create_main_hydra2`` makes it."""
    hydra = Hydra(NAME, Loader(search_path))
    GlobalHydra.instance().initialize(hydra)
    return hydra


@contextmanager
def application(arguments: argparse.Namespace, keys: Sequence[str]) -> Iterator[Application]:
    """Set Hydra up, and take it down again; its complaints become InputErrors."""
    version.setbase("1.3")
    Plugins.instance()  # registers Hydra's own config sources
    SourcesRegistry.instance().register(SchemaConfigSource)
    search_path = create_config_search_path(f"{SCHEME}://{arguments.config_path or config_folder()}")
    if arguments.config_dir is not None:
        folder = os.path.abspath(arguments.config_dir)
        if not os.path.isdir(folder):
            raise InputError(f"--config-dir {arguments.config_dir} is not a folder")
        search_path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema"))
    app = Application(arguments, _hydra(search_path))
    with warnings.catch_warnings():
        # conf/hydra/launcher/dask.yaml has the launcher's own options as its schema, and that is what is wanted
        warnings.filterwarnings("ignore", r"\n'hydra/launcher/dask' is validated against ConfigStore")
        try:
            yield app
        except Exception as error:
            if is_complaint(error):
                raise complaint(error, app.options, keys, app.plain) from error
            raise
        finally:
            GlobalHydra.instance().clear()


def _check_one_cluster(words: Sequence[str]) -> None:
    """Refuse several values of a key of the cluster: all runs of a sweep share one."""
    for word in OverridesParser.create().parse_overrides(list(words)):
        if str(word.key_or_group).partition(".")[0] == "cluster" and word.is_sweep_override():
            raise InputError(
                f"{word.input_line} has several values, but the runs of a sweep share one cluster; start several sweeps"
            )


def output_directory(config: DictConfig) -> Path:
    """Hydra's output directory of a single run, which may not exist yet."""
    before = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(config)
    try:
        return Path(str(OmegaConf.select(config, "hydra.run.dir")))
    finally:
        HydraConfig.instance().cfg = before


def sweep_directory(config: DictConfig) -> Path:
    """The directory of the sweep that a configuration of ``compose_sweep`` stands for."""
    return Path(str(config.hydra.sweep.dir))


@contextmanager
def untouched(directory: Path, only_by: type[BaseException] | None = None) -> Iterator[None]:
    """Leave nothing of what Hydra's sweeper and the launcher write before they ask, or before they refuse a sweep.

    Parameters
    ----------
    directory
        Of the sweep.
    only_by
        Do so only if this is raised.
    """
    file = directory / "multirun.yaml"
    before = file.read_bytes() if file.exists() else None
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    records = (directory / ".jobs").exists()
    refused = only_by is None
    try:
        yield
    except BaseException as error:
        refused = refused or isinstance(error, only_by or ())
        raise
    finally:
        if refused:
            _restore(directory, file, before, records, new)


def _restore(directory: Path, file: Path, before: bytes | None, records: bool, new: list[Path]) -> None:
    if before is not None:
        file.write_bytes(before)
    else:
        file.unlink(missing_ok=True)
    if not records:
        for leftover in (directory / ".jobs").glob("driver.*"):
            leftover.unlink()
        new = [directory / ".jobs", *new]
    for folder in new:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
