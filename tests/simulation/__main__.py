"""Inject faults by the thousand into simulated runs, and check that nothing is ever wrong.

``python -m tests.simulation --faults 10000 --seed 0`` (``make simulate``); a trial that fails is reduced, and
``--replay SEED`` repeats it exactly, with everything that happens in it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count

from tests.simulation.shrink import shrink
from tests.simulation.trial import Told, draw_plan, run_trial

FAULTS = 30  # of each trial, at most: a run may end before


def campaign(faults: int, seed: int, each: int = FAULTS) -> Iterator[Told]:
    """Trials of consecutive seeds until so many faults were injected, or something is wrong."""
    injected = 0
    for number in count(seed):
        told = run_trial(draw_plan(number, each))
        injected += told.injected
        yield told
        if injected >= faults or told.violation:
            return


def explain(told: Told) -> str:
    """What is wrong, with the fewest faults for which it is."""
    reduced = shrink(told.plan, lambda plan: run_trial(plan).violation is not None)
    last = run_trial(reduced, keep_trace=True)
    lines = [
        f"seed {told.plan.seed}: {told.violation}",
        f"{told.plan.method}, {told.plan.workers} workers, {told.plan.machines} machines, {told.plan.threads} threads, "
        f"transport {told.plan.transport}",
        f"{len(reduced.faults)} of {len(told.plan.faults)} faults are enough: {last.violation}",
        *(f"  {fault}" for fault in reduced.faults),
        "the last things that happened:",
        *(f"  {line}" for line in last.trace[-40:]),
        f"python -m tests.simulation --replay {told.plan.seed} shows everything",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial; the next one has the next seed")
    parser.add_argument("--each", type=int, default=FAULTS, help="faults of one trial, at most")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one trial, with everything that happens")
    asked = parser.parse_args()
    if asked.replay is not None:
        told = run_trial(draw_plan(asked.replay, asked.each), keep_trace=True)
        print("\n".join(told.trace))
        print(f"{told.fingerprint}: {told.violation or 'nothing is wrong'}")
        sys.exit(told.violation is not None)
    began, busy = time.monotonic(), time.process_time()
    trials, injected, recoveries, virtual, kinds = 0, 0, 0, 0.0, Counter[str]()
    for told in campaign(asked.faults, asked.seed, asked.each):
        trials, injected, recoveries = trials + 1, injected + told.injected, recoveries + told.recoveries
        virtual, kinds = virtual + told.virtual, kinds + Counter(told.kinds)
        if told.violation:
            print(explain(told))
            sys.exit(1)
    seconds, busy = time.monotonic() - began, time.process_time() - busy
    print(", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    print(
        f"{trials} runs, {injected} faults, {recoveries} recoveries, {virtual:.0f} s of their time in {seconds:.0f} s "
        f"({busy:.0f} s of a processor): nothing was wrong (seeds from {asked.seed})"
    )


if __name__ == "__main__":
    main()
