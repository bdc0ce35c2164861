"""A shell on the login machine of a batch system: ``python -m tests.batch slurm`` (or sge, oar) ``[COMMAND...]``."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.batch.machines import LOGIN
from tests.batch.oar import Oar
from tests.batch.sge import GridEngine
from tests.batch.slurm import Slurm
from tests.batch.system import System, at_work

KINDS: dict[str, type[System]] = {kind.kind: kind for kind in (Slurm, GridEngine, Oar)}  # type: ignore[type-abstract]


def main(name: str = "slurm", *words: str) -> int:
    """Run a command, or a shell, as Ann."""
    reason = KINDS[name].missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with at_work(KINDS[name], Path(folder, "compiled")) as system:
            home = system.site.home("ann")
            return subprocess.call(system.site.words(LOGIN, "ann", words or ("bash", "-i"), home))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
