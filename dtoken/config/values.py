"""From plain values (YAML, the command line, dictionaries) to dataclasses, with a sentence for what does not fit.

The dataclasses are the only schema: their fields are the keys, their defaults the defaults, their types what is
allowed, and their own checks say what is out of range.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dtoken.errors import InputError
from dtoken.text import did_you_mean, use_one_of

T = TypeVar("T")
NOT_GIVEN = "???"  # OmegaConf's mark for a value that has to be given


def defaults(kind: type[Any], hidden: Iterable[str] = ()) -> dict[str, Any]:
    """The keys of a dataclass with their defaults, as YAML has them.

    Examples
    --------
    >>> from dtoken.schedule.clock import TimeModel
    >>> defaults(TimeModel)["tau_comm"]
    1000.0
    """
    found = {}
    for field in fields(kind):
        if field.init and field.name not in hidden:
            factory = field.default_factory
            value = factory() if factory is not MISSING else field.default
            found[field.name] = NOT_GIVEN if value is MISSING else plain(value)
    return found


def plain(value: Any) -> Any:
    """A value as YAML and JSON know it."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def construct(
    kind: Callable[..., T], given: Mapping[str, Any], where: str, name: str, hidden: Iterable[str] = (), **fixed: Any
) -> T:
    """Make a dataclass from the values of one section of a configuration.

    Parameters
    ----------
    kind
        The dataclass.
    given
        Values by key; what is not given keeps its default.
    where
        The section, as in ``algorithm.tokens``.
    name
        What the section stands for, for messages.
    hidden
        Fields that are no keys.
    **fixed
        Values of such fields.

    Examples
    --------
    >>> from dtoken.schedule.clock import TimeModel
    >>> construct(TimeModel, {"tau_com": 2}, "time", "time")
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: time.tau_com is not a key of time. Did you mean time.tau_comp? Keys: tau_comp, ...
    """
    keys = [field.name for field in fields(kind) if field.init and field.name not in hidden]  # type: ignore[arg-type]
    check_keys(given, keys, where, name)
    hints = _hints(kind)
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in keys:
            continue
        required = field.default is MISSING and field.default_factory is MISSING
        value = given.get(field.name, NOT_GIVEN)
        if value != NOT_GIVEN or isinstance(value, bool):
            values[field.name] = typed(f"{where}.{field.name}", value, hints[field.name])
        elif required:
            raise InputError(f"{where}={name} needs {where}.{field.name}; give {where}.{field.name}=VALUE")
    return kind(**values, **fixed)


_hints = cache(get_type_hints)  # evaluates annotations, which takes longer than all the rest


def check_keys(given: Iterable[str], allowed: Sequence[str], where: str, name: str) -> None:
    """Refuse keys that are not allowed, and name the close one and all that there are."""
    for key in given:
        if key not in allowed:
            prefix = f"{where}." if where else ""
            listed = f"Keys: {', '.join(allowed)}" if allowed else "It has none"
            raise InputError(f"{prefix}{key} is not a key of {name}. {did_you_mean(key, allowed, prefix)}{listed}")


def below(config: Mapping[str, Any], key: str) -> list[str]:
    """Where the sections of a configuration have a key that stands at its root by mistake.

    Examples
    --------
    >>> below({"problem": {"sigma": 0.1}, "stop": {"passes": 3}, "seed": 0}, "sigma")
    ['problem.sigma']
    """
    return [f"{section}.{key}" for section, keys in config.items() if isinstance(keys, Mapping) and key in keys]


def typed(key: str, value: Any, hint: Any) -> Any:
    """``value`` as the type ``hint`` says, or a sentence.

    Examples
    --------
    >>> typed("nodes", 8.0, int)
    8
    >>> typed("nodes", "many", int)
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: nodes=many is not an integer
    """
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    for kind in kinds:
        fits, converted = _fit(key, value, kind)
        if fits:
            return converted
    choices = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        raise InputError(f"{key}={show(value)} is not known; {use_one_of(value, choices)}")
    names = [_NAMES.get(get_origin(kind) or kind, str(kind)) for kind in kinds]
    listed = f"is not {names[0]}" if len(names) == 1 else f"is neither {' nor '.join(names)}"
    raise InputError(f"{key}={show(value)} {listed}")


def show(value: Any) -> str:
    """A value as a user would write it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


_NAMES: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    NoneType: "null",
    tuple: "a list",
}


def _fit(key: str, value: Any, kind: Any) -> tuple[bool, Any]:
    """Whether ``value`` is of the type ``kind``, and the value as such."""
    if kind is Any:
        return True, value
    if get_origin(kind) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(kind)), value
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            return False, None
        return True, tuple(typed(f"an entry of {key}", entry, get_args(kind)[0]) for entry in value)
    if isinstance(value, bool):
        return kind is bool, value
    if kind is int and isinstance(value, float) and value.is_integer():
        return True, int(value)  # 1e6
    if kind is float and isinstance(value, int | float):
        return True, float(value)
    if kind is Path and isinstance(value, str | os.PathLike):
        return True, Path(os.path.expanduser(value))
    return isinstance(value, kind), value
