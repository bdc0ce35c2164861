"""What the end of a run says of its bounds, and what it advises."""

from types import SimpleNamespace
from typing import Any

import pytest

from dtoken.config.settings import make_settings
from dtoken.engine.dask.facts import LinkFacts, worker_facts
from dtoken.engine.loop.recorder import Record
from dtoken.engine.runner import Tally
from dtoken.session.advice import Layout, advice
from dtoken.session.engines import _note_threads
from dtoken.session.lines import _measured_times


def summary_of(busy: float, waiting: float, hops: int, tokens: int = 4) -> dict[str, Any]:
    """Of a run of ten seconds on two workers, whose tokens take 10 ms each to leave."""
    records = [Record(k, k, k, 100 * k, 1.0, 9.0, 0.1, 1.0, 0.5, 0, 0) for k in range(2)]
    tallies = {
        "0": Tally(9, busy, waiting, hops_network=hops),
        "1": Tally(9, busy / 2, waiting + busy / 2, hops_network=hops // 2),
    }
    facts = worker_facts(tallies, 0, LinkFacts([0.012, 0.011], 0.01, 10.0), records, 0)
    return {
        "engine": facts,
        "graph": {"nodes": 8},
        "config": {"algorithm": {"tokens": tokens, "p_comm": "balanced"}, "time": {"tau_comp": 1.0, "tau_comm": 2.0}},
    }


def said(busy: float, waiting: float, hops: int, tokens: int = 4) -> str:
    return _measured_times(summary_of(busy, waiting, hops, tokens))


@pytest.mark.parametrize(
    ("busy", "waiting", "hops", "expected"),
    [
        (9.0, 1.0, 100, "computed 90% of the time, its link was full 10%: computing bounds this run; more workers"),
        (2.0, 8.0, 900, "computed 20% of the time, its link was full 90%: link bounds this run; algorithm.p_comm=auto"),
        (3.0, 7.0, 200, "computed 30% of the time, its link was full 20%: schedule bounds this run; more tokens"),
    ],
)
def test_the_end_of_a_run_says_what_bounds_it(busy: float, waiting: float, hops: int, expected: str) -> None:
    assert expected in said(busy, waiting, hops)


def test_nothing_is_advised_that_is_so_already() -> None:
    assert "more tokens" not in said(3.0, 7.0, 200, tokens=8)
    for bound in ("link", "schedule"):
        assert "p_comm" not in advice(bound, Layout(8, 2, 4, "auto"))
        assert "p_comm" not in advice(bound, Layout(8, 2, None, None))


def test_a_summary_of_an_earlier_version_is_still_shown() -> None:
    summary = summary_of(9.0, 1.0, 100)
    del summary["engine"]["shares"]
    assert _measured_times(summary).endswith("(ideal time: 2)")


@pytest.mark.parametrize(
    ("threads", "warned"),
    [
        (2, []),
        (
            3,
            [
                "engine.threads=3, but a worker has cluster.cores=2; threads that share a processor wait for each "
                "other, so ask for as many cores"
            ],
        ),
    ],
)
def test_more_threads_than_a_batch_job_has_processors_are_warned_of(threads: int, warned: list[str]) -> None:
    settings = make_settings(
        engine={"kind": "dask", "threads": threads}, cluster={"kind": "slurm", "workers": 2, "cores": 2}
    )
    said: list[str] = []
    _note_threads(settings.engine, settings.cluster, SimpleNamespace(note=said.append))  # type: ignore[arg-type]
    assert said == warned
