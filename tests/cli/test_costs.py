"""The closing table of a sweep."""

from pathlib import Path

from dtoken.cli.costs import cost_table
from dtoken.report.study import study
from dtoken.sweep.runs import find_runs
from tests.sweep.made import config, trajectory, write_run


def test_the_middle_seed_counts_and_a_run_that_did_not_get_there_is_infinitely_expensive(tmp_path: Path) -> None:
    """Halving from point to point, suboptimality is below 1e-4 after 14; a run of ten points does not get there."""
    for seed, jumps in enumerate((30, 10, 20)):
        write_run(tmp_path / f"{seed}", config("tvr", seed=seed), trajectory(0.5, 20, jumps))
        write_run(tmp_path / f"{3 + seed}", config("token", seed=seed), trajectory(0.5, 10 if seed else 20))
    head, *rows = cost_table(study(find_runs([tmp_path])))
    names = ["jumps", "messages", "gradients", "ideal", "time", "wall", "reached", "(jumps)"]
    assert head.split() == ["to", "0.0001,", "median", "of", "3", "seeds", *names]
    assert sorted(row.split() for row in rows) == [
        ["token", "-", "-", "-", "-", "-", "-"],
        ["tvr", "280", "266", "560", "28", "k", "0.14", "s", "280"],
    ]


def test_of_two_in_the_middle_the_larger_counts_as_in_the_report(tmp_path: Path) -> None:
    for seed, jumps in enumerate((10, 13)):
        write_run(tmp_path / f"{seed}", config("tvr", seed=seed), trajectory(0.5, 20, jumps))
    _, row = cost_table(study(find_runs([tmp_path])))
    assert row.split()[1] == "182"
    found = study(find_runs([tmp_path]))
    assert [entry.costs["jumps"].median for entry in found.reached if entry.accuracy == found.shown] == [182]


def test_the_accuracy_is_the_one_that_the_report_shows_first(tmp_path: Path) -> None:
    """One of three methods came to 1e-4; all came to the accuracy at which they were to stop."""
    for number, (algorithm, points) in enumerate((("tvr", 20), ("token", 12), ("gd", 12))):
        write_run(tmp_path / f"{number}", config(algorithm, stop={"suboptimality": 1e-3}), trajectory(0.5, points))
    assert cost_table(study(find_runs([tmp_path])))[0].startswith("to 0.001 ")
    assert study(find_runs([tmp_path])).shown == 1e-3


def test_there_is_no_table_without_anything_reached(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config("tvr"), trajectory(0.9, 3))
    assert cost_table(study(find_runs([tmp_path]))) == []
