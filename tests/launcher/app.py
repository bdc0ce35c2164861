"""A small Hydra application whose jobs go wrong in every way; each start of a job leaves a line in the file ``ran``."""

import os
import signal
import sys
import time

import hydra
from omegaconf import DictConfig

from hydra_dask.stopping import asked_to_stop


def started(cfg: DictConfig) -> None:
    with open(cfg.ran, "a") as file:
        file.write(f"{cfg.what}\n")


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.05)


@hydra.main(version_base="1.3", config_path=None, config_name=None)
def main(cfg: DictConfig) -> float:
    started(cfg)
    print("a job prints", cfg.what)
    match cfg.what.rstrip("0123456789"):
        case "raise":
            raise ValueError("no such thing")
        case "exit":
            os._exit(7)
        case "quit":
            sys.exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            signal.raise_signal(signal.SIGSEGV)  # in this thread, before the next line
        case "memory":
            hoard = []
            while len(hoard) < 50:
                hoard.append(bytearray(b"x" * 2**24))
                time.sleep(0.02)
            time.sleep(600)
        case "fill":  # memory that is no process's own: nobody but the system sees it
            with open(f"/dev/shm/{cfg.what}-{os.getppid()}", "wb", buffering=0) as file:
                os.unlink(file.name)
                for _ in range(128):
                    file.write(bytes(2**24))
            raise RuntimeError("nobody has noticed two gigabytes")
        case "hang":
            time.sleep(600)
        case "once" if not os.path.exists(f"{cfg.ran}.once"):  # a worker that dies under a healthy job
            open(f"{cfg.ran}.once", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        case "keeps":
            while not os.path.exists(f"{cfg.ran}.go"):
                if asked_to_stop():
                    with open(cfg.ran, "a") as file:
                        file.write("kept\n")
                    raise KeyboardInterrupt
                time.sleep(0.05)
        case "slow":
            wait_for(f"{cfg.ran}.go")
    return 0.5


if __name__ == "__main__":
    main()
