"""The closing table of a sweep."""

from pathlib import Path

from dtoken.cli.costs import cost_table
from tests.sweep.made import config, write_run


def taken(jumps: int) -> dict[str, float]:
    return {"jumps": jumps, "messages": jumps - 1, "gradients": 2000 * jumps, "passes": 1, "time": 1.0, "wall": 0.5}


def test_the_middle_seed_counts_and_a_run_that_did_not_get_there_is_infinitely_expensive(tmp_path: Path) -> None:
    for seed, jumps in enumerate((30, 10, 20)):
        write_run(
            tmp_path / f"{seed}", config("tvr", seed=seed), None, to_accuracy={"0.01": taken(1), "1e-04": taken(jumps)}
        )
    for seed in range(3):
        some = {"0.01": taken(5), "1e-04": None if seed else taken(7)}
        write_run(tmp_path / f"{3 + seed}", config("token", seed=seed), None, to_accuracy=some)
    head, *rows = cost_table(tmp_path)
    assert head.split() == [
        "to",
        "1e-04,",
        "median",
        "of",
        "3",
        "seeds",
        "jumps",
        "messages",
        "gradients",
        "ideal",
        "time",
        "wall",
    ]
    assert sorted(row.split() for row in rows) == [
        ["token", "-", "-", "-", "-", "-"],
        ["tvr", "20", "19", "40", "k", "1", "0.5", "s"],
    ]


def test_there_is_no_table_without_anything_reached(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config("tvr"), None, to_accuracy={"0.01": None})
    assert cost_table(tmp_path) == []
