"""How busy workers are in a search with unequal jobs: ``python benchmarks/search.py [workers] [jobs]``.

Jobs sleep for 0.5 to 8 s, so that the machine does not matter; their records say from when to when each one ran.
"""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

APP = """
import time, hydra
@hydra.main(version_base="1.3", config_path=None, config_name=None)
def main(cfg):
    time.sleep(0.5 * 2 ** (4 * cfg.x))
    return cfg.x
if __name__ == "__main__":
    main()
"""


def busy(workers: int, jobs: int) -> float:
    """The share of the time, from the first start of a job to the last, that workers were at a job."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        words = ["hydra/launcher=dask", f"hydra.launcher.workers={workers}", "hydra/sweeper=dask_optuna"]
        words += [
            f"hydra.sweeper.n_trials={jobs}",
            "+hydra.sweeper.sampler.n_startup_trials=1000",
            "hydra.sweep.dir=all",
        ]
        subprocess.run([sys.executable, "app.py", "-m", *words, "+x=interval(0,1)"], cwd=folder, check=True)
        found = json.loads((Path(folder) / "all/manifest.json").read_text())["jobs"]
    spans = [tuple(datetime.fromisoformat(job[key]).timestamp() for key in ("started", "ended")) for job in found]
    first, last = min(start for start, _ in spans), max(start for start, _ in spans)  # after it there is nothing to do
    return sum(max(0.0, min(end, last) - start) for start, end in spans) / (workers * (last - first))


if __name__ == "__main__":
    workers, jobs = map(int, sys.argv[1:] or ("4", "40"))
    print(f"{jobs} jobs on {workers} workers: busy {busy(workers, jobs):.1%} of the time")
