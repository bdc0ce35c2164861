"""From Hydra's composed configuration to settings."""

from typing import Any

from omegaconf import DictConfig

from dtoken.config.settings import Settings, settings_from
from dtoken.errors import InputError
from hydra_dask.plain import resolved


def settings_of(config: DictConfig, hydra: Any = None) -> Settings:
    """The settings that a composed configuration stands for; ``hydra`` is its ``hydra`` node, where it is apart."""
    hydra = config.hydra if hydra is None else hydra
    values: dict[str, Any] = {
        key: resolved(node) for key, node in config._value().items() if isinstance(key, str) and key != "hydra"
    }
    given = [override.lstrip("+~").partition("=")[0] for override in resolved(hydra.overrides.task)]
    return settings_from(values, resolved(hydra.runtime.choices), given)


def settings_to_run(config: DictConfig, hydra: Any = None) -> Settings:
    """The same for a configuration that is to be run."""
    if config.theory == "only":
        raise InputError("theory=only is in a configuration file; give it on the command line")
    return settings_of(config, hydra)
