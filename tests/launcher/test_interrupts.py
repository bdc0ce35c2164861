"""What the end of a terminal does to a command that runs in it."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from hydra_dask.interrupts import interruptible
from tests.waiting import NEVER, until

COMMAND = """
import sys, time
from pathlib import Path
from hydra_dask.interrupts import interruptible
folder = Path(sys.argv[1])
with interruptible():
    try:
        (folder / "ready").touch()
        time.sleep(600)
    except KeyboardInterrupt:
        print("to nobody", flush=True)
        print("to nobody", flush=True, file=sys.stderr)
        (folder / "clean").touch()
        sys.exit(130)
"""


def test_a_closed_terminal_is_an_interrupt_whose_words_go_nowhere(tmp_path: Path) -> None:
    inside, outside = pty.openpty()
    command = [sys.executable, "-c", COMMAND, str(tmp_path)]
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], stdin=outside, stdout=outside, stderr=outside, close_fds=True
    )
    os.close(outside)
    until((tmp_path / "ready").exists)
    os.close(inside)
    process.wait(NEVER)
    until((tmp_path / "clean").exists)


def test_who_ignores_the_end_of_a_terminal_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
