"""Makes the transcript at the end of docs/hpc.md anew: ``python -m tests.batch.transcript``, some minutes.

A sweep is submitted on a real SLURM on emulated machines; a worker's job is cancelled, then the driver's, and the sweep
is resumed. What is typed and printed is put below the heading, in place of what was there.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.batch.machines import LOGIN
from tests.batch.slurm import Slurm
from tests.batch.system import System, at_work
from tests.conftest import ROOT
from tests.waiting import until

PLACE = "/project/me"  # stands for the home directory
PAGE, HEADING = ROOT / "docs/hpc.md", "## Seen on a SLURM\n"
SWEEP = """\
dtoken-sweep submit cluster=slurm cluster.workers=2 cluster.memory=1GB cluster.walltime=00:30:00 \\
    data=rcv1_like data.rows=4000 nodes=8 algorithm=token,tvr algorithm.tokens=2,8 seed=1,2,3 stop.passes=500 \\
    record.every_passes=20 problem.sigma=1e-4 hydra.sweep.dir=/project/me/tokens"""
QUEUE, STATUS = "squeue -o '%.6i %.14j %.2t %.8M %R'", "dtoken-sweep status /project/me/tokens"
FIRST = """
Twelve runs on two workers, on the SLURM of the tests: a login machine and three nodes, emulated
(`python -m tests.batch.transcript` makes this text anew). The sweep is submitted and the shell is closed:
"""
SECOND = """
From another shell, later: the driver is job 1, its workers are 2 and 3. A worker's job is cancelled, and another takes
its place as long as runs wait:
"""
THIRD = """
Then the driver itself is cancelled; its workers go with it. `resume` runs what is missing:
"""


def transcript(system: System) -> str:
    """What is typed and printed."""
    home = system.site.home("ann")

    def typed(command: str) -> str:
        done = system.site.ask(LOGIN, "ann", "bash", "-c", command.replace(PLACE, str(home)), cwd=home)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        lines = [*f"$ {command}".splitlines(), *(done.stdout + done.stderr).rstrip().splitlines()]
        return "".join(f"    {line.rstrip()}\n" for line in lines).replace(str(home), PLACE)

    def done_are(enough: Callable[[int], bool]) -> bool:
        said = system.site.ask(LOGIN, "ann", "dtoken-sweep", "status", "tokens", "--json", cwd=home).stdout
        return said.startswith("{") and enough(json.loads(said)["counts"]["done"])

    text = f"{FIRST}\n{typed(SWEEP)}    $ exit\n"
    until(lambda: done_are(lambda count: count >= 4))
    text += f"{SECOND}\n{typed(QUEUE)}{typed(STATUS)}{typed('scancel 2')}"
    until(lambda: "4" in system.running())
    text += f"{typed(QUEUE)}{typed(STATUS)}"
    text += f"{THIRD}\n{typed('scancel 1')}"
    until(lambda: not system.jobs())
    return text + f"{typed(QUEUE)}{typed(STATUS)}{typed('dtoken-sweep resume /project/me/tokens')}"


def main() -> int:
    """Run it and write the page."""
    reason = Slurm.missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with at_work(Slurm, Path(folder, "compiled")) as system:
            text = transcript(system)
    before, heading, after = PAGE.read_text().partition(HEADING)
    following = re.search(r"^## ", after, re.MULTILINE)
    PAGE.write_text(before + heading + text + (f"\n{after[following.start() :]}" if following else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
