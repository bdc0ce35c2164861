"""``python -m`` of the workers in a batch job: Dask's own command, with a private folder for its files and its address.

Hydra, when it looks for plugins, imports all modules whose names do not begin with an underscore, and this one needs
``distributed``.
"""

import sys
from pathlib import Path

from distributed.cli.dask_worker import main
from distributed.comm.addressing import get_address_host

from hydra_dask.cluster.address import own_address
from hydra_dask.cluster.scratch import private_folder

FLAG = "--local-directory"


def run(words: list[str]) -> None:
    """Run ``dask worker WORDS``; the folder that is given for its files becomes the parent of a private one.

    Unless an interface is given, it is reached by the address from which it reaches the scheduler.
    """
    parent, rest = _taken_out(words)
    if not {"--host", "--interface"} & set(rest):
        scheduler = get_address_host(rest[0])
        rest += ["--host", own_address(scheduler)]
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
