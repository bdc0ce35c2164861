"""Hydra's own complaints about a command line, as the one sentence that every command of dtoken gives."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from dtoken.config.loader import GROUPS
from dtoken.config.values import below
from dtoken.errors import InputError
from dtoken.text import closest, command, use_one_of

KEYS_OF_OPTION = r"(\w+)(?:[{(]([^{}()]*)[})]|:(\w+=[^,]*))"  # as others would write what a colon does here
Options = Callable[[str], Sequence[str]]  # of a config group
Composed = Callable[[], Mapping[str, Any]]  # the configuration without what is wrong


def complaint(error: Exception, options: Options, keys: Sequence[str], composed: Composed = dict) -> InputError:
    """The sentence for an exception of Hydra.

    Parameters
    ----------
    error
        What Hydra raised.
    options
        The options of a config group.
    keys
        The keys of the root.
    composed
        Gives the configuration that there would be without what the user wrote.
    """
    text, cause = str(error), error.__cause__
    if isinstance(cause, InputError):  # of a class that the command line names
        return cause
    if found := re.search(r"Error locating target '([^']+)'.*full_key: (\S+)", text, re.DOTALL):
        return _not_found(found[1], found[2])
    if isinstance(error, OverrideParseException):
        if "=" not in error.override:
            return InputError(f"{error.override} is not of the form KEY=VALUE")
        return _not_understood(error.override)
    if isinstance(error, MissingConfigException) and (found := re.search(r"Could not find '((.+)/([^/']*))'", text)):
        if found[1].startswith("data/") and Path(file := found[1].removeprefix("data/")).exists():
            return _file_of_data(file)
        return _unknown_option(found[2], found[3], options(found[2]))
    if found := re.search(r"Could not override '([^']+)'", text):
        if known := options(found[1]):
            return _not_yet(found[1], text, known)
        return _unknown_key(found[1], keys, composed)
    if found := re.search(r"An item is already at '([^']+)'", text):
        return InputError(f"{found[1]} is a key already; write {found[1]}=VALUE without the +")
    if found := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text):
        key, _, value = found[1].partition("=")
        several = f"{found[1]} has several values; add -m to run them all"
        return InputError(several if options(key) else f"{several}, or write {key}=[{value}] for a list")
    if isinstance(cause, OmegaConfBaseException):
        text = f"{text} {cause}"
    return InputError(_one_line(text))


def is_complaint(error: Exception) -> bool:
    """Whether an exception is about what the user wrote."""
    return isinstance(error, HydraException | OmegaConfBaseException)


def _unknown_option(group: str, value: str, known: Sequence[str]) -> InputError:
    return InputError(f"{group}={value} is not known; {use_one_of(value, known, f'{group}=')}")


def _file_of_data(file: str) -> InputError:
    kind = "anndata" if Path(file).is_dir() else "npz" if file.endswith(".npz") else "svmlight"
    return InputError(f"data={file} is a file, not a source of data; write data={kind} data.path={file}")


def _not_found(target: str, key: str) -> InputError:
    """A class that cannot be imported."""
    if target.startswith("optuna."):
        return InputError(
            "hydra/sweeper=dask_optuna needs Optuna 4 or later; install it, or dtoken with its extra [optuna]"
        )
    return InputError(f"{key}._target_={target} is not there, or cannot be imported; give module.Class, on PYTHONPATH")


def _not_yet(group: str, text: str, known: Sequence[str]) -> InputError:
    """Of a group no option is chosen yet, so it is not overridden but added."""
    given = re.search(rf"\+{group}=(\S+)", text)
    value = given[1] if given else known[0]
    if value not in known and "," not in value:
        return _unknown_option(f"+{group}", value, known)
    return InputError(f"{group} is not in the configuration yet; write it with a +, as in +{group}={value}")


def _unknown_key(key: str, keys: Sequence[str], composed: Composed) -> InputError:
    first = key.partition(".")[0]
    if first in keys:  # a value below something that has no keys
        return InputError(f"{key} is not a key: {first} is a single value")
    close = closest(first, keys)
    meant = f"{close}{key[len(first) :]}" if close else " or ".join(below(composed(), key))
    hint = f"Did you mean {meant}? " if meant else ""
    return InputError(f"{key} is not a key of dtoken. {hint}Keys: {', '.join(keys)}")


def _with_colons(found: "re.Match[str]") -> str:
    pairs = re.findall(r"(\w+)[=:]([^,:=]+)", found[2] or found[3])
    return found[1] + "".join(f":{name}:{value}" for name, value in pairs)


def _not_understood(override: str) -> InputError:
    """Hydra's grammar ends where a value has brackets or quotes of its own; quotes help, and others for a shell."""
    key, _, value = override.partition("=")
    if key in GROUPS and (own := re.sub(KEYS_OF_OPTION, _with_colons, value)) != value:
        return InputError(f"{override} cannot be understood; an option has keys of its own as in {key}={own}")
    if found := re.fullmatch(r"\[([^\[\]{}\"']+)\]", value):
        quoted = ",".join(f'"{word.strip()}"' for word in found[1].split(","))
        return InputError(
            f"{override} cannot be understood; for a list of words write {command([f'{key}=[{quoted}]'])}"
        )
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    word = command([f"{key}='{escaped}'"])
    return InputError(f"{override} cannot be understood; to take the value as it is, write {word}")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".") or "the command line cannot be understood"
