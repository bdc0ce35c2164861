"""Which job a configuration is of: its number and folder, and a hash of what it computes."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hydra_dask.plain import put, refers, resolved, values

NUMBER = "${hydra.job.num}"  # Hydra's own choice of a folder; to follow it takes a millisecond
PLACEHOLDER = "-"  # for what depends on where and when a job runs


def give_number(config: DictConfig, index: int, directory: str, subdir: str | None = None) -> None:
    """Make ``config`` that of job number ``index`` of the sweep in ``directory``."""
    job, sweep = config.hydra.job, config.hydra.sweep
    put(job, "id", f"{job.name}_{index}")
    put(job, "num", index)
    put(sweep, "dir", directory)
    if subdir is not None:
        put(sweep, "subdir", subdir)


def folder_of(config: DictConfig) -> str:
    """The output directory of a job below that of the sweep."""
    if config.hydra.sweep._get_node("subdir")._value() == NUMBER:
        return str(config.hydra.job.num)
    with _current(config):
        return str(OmegaConf.select(config, "hydra.sweep.subdir"))


def identity(config: DictConfig, ignore: Sequence[str]) -> str:
    """Hash of what a job computes: its resolved configuration without output paths, dates and keys to ``ignore``."""
    nodes = {str(key): node for key, node in config._value().items() if key != "hydra"}
    content = {key: values(node) for key, node in nodes.items()}
    if referring := [key for key, value in content.items() if refers(value)]:
        with _nowhere(config), _current(config), _timeless():
            content |= {key: _followed(nodes[key], content[key]) for key in referring}
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
    found: dict[str, set[str]] = {}
    for words in jobs:
        for word in words:
            key, _, value = word.lstrip("+~").partition("=")
            found.setdefault(key.partition("@")[0].replace("/", "."), set()).add(value)
    return {key for key, different in found.items() if len(different) > 1}


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
    for each in replaced:
        put(*each)
    try:
        yield
    finally:
        for each in before:
            put(*each)


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


def _followed(node: Any, otherwise: Any) -> Any:
    """A node with its interpolations followed; ``otherwise`` if one leads nowhere: a job may never look at it."""
    try:
        return resolved(node)
    except OmegaConfBaseException:
        return otherwise


def _remove(content: dict[str, Any], path: list[str]) -> None:
    for key in path[:-1]:
        content = content.get(key, {})
        if not isinstance(content, dict):
            return
    content.pop(path[-1], None)
