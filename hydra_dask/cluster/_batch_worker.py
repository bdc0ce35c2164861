"""``python -m`` of the workers in a batch job: Dask's own command, with a private folder for its files and its address.

Hydra, when it looks for plugins, imports all modules whose names do not begin with an underscore, and this one needs
``distributed``.
"""

import os
import sys
from pathlib import Path

from distributed.cli.dask_worker import main
from distributed.comm.addressing import get_address_host

from hydra_dask.cluster.address import own_address
from hydra_dask.cluster.scratch import private_folder

FOLDER, NODE, NAME = "--local-directory", "--node", "--name"


def run(words: list[str]) -> None:
    """Run ``dask worker WORDS``; the folder that is given for its files becomes the parent of a private one.

    Unless an interface is given, it is reached by the address from which it reaches the scheduler. In a job of several
    machines its name ends with the number of its own, which is given, or in the variable that is given.
    """
    parent, rest = _taken_out(words, FOLDER)
    node, rest = _taken_out(rest, NODE)
    if node is not None:
        rest[rest.index(NAME) + 1] += f"-{os.environ.get(node, node)}"
    if not {"--host", "--interface", "--listen-address"} & set(rest):
        scheduler = get_address_host(rest[0])
        rest += ["--host", own_address(scheduler)]
    with private_folder(None if parent is None else Path(parent)) as scratch:
        main([*rest, FOLDER, scratch], standalone_mode=False)


def _taken_out(words: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The word after a flag, if it is there, and all others.

    Examples
    --------
    >>> _taken_out(["tls://head:1", "--local-directory", "/scratch", "--nanny"], "--local-directory")
    ('/scratch', ['tls://head:1', '--nanny'])
    """
    if flag not in words:
        return None, list(words)
    at = words.index(flag)
    return words[at + 1], words[:at] + words[at + 2 :]


if __name__ == "__main__":
    run(sys.argv[1:])
