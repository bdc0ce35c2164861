"""From Hydra's composed configuration to settings."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from dtoken.config.settings import Settings, settings_from
from dtoken.errors import InputError


def settings_of(config: DictConfig, hydra: Any = None) -> Settings:
    """The settings that a composed configuration stands for; ``hydra`` is its ``hydra`` node, where it is apart."""
    hydra = config.hydra if hydra is None else hydra
    values: dict[str, Any] = {
        key: _plain(config._get_node(key)) for key in config if isinstance(key, str) and key != "hydra"
    }
    given = [override.lstrip("+~").partition("=")[0] for override in hydra.overrides.task]
    return settings_from(values, dict(hydra.runtime.choices), given)


def settings_to_run(config: DictConfig, hydra: Any = None) -> Settings:
    """The same for a configuration that is to be run."""
    if config.theory == "only":
        raise InputError("theory=only is in a configuration file; give it on the command line")
    return settings_of(config, hydra)


def _plain(node: Any) -> Any:
    if OmegaConf.is_config(node):
        return OmegaConf.to_container(node, resolve=True, throw_on_missing=False)
    return node._value() if node is not None else None
