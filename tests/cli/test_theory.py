"""``dtoken theory=only`` and ``dtoken.predict``: the table without a run."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtoken as package
from dtoken.algorithms.tvr import TVR
from dtoken.errors import InputError
from dtoken.text import count

Dtoken = Callable[..., Any]
TINY = {"kind": "synthetic", "rows": 60, "features": 4}


def column(out: str, place: int = -1) -> dict[str, str]:
    """A column of the table by quantity."""
    found = {}
    for line in out.splitlines():
        cells = [cell for cell in line.split("   ") if cell.strip()]
        if len(cells) > 1 and not line.startswith(" "):
            found[cells[0].strip()] = cells[place].strip()
    return found


def test_a_budget_is_described(dtoken: Dtoken) -> None:
    said = dtoken("theory=only", "engine.memory=20MB")
    assert said.out.splitlines()[4].startswith("memory     20 MB: ")
    assert "memory" not in dtoken("theory=only").out


def test_what_would_bound_a_run_on_a_cluster_is_told_without_one(dtoken: Dtoken) -> None:
    said = dtoken("theory=only", "engine=dask", "cluster=slurm", "cluster.workers=2", "algorithm.tokens=2")
    assert said.status == 0
    told = {line.split("  ")[0]: line for line in said.out.splitlines() if "bounds it" in line}
    assert list(told) == ["1 Gbit/s", "10 Gbit/s", "25 Gbit/s"]
    for line in told.values():
        speeds = {name: line.split(f"{name} allows ")[1].split(",")[0] for name in ("computing", "link", "schedule")}
        assert all(speeds.values())
        assert line.endswith("would help")
    near = dtoken("theory=only", "engine=dask").out.splitlines()
    assert [line.split()[0] for line in near if "bounds it" in line] == ["workers"]
    assert "bounds it" not in dtoken("theory=only").out


def test_one_run(dtoken: Dtoken) -> None:
    said = dtoken("theory=only", "algorithm.tokens=2", "record.accuracies=[1e-3]", "stop.suboptimality=1e-5")
    assert said.status == 0
    assert [line.split()[0] for line in said.out.splitlines()[:4]] == ["data", "problem", "method", "graph"]
    table = column(said.out)
    assert float(table["sigma_t"]) == pytest.approx(4 * 0.1 / 6, rel=1e-3)
    assert float(table["spectral gap of the walk"]) == 1
    assert float(table["steps per factor e"]) == pytest.approx(1 / float(table["contraction a step"]), rel=0.01)
    assert float(table["steps per factor e"]) / float(table["steps per factor e, paper"]) == pytest.approx(1.5, rel=0.2)
    assert {"jumps to 0.001", "jumps to 1e-05"} <= set(table)
    assert said.out.splitlines()[-3:] == [
        "basis: proved",
        "costs to an accuracy: bounds: after so many steps the mean of F - F* is below it",
        "basis of the paper's rate: observed in everything that was tested, not proved",
    ]
    assert list(Path().iterdir()) == []  # no directory, no log


def test_several_methods_side_by_side(dtoken: Dtoken) -> None:
    said = dtoken("-m", "theory=only", "algorithm=tvr,tavr,walkman", "problem.sigma=1e-4")
    assert said.status == 0
    assert said.out.splitlines()[0].split() == ["tvr", "tavr", "walkman"]
    tvr, tavr, walkman = (column(said.out, place) for place in (1, 2, 3))
    assert tvr["jumps per factor e"] != tavr["jumps per factor e"] != walkman["jumps per factor e"] == "-"
    assert "basis (walkman): no rate: linear convergence is proved for least squares only" in said.out
    assert list(Path().iterdir()) == []


def test_what_is_refused_is_said_and_the_others_are_shown(dtoken: Dtoken) -> None:
    said = dtoken("-m", "theory=only", "algorithm=tavr", "algorithm.jumps=1,auto", "graph=ring", "graph.walk=lazy")
    assert said.status == 2
    assert said.err.startswith("algorithm.jumps=1: tavr needs nearly independent visits")
    assert said.out.splitlines()[0].split() == ["algorithm.jumps=auto"]
    alone = dtoken("theory=only", "algorithm=tavr", "algorithm.jumps=1", "graph=ring", "graph.walk=lazy")
    assert (alone.status, alone.out) == (2, "")
    assert alone.err.startswith("tavr needs nearly independent visits")


def test_wrong_values(dtoken: Dtoken) -> None:
    said = dtoken("theory=onyl")
    assert (said.status, said.err) == (2, "theory=onyl is not known; did you mean only? Use one of beside, only.\n")
    Path("more/experiment").mkdir(parents=True)
    Path("more/experiment/mine.yaml").write_text("# @package _global_\ntheory: only\n")
    said = dtoken("--config-dir", "more", "+experiment=mine")
    assert (said.status, said.err) == (2, "theory=only is in a configuration file; give it on the command line.\n")


def test_from_python() -> None:
    table = package.predict(TINY, 4, ["tvr", TVR(tokens=2), "gd"], sigma=0.1, accuracies=(1e-3,))
    assert list(table.columns) == ["tvr", "tvr tokens=2", "gd"]
    gd = table["gd"]
    kappa = 1 + gd["L_b"] / 0.1
    assert gd["contraction a step"] == pytest.approx(1 - (1 - 1 / kappa) ** 2)
    assert gd["passes per factor e"] == pytest.approx(-1 / (2 * math.log(1 - 1 / kappa)))
    assert gd["jumps per factor e"] == pytest.approx(12 * gd["passes per factor e"])
    assert gd["basis"] == table.loc["basis", "tvr"] == "proved"
    assert isinstance(table.loc["eta", "gd"], float)
    assert math.isnan(table.loc["eta", "gd"])
    assert list(package.predict(TINY, 4, "walkman", sigma=0.1)) == ["walkman"]


def test_from_python_what_is_refused() -> None:
    with pytest.raises(InputError, match="nearly independent"):
        package.predict(TINY, 5, {"_target_": "tavr", "jumps": 1}, "ring", sigma=0.1)


def test_all_say_the_same(dtoken: Dtoken, tmp_path: Path) -> None:
    """The first lines of a run, the table, Python and summary.json: bounds where something is proved, else about."""
    for keys, words, of_line in (
        (["algorithm.tokens=2"], "bounds: ", "per step proved: mean gap below 0.001 after {events} events"),
        (["graph=ring", "graph.walk=lazy"], "about, without the constant", "per step observed: about {events} events"),
    ):
        asked = [*keys, "stop.suboptimality=1e-3", "record.accuracies=[1e-3]"]
        table = dtoken("theory=only", *asked).out
        ran = dtoken(*asked, f"hydra.run.dir={tmp_path / words[:5]}")
        summary = json.loads((tmp_path / words[:5] / "summary.json").read_text())
        assert f"costs to an accuracy: {words}" in table
        assert f"basis: {summary['predicted']['basis']}" in table
        assert summary["predicted"]["costs"].startswith(words)
        assert summary["rate_is_proved"] == words.startswith("bounds")
        events = summary["predicted"]["to_accuracy"]["0.001"]["events"]
        assert of_line.format(events=count(events)) in ran.out
        assert float(column(table)["events to 0.001"].replace(" k", "e3")) == pytest.approx(events, rel=0.01)
