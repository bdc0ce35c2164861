"""What the workers of a run tell at its end: what their time went into."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dtoken.engine.handover import Hops
from dtoken.engine.loop.recorder import Record
from dtoken.engine.runner import Tally


class LinkFacts(NamedTuple):
    """What was measured of the ways between workers."""

    hops: Sequence[float]  # seconds of messages of the size of a token, one way
    sending: float  # of one, those in which no other one of its worker can leave
    seconds: float  # in which events happened


def worker_facts(
    tallies: Mapping[str, Tally], faults: int, link: LinkFacts, records: Sequence[Record], begun: int
) -> dict[str, Any]:
    """What each worker did, the faults, and what a gradient and a hop took (tau_comp and tau_comm, in seconds).

    ``tau_comp`` is the time in kernels divided by the gradients of single samples, mixing included; ``hop_seconds`` are
    the times of some messages of the size of a token from one worker to another, measured before the first event, and
    ``tau_comm`` is the shortest of them. ``computing`` and ``link`` are the shares of the time in which the busiest
    worker computed, and in which its link was full.
    """
    before = max((record.gradients for record in records if record.event <= begun), default=0)
    gradients = records[-1].gradients - before  # the workers counted from here on
    busy = sum(tally.busy for tally in tallies.values())
    waiting = sum(tally.waiting for tally in tallies.values())
    spent = busy + waiting + sum(tally.sending for tally in tallies.values())
    tau_comp = busy / gradients if gradients else None
    tau_comm = min(link.hops, default=None)
    return {
        "hops": {way: sum(getattr(tally, f"hops_{way}") for tally in tallies.values()) for way in Hops._fields},
        "workers": {name: asdict(tally) for name, tally in tallies.items()},
        "faults": faults,
        "tau_comp": tau_comp,
        "tau_comm": tau_comm,
        "hop_seconds": sorted(link.hops),
        "sending_seconds": link.sending,
        "tau_ratio": tau_comm / tau_comp if tau_comm and tau_comp else None,
        "waiting_share": waiting / spent if spent else 0.0,
        "shares": {
            "computing": max((_computed(tally) for tally in tallies.values()), default=0.0),
            "link": max((tally.hops_network for tally in tallies.values()), default=0)
            * link.sending
            / (link.seconds or 1.0),
        },
    }


def _computed(tally: Tally) -> float:
    """Share of the time."""
    spent = tally.busy + tally.waiting + tally.sending
    return tally.busy / spent if spent else 0.0
