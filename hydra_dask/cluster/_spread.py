"""``python -m`` of a job with several machines: starts a command on each of them, and ends when all have ended.

Batch systems that have no command for that, as SLURM has ``srun``, have one that starts something on one machine. It is
called for each machine in the file that a variable of the environment names; ``--node`` and a number are added.
"""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def hosts(file: Path) -> list[str]:
    """The machines of a job; the file has one line for each processor."""
    return list(dict.fromkeys(file.read_text().split()))


def run(words: list[str]) -> int:
    """``VARIABLE COMMAND... -- WORDS...``: call ``COMMAND MACHINE WORDS --node NUMBER`` for each machine."""
    at = words.index("--")
    variable, *remote = words[:at]
    command = [shlex.quote(word) for word in words[at + 1 :]]  # some have a shell on the other side
    started = [
        subprocess.Popen([*remote, host, *command, "--node", str(number)])
        for number, host in enumerate(hosts(Path(os.environ[variable])))
    ]

    def pass_on(number: int, _: object) -> None:
        for process in started:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    before = {each: signal.signal(each, pass_on) for each in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT)}
    try:
        return max([process.wait() for process in started], default=0)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
