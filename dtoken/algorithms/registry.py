"""The methods by name: file name = config name = registry name."""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from dtoken.errors import InputError

# name -> class; the module is loaded when the method is first used, because its kernels take a while to load
METHODS: dict[str, str] = {
    "token": "Token",
    "tvr": "TVR",
    "tavr": "TAVR",
    "walkman": "Walkman",
    "gd": "GD",
    "extra": "EXTRA",
    "nids": "NIDS",
    "dvr": "DVR",
}


def method_class(name: str) -> type[Any]:
    """The class of a method: one of the registry, or ``package.module.Class`` of the user's own.

    Examples
    --------
    >>> method_class("tvr").__name__
    'TVR'
    """
    module, _, attribute = name.rpartition(".")
    if not module:
        if name not in METHODS:
            close = get_close_matches(name, METHODS, 1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise InputError(f"algorithm={name} is not known. {hint}Methods: {', '.join(METHODS)}")
        module, attribute = f"dtoken.algorithms.{name}", METHODS[name]
    try:
        found: type[Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"algorithm._target_={name} cannot be imported ({error})") from None
    return found
