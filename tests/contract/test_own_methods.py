"""Methods in the user's own file, without touching the package: the page docs/add-a-method.md, executed."""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dtoken
from dtoken.algorithms import method_class
from dtoken.algorithms.base import never
from dtoken.cli.run import main
from dtoken.compiled import _CacheFile
from dtoken.engine.events.executor import executor
from dtoken.testing import check_method
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "add-a-method.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def load(file: Path) -> ModuleType:
    """A module as it is now, not as it was imported before."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def my_methods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    yield from saved("my_methods", BLOCKS[0], tmp_path_factory.mktemp("mine"))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    yield from saved("sampled", BLOCKS[1], tmp_path_factory.mktemp("sampled"))


def saved(name: str, text: str, folder: Path) -> Iterator[ModuleType]:
    """A file of the page, where worker processes find it, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        file = folder / f"{name}.py"
        file.write_text(text)
        yield load(file)
        del sys.modules[name]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    return tmp_path


def command(*words: str) -> int:
    return main(["data.rows=60", "data.features=4", "nodes=4", "problem.sigma=0.1", "hydra.run.dir=run", *words])


def test_the_page_has_methods_and_their_checks(
    my_methods: ModuleType, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, check, replay = BLOCKS
    exec(check, {})
    shown = re.search(r"```text\n(members.*?)```", PAGE, re.DOTALL)
    assert shown
    assert capsys.readouterr().out == shown[1]
    exec(replay, {})


def test_a_visit_with_a_sample_keeps_the_contract(sampled: ModuleType, here: Path) -> None:
    check_method(sampled.SampledSAGA)


def test_a_visit_with_a_sample_is_what_its_formulas_say(sampled: ModuleType, here: Path) -> None:
    """Its log, in plain numpy, on rows of which some are empty."""
    file = Path("rows.svm")
    rng = np.random.default_rng(5)
    A = rng.standard_normal((40, 3)) * (np.arange(40) % 5 > 0)[:, None]
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    features = [" ".join(f"{j}:{value!r}" for j, value in enumerate(a.tolist(), 1) if value) for a in A]
    file.write_text("".join(f"{label:g} {row}\n" for label, row in zip(y, features, strict=True)))
    result = dtoken.run(
        {"kind": "svmlight", "path": str(file)}, 4, sampled.SampledSAGA(), "ring", sigma=0.1,
        partition={"kind": "contiguous"}, stop={"jumps": 300}, record={"events": True}, directory="run",
    )  # fmt: skip
    n, m, sigma, s = 4, 10, 0.1, result.summary["constants"]["step"]
    assert s == pytest.approx(1 / (3 * (0.25 * (A**2).sum(axis=1).max() + sigma)))
    x, mean, g = np.zeros(3), np.zeros(3), np.zeros(40)
    events = pd.read_parquet("run/events.parquet")
    for node, sample in zip(events.node, events["sample"], strict=True):
        a, label, j = A[node * m + sample], y[node * m + sample], node * m + sample
        u = -label / (1 + np.exp(label * (a @ x))) - g[j]
        x, mean = x - s * (0.8 * u * a + mean + sigma * x), mean + u * a / (m * n)
        g[j] += u
    np.testing.assert_allclose(result.tokens[0], x, rtol=1e-9)


def test_it_runs_from_the_command_line_to_the_optimum(my_methods: ModuleType, here: Path) -> None:
    assert command("algorithm._target_=my_methods.WalkSAGA", "stop.suboptimality=1e-10", "stop.passes=5000") == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["algorithm"] == "walksaga"
    assert summary["end"]["suboptimality"] <= 1e-10
    assert summary["predicted_rate"] is None


@pytest.mark.parametrize("name", ["GD", "TVR", "Walkman"])
def test_a_name_promises_nothing(my_methods: ModuleType, here: Path, name: str) -> None:
    """A method of the user's that is called like one of ours is not taken for it."""
    mine = type(name, (my_methods.WalkSAGA,), {})
    found = dtoken.run({"kind": "synthetic", "rows": 60, "features": 4}, 4, mine(), sigma=0.1, stop={"jumps": 40})
    assert found.summary["algorithm"] == name.lower()
    assert found.summary["rate_is_proved"] is False
    assert found.summary["predicted_rate"] is None


def test_its_fields_are_its_keys(my_methods: ModuleType, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("algorithm._target_=my_methods.WalkSAGA", "algorithm.stp=1") == 2
    assert "algorithm.stp is not a key of WalkSAGA. Did you mean algorithm.step?" in capsys.readouterr().err
    assert command("algorithm._target_=my_methods.WalkSAGA", "algorithm.step=long") == 2
    assert "algorithm.step=long is not a number" in capsys.readouterr().err
    assert command("algorithm._target_=my_methods.WalkSAGA", "algorithm.step=0.5", "theory=only") == 0
    assert "step=0.5" in capsys.readouterr().out


def test_equal_bits_and_resuming(my_methods: ModuleType, here: Path) -> None:
    def go(jumps: int, threads: int, folder: str) -> Any:
        return dtoken.run(
            {"kind": "synthetic", "rows": 60, "features": 4}, 4, my_methods.WalkSAGA(), "ring", sigma=0.1,
            stop={"jumps": jumps}, threads=threads, directory=folder,
        )  # fmt: skip

    whole = go(300, 1, "whole")
    go(130, 2, "half")
    assert go(300, 4, "half").tokens.tobytes() == whole.tokens.tobytes()


def test_a_changed_helper_is_compiled_again(here: Path) -> None:
    """Machine code of methods outside the package is found by their whole file, not by the text of their steps."""
    file = here / "mine.py"
    text = "from dtoken.compiled import compiled\n\n\n@compiled\ndef half(x):\n    return x / 2\n\n\n"
    text += "@compiled\ndef step(x):\n    return half(x)\n"
    names = []
    for version in (text, text, text.replace("x / 2", "x * 0.25")):
        file.write_text(version)
        names.append(load(file).step._uuid)
    del sys.modules["mine"]
    assert names[0] == names[1] != names[2]


def test_what_is_not_a_method_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("algorithm._target_=pathlib.Path") == 2
    assert "algorithm._target_=pathlib.Path is not a dataclass; see docs/add-a-method.md" in capsys.readouterr().err
    assert command("algorithm._target_=dtoken.schedule.clock.TimeModel") == 2
    assert "is not a method: it lacks name, draws_samples" in capsys.readouterr().err
    assert command("algorithm._target_=no_such_module.Method") == 2
    assert "cannot be imported" in capsys.readouterr().err


def test_cached_code_of_a_method_that_is_gone_is_ignored(here: Path) -> None:
    file = here / "mine.py"
    file.write_text("class State:\n    pass\n")
    cache = _CacheFile(str(here), "executor", "stamp")
    cache._save_index({load(file).State: "code"})
    assert len(cache._load_index()) == 1
    del sys.modules["mine"]
    assert cache._load_index() == {}


def test_every_set_of_steps_has_its_own_cache(my_methods: ModuleType) -> None:
    """A file with types of one method could not be read where only another one can be imported."""
    walkman = method_class("walkman")
    kernels = [executor(never, visit, None) for visit in (my_methods.visit, walkman.visit)]
    names = [kernel._cache._cache_file._index_name for kernel in kernels]
    assert names[0] != names[1]
