"""The methods by name: file name = config name = registry name.

A file of this package is a method if it has a class that is called like the file (``name = "tvr"`` in ``tvr.py``):
nothing else has to be told of it. Files are read as text, and loaded when the method is first used, because its kernels
take a while to load.
"""

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any

from dtoken.errors import InputError
from dtoken.text import use_one_of

CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def find_methods(folder: Path) -> dict[str, str]:
    """The methods in the files of a folder: the class of each, by name."""
    found = {}
    for file in sorted(folder.glob("*.py")):
        before, named, _ = file.read_text(encoding="utf-8").partition(f'\n    name = "{file.stem}"\n')
        if named:
            found[file.stem] = CLASS.findall(before)[-1]
    return found


METHODS: dict[str, str] = find_methods(Path(__file__).parent)


def method_class(name: str) -> type[Any]:
    """The class of a method: one of the registry, or ``package.module.Class`` of the user's own.

    The user's own may lie in the current directory, which is looked at last, and for this alone.

    Examples
    --------
    >>> method_class("tvr").__name__
    'TVR'
    """
    module, _, attribute = name.rpartition(".")
    if not module:
        if name not in METHODS:
            raise InputError(f"algorithm={name} is not known; {use_one_of(name, METHODS)}")
        module, attribute = f"dtoken.algorithms.{name}", METHODS[name]
    elif os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: type[Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"algorithm._target_={name} cannot be imported ({error})") from None
    except Exception as error:  # in the user's own file
        place = extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        raise InputError(
            f"algorithm._target_={name} cannot be imported ({where}: {type(error).__name__}: {error})"
        ) from error
    return found
