"""What bounds a run on several workers, and what would help: said at its end, and before it by ``theory=only``."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dtoken.engine.bounds import Bounds, Costs, bounds
from dtoken.engine.placement import place
from dtoken.engine.settings import DaskSettings
from dtoken.engine.timing import ENTRIES, measure_times
from dtoken.problem.hosted import sizes_only
from dtoken.session.prepare import Prepared
from dtoken.text import count
from hydra_dask.cluster import Jobs

FULL = 0.6  # share of the time from which computing or the link bounds a run: in the rest all wait for tokens
SAMPLE = 200_000  # events that are looked at


class Layout(NamedTuple):
    """What could be changed about a run."""

    nodes: int
    workers: int
    tokens: int | None  # None: the method has no choice
    p_comm: str | float | None  # as it was asked for; None: the method has none


def layout_of(config: Mapping[str, Any], nodes: int, workers: int) -> Layout:
    """From the configuration of a run."""
    algorithm = config["algorithm"]
    return Layout(nodes, workers, algorithm.get("tokens"), algorithm.get("p_comm"))


def what_bounds(computing: float, link: float) -> str:
    """What bounds a run, by the shares of the time in which the busiest worker computed and in which its link was full.

    Examples
    --------
    >>> what_bounds(0.9, 0.2), what_bounds(0.3, 0.8), what_bounds(0.3, 0.2)
    ('computing', 'link', 'schedule')
    """
    if max(computing, link) < FULL:
        return "schedule"
    return "link" if link > computing else "computing"


def advice(bound: str, layout: Layout) -> str:
    """What would help.

    Examples
    --------
    >>> advice("schedule", Layout(nodes=20, workers=2, tokens=4, p_comm="balanced"))
    'more tokens (algorithm.tokens=8), algorithm.p_comm=auto or fewer workers with more threads'
    >>> advice("computing", Layout(nodes=20, workers=2, tokens=4, p_comm="auto"))
    'more workers, or more threads in each'
    >>> advice("computing", Layout(nodes=2, workers=2, tokens=4, p_comm="auto"))
    'more nodes: each computes in one thread'
    """
    if bound == "computing":
        few = layout.workers < layout.nodes
        return "more workers, or more threads in each" if few else "more nodes: each computes in one thread"
    ways = []
    if bound == "schedule" and layout.tokens and layout.tokens < layout.nodes:
        ways.append(f"more tokens (algorithm.tokens={min(2 * layout.tokens, layout.nodes)})")
    if layout.p_comm not in (None, "auto"):
        ways.append("algorithm.p_comm=auto")
    ways.append("fewer workers with more threads")
    if bound == "link":
        ways.append("a graph whose neighbours can be kept together")
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} or {ways[-1]}"


class Way(NamedTuple):
    """How tokens get from worker to worker."""

    name: str
    delay: float  # seconds
    gigabits: float  # a second


MACHINES = tuple(Way(f"{gigabits} Gbit/s", 50e-6, gigabits) for gigabits in (1, 10, 25))
ONE_MACHINE = (Way("workers", 10e-6, math.inf),)  # they share memory


def foresee(prepared: Prepared) -> list[tuple[str, str]]:
    """For a run on several workers, what would bound it: lines with a name; steps are measured on this machine."""
    settings = prepared.settings
    if not isinstance(settings.engine, DaskSettings):
        return []
    cluster, experiment, store = settings.cluster, prepared.experiment, prepared.store
    asked = cluster.size.most if isinstance(cluster, Jobs) else getattr(cluster, "workers", None) or 2
    workers = min(asked, store.n)
    threads = settings.engine.threads or getattr(cluster, "cores", None) or getattr(cluster, "threads", None) or 1
    times = measure_times(experiment, 1, reads=False, entries=ENTRIES)
    _, tokens = experiment.method.states(experiment.constants, sizes_only(store.n, int(store.node_rows.sum()), store.d))
    bits = 8 * sum(array[:1].nbytes for array in tokens)
    host = place(experiment.walk.topology, store.node_nonzeros, [1] * min(workers, store.n)).hosts
    events = next(iter(experiment.schedule.segments(experiment.start)))[0].between(0, SAMPLE)
    layout = layout_of(settings.as_config(), store.n, workers)
    lines = []
    for way in ONE_MACHINE if cluster.kind == "local" or workers == 1 else MACHINES:
        sending = bits / (1e9 * way.gigabits)
        costs = Costs(times.local, times.visit, sending + way.delay, sending)
        least = bounds(events, host, experiment.start.positions, costs, store.node_nonzeros, threads)
        lines.append((way.name, _allowed(least, events.size, layout)))
    return lines


def _allowed(least: Bounds, events: int, layout: Layout) -> str:
    speeds = [f"{name} allows {count(events / bound)}" for name, bound in least._asdict().items() if bound]
    return f"{', '.join(speeds)} events/s: {least.largest} bounds it; {advice(least.largest, layout)} would help"
