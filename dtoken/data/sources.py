"""The sources by name: what a user may write in front of a partition."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from dtoken.data.anndata import AnnData
from dtoken.data.bundled import Tiny
from dtoken.data.files import existing_file
from dtoken.data.npz import Npz
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.rows import Source
from dtoken.data.svmlight import Svmlight
from dtoken.data.synthetic import Synthetic
from dtoken.errors import InputError
from dtoken.text import closest, did_you_mean

NAMED: dict[str, type[Any]] = {"synthetic": Synthetic, "rcv1_like": Rcv1Like, "tiny": Tiny}


def open_source(where: str, options: Mapping[str, str] | None = None) -> Source:
    """The source that ``where`` names: one that needs no file, or a file or store by its ending.

    Parameters
    ----------
    where
        ``synthetic``, ``rcv1_like``, ``tiny``, or a path: ``.npz`` (scipy), a folder (anndata zarr), else svmlight
        text.
    options
        The source's parameters as text, e.g. ``{"rows": "1000"}``.

    Examples
    --------
    >>> open_source("synthetic", {"rows": "50"}).name
    'synthetic'
    """
    source: Source
    if where in NAMED:
        source = NAMED[where](**_convert(NAMED[where], where, options or {}))
        return source
    path = Path(os.path.expanduser(where))
    kind = _kind(path, where)
    source = kind(path, **_convert(kind, where, options or {}))
    return source


def _kind(path: Path, where: str) -> type[Any]:
    if os.path.isdir(path):
        return AnnData
    try:
        existing_file(path)
    except InputError as error:
        close = closest(where, NAMED)
        raise InputError(f"{error}; did you mean {close}?" if close else str(error)) from None
    return Npz if path.suffix == ".npz" else Svmlight


def _convert(kind: type[Any], where: str, options: Mapping[str, str]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    allowed = [f.name for f in fields(kind) if f.name not in ("path", "threads")]
    for key in options:
        if key not in allowed:
            hint = did_you_mean(key, allowed)
            raise InputError(f"{key} is not an option of {where}. {hint}Options: {', '.join(allowed) or 'none'}")
    return {key: _value(key, text, hints[key]) for key, text in options.items()}


def _integer(text: str) -> int:
    """An integer, also in the form 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


_READERS: dict[Any, Callable[[str], Any]] = {
    int: _integer,
    float: float,
    str: str,
    Path: lambda text: Path(os.path.expanduser(text)),
}


def _value(key: str, text: str, hint: Any) -> Any:
    """``text`` as the type that ``hint`` says: a type of ``_READERS``, a Literal, or one of them or None."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if NoneType in kinds and text in ("auto", "none"):
        return None
    (kind,) = (kind for kind in kinds if kind is not NoneType)
    if choices := {str(choice): choice for choice in get_args(kind)}:
        if text in choices:
            return choices[text]
        raise InputError(f"{key}={text} is not known; use one of {', '.join(choices)}")
    try:
        return _READERS[kind](text)
    except (ValueError, OverflowError):
        what = "an integer" if kind is int else "a number"
        raise InputError(f"{key}={text} is not {what}") from None
