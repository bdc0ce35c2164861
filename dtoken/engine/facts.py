"""What an engine tells at the end of a run: how fast it was, and what its time went into."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dtoken.engine.recorder import Record


def engine_facts(engine: Any, records: Sequence[Record]) -> dict[str, Any]:
    """Speed; and for workers what each did, the faults, and what a gradient and a hop took (tau_comp and tau_comm).

    ``tau_comp`` is the time in kernels divided by the gradients of single samples, mixing included; ``tau_comm`` is the
    time of one message of the size of a token from one worker to another, measured before the first event.
    """
    last = records[-1]
    speed = last.event / last.wall if last.wall > 0 else None
    tallies = getattr(engine, "tallies", None)
    if tallies is None:
        return {"kind": "local", "threads": engine.threads, "events_per_second": speed}
    busy = sum(tally.busy for tally in tallies.values())
    waiting = sum(tally.waiting for tally in tallies.values())
    spent = busy + waiting + sum(tally.sending for tally in tallies.values())
    tau_comp = busy / engine.gradients if engine.gradients else None
    return {
        "kind": "dask",
        "workers": {name: asdict(tally) for name, tally in tallies.items()},
        "faults": engine.faults,
        "events_per_second": speed,
        "tau_comp": tau_comp,
        "tau_comm": engine.hop_seconds,
        "tau_ratio": engine.hop_seconds / tau_comp if engine.hop_seconds and tau_comp else None,
        "waiting_share": waiting / spent if spent else 0.0,
    }
