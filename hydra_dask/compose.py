"""The configurations of jobs: composed from the same parts as far as they are alike, sent to workers as bytes."""

import copy
import pickle
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hydra_dask.plain import put

MOST_LENT = 16  # configurations that are kept for the next job of their kind


@dataclass(frozen=True)
class _Lent:
    """A configuration that jobs of one kind share, one after the other."""

    config: DictConfig
    words: list[str]  # of the last one
    subdir: Any  # as composed: a job may get a folder of its own


class Compositions:
    """Composes jobs.

    Hydra takes tens of milliseconds for each. Jobs that differ in values alone, not in their choice of configuration
    groups, share all that Hydra does before it sets values: only that is done for each of them.
    """

    def __init__(self, context: HydraContext, config: DictConfig) -> None:
        self._loader: Any = context.config_loader
        self._config = config
        self._bases: dict[tuple[str, ...], bytes] = {}  # by the words that choose groups
        self._lent: dict[tuple[str, ...], _Lent] = {}  # by those words, and the keys that get values
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
        self._set(config, [one for one in overrides if not self._is_group(one)])
        task = config.hydra.overrides.task
        task.clear()
        for word in words:
            task.append(word)
        _name(config, overrides)
        return config

    def borrow(self, words: Sequence[str]) -> DictConfig:
        """The same to look at only, and to give a number to: the next call may change it.

        Jobs that give values to the same keys take the same configuration one after the other.
        """
        overrides = [self._parsed(word) for word in words]
        if any(self._is_special(one) or not (self._is_group(one) or _replaces(one)) for one in overrides):
            return self.compose(words)
        pairs = zip(words, overrides, strict=True)
        kind = tuple(word if self._is_group(one) else one.key_or_group for word, one in pairs)
        lent = self._lent.pop(kind, None)
        if lent is None:
            config = self.compose(words)
            lent = _Lent(config, list(words), config.hydra.sweep._get_node("subdir")._value())
        else:
            self._turn(lent, words, overrides)
        self._lent[kind] = lent
        if len(self._lent) > MOST_LENT:
            self._lent.pop(next(iter(self._lent)))  # nobody has asked for it for the longest time
        return lent.config

    def _turn(self, lent: "_Lent", words: Sequence[str], overrides: list[Override]) -> None:
        """Make a configuration that of the next job of its kind."""
        put(lent.config.hydra.sweep, "subdir", lent.subdir)
        changed = [at for at, word in enumerate(words) if word != lent.words[at]]
        if not changed:
            return
        # also what follows the first one, and may be about the same key
        self._set(lent.config, [one for one in overrides[changed[0] :] if not self._is_group(one)])
        for at in changed:
            put(lent.config.hydra.overrides.task, at, words[at])
        _name(lent.config, overrides)
        lent.words[:] = words

    def _set(self, config: DictConfig, overrides: Sequence[Override]) -> None:
        try:
            self._loader._apply_overrides_to_config(overrides, config)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException from error

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


def _replaces(override: Override) -> bool:
    """Whether a word does nothing but put a single value in the place of another."""
    return not override.is_add() and isinstance(override.value(), str | int | float | None)


def _name(config: DictConfig, overrides: list[Override]) -> None:
    naming = config.hydra.job.config.override_dirname
    name = get_overrides_dirname(
        overrides=overrides, kv_sep=naming.kv_sep, item_sep=naming.item_sep, exclude_keys=naming.exclude_keys
    )
    put(config.hydra.job, "override_dirname", name)


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
