"""From Hydra's composed configuration to settings."""

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from dtoken.config.loader import GROUPS, check_once
from dtoken.config.settings import Settings, settings_from
from dtoken.errors import InputError
from hydra_dask.plain import resolved


def settings_of(config: DictConfig, hydra: Any = None) -> Settings:
    """The settings that a composed configuration stands for; ``hydra`` is its ``hydra`` node, where it is apart."""
    hydra = config.hydra if hydra is None else hydra
    words = resolved(hydra.overrides.task)
    _check_choices(words)
    check_once(words)
    values: dict[str, Any] = {
        key: resolved(node) for key, node in config._value().items() if isinstance(key, str) and key != "hydra"
    }
    given = [override.lstrip("+~").partition("=")[0] for override in words]
    return settings_from(values, resolved(hydra.runtime.choices), given)


def settings_to_run(config: DictConfig, hydra: Any = None) -> Settings:
    """The same for a configuration that is to be run."""
    if config.theory == "only":
        raise InputError("theory=only is in a configuration file; give it on the command line")
    if (config.hydra if hydra is None else hydra).job.chdir:
        raise InputError(
            "hydra.job.chdir=true would make relative paths mean something else; leave it out: a run writes into its "
            "own directory in any case"
        )
    return settings_of(config, hydra)


def _check_choices(words: Sequence[str]) -> None:
    """Refuse several options where a run has one: Hydra would mix their keys."""
    for word in words:
        group, _, value = word.partition("=")
        if group in GROUPS and value.startswith("["):
            listed = value.strip("[]").replace(" ", "")
            first = listed.partition(",")[0]
            raise InputError(
                f"{word} chooses several options for one run; write {group}={first}, or with -m {group}={listed} to "
                "run each"
            )
