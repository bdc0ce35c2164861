"""The configurations of jobs: composed once, hashed to their identity, sent to workers as bytes."""

import copy
import hashlib
import json
import pickle
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

PLACEHOLDER = "-"  # for what depends on where and when a job runs


class Compositions:
    """Composes jobs.

    Hydra takes tens of milliseconds for each. Jobs that differ in values alone, not in their choice of configuration
    groups, share all that Hydra does before it sets values: only that is done for each of them.
    """

    def __init__(self, context: HydraContext, config: DictConfig) -> None:
        self._loader: Any = context.config_loader
        self._config = config
        self._bases: dict[tuple[str, ...], bytes] = {}  # by the words that choose groups
        self._words: dict[str, Override] = {}
        self._parser = OverridesParser.create()

    def defer(self) -> None:
        """Let the sweeper not compose jobs in order to check them, in silence: they will be composed all the same."""
        self._loader.load_sweep_config = lambda master_config, sweep_overrides: master_config

    def stop(self) -> None:
        """The loader is as it was, and can be pickled."""
        self._loader.__dict__.pop("load_sweep_config", None)

    def compose(self, words: Sequence[str]) -> DictConfig:
        """The configuration of a job, with its ``hydra`` node."""
        overrides = [self._parsed(word) for word in words]
        if any(self._is_special(override) for override in overrides):
            return self._by_hydra(words)
        config = unpacked(self._base(tuple(word for word in words if self._is_group(self._words[word]))))
        try:
            self._loader._apply_overrides_to_config([one for one in overrides if not self._is_group(one)], config)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException from error
        task = config.hydra.overrides.task
        task.clear()
        for word in words:
            task.append(word)
        naming = config.hydra.job.config.override_dirname
        config.hydra.job.override_dirname = get_overrides_dirname(
            overrides=overrides, kv_sep=naming.kv_sep, item_sep=naming.item_sep, exclude_keys=naming.exclude_keys
        )
        return config

    def _by_hydra(self, words: Sequence[str]) -> DictConfig:
        loader = type(self._loader)  # the instance may be told to do nothing
        config: DictConfig = loader.load_sweep_config(self._loader, self._config, list(words))
        return config

    def _base(self, groups: tuple[str, ...]) -> bytes:
        if groups not in self._bases:
            with self._reading_once():
                self._bases[groups] = packed(self._by_hydra(groups))
        return self._bases[groups]

    def _parsed(self, word: str) -> Override:
        if word not in self._words:
            self._words[word] = self._parser.parse_overrides([word])[0]
        return self._words[word]

    def _is_group(self, override: Override) -> bool:
        return override.key_or_group in self._groups

    def _is_special(self, override: Override) -> bool:
        """Whether more than a value, or the choice of a group, hangs on a word."""
        whole = self._is_group(override) and not isinstance(override.value(), str)
        return whole or override.is_delete() or override.is_sweep_override() or override.is_hydra_override()

    @cached_property
    def _groups(self) -> "_Groups":
        words = OmegaConf.to_container(self._config.hydra.overrides.hydra)  # among them may be where to look for files
        name = self._config.hydra.job.config_name
        return _Groups(self._loader._parse_overrides_and_create_caching_repo(name, words)[1])

    @contextmanager
    def _reading_once(self) -> Iterator[None]:
        """Let the loader read every file only once, for as many choices of groups as there are."""
        repository, merge = self._loader.repository, self._loader._compose_config_from_defaults_list
        self._loader.repository = self._once
        self._loader._compose_config_from_defaults_list = lambda defaults, repo: merge(defaults, _Copies(repo))
        try:
            yield
        finally:
            self._loader.repository = repository
            del self._loader._compose_config_from_defaults_list

    @cached_property
    def _once(self) -> "_ReadOnce":
        return _ReadOnce(self._loader.repository)


class _Groups:
    """The names of configuration groups, looked up once."""

    def __init__(self, repository: Any) -> None:
        self._repository = repository
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = bool(self._repository.group_exists(name))
        return self._known[name]


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
