"""For the API reference: parameters that share a description (``loss, sigma``), each with its own type.

griffe, which reads the docstrings for mkdocstrings, would show the type and the default of the first one for all.
"""

import re
from typing import Any

import griffe

SHARED = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*\n?)+)", re.MULTILINE)


def separate(text: str) -> str:
    r"""A numpydoc docstring in which each parameter has its own entry.

    Examples
    --------
    >>> print(separate("Parameters\n----------\nloss, sigma\n    In short.\n\nReturns"))
    Parameters
    ----------
    loss
        In short.
    sigma
        In short.
    <BLANKLINE>
    Returns
    """

    def entries(found: re.Match[str]) -> str:
        return "\n".join(f"{name}\n{found[2].rstrip()}" for name in found[1].split(", ")) + "\n"

    return SHARED.sub(entries, text)


class SeparateParameters(griffe.Extension):
    """What mkdocs.yml names as an extension."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change a docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = separate(obj.docstring.value)
