"""What the workers of a run tell at its end: what their time went into."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dtoken.engine.loop.recorder import Record
from dtoken.engine.runner import Tally


def worker_facts(
    tallies: Mapping[str, Tally], faults: int, hop_seconds: Sequence[float], records: Sequence[Record], begun: int
) -> dict[str, Any]:
    """What each worker did, the faults, and what a gradient and a hop took (tau_comp and tau_comm, in seconds).

    ``tau_comp`` is the time in kernels divided by the gradients of single samples, mixing included; ``hop_seconds`` are
    the times of some messages of the size of a token from one worker to another, measured before the first event, and
    ``tau_comm`` is the shortest of them.
    """
    before = max((record.gradients for record in records if record.event <= begun), default=0)
    gradients = records[-1].gradients - before  # the workers counted from here on
    busy = sum(tally.busy for tally in tallies.values())
    waiting = sum(tally.waiting for tally in tallies.values())
    spent = busy + waiting + sum(tally.sending for tally in tallies.values())
    tau_comp = busy / gradients if gradients else None
    tau_comm = min(hop_seconds, default=None)
    return {
        "workers": {name: asdict(tally) for name, tally in tallies.items()},
        "faults": faults,
        "tau_comp": tau_comp,
        "tau_comm": tau_comm,
        "hop_seconds": sorted(hop_seconds),
        "tau_ratio": tau_comm / tau_comp if tau_comm and tau_comp else None,
        "waiting_share": waiting / spent if spent else 0.0,
    }
