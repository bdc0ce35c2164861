"""A method of the package is its file and its YAML: a copy of the package gets one more, and everything knows it."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dtoken.session.colours import PALETTE, colours
from tests.conftest import ROOT

FILE = '''"""EXTRA with steps that are half as long (Shi, Ling, Wu, Yin 2015)."""

from dataclasses import dataclass

from dtoken.algorithms.contract import Facts
from dtoken.algorithms.extra import EXTRA
from dtoken.algorithms.synchronous import Averaging


@dataclass(frozen=True)
class Careful(EXTRA):
    """EXTRA with short steps.

    Parameters
    ----------
    smoothness, factor
        As for all methods.
    share
        Length of a step, as a share of that of EXTRA.
    """

    share: float = 0.5

    name = "careful"

    def constants(self, facts: Facts) -> Averaging:
        """Those of EXTRA, with another step."""
        c = super().constants(facts)
        return c._replace(step=self.share * c.step)
'''
SMALL = ("data.rows=40", "data.features=3", "nodes=4", "stop.passes=5", "problem.sigma=0.1")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is, machine code included, and two files more."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("dtoken", "conf", "hydra_dask", "hydra_plugins"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "dtoken" / "algorithms" / "careful.py").write_text(FILE)
    (folder / "conf" / "algorithm" / "careful.yaml").write_text("_target_: dtoken.algorithms.careful.Careful\n")
    return folder


def command(copy: Path, *words: str) -> str:
    """What a command of the copy prints."""
    environment = os.environ | {"PYTHONPATH": str(copy), "DTOKEN_STORE": str(copy / "stores")}
    return subprocess.run(
        [sys.executable, "-m", "dtoken.cli.run", *words],
        cwd=copy,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_it_is_an_option(copy: Path) -> None:
    assert re.search(r"algorithm +[\w, ]*\bcareful\b", command(copy, "--help"))
    found = command(copy, "algorithm=careful", "--cfg", "job", "--package", "algorithm")
    assert "share: 0.5" in found


def test_the_theory_has_a_column_of_it(copy: Path) -> None:
    lines = command(copy, "-m", "algorithm=careful,extra", "theory=only", *SMALL).splitlines()
    assert lines[0].split() == ["careful", "extra"]
    step = next(line.split() for line in lines if line.startswith("step "))
    assert float(step[1]) == pytest.approx(float(step[2]) / 2, rel=1e-3)


def test_it_runs_and_has_a_colour_in_the_report(copy: Path) -> None:
    command(copy, "-m", "algorithm=careful,extra", "hydra/launcher=basic", "hydra.sweep.dir=sweep", *SMALL)
    runs = pd.read_csv(copy / "sweep" / "results.csv")
    assert set(runs.algorithm) == {"careful", "extra"}
    page = (copy / "sweep" / "report" / "index.html").read_text()
    packed = re.search(r'id="packed-data"[^>]*>\s*([A-Za-z0-9+/=]+)\s*<', page)
    assert packed
    drawn = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    found = {method["name"]: tuple(method["colour"]) for method in drawn["methods"]}
    assert found["extra"] == colours(["extra"])["extra"]
    assert found["careful"] in {*PALETTE} - {found["extra"]}


def test_the_reference_of_all_keys_has_a_section_of_it(copy: Path) -> None:
    (copy / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "configuration.py", copy / "docs")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    subprocess.run([sys.executable, "docs/configuration.py"], cwd=copy, env=environment, check=True)
    section = (copy / "docs" / "configuration.md").read_text().partition("### `algorithm=careful`")[2]
    assert "| `algorithm.share` | `0.5` | Length of a step" in section.partition("\n### ")[0]
