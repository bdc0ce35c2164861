"""What a run will take, as far as that is known before its data are read."""

import math
from typing import NamedTuple

from dtoken.config.settings import Settings
from dtoken.errors import InputError, RunError
from dtoken.session.duration import gradient_seconds
from dtoken.session.memory_estimate import data_sizes, memory_budget, memory_estimate, reads_a_pass


class Estimate(NamedTuple):
    """Memory of a process, in bytes, and gradients and bytes of rows to read until the run stops at the latest."""

    memory: float | None = None  # None: nobody knows before the data are read
    gradients: float | None = None
    seconds: float | None = None  # that the gradients take on one core, roughly; visits and measurements not counted
    reads: float = 0.0  # beside those of the preparation; 0 where all rows fit into memory


def estimate(settings: Settings) -> Estimate:
    """What one run takes.

    Examples
    --------
    >>> from dtoken.config.settings import make_settings
    >>> estimate(make_settings(data={"kind": "synthetic", "rows": 1000}, stop={"passes": 30})).gradients
    30000.0
    """
    try:
        need, sizes = memory_estimate(settings), data_sizes(settings)
    except (InputError, RunError):
        return Estimate()  # the run will say what is wrong
    if need is None or sizes is None:
        return Estimate()
    budget, passes = memory_budget(settings), settings.stop.passes
    memory = need.everything if budget is None else min(need.everything, budget)
    if passes is None:
        return Estimate(float(memory))
    processes = min(settings.engine.processes(settings.cluster), settings.partition.nodes)
    reads = processes * passes * reads_a_pass(need, need.room(budget))
    _, rows, nonzeros = sizes
    gradients = float(math.ceil(passes * sum(rows)))
    return Estimate(float(memory), gradients, gradient_seconds(gradients, sum(rows), sum(nonzeros)), reads)
