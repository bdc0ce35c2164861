"""``python -m`` of the workers in a batch job: Dask's own command, with a folder for its files that nobody can enter.

Hydra, when it looks for plugins, imports all modules whose names do not begin with an underscore, and this one needs
``distributed``.
"""

import sys
from pathlib import Path

from distributed.cli.dask_worker import main

from hydra_dask.cluster.scratch import private_folder

FLAG = "--local-directory"


def run(words: list[str]) -> None:
    """Run ``dask worker WORDS``; what is given as the folder for its files becomes the parent of a private one."""
    parent, rest = _taken_out(words)
    with private_folder(parent) as scratch:
        main([*rest, FLAG, scratch], standalone_mode=False)


def _taken_out(words: list[str]) -> tuple[Path | None, list[str]]:
    """The folder that was asked for, and all other words.

    Examples
    --------
    >>> _taken_out(["tls://head:1", "--local-directory", "/scratch", "--nanny"])
    (PosixPath('/scratch'), ['tls://head:1', '--nanny'])
    """
    if FLAG not in words:
        return None, words
    at = words.index(FLAG)
    return Path(words[at + 1]), words[:at] + words[at + 2 :]


if __name__ == "__main__":
    run(sys.argv[1:])
