"""The methods by name: file name = config name = registry name.

A file of this package is a method if it has a class that is called like the file (``name = "tvr"`` in ``tvr.py``):
nothing else has to be told of it. Files are read as text, and loaded when the method is first used, because its kernels
take a while to load.
"""

import re
from pathlib import Path
from typing import Any

from dtoken.errors import InputError
from dtoken.problem.own import imported
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

    Examples
    --------
    >>> method_class("tvr").__name__
    'TVR'
    """
    if "." in name:
        return imported(name, "algorithm._target_")
    if name not in METHODS:
        raise InputError(f"algorithm={name} is not known; {use_one_of(name, METHODS)}")
    return imported(f"dtoken.algorithms.{name}.{METHODS[name]}", "algorithm._target_")


def method_name(target: str) -> str:
    """What a method is called, by its name or its class.

    Examples
    --------
    >>> method_name("dtoken.algorithms.gt_saga.GTSAGA"), method_name("my_methods.WalkSAGA")
    ('gt_saga', 'walksaga')
    """
    module, _, name = target.rpartition(".")
    stem = module.rpartition(".")[2]
    return stem if METHODS.get(stem) == name else name.lower()
