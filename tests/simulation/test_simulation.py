"""Faults by the thousand: the real engine in a simulated world, and what a simulation must be to be believed."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from dtoken.engine.dask import worker
from tests.conftest import ROOT
from tests.simulation.__main__ import campaign, explain
from tests.simulation.cases import METHODS
from tests.simulation.faults import KINDS
from tests.simulation.planted import PLANTED
from tests.simulation.ports import replaced
from tests.simulation.shrink import shrink, without
from tests.simulation.trial import draw_plan, run_trial

FAULTS = 10_000
SHARES = 4  # tests, so that several processors can take part


@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_wrong_after_thousands_of_faults(share: int) -> None:
    injected, recoveries, kinds = 0, 0, set()
    for told in campaign(FAULTS // SHARES, seed=share * 1_000_000):
        assert told.violation is None, explain(told)
        injected, recoveries, kinds = injected + told.injected, recoveries + told.recoveries, kinds | set(told.kinds)
    assert injected >= FAULTS // SHARES
    assert recoveries > injected / 20  # faults that do nothing would prove nothing
    assert kinds == set(KINDS)


@pytest.mark.parametrize("name", METHODS)
def test_an_undisturbed_run_needs_no_recovery(name: str) -> None:
    seed = next(seed for seed in range(1000) if draw_plan(seed, 1).method == name)
    told = run_trial(replace(draw_plan(seed, 1), faults=()))
    assert (told.violation, told.recoveries, told.drivers) == (None, 0, 1)


def test_a_seed_repeats_everything() -> None:
    plans = [draw_plan(seed, 30) for seed in range(6)]
    first, again = ([run_trial(plan, keep_trace=True) for plan in plans] for _ in range(2))
    assert [told.trace for told in first] == [told.trace for told in again]
    assert len({told.fingerprint for told in first}) == len(plans)


def test_a_seed_repeats_everything_in_another_process() -> None:
    """Where the addresses of objects and the order of sets are others."""
    expected = run_trial(draw_plan(5, 30)).fingerprint
    for hashing in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--replay", "5"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashing},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.splitlines()[-1] == f"{expected}: nothing is wrong"


def test_a_failing_list_of_faults_is_reduced_and_told() -> None:
    with replaced(PLANTED["placement_is_not_compared"]()):
        *_, told = campaign(FAULTS, seed=0)
        assert told.violation is not None
        reduced = shrink(told.plan, lambda plan: run_trial(plan).violation is not None)
        assert 1 <= len(reduced.faults) < max(2, len(told.plan.faults))
        assert run_trial(reduced).violation is not None
        for number in range(len(reduced.faults)):  # none can be left out
            rest = without(reduced.faults, number, number + 1)
            assert run_trial(replace(reduced, faults=rest)).violation is None
        assert f"--replay {told.plan.seed}" in explain(told)


def test_the_program_is_itself_again_afterwards() -> None:
    before = worker.ThreadPoolExecutor, worker.time, worker.machine
    run_trial(draw_plan(1, 3))
    assert (worker.ThreadPoolExecutor, worker.time, worker.machine) == before
