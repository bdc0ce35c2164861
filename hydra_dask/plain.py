"""Configurations as plain values; ``OmegaConf.to_container`` asks much more of each node, and takes its time."""

from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf


def values(node: Any) -> Any:
    """A node as plain values, interpolations as they are."""
    value = node._value()
    if isinstance(node, DictConfig) and isinstance(value, dict):
        return {key: values(entry) for key, entry in value.items()}
    if isinstance(node, ListConfig) and isinstance(value, list):
        return [values(entry) for entry in value]
    return value


def refers(found: Any) -> bool:
    """Whether there is an interpolation in plain values."""
    if isinstance(found, dict):
        return any(map(refers, found.values()))
    if isinstance(found, list):
        return any(map(refers, found))
    return isinstance(found, str) and "${" in found


def resolved(node: Any) -> Any:
    """A node as plain values, interpolations followed.

    Examples
    --------
    >>> config = OmegaConf.create({"a": [1, "2", None], "b": {"c": "${a}"}})
    >>> resolved(config)
    {'a': [1, '2', None], 'b': {'c': [1, '2', None]}}
    """
    found = values(node)
    if not refers(found):
        return found
    if OmegaConf.is_config(node):
        return OmegaConf.to_container(node, resolve=True)
    return node._dereference_node()._value()


def put(section: Any, key: str | int, value: Any) -> None:
    """Set a value of a section, which may be read-only; ``section.key = value`` takes ten times as long."""
    section._get_node(key)._set_value(value)


def readable(word: str) -> str:
    """A word of the command line without the backslashes that Hydra's sweepers put before colons: it means the same.

    Examples
    --------
    >>> readable("algorithm=tvr\\\\:tokens\\\\:4")
    'algorithm=tvr:tokens:4'
    """
    return word if "'" in word or '"' in word else word.replace("\\:", ":")
