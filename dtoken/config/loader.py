"""Options of a group with keys of their own, as in ``algorithm=tvr:tokens:4,gd``: sweeps as people want to write them.

``tvr:tokens:4:p_comm:0.5`` stands for ``algorithm=tvr algorithm.tokens=4 algorithm.p_comm=0.5``. Hydra's grammar and
shells take it as it is, and so do sweepers, launchers, manifests and folder names: it is one word of one group.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode
from omegaconf import DictConfig

from dtoken.errors import InputError
from hydra_dask.plain import readable

GROUPS = ("data", "problem", "graph", "algorithm", "schedule", "engine", "cluster")  # of each a run has one
CHOICE = re.compile(rf"({'|'.join(GROUPS)})=(['\"]?)(\w+):([^,]+)\2")


class Choice(NamedTuple):
    """An option of a group with keys of its own."""

    group: str
    option: str
    keys: dict[str, str]

    def words(self) -> Iterator[str]:
        """What it stands for."""
        yield f"{self.group}={self.option}"
        yield from (f"{self.group}.{key}={value}" for key, value in self.keys.items())


def choice(word: str) -> Choice | None:
    """The option with keys that a word of the command line chooses, if it does.

    Examples
    --------
    >>> choice("algorithm=tvr:tokens:4:start:zero")
    Choice(group='algorithm', option='tvr', keys={'tokens': '4', 'start': 'zero'})
    >>> choice("algorithm=tvr"), choice("data.path=a:b")
    (None, None)
    """
    found = CHOICE.fullmatch(word)
    if found is None:
        return None
    parts = found[4].split(":")
    if len(parts) % 2:
        raise InputError(f"{word} is not of the form {found[1]}={found[3]}:KEY:VALUE, with a value for each key")
    return Choice(found[1], found[3], dict(zip(parts[::2], parts[1::2], strict=True)))


def expanded(words: Iterable[str]) -> list[str]:
    """Words of a command line, with what such options stand for.

    Examples
    --------
    >>> expanded(["algorithm=tvr:tokens:4", "seed=1"])
    ['algorithm=tvr', 'algorithm.tokens=4', 'seed=1']
    """
    found: list[str] = []
    for word in words:
        chosen = choice(word)
        found += [word] if chosen is None else chosen.words()
    return found


def check_once(words: Sequence[str]) -> None:
    """Refuse a key that an option has and that is given beside it: one of them would be ignored."""
    given = {word.lstrip("+").partition("=")[0]: word for word in words}
    for word in words:
        if (found := choice(word)) is None:
            continue
        for key in found.keys:
            if other := given.get(f"{found.group}.{key}"):
                raise InputError(f"{word} and {other} both set {key}; leave one of them out")


class Loader(ConfigLoaderImpl):
    """Hydra's own, which knows such options."""

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Compose a configuration; what it says of the command line is what was written there."""
        given = [readable(word) for word in overrides]
        words = expanded(given)
        config = super().load_configuration(config_name, words, run_mode, from_shell, validate_sweep_overrides)
        if words != overrides:
            config.hydra.overrides.task = [word for word in given if not word.lstrip("+~").startswith("hydra")]
        return config
