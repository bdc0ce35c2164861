"""What a run will take, as far as that is known before its data are read."""

import math
from typing import NamedTuple

from dtoken.config.settings import Settings
from dtoken.errors import InputError, RunError
from dtoken.session.memory_estimate import data_sizes, memory_budget, memory_estimate


class Estimate(NamedTuple):
    """Memory of a process, in bytes, and gradients until the run stops at the latest."""

    memory: float | None  # None: nobody knows before the data are read
    gradients: float | None


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
        return Estimate(None, None)  # the run will say what is wrong
    if need is None or sizes is None:
        return Estimate(None, None)
    budget = memory_budget(settings)
    memory = need.everything if budget is None else min(need.everything, budget)
    passes = settings.stop.passes
    return Estimate(float(memory), None if passes is None else float(math.ceil(passes * sum(sizes[1]))))
