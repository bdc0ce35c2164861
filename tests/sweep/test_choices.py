"""Options with keys of their own: one word of a sweep for a method and its parameters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtoken as package
from dtoken.report.cells import describe
from dtoken.report.study import study
from dtoken.sweep.runs import find_runs
from tests.cli.conftest import dtoken as dtoken_fixture

dtoken = dtoken_fixture
SWEEP = ("-m", "algorithm=tvr:tokens:1,tvr:tokens:4:start:zero,gd", "hydra.sweep.dir=own", "cluster.workers=2")


def test_methods_with_their_own_keys_in_one_sweep(dtoken: Callable[..., Any]) -> None:
    assert dtoken(*SWEEP, "seed=0,1").status == 0
    jobs = json.loads(Path("own/manifest.json").read_text())["jobs"]
    chosen = [job["overrides"][5] for job in jobs]
    assert chosen[::2] == ["algorithm=tvr:tokens:1", "algorithm=tvr:tokens:4:start:zero", "algorithm=gd"]
    found = package.load("own")
    ran = [(each["algorithm"], each.get("algorithm.tokens"), each.get("algorithm.start")) for each in settings(found)]
    assert ran[::2] == [("tvr", 1, "local"), ("tvr", 4, "zero"), ("gd", None, None)]
    told = study(find_runs(["own"]), None)
    labels = {" ".join([cell.method.name, *describe(cell.context)]) for cell in told.sweep.cells}
    assert len(labels) == 3
    again = dtoken("-m", "algorithm=tvr", "algorithm.tokens=1", "seed=0,1", "hydra.sweep.dir=own")
    assert "2 already done in own, 0 to run" in again.out  # it is the same run, however it is written


def settings(found: Any) -> list[dict[str, Any]]:
    from dtoken.sweep.runs import named

    return [named(summary["config"]) for summary in found.summaries.values()]


OWN, BOTH = (
    "an option has keys of its own as in",
    "algorithm=tvr:tokens:4 and algorithm.tokens=2 both set tokens; leave ",
)
REFUSED = {
    "algorithm=tvr{tokens=4}": f"{OWN} algorithm=tvr:tokens:4.",
    "algorithm=tvr(tokens=4,start=zero)": f"{OWN} algorithm=tvr:tokens:4:start:zero.",
    "-m algorithm=tvr:tokens=4:start=zero,gd": f"{OWN} algorithm=tvr:tokens:4:start:zero,gd.",
    "algorithm=tvr:tokens:4 algorithm.tokens=2": BOTH,
    "-m algorithm=tvr:tokens:4,gd algorithm.tokens=2": BOTH,
    "algorithm=tvr:tokens": "algorithm=tvr:tokens is not of the form algorithm=tvr:KEY:VALUE, with a value for each ",
    "algorithm=tvr:tokns:2": "algorithm.tokns is not a key of tvr. Did you mean algorithm.tokens? ",
    "algorithm=tvrr:tokens:2": "algorithm=tvrr is not known; did you mean algorithm=tvr? ",
    "-m objective=jumps": "objective=jumps is not known; use suboptimality, or as in 'objective=jumps to 1e-6' ",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_chosen(words: str, dtoken: Callable[..., Any]) -> None:
    said = dtoken(*words.split())
    assert REFUSED[words] in said.err
    assert (said.status, said.err.count("\n"), list(Path().iterdir())) == (2, 1, [])


def test_an_option_wins_over_what_an_experiment_sets(dtoken: Callable[..., Any]) -> None:
    shown = dtoken("--cfg", "job", "+experiment=quickstart", "algorithm=tvr:tokens:3").out
    assert "  tokens: 3\n" in shown
