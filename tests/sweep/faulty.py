"""A method that goes wrong in every way, for sweeps of dtoken: algorithm._target_=faulty.Faulty.

Each start leaves a line in the file ``ran``. A run that is ``gated`` stops after a dozen records until there is a file
``ran.go``.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtoken.algorithms.tvr import TVR
from dtoken.sweep.progress import ProgressFile

RAN = os.environ["DTOKEN_TEST_RAN"]


@dataclass(frozen=True)
class Faulty(TVR):
    what: str = "ok"

    def constants(self, facts: Any) -> Any:
        with open(RAN, "a") as file:
            file.write(f"{self.what}\n")
        match self.what.rstrip("0123456789"):
            case "raise":
                raise KeyError("nothing there")
            case "exit":
                os._exit(7)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "memory":
                hoard = []
                while True:
                    hoard.append(bytearray(b"x" * 2**25))
                    time.sleep(0.02)
            case "hang":
                time.sleep(600)
        constants = super().constants(facts)
        if self.what == "diverge":
            constants = constants._replace(rho_comm=constants.rho_comm * 40)
        return constants


tell = ProgressFile.record


def record(self: Any, measured: Any) -> None:
    tell(self, measured)
    gated = "gated" in Path(self._path).parent.joinpath(".hydra/overrides.yaml").read_text()
    while gated and measured.passes >= 12 and not os.path.exists(f"{RAN}.go"):
        time.sleep(0.05)


ProgressFile.record = record  # type: ignore[method-assign]
