"""Hydra's own complaints about a command line, as the one sentence that every command of dtoken gives."""

import re
from collections.abc import Callable, Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from dtoken.errors import InputError
from dtoken.text import closest, use_one_of

Options = Callable[[str], Sequence[str]]  # of a config group


def complaint(error: Exception, options: Options, keys: Sequence[str]) -> InputError:
    """The sentence for an exception of Hydra.

    Parameters
    ----------
    error
        What Hydra raised.
    options
        The options of a config group.
    keys
        The keys of the root.
    """
    text = str(error)
    if isinstance(error, OverrideParseException):
        if "=" not in error.override:
            return InputError(f"{error.override} is not of the form KEY=VALUE")
        reason = _one_line(text.partition("\n")[2].partition("See http")[0])
        return InputError(f"{error.override} cannot be understood: {reason}; quote it, as in KEY='VALUE'")
    if isinstance(error, MissingConfigException) and (found := re.search(r"Could not find '(.+)/([^/']*)'", text)):
        return _unknown_option(found[1], found[2], options(found[1]))
    if found := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(found[1], options, keys)
    if found := re.search(r"An item is already at '([^']+)'", text):
        return InputError(f"{found[1]} is a key already; write {found[1]}=VALUE without the +")
    if found := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text):
        key, _, value = found[1].partition("=")
        return InputError(f"{found[1]} has several values; add -m to run them all, or write {key}=[{value}] for a list")
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        text = f"{text} {cause}"
    return InputError(_one_line(text))


def is_complaint(error: Exception) -> bool:
    """Whether an exception is about what the user wrote."""
    return isinstance(error, HydraException | OmegaConfBaseException)


def _unknown_option(group: str, value: str, known: Sequence[str]) -> InputError:
    return InputError(f"{group}={value} is not known; {use_one_of(value, known, f'{group}=')}")


def _unknown_key(key: str, options: Options, keys: Sequence[str]) -> InputError:
    first = key.partition(".")[0]
    if first in keys:  # a value below something that has no keys
        return InputError(f"{key} is not a key: {first} is a single value")
    close = closest(first, keys)
    hint = f"Did you mean {close}{key[len(first) :]}? " if close else ""
    return InputError(f"{key} is not a key of dtoken. {hint}Keys: {', '.join(keys)}")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".") or "the command line cannot be understood"
