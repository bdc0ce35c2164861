"""token and tvr whose tokens die and fork, against the plain transcription; and where such runs end."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dtoken.algorithms.token import Token
from dtoken.algorithms.tvr import TVR
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.experiment import with_slots
from dtoken.schedule.events import FORK, KINDS, Events
from dtoken.schedule.failures import Failures
from dtoken.schedule.fate import first_state
from dtoken.schedule.stream import start_at
from tests.algorithms.reference import Reference
from tests.algorithms.test_reference import assert_same, reference_of, written_out
from tests.engine.small import Setup, setup, small_shards

FAILURES = Failures(token=0.004, burst=2, burst_at=300, control="decafork", learn=100, below=1.9)
METHODS: dict[str, Any] = {"token": Token(tokens=4, start="zero"), "tvr": TVR(tokens=4, start="zero")}


def failing(method: Any, count: int) -> tuple[Setup, LocalEngine, Events]:
    """A method, an engine with room for tokens to come, and its first events."""
    case = setup(small_shards(), method, seed=2)
    schedule = replace(case.schedule, failures=FAILURES)
    start = start_at(np.arange(8, dtype=np.int64))._replace(fate=first_state(FAILURES, 4, 8))
    events = next(schedule.segments(start))[0].between(0, count)
    grown = with_slots(method, FAILURES, 8)
    return case, LocalEngine(grown, case.constants, case.shards, case.problem.loss), events


def follow(reference: Reference, engine: LocalEngine, events: Events, alive: set[int]) -> np.ndarray:
    """Let the reference do what happens; what came and went, as the sum of the models that were copied, or lost."""
    change = np.zeros(reference.theta.shape[1])
    for (kind, node, sample, token), other in zip(written_out(engine, events), events.other.tolist(), strict=True):
        if kind == "die":
            alive.remove(token)
            change -= reference.tokens[token]
        elif kind == "fork":
            assert other not in alive
            alive.add(other)
            reference.tokens[other] = reference.tokens[token]
            change += reference.tokens[token]
        else:
            assert token < 0 or token in alive
            reference.happen(kind, node, sample, token)
    return change


@pytest.mark.parametrize("name", METHODS)
def test_replay_agrees_and_the_dual_sum_moves_by_what_was_copied_and_lost(name: str) -> None:
    case, engine, events = failing(METHODS[name], 8000)
    reference = reference_of(case)
    d = reference.theta.shape[1]
    reference.tokens, reference.x = np.zeros((8, d)), np.zeros((reference.n, 8, d))
    alive, moved = set(range(4)), np.zeros(d)
    with engine:
        for first in range(0, events.size, 2000):
            stretch = events.between(first, first + 2000)
            engine.run(stretch)
            moved += follow(reference, engine, stretch, alive)
            assert_same(engine, reference)
            living = reference.tokens[sorted(alive)]
            gradients = sum(reference.gradient(i) for i in range(reference.n))
            total = reference.sigma_t * (reference.theta.sum(axis=0) + living.sum(axis=0)) + gradients
            np.testing.assert_allclose(total, reference.sigma_t * moved, atol=1e-12)
    assert np.count_nonzero(events.kind == FORK) > 2
    assert {"die", "fork"} <= {KINDS[kind] for kind in events.kind}
