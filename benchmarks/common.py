"""What the benchmarks share: options, timing, a table of figures with their targets."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil


def arguments(description: str | None, folder: bool = False) -> argparse.Namespace:
    """Options of a benchmark; ``folder``: it makes data that may be kept."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    if folder:
        parser.add_argument("--folder", type=Path, help="keep the data here for the next time")
    return parser.parse_args()


def environment(**more: str) -> dict[str, str]:
    """The variables of a command that is measured: modules of Python are kept compiled, as they are for users."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more


def skip(options: argparse.Namespace, reason: str) -> None:
    """Say why nothing can be measured here, also to the suite."""
    print(f"skipped: {reason}")
    if options.json:
        options.json.write_text(json.dumps({"skipped": reason}))


def best(work: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of several times."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def in_turns(times: int, **work: Callable[[], float]) -> dict[str, float]:
    """The fewest seconds of each, taking turns: what disturbs the machine disturbs all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(times):
        for name, function in work.items():
            seconds[name].append(function())
    return {name: min(taken) for name, taken in seconds.items()}


def describe_machine() -> str:
    """Processor, cores, memory and software, in a line."""
    cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "distributed", "zarr"))
    python = f"Python {platform.python_version()}"
    return f"{processor_name()}, {cores} cores, {memory:.0f} GiB, {platform.system()}, {python}, {versions}"


def processor_name() -> str:
    """The processor's own name where the system tells it, otherwise its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Figures:
    """Measured numbers with their targets."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rows: list[dict[str, object]] = []

    def add(
        self, name: str, value: float, unit: str, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Note a figure, and print it at once."""
        target = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}" if at_most is not None else ""
        met = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        self._rows.append({"figure": name, "value": value, "unit": unit, "target": target, "met": met})
        verdict = "" if not target else "met" if met else "missed"
        print(f"| {name:<51} | {value:>9.3g} {unit:<17} | {target:<8} | {verdict:<6} |", flush=True)

    def show(self) -> None:
        """Write the figures to the file that was asked for."""
        machine = describe_machine()
        print(f"size {self._options.size}; {machine}; load {os.getloadavg()[0]:.1f}")
        if self._options.json:
            content = {
                "size": self._options.size,
                "machine": machine,
                "date": time.strftime("%d %B %Y").lstrip("0"),
                "figures": self._rows,
            }
            self._options.json.write_text(json.dumps(content, indent=2))
