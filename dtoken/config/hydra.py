"""From Hydra's composed configuration to settings."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from dtoken.config.settings import Settings, settings_from


def settings_of(config: DictConfig) -> Settings:
    """The settings that a composed configuration, with its ``hydra`` node, stands for."""
    hydra = config.hydra
    values: dict[str, Any] = {
        key: _plain(config._get_node(key)) for key in config if isinstance(key, str) and key != "hydra"
    }
    given = [override.lstrip("+~").partition("=")[0] for override in hydra.overrides.task]
    return settings_from(values, dict(hydra.runtime.choices), given)


def _plain(node: Any) -> Any:
    if OmegaConf.is_config(node):
        return OmegaConf.to_container(node, resolve=True, throw_on_missing=False)
    return node._value() if node is not None else None
