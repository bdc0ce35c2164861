"""The folder ``conf/`` as a Hydra config source whose files need not repeat what dataclasses say.

A file names what it stands for (``_target_`` for a method, ``kind`` for data, graphs and engines); the keys and their
defaults come from the class, loaded when Hydra reads the file. Keys that Hydra does not find are left to
``dtoken.config.settings``, whose messages know the close ones.
"""

from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

from dtoken.config.values import NOT_GIVEN, defaults, plain

SCHEME = "dtoken"


def config_folder() -> Path:
    """Where the configuration files are: inside the installed package, or beside it in a source tree."""
    package = Path(__file__).parent.parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


class SchemaConfigSource(FileConfigSource):
    """Reads ``conf/`` and adds the keys of the classes that its files name."""

    @staticmethod
    def scheme() -> str:
        """The prefix in Hydra's search path."""
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """A file with all its keys."""
        found = super().load_config(config_path)
        if isinstance(found.config, DictConfig):
            name = config_path.removesuffix(".yaml").removesuffix(".yml")
            found.config = _complete(name, found.config)
        return found


def _complete(name: str, config: DictConfig) -> DictConfig:
    group = name.rpartition("/")[0]
    listed = config.pop("defaults") if "defaults" in config else None
    keys = OmegaConf.create(_keys(group, config))
    complete = OmegaConf.merge(config, keys, config)  # what the file says first, also in order
    assert isinstance(complete, DictConfig)
    _open(complete)
    if listed is None:
        return complete
    with_defaults = OmegaConf.merge({"defaults": listed}, complete)
    assert isinstance(with_defaults, DictConfig)
    return with_defaults


def _keys(group: str, config: DictConfig) -> dict[str, Any]:
    """Keys and defaults of what a file stands for."""
    if group == "" and "nodes" in config:  # the primary file
        from dtoken.config.sections import SECTIONS
        from dtoken.data.partition import Partition

        sections = {section: defaults(kind) for section, kind in SECTIONS.items() if section != "schedule"}
        return {"partition": defaults(Partition, hidden=("nodes", "numbers")), **sections}
    if group == "algorithm" and "_target_" in config:
        from dtoken.algorithms.registry import method_class

        return defaults(method_class(config._target_))
    if group == "data" and "kind" in config:
        from dtoken.config.sections import DATA_KEYS, SOURCE_HIDDEN, source_class

        return {**defaults(source_class(config.kind), SOURCE_HIDDEN), **DATA_KEYS}
    if group == "graph" and "kind" in config:
        from dtoken.graph.topologies import parameters

        params = {key: NOT_GIVEN if value is ... else plain(value) for key, value in parameters(config.kind).items()}
        return {"walk": "simple", **params}
    if group == "problem":
        from dtoken.config.sections import Problem

        return defaults(Problem)
    if group == "schedule":
        from dtoken.config.sections import ScheduleSource

        return defaults(ScheduleSource)
    if group == "engine" and "kind" in config:
        from dtoken.config.sections import ENGINES

        return defaults(ENGINES[config.kind])
    if group == "cluster" and "kind" in config:
        from hydra_dask.cluster import CLUSTERS

        return defaults(CLUSTERS[config.kind])
    return {}


def _open(config: DictConfig) -> None:
    """Let Hydra accept unknown keys below this one."""
    for key in config:
        value = config._get_node(key)
        if isinstance(value, DictConfig):
            OmegaConf.set_struct(value, False)
            _open(value)
    OmegaConf.set_struct(config, False)
