"""Tokens that are lost and forked: how often, when, and by whom, against plain loops over the events."""

import bisect
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from dtoken.errors import InputError
from dtoken.graph import build, walk
from dtoken.schedule.clock import Costs, TimeModel, advance, start_clock
from dtoken.schedule.events import DIE, FORK, MOVE, VISIT, Events, concatenate
from dtoken.schedule.failures import Failures, quantile_of_sum
from dtoken.schedule.fate import first_state, living
from dtoken.schedule.random import bits, uniform
from dtoken.schedule.stream import Drawn, Law, Start, start_at

SEED = 5


def drawn(failures: Failures, n: int, tokens: int, graph: str = "complete", **law: Any) -> tuple[Drawn, Start]:
    options: dict[str, Any] = {"p_visit": 0.5, "p_meet": 0.0} | law
    slots = failures.slots(tokens, n)
    start = start_at(np.arange(slots, dtype=np.int64) * n // slots)
    start = start._replace(fate=first_state(failures, tokens, n))
    return Drawn(
        SEED, Law(tokens, nodes=np.full(n, 1 / n), **options), walk(build(graph, n), "simple"), failures
    ), start


def events_of(schedule: Drawn, start: Start, segments: int = 1) -> Events:
    """The events of the first segments, or of as many as there are."""
    parts = []
    for events, _ in schedule.segments(start):
        parts.append(events)
        if len(parts) == segments:
            break
    return concatenate(parts)


def test_lives_have_the_geometric_law() -> None:
    """A token survives each visit with probability 1 - p: it makes 1 / p on average, so all K make K / p."""
    p, tokens = 0.004, 400
    schedule, start = drawn(Failures(token=p), 1000, tokens)
    events = events_of(schedule, start, 100)
    visits = np.bincount(events.token[events.kind == VISIT], minlength=tokens)
    assert np.count_nonzero(events.kind == DIE) == tokens
    deviation = math.sqrt(1 - p) / p
    assert abs(visits.mean() - 1 / p) < 4 * deviation / math.sqrt(tokens)
    for age in (50, 150, 400):
        share = (1 - p) ** age
        assert abs(np.mean(visits > age) - share) < 4 * math.sqrt(share * (1 - share) / tokens)


def test_tokens_that_are_left_keep_their_pace_and_those_that_are_lost_leave_theirs_free() -> None:
    schedule, start = drawn(Failures(burst=6, burst_at=10_000), 20, 8)
    events = events_of(schedule, start, 2)
    (first, *_, last) = np.flatnonzero(events.kind == DIE)
    assert last - first == 5  # six at once
    before, after = events.between(0, int(first)), events.between(int(last) + 1, events.size)
    assert np.count_nonzero(before.kind == VISIT) == 10_000
    assert set(after.token[after.kind == VISIT]).isdisjoint(events.token[events.kind == DIE])
    paces = [np.count_nonzero(part.kind == VISIT) / (part.at[-1] - part.at[0]) for part in (before, after)]
    assert abs(paces[0] - 0.5) < 0.02
    assert abs(paces[1] - 0.5 * 2 / 8) < 0.01


def test_edges_lose_tokens_on_their_way_and_nodes_swallow_them() -> None:
    p, tokens = 0.02, 60
    schedule, start = drawn(Failures(edge=p), 200, tokens, graph="ring")
    events = events_of(schedule, start, 20)
    lost = np.flatnonzero(events.kind == DIE)
    assert len(lost) == tokens
    assert (events.kind[lost - 1] == MOVE).all()
    assert (events.token[lost - 1] == events.token[lost]).all()
    jumps = np.count_nonzero((events.kind == VISIT) | (events.kind == MOVE))
    assert abs(jumps / tokens - 1 / p) < 4 / p / math.sqrt(tokens)

    schedule, start = drawn(Failures(nodes=(3, 17)), 200, tokens, graph="ring")
    events = events_of(schedule, start, 3)
    assert set(events.node[events.kind == DIE]) == {3, 17}
    assert not set(events.node[events.kind == VISIT]) & {3, 17}


def test_nothing_happens_when_all_are_lost() -> None:
    schedule, start = drawn(Failures(burst=3, burst_at=50), 9, 3)
    parts = list(schedule.segments(start))
    assert len(parts) == 1
    assert parts[0][0].kind[-3:].tolist() == [DIE] * 3
    assert not living(schedule.failures, parts[0][1].fate, 9).any()


class Decafork:
    """The law of Egger et al. once more, with lists of all return times instead of bins for whoever looks."""

    def __init__(self, failures: Failures, n: int, tokens: int, slots: int) -> None:
        self.failures, self.n, self.tokens, self.slots = failures, n, tokens, slots
        self.below, self.above = failures.thresholds(tokens)
        self.learn = 10 * n * tokens if failures.learn is None else failures.learn
        self.alive = set(range(tokens))
        self.born, self.jumped = defaultdict(float), defaultdict(int)
        self.seen: dict[int, dict[int, float]] = defaultdict(dict)
        self.returns: dict[int, list[float]] = defaultdict(list)

    @staticmethod
    def cell(time: float) -> tuple[float, float]:
        """From where to where a bin goes: quarters of octaves."""
        octave = 2.0 ** math.floor(math.log2(max(time, 1.0)))
        quarter = math.floor(4 * (max(time, 1.0) / octave - 1))
        return octave * (1 + quarter / 4), octave * (1 + (quarter + 1) / 4)

    def survival(self, i: int, age: float) -> float:
        left, right = self.cell(age)
        times = self.returns[i]  # sorted
        if not times:
            return 1.0
        inside = bisect.bisect_left(times, right) - bisect.bisect_left(times, left if left > 1 else 0.0)
        share = min(1.0, (right - age) / (right - left))
        return (len(times) - bisect.bisect_left(times, right) + share * inside) / len(times)

    def estimate(self, i: int, k: int, t: float) -> float:
        return 0.5 + sum(self.survival(i, t - seen) for other, seen in sorted(self.seen[i].items()) if other != k)

    def visit(self, i: int, k: int, t: float) -> str | None:
        before = self.seen[i].get(k)
        if before is not None and before >= self.born[k]:
            bisect.insort(self.returns[i], t - before)
        self.seen[i][k] = t
        if sum(self.jumped.values()) < self.learn:
            return None
        key = np.uint64(SEED)
        for number in (3, k, self.jumped[k]):
            key = np.uint64(bits(key, number))
        theta = self.estimate(i, k, t)
        if theta < self.below and uniform(key, 2) * self.tokens < 1:
            return "fork" if len(self.alive) < self.slots else None
        if theta > self.above and uniform(key, 3) * self.tokens < 1:
            return "die"
        return None

    def fork(self, i: int, t: float) -> int:
        free = min(set(range(self.slots)) - self.alive)
        self.alive.add(free)
        self.born[free] = self.seen[i][free] = t
        return free


@pytest.mark.parametrize("graph", ["complete", "ring"])
@pytest.mark.parametrize("control", ["decafork", "decafork_plus"])
def test_nodes_fork_and_end_tokens_where_the_law_says(graph: str, control: str) -> None:
    n, tokens, at = 12, 6, 5000
    failures = Failures(
        burst=4, burst_at=at, control=control, learn=600, below=1.6, above=4.0 if "plus" in control else None
    )
    schedule, start = drawn(failures, n, tokens, graph)
    events = events_of(schedule, start, 1)
    law = Decafork(failures, n, tokens, 12)
    changes = defaultdict(int)
    expected: tuple[str, int, int] | None = None
    for kind, i, k, other, t in zip(events.kind, events.node, events.token, events.other, events.at, strict=True):
        if kind in (DIE, FORK):
            changes["fork" if kind == FORK else "die" if expected else "burst"] += 1
            if expected is None:
                assert kind == DIE
                assert sum(law.jumped.values()) == at
                law.alive.remove(k)
            elif expected[0] == "fork":
                assert (kind, i, k) == (FORK, expected[1], expected[2])
                assert other == law.fork(i, t)
            else:
                assert (kind, i, k) == (DIE, expected[1], expected[2])
                law.alive.remove(k)
            expected = None
            continue
        assert expected is None  # what the law says has happened at once
        if kind == VISIT:
            assert k in law.alive
            law.jumped[k] += 1
            decision = law.visit(int(i), int(k), float(t))
            expected = (decision, i, k) if decision else None
    assert changes["burst"] == 4
    assert changes["fork"] >= 3
    assert (changes["die"] > 0) == (control == "decafork_plus")


def mean_estimate(graph: str) -> float:
    """Of nodes that saw all of ten tokens, a long time after the start."""
    n, tokens = 15, 10
    failures = Failures(burst=1, burst_at=10**9, control="decafork", learn=10**9)
    schedule, start = drawn(failures, n, tokens, graph)
    events = events_of(schedule, start, 2)
    law, found = Decafork(failures, n, tokens, 15), []
    for kind, i, k, t in zip(events.kind, events.node, events.token, events.at, strict=True):
        if kind == VISIT and len(found) < 2000:
            law.visit(int(i), int(k), float(t))
            if t > 60_000:
                found.append(law.estimate(int(i), int(k), float(t)))
    return float(np.mean(found))


def test_estimates_are_half_the_number_of_tokens_where_returns_are_exponential() -> None:
    """As between independent visits; on a ring most returns are short, and E S(age) = int S^2 / int S is less."""
    assert abs(mean_estimate("complete") - 5.0) < 0.15
    assert mean_estimate("ring") < 4.0


def test_numbers_of_tokens_recover_from_a_burst_and_stay_below_the_most() -> None:
    failures = Failures(burst=7, burst_at=20_000, control="decafork", most=12)
    schedule, start = drawn(failures, 20, 8)
    for segment, (_, following) in enumerate(schedule.segments(start)):
        count = living(failures, following.fate, 20).sum()
        if segment == 4:
            break
    assert 7 <= count <= 12
    alone = Failures(burst=7, burst_at=20_000)
    schedule, start = drawn(alone, 20, 8)
    *_, (_, last) = zip(range(3), (following for _, following in schedule.segments(start)), strict=False)
    assert living(alone, last.fate, 20).sum() == 1


def test_the_clock_counts_what_was_sent_and_follows_the_tokens() -> None:
    """Two nodes 1 apart; token 0 goes to node 1 and is forked there, then it is lost on its way back."""
    rows = [  # kind, node, source, token, other
        (VISIT, 1, 0, 0, -1),
        (FORK, 1, 1, 0, 1),
        (MOVE, 0, 1, 0, -1),
        (DIE, 0, -1, 0, -1),
        (VISIT, 0, 1, 1, -1),
    ]
    kind, node, source, token, other = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    events = Events(kind.astype(np.int8), node, source, token, other, np.full(5, -1.0), np.ones(5))
    clock = start_clock(2, 2, np.array([True, False]))
    ones = np.ones(2, np.int64)
    assert advance(clock, events, Costs(ones, 0 * ones), TimeModel(tau_comm=10.0, rule="token_clock")) == 5
    assert clock.alive.tolist() == [False, True]
    assert (clock.events, clock.steps, clock.jumps, clock.messages) == (5, 2, 3, 3)
    assert clock.tokens.tolist() == [20.0, 20.0]
    assert clock.elapsed == 20.0


def test_thresholds_are_quantiles_of_sums_of_uniform_numbers() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 3, 9):
        sums = rng.random((200_000, count)).sum(axis=1)
        assert abs(np.mean(sums < quantile_of_sum(count, 0.01)) - 0.01) < 0.001
    least, most = Failures(token=0.1, control="decafork_plus").thresholds(10)
    assert least + most == pytest.approx(10)
    assert Failures(token=0.1, control="decafork").thresholds(10) == (least, math.inf)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"token": -0.1}, r"failures.token=-0.1 is a probability; it must lie in \[0, 1\]"),
        ({"edge": 1.5}, r"failures.edge=1.5 is a probability"),
        ({"burst": -1}, "failures.burst=-1, but it is a number of tokens"),
        ({"burst": 2}, "failures.burst=2 and burst_at=null belong together"),
        ({"burst_at": 2}, "failures.burst=0 and burst_at=2 belong together"),
        ({"burst": 2, "burst_at": 0}, "failures.burst_at=0 must be at least 1"),
        (
            {"token": 0.1, "control": "fork"},
            "failures.control=fork is not known; use one of none, decafork, decafork_plus",
        ),
        ({"control": "decafork"}, "failures.control=decafork, but no token is ever lost"),
        ({"token": 0.1, "most": 5}, "failures.most=5 belongs to failures.control=decafork, not to none"),
        (
            {"token": 0.1, "control": "decafork", "above": 5},
            "failures.above=5 belongs to failures.control=decafork_plus",
        ),
        ({"token": 0.1, "control": "decafork", "below": -1.0}, "failures.below=-1.0 must not be negative"),
        (
            {"token": 0.1, "control": "decafork_plus", "below": 3.0, "above": 2.0},
            "failures.below=3.0 must be less than failures.above=2.0",
        ),
    ],
)
def test_what_makes_no_sense(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Failures(**keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"burst": 5, "burst_at": 9}, "failures.burst=5, but there are only 4 tokens"),
        ({"nodes": (2, 9)}, "failures.nodes has 9, but nodes are 0 to 8"),
        ({"token": 0.1, "control": "decafork", "most": 3}, "failures.most=3, but .* use a number from 4 to 9"),
        ({"token": 0.1, "control": "decafork", "most": 10}, "failures.most=10, but .* use a number from 4 to 9"),
    ],
)
def test_what_does_not_fit(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Failures(**keys).check(4, 9)


def test_one_token_cannot_miss_another() -> None:
    with pytest.raises(InputError, match=r"needs algorithm\.tokens>=2"):
        Failures(token=0.1, control="decafork").check(1, 9)
