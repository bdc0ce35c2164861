"""A billion events on a million nodes: how long they take, whether memory stays flat, and a run that is killed.

    python benchmarks/billion.py [--size small|full] [--json FILE] [--folder DIR]

The problem of million.py on two threads, with a checkpoint every 20 s (small: 10^7 events on 10^4 nodes). A tenth of
the events is run once as a whole, and once killed in the middle and resumed.
"""

import tempfile
from pathlib import Path

from common import Figures, arguments
from million import MB, child, settings

SIZES = {  # nodes, tokens, events
    "small": (10**4, 100, 10**7),
    "full": (10**6, 1000, 10**9),
}
THREADS = {"engine": {"kind": "local", "threads": 2}}


def main() -> None:
    options = arguments(__doc__, folder=True)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as runs:
            measure(figures, folder, Path(runs), *SIZES[options.size])
    figures.show()


def measure(figures: Figures, folder: Path, runs: Path, n: int, tokens: int, events: int) -> None:
    """All figures; data are made first."""
    child(folder, settings(n, tokens, 1000, folder, **THREADS))  # also compiles, and finds the optimum
    given = settings(n, tokens, events, folder, **THREADS, checkpoint={"seconds": 20})
    whole = child(folder, given, runs / "whole")
    figures.add(f"{events:,} events, two threads", whole["total"] / 60, "minutes", at_most=10)
    quick = child(folder, given | {"stop": {"passes": None, "events": events // 50}})
    figures.add("growth of memory over them", (whole["peak"] - quick["peak"]) / MB, "MB", at_most=100)
    part = settings(n, tokens, events // 10, folder, **THREADS, checkpoint={"seconds": 1})
    uncut = child(folder, part, runs / "uncut")
    killed = child(folder, part, runs / "killed", kill_after=0.5)
    resumed = child(folder, part, runs / "killed")
    same = resumed["digest"] == uncut["digest"] and resumed["theta"] == uncut["theta"]
    figures.add("killed in the middle", float(killed), "times", at_least=1)
    figures.add("resumed: other bits", float(not same), "", at_most=0)


if __name__ == "__main__":
    main()
