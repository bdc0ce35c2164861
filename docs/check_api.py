"""Check docs/api.md: each name can be imported as it stands there and has a docstring, and so have its members.

mkdocs checks the rest when it builds the page: parameters that a docstring names but a signature does not have, and
references that lead nowhere.
"""

import inspect
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import dtoken

PAGE = Path(__file__).with_name("api.md")
NAME = re.compile(r"^::: (\S+)$", re.MULTILINE)


def faults(page: str) -> list[str]:
    """One sentence for each name that is missing on ``page``, unknown, or without a docstring."""
    names = NAME.findall(page)
    public = (f"dtoken.{name}" for name in dtoken.__all__ if not name.startswith("__"))
    found = [f"{name} is public, but not on the page" for name in public if name not in names]
    for name in names:
        try:
            thing = pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            found.append(f"{name} cannot be imported")
            continue
        found += [f"{each} has no docstring" for each in undocumented(name, thing)]
    return found


def undocumented(name: str, thing: Any) -> list[str]:
    """Names of those that have no docstring: ``thing``, and what it defines itself."""
    found = [] if has_docstring(thing) else [name]
    if inspect.isclass(thing):
        own = {key: value for key, value in vars(thing).items() if not key.startswith("_")}
        members = {key: value for key, value in own.items() if callable(value) or inspect.isdatadescriptor(value)}
        found += [f"{name}.{key}" for key, value in members.items() if not has_docstring(value)]
    return found


def has_docstring(thing: Any) -> bool:
    """Whether one was written; dataclasses make up a signature for those who do not write one."""
    text = getattr(thing, "__doc__", None) or ""
    made_up = inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
    return bool(text.strip()) and not made_up


def main() -> int:
    """Check the page; the exit status says whether all is well."""
    page = PAGE.read_text(encoding="utf-8")
    found = faults(page)
    print("\n".join(found) or f"{len(NAME.findall(page))} names of the API, all documented")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
