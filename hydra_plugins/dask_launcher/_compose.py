"""The configurations of jobs: composed once, hashed to their identity, sent to workers as bytes."""

import copy
import hashlib
import json
import pickle
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

PLACEHOLDER = "-"  # for what depends on where and when a job runs


class Compositions:
    """Composes jobs, and remembers what the sweeper has composed when it checked them: that costs most of the time.

    Only bytes are kept, a few kB for each job, and only until the job is launched. Jobs that differ in values alone,
    not in their choice of configuration groups, share all work before these; Hydra would read every file again.
    """

    def __init__(self, context: HydraContext, config: DictConfig) -> None:
        self._loader: Any = context.config_loader
        self._config = config
        self._kept: dict[tuple[str, ...], bytes] = {}
        self._repository: Any = None

    def remember(self) -> None:
        """Keep from now on what is composed."""
        compose, merge = self._loader.load_sweep_config, self._loader._compose_config_from_defaults_list
        merged: dict[str, bytes] = {}

        def remembering(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
            config: DictConfig = compose(master_config, sweep_overrides)
            self._kept[tuple(sweep_overrides)] = packed(config)
            return config

        def merging_once(defaults: list[Any], repo: Any) -> DictConfig:
            choices = repr((defaults, _places(repo)))
            if choices not in merged:
                merged[choices] = pickle.dumps(merge(defaults, _Copies(repo)))
            config: DictConfig = pickle.loads(merged[choices])
            return config

        self._repository, self._loader.repository = self._loader.repository, _ReadOnce(self._loader.repository)
        self._loader._compose_config_from_defaults_list = merging_once
        self._loader.load_sweep_config = remembering

    def stop(self) -> None:
        """Keep nothing any more; the loader is as it was, and can be pickled."""
        if self._repository is not None:
            self._loader.repository, self._repository = self._repository, None
            del self._loader.load_sweep_config, self._loader._compose_config_from_defaults_list

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """The configuration of a job, with its ``hydra`` node."""
        kept = self._kept.pop(tuple(overrides), None)
        if kept is not None:
            return unpacked(kept)
        config: DictConfig = self._loader.load_sweep_config(self._config, list(overrides))
        return config


class _ReadOnce:
    """A repository of configuration files that reads each one only once, for as many jobs as there are."""

    def __init__(self, repository: Any, found: dict[tuple[str, str], Any] | None = None) -> None:
        self._delegate, self._places = repository, _places(repository)
        self._found: dict[tuple[str, str], Any] = {} if found is None else found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._delegate, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_ReadOnce":
        """Hydra copies the repository for every job."""
        return _ReadOnce(copy.deepcopy(self._delegate, memo), self._found)

    def initialize_sources(self, config_search_path: Any) -> None:
        """Take other places, those of ``hydra.searchpath``."""
        self._delegate.initialize_sources(config_search_path)
        self._places = _places(self._delegate)

    def load_config(self, config_path: str) -> Any:
        """A file; the copy protects ours from a loader that puts a schema into it."""
        key = self._places, config_path
        if key not in self._found:
            self._found[key] = self._delegate.load_config(config_path=config_path)
        return copy.copy(self._found[key])


class _Copies:
    """A repository of files to merge: Hydra puts their nodes into what it composes, and later files into them."""

    def __init__(self, repository: Any) -> None:
        self._delegate = repository

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delegate, name)

    def load_config(self, config_path: str) -> Any:
        """A file that may be changed."""
        return copy.deepcopy(self._delegate.load_config(config_path=config_path))


def _places(repository: Any) -> str:
    """Where a repository looks for files."""
    return repr([(source.provider, source.path) for source in repository.get_sources()])


def packed(config: DictConfig) -> bytes:
    """A configuration as a few kB."""
    return zlib.compress(pickle.dumps(config), 1)


def unpacked(content: bytes) -> DictConfig:
    """The configuration again."""
    config: DictConfig = pickle.loads(zlib.decompress(content))
    return config


def give_number(config: DictConfig, index: int, directory: str, subdir: str | None = None) -> None:
    """Make ``config`` that of job number ``index`` of the sweep in ``directory``."""
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.job.id = f"{config.hydra.job.name}_{index}"
        config.hydra.job.num = index
        config.hydra.sweep.dir = directory
        if subdir is not None:
            config.hydra.sweep.subdir = subdir


def folder_of(config: DictConfig) -> str:
    """The output directory of a job below that of the sweep."""
    with _current(config):
        return str(OmegaConf.select(config, "hydra.sweep.subdir"))


def identity(config: DictConfig, ignore: Sequence[str]) -> str:
    """Hash of what a job computes: its resolved configuration without output paths, dates and keys to ``ignore``."""
    with _nowhere(config), _current(config), _timeless():
        content = _container({key: config._get_node(key) for key in config if key != "hydra"})
    for key in ignore:
        _remove(content, key.split("."))
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def swept_keys(jobs: Sequence[Sequence[str]]) -> set[str]:
    """Keys of which the jobs have different values.

    Examples
    --------
    >>> swept_keys([["a=1", "+b.c=1"], ["a=2", "+b.c=1"]])
    {'a'}
    """
    values: dict[str, set[str]] = {}
    for words in jobs:
        for word in words:
            key, _, value = word.lstrip("+~").partition("=")
            values.setdefault(key.partition("@")[0].replace("/", "."), set()).add(value)
    return {key for key, found in values.items() if len(found) > 1}


def not_swept(ignore: Sequence[str], jobs: Sequence[Sequence[str]]) -> list[str]:
    """Keys that do not belong to the identity of these jobs: not those by which they differ.

    Examples
    --------
    >>> not_swept(["engine", "cluster"], [["engine.threads=1"], ["engine.threads=2"]])
    ['cluster']
    """
    swept = swept_keys(jobs)
    return [key for key in ignore if not any(f"{other}.".startswith(f"{key}.") for other in swept)]


@contextmanager
def _nowhere(config: DictConfig) -> Iterator[None]:
    """Let a configuration not know where and as which job it runs; copying it would take longer than all the rest."""
    hydra: Any = config.hydra
    replaced: list[tuple[Any, str, Any]] = [
        (hydra.job, "id", PLACEHOLDER),
        (hydra.job, "num", 0),
        (hydra.sweep, "dir", PLACEHOLDER),
        (hydra.sweep, "subdir", PLACEHOLDER),
        (hydra.run, "dir", PLACEHOLDER),
        (hydra.runtime, "output_dir", PLACEHOLDER),
    ]
    before = [(node, key, node._get_node(key)._value()) for node, key, _ in replaced]  # interpolations as they are
    _assign(hydra, replaced)
    try:
        yield
    finally:
        _assign(hydra, before)


def _assign(hydra: DictConfig, values: Sequence[tuple[Any, str, Any]]) -> None:
    with read_write(hydra), open_dict(hydra):
        for node, key, value in values:
            node[key] = value


@contextmanager
def _current(config: DictConfig) -> Iterator[None]:
    """Let ``${hydra:...}`` mean this configuration."""
    singleton: Any = HydraConfig.instance()
    before = singleton.cfg
    singleton.cfg = config  # set_config would copy it
    try:
        yield
    finally:
        singleton.cfg = before


@contextmanager
def _timeless() -> Iterator[None]:
    """Let ``${now:...}`` mean nothing."""
    resolvers: dict[str, Any] = DictConfig._resolvers
    before = resolvers.pop("now", None)
    OmegaConf.register_new_resolver("now", lambda _pattern: PLACEHOLDER)
    try:
        yield
    finally:
        OmegaConf.clear_resolver("now")
        if before is not None:
            resolvers["now"] = before


def _container(nodes: dict[Any, Any]) -> dict[str, Any]:
    found = {}
    for key, node in nodes.items():
        value = node
        if OmegaConf.is_config(node):
            try:
                value = OmegaConf.to_container(node, resolve=True)
            except OmegaConfBaseException:  # what a job never looks at need not have a value
                value = OmegaConf.to_container(node, resolve=False)
        elif node is not None:
            try:
                value = node._maybe_dereference_node(throw_on_resolution_failure=True)._value()
            except OmegaConfBaseException:
                value = node._value()
        found[str(key)] = value
    return found


def _remove(content: dict[str, Any], path: list[str]) -> None:
    for key in path[:-1]:
        content = content.get(key, {})
        if not isinstance(content, dict):
            return
    content.pop(path[-1], None)
