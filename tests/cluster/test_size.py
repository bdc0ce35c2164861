"""How many jobs of a batch system there should be."""

from pathlib import Path

import pytest

from hydra_dask.cluster import CLUSTERS
from hydra_dask.cluster.size import Size, Wanted


def test_jobs_grow_in_steps_as_they_start_and_never_beyond_what_is_needed() -> None:
    wanted = Wanted(Size(2, 16))
    found = [wanted.jobs]
    for needed in (None, None, 9, 9, 9, 3):
        wanted.need(needed)
        wanted.all_started()
        found.append(wanted.jobs)
    assert found == [2, 4, 8, 9, 9, 9, 3]


def test_jobs_of_several_workers_are_counted_as_jobs() -> None:
    wanted = Wanted(Size(32, 32), per_job=16)
    assert wanted.jobs == 2
    wanted.need(16)
    assert wanted.jobs == 1
    wanted.need(0)
    assert wanted.jobs == 0


def test_a_fixed_number_does_not_grow() -> None:
    wanted = Wanted(Size.of(3))
    wanted.all_started()
    assert wanted.jobs == 3


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ("2..1", "must not begin above its end"),
        ("0..2", "must be at least 1"),
        ("many", "must be a number, or from..to"),
    ],
)
def test_what_is_no_size_is_refused(workers: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"cluster.workers={workers} {message}"):
        CLUSTERS["slurm"](workers=workers)


def test_there_are_no_more_workers_than_runs(tmp_path: Path) -> None:
    assert CLUSTERS["slurm"](workers="2..16").for_runs(5).size == Size(2, 5)
    packed = CLUSTERS["slurm"](workers=32, jobs=2).for_runs(10)
    assert (packed.size.most, packed.per_job) == (10, 5)
