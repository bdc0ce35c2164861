"""What an engine tells at the end of a run: how fast it was, and what its time went into."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dtoken.engine.loop.recorder import Record

if TYPE_CHECKING:
    from dtoken.engine.dask.driver import DaskEngine


def speed(records: Sequence[Record]) -> float | None:
    """Events per second."""
    last = records[-1]
    return last.event / last.wall if last.wall > 0 else None


def worker_facts(engine: "DaskEngine", records: Sequence[Record], begun: int) -> dict[str, Any]:
    """What each worker did, the faults, and what a gradient and a hop took (tau_comp and tau_comm, in seconds).

    ``tau_comp`` is the time in kernels divided by the gradients of single samples, mixing included; ``hop_seconds`` are
    the times of some messages of the size of a token from one worker to another, measured before the first event, and
    ``tau_comm`` is the shortest of them.
    """
    tallies = engine.tallies
    before = max((record.gradients for record in records if record.event <= begun), default=0)
    gradients = records[-1].gradients - before  # the workers counted from here on
    busy = sum(tally.busy for tally in tallies.values())
    waiting = sum(tally.waiting for tally in tallies.values())
    spent = busy + waiting + sum(tally.sending for tally in tallies.values())
    tau_comp = busy / gradients if gradients else None
    tau_comm = min(engine.hop_seconds, default=None)
    return {
        "workers": {name: asdict(tally) for name, tally in tallies.items()},
        "faults": engine.faults,
        "tau_comp": tau_comp,
        "tau_comm": tau_comm,
        "hop_seconds": sorted(engine.hop_seconds),
        "tau_ratio": tau_comm / tau_comp if tau_comm and tau_comp else None,
        "waiting_share": waiting / spent if spent else 0.0,
    }
