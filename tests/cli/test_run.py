"""``dtoken``: what it prints, what it leaves, and Hydra's own features."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from scipy.sparse import csr_array

from dtoken.config.source import config_folder
from dtoken.data.store import ShardStore

Dtoken = Callable[..., Any]


def test_a_run_says_what_it_does_and_where_it_left_the_result(dtoken: Dtoken) -> None:
    said = dtoken("algorithm.tokens=2", "record.accuracies=[1,1e-30]")
    assert said.status == 0
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[:6]] == ["data", "problem", "method", "graph", "theory", "engine"]
    assert "60 x 4" in lines[0]
    assert lines[1].startswith("problem    logistic  sigma 0.1   F* ")
    assert "K=2" in lines[2]
    assert "per step proved: mean gap below 1e-30 after " in lines[4]
    assert lines[6].split() == [
        "jumps",
        "messages",
        "gradients",
        "passes",
        "ideal",
        "time",
        "wall",
        "reached",
        "(jumps)",
    ]
    assert lines[7].startswith("to 1 ")
    assert lines[8].split() == ["to", "1e-30", *["-"] * 7]
    folder = Path(said.last)
    assert folder.parts[0] == "outputs"
    assert {path.name for path in folder.iterdir()} - {"checkpoint.bin"} == {  # which only longer runs leave
        ".hydra", "dtoken.log", "result.zarr", "summary.json", "trajectory.parquet",
    }  # fmt: skip
    assert said.err in ("", "compiling kernels (first run only).\n")


def test_the_accuracy_asked_for_is_in_the_table(dtoken: Dtoken) -> None:
    said = dtoken("stop.suboptimality=0.3", "record.accuracies=[1e-2,1]", "record.every_passes=0.25")
    assert [line.split()[1] for line in said.out.splitlines() if line.startswith("to ")] == ["1", "0.3", "0.01"]


def test_hydra_decides_the_directory(dtoken: Dtoken) -> None:
    assert dtoken("hydra.run.dir=mine").last == "mine"
    summary = json.loads(Path("mine/summary.json").read_text())
    assert summary["status"] == "done"
    overrides = yaml.safe_load(Path("mine/.hydra/overrides.yaml").read_text())
    assert "nodes=4" in overrides


def test_a_finished_run_is_not_done_again(dtoken: Dtoken) -> None:
    dtoken("hydra.run.dir=mine")
    before = {path: path.stat().st_mtime_ns for path in Path("mine").rglob("*")}
    again = dtoken("hydra.run.dir=mine")
    assert (again.status, again.last) == (0, "mine")
    assert again.out.startswith("This run is done already")
    assert {path: path.stat().st_mtime_ns for path in Path("mine").rglob("*")} == before


def test_an_earlier_stop_is_reached_already_and_a_later_one_continues(dtoken: Dtoken) -> None:
    dtoken("hydra.run.dir=mine")
    assert dtoken("hydra.run.dir=mine", "stop.passes=2").out.startswith("This run is done already")
    assert dtoken("hydra.run.dir=mine", "stop.passes=8").status == 0
    assert json.loads(Path("mine/summary.json").read_text())["end"]["passes"] == 8.0


def test_other_settings_in_the_same_directory_are_refused(dtoken: Dtoken) -> None:
    dtoken("hydra.run.dir=mine")
    before = Path("mine/.hydra/config.yaml").read_text()
    said = dtoken("hydra.run.dir=mine", "seed=1", "algorithm.tokens=2")
    assert said.status == 2
    assert said.err == (
        "mine holds a run with other settings: algorithm.tokens=1 (now 2), seed=0 (now 1); use another directory.\n"
    )
    assert Path("mine/.hydra/config.yaml").read_text() == before


@pytest.mark.parametrize("method", ["token", "gd"])
def test_a_heuristic_step_that_is_too_long_is_told_before_and_after(dtoken: Dtoken, method: str) -> None:
    """The paper's factor on the default data: the largest eigenvalue of a node, by numpy, is 0.23 of the sum."""
    words = ["algorithm.smoothness=factor", "stop.passes=400", "hydra.run.dir=mine", "nodes=8", "data.rows=1000"]
    said = dtoken(f"algorithm={method}", *words, "problem.sigma=0.01", "data.features=20")
    assert said.status == 1
    warning, ending = said.err.splitlines()[0], said.err.splitlines()[-1]
    store = ShardStore.open(Path(json.loads(Path("mine/summary.json").read_text())["data"]["path"]))
    eigenvalues, sums = [], []
    for node in range(8):
        parts = [csr_array((b.data, b.indices, b.indptr), shape=(len(b.y), 20)) for b in store.blocks(node)]
        A = np.concatenate([part.toarray() for part in parts])
        eigenvalues.append(np.linalg.eigvalsh(A.T @ A)[-1] / 4 / len(A))
        sums.append((A**2).sum() / 4 / len(A))
    true, total = max(eigenvalues), max(sums)
    assert f"a smoothness of {0.02 * total:.3g}, and it is up to {true:.3g}: the run may diverge" in warning
    assert warning.endswith(f"use algorithm.smoothness=batch, or a factor of at least {true / total:.2g}.")
    gap = pq.read_table("mine/trajectory.parquet")["suboptimality"].to_numpy()
    assert gap[-1] > gap[0]
    assert ending.startswith(f"The run diverged: F - F* is {gap[-1]:.3g} at the end and was {gap[0]:.3g} at the start;")
    assert json.loads(Path("mine/summary.json").read_text())["status"] == "diverged"
    again = dtoken(f"algorithm={method}", *words, "problem.sigma=0.01", "data.features=20")
    assert (again.status, again.out) == (1, "")
    assert again.err.startswith("mine holds this run, which diverged: ")


def test_an_optimum_that_float64_does_not_reach_is_told(dtoken: Dtoken) -> None:
    """Two long rows that contradict each other."""
    rows = [f"{y} " + " ".join(f"{j + 1}:{v * 10.0**12:.17g}" for j, v in enumerate((0.3, -1.1, 0.7))) for y in (1, -1)]
    rows += [f"{y} 1:{a} 2:{b}" for y, a, b in ((1, 0.5, 1), (-1, -1, 0.2), (1, 2, 0.1), (-1, 0.3, -1), (1, 0.1, 0.9))]
    Path("long.svm").write_text("\n".join(rows) + "\n")
    words = ["data=svmlight", "data.path=long.svm", "nodes=2", "problem.sigma=1e-6", "algorithm=gd", "stop.passes=1"]
    said = dtoken(*words, "hydra.run.dir=mine", tiny=False)
    assert "F* is known to within " in said.err
    assert "; give features similar sizes, or use a larger problem.sigma." in said.err


def test_a_factor_that_is_large_enough_is_fine(dtoken: Dtoken) -> None:
    said = dtoken("algorithm=token", "algorithm.smoothness=factor", "algorithm.factor=0.9", "stop.passes=40")
    assert said.status == 0
    assert "diverge" not in said.err


def test_a_diverging_run_fails_and_keeps_its_trajectory(dtoken: Dtoken) -> None:
    Path("wild.py").write_text(WILD)
    said = dtoken("algorithm._target_=wild.Wild", "hydra.run.dir=mine", "stop.passes=200")
    assert said.status == 1
    assert said.err.splitlines()[-1].startswith("The run diverged: ")
    assert said.last == "mine"
    summary = json.loads(Path("mine/summary.json").read_text())
    assert summary["status"] == "diverged"
    assert summary["failure"].startswith("diverged: ")
    assert Path("mine/trajectory.parquet").exists()
    again = dtoken("algorithm._target_=wild.Wild", "hydra.run.dir=mine", "stop.passes=200")
    assert (again.status, again.out) == (1, "")
    assert again.err.startswith("mine holds this run, which diverged: ")


WILD = """
from dataclasses import dataclass
from dtoken.algorithms.tvr import TVR

@dataclass(frozen=True)
class Wild(TVR):
    def constants(self, facts):
        c = super().constants(facts)
        return c._replace(rho_comm=c.rho_comm * 40)  # a visit overshoots, and each one more
"""


def test_cfg_job_shows_the_configuration_and_runs_nothing(dtoken: Dtoken) -> None:
    said = dtoken("--cfg", "job", "algorithm=token")
    assert said.status == 0
    shown = yaml.safe_load(said.out)
    assert shown["algorithm"]["tokens"] == 1
    assert shown["nodes"] == 4
    assert not Path("outputs").exists()


def test_help_lists_groups_and_version_is_ours(dtoken: Dtoken) -> None:
    said = dtoken("--help")
    assert said.status == 0
    for word in ("algorithm", "tvr", "time_varying", "stop.passes", "--hydra-help"):
        assert word in said.out
    assert dtoken("--version").out.startswith("dtoken ")


def test_help_lists_no_group_that_belongs_to_one_experiment(dtoken: Dtoken) -> None:
    """Groups are those of the defaults list: what ``GROUP=OPTION`` can choose. ``+curve=...`` is the paper's alone."""
    listed = dtoken("--help").out.partition("GROUP=OPTION):\n\n")[2].partition("\n\n")[0]
    groups = [line.split()[0] for line in listed.splitlines() if line[2] != " "]
    defaults = yaml.safe_load((config_folder() / "config.yaml").read_text())["defaults"]
    sections = [next(iter(entry)) for entry in defaults if isinstance(entry, dict)]
    assert groups == sorted(name for name in sections if not name.startswith("override "))
    assert "+experiment=NAME):\n\n  acceleration, " in dtoken("--help").out
    assert dtoken("--cfg", "job", "+experiment=paper", "+curve=gd_ring").status == 0


def test_cfg_job_says_what_memory_the_run_needs(dtoken: Dtoken) -> None:
    """On standard error: standard output is the configuration alone."""
    said = dtoken("--cfg", "job", "engine.memory=20MB")
    assert said.status == 0
    assert said.err.startswith("memory     20 MB: 0.1 MB state, ")
    assert yaml.safe_load(said.out)["engine"]["memory"] == "20MB"
    said = dtoken("--cfg", "job", "engine.memory=1MB")
    assert (said.status, yaml.safe_load(said.out)["nodes"]) == (2, 4)
    assert "16 MB of the 1 MB budget. Use engine.memory>=18MB." in said.err
    said = dtoken("--cfg", "job", "data=svmlight", tiny=False)
    assert (said.status, said.err) == (0, "")
    assert not list(Path().iterdir())


def test_hydra_help_and_info_work(dtoken: Dtoken) -> None:
    assert "Hydra" in dtoken("--hydra-help", tiny=False).out
    assert "dtoken://" in dtoken("--info", "searchpath").out


def test_tab_completion_knows_options_and_keys(dtoken: Dtoken, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        return list(dtoken("--shell-completion", "query=bash", tiny=False).out.split())

    assert "algorithm=tvr" in complete("dtoken algorithm=t")
    assert "algorithm.tokens=" in complete("dtoken algorithm.to")


def test_own_options_in_a_folder_of_the_user(dtoken: Dtoken) -> None:
    Path("more/algorithm").mkdir(parents=True)
    Path("more/algorithm/two.yaml").write_text("_target_: tvr\ntokens: 2\n")
    said = dtoken("--config-dir", "more", "algorithm=two", "hydra.run.dir=mine")
    assert said.status == 0
    assert json.loads(Path("mine/summary.json").read_text())["config"]["algorithm"]["tokens"] == 2


def test_unreached_accuracy_is_said(dtoken: Dtoken) -> None:
    said = dtoken("stop.suboptimality=1e-14", "stop.passes=2")
    assert said.status == 0
    assert "stopped before stop.suboptimality=1e-14: " in said.out
