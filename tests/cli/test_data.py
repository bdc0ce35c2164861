"""dtoken-data as a user sees it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from dtoken.cli import terminal
from dtoken.cli.data import main
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.store import ShardStore
from dtoken.data.svmlight import Svmlight
from dtoken.data.synthetic import Synthetic
from dtoken.errors import InputError, RunError

TEXT = "0 1:3 2:4\n1 3:1\n1 1:1\n0\n1 2:2\n"


@pytest.fixture
def store(tmp_path: Path) -> ShardStore:
    file = tmp_path / "[bold]x.svm"
    file.write_text(TEXT)
    return ingest(Svmlight(file), Partition(2, sizes="equal"), root=tmp_path / "stores")


def test_ingest_says_what_it_did_and_ends_with_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.svm"
    file.write_text(TEXT)
    arguments = ["ingest", str(file), "--nodes", "2", "--store", str(tmp_path / "stores")]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""  # no progress where nobody watches
    *lines, path = said.out.splitlines()
    assert lines == [
        "5 rows x 3 features, 5 non-zeros, 2 nodes",
        "labels 0 -> -1, 1 -> +1",
        "the first feature had index 1",
    ]
    assert ShardStore.open(path).node_rows.tolist() == [3, 2]
    assert Path(path).parent == tmp_path / "stores"
    assert main(arguments) == 0
    assert capsys.readouterr() == said
    assert main([*arguments, "--sizes", "equal", "--labels", "real"]) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        "4 rows x 3 features, 4 non-zeros, 2 nodes",
        "1 rows left over were dropped (--sizes keep would keep them)",
        "labels are real numbers",
        "the first feature had index 1",
    ]


def test_all_settings_reach_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "ingest synthetic --nodes 3 rows=90 --partition dirichlet --seed 5 features=7 --alpha 0.5"
    assert main([*arguments.split(), "--sizes", "unequal", "--store", str(tmp_path)]) == 0
    store = ShardStore.open(capsys.readouterr().out.splitlines()[-1])
    expected = {"nodes": 3, "kind": "dirichlet", "seed": 5, "sizes": "unequal", "alpha": 0.5}
    assert store.meta.partition == expected
    assert store.meta.source == Synthetic(rows=90, features=7).identity()


def test_a_changed_source_is_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ("long" * 30 + "[bold].svm")
    arguments = ["ingest", str(file), "--nodes", "1", "--store", str(tmp_path / "stores")]
    file.write_text(TEXT)
    main(arguments)
    first = capsys.readouterr().out.splitlines()[-1]
    file.write_text(TEXT * 2)
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert said == f"{file} has changed since {Path(first).name} was made; reading it anew.\n"


def test_inspect_as_json(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(store.path), "--json", "--sigma", "0.5", "--loss", "squared"]) == 0
    found = json.loads(capsys.readouterr().out)
    disk = sum(file.stat().st_size for file in store.path.rglob("*") if file.is_file())
    expected = {
        "path": str(store.path),
        "digest": store.digest,
        "nodes": 2,
        "rows": 4,
        "dropped_rows": 1,
        "features": 3,
        "nonzeros": 4,
        "density": 4 / 12,
        "disk_bytes": disk,
        "index_base": 1,
        "classes": True,
        "label_map": {"0": -1.0, "1": 1.0},
        "positive_share": 0.5,
        "node_rows": [2, 2],
        "node_nonzeros": [3, 1],
        "node_positive_share": [0.5, 0.5],
        "empty_rows": 1,
        "row_norm_min": 1.0,
        "row_norm_max": 5.0,
        "row_norm_rms": 3.0,  # 5, 1 and 1
        "loss": "squared",
        "sigma": 0.5,
        "sum_smoothness": 13.0,  # node 0: (25 + 1) / 2
        "batch_smoothness": 12.5,  # its rows are orthogonal
        "kappa_s": 27.0,
        "kappa": 26.0,
        "partition": {"nodes": 2, "kind": "contiguous", "sizes": "equal"},
        "source": store.meta.source,
    }
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == (pytest.approx(value) if isinstance(value, float) else value), key


def test_inspect_for_people(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(store.path), "--sigma", "0.5", "--loss", "squared"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = [line.rstrip() for line in said.out.splitlines()]
    assert lines[0].startswith(f"store       {store.path}, 0.0 MB")
    assert lines[1] == f"identity    {store.digest}"
    assert lines[2] == f"source      {store.meta.source['path']}, first index 1"
    assert "[bold]x.svm" in lines[2]
    assert lines[3:] == [
        "size        4 rows (1 dropped) x 3 features",
        "non-zeros   4 (1.0 a row, density 0.333)",
        "labels      50.0% positive (0 -> -1, 1 -> +1)",
        "partition   2 nodes, kind contiguous, sizes equal",
        "row norms   1 to 5, root mean square 3; 1 empty rows",
        "smoothness  squared: sum of L_ij 13, whole node (lambda_max) 12.5, ratio 0.962",
        "condition   sigma 0.5: kappa_s 27, kappa 26",
        "",
        "node  rows  non-zeros  positive",
        "   0     2          3     50.0%",
        "   1     2          1     50.0%",
    ]


def test_inspect_many_nodes_and_real_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Synthetic(rows=310, task="regression")
    store = ingest(source, Partition(30, sizes="keep"), root=tmp_path)
    assert main(["inspect", str(store.path)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert "labels      real numbers" in lines
    assert any(line.startswith("smoothness  squared: ") for line in lines)
    assert lines[-1] == " ...  10 to 11"
    assert len([line for line in lines if line.endswith("220")]) == 10  # nodes 0 to 9 have 11 rows
    assert main(["inspect", str(store.path), "--loss", "logistic"]) == 2
    assert "needs two classes, but the labels" in capsys.readouterr().err


def test_inspect_of_empty_rows_only(
    make_store: Callable[..., ShardStore], rows_source: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    store = make_store(rows_source(sp.csr_array((4, 3)), np.array([1.0, -1.0, 1.0, -1.0])), nodes=2)
    assert main(["inspect", str(store.path)]) == 0
    said = capsys.readouterr().out
    assert "row norms   0 to 0, root mean square 0; 4 empty rows" in said
    assert "kappa_s 1, kappa 1" in said


def test_verify(store: ShardStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(store.path)]) == 0
    assert capsys.readouterr() == (f"{store.path}: all 2 shards are intact\n", "")
    file = store.array(0, "y").chunk_path(0)
    file.write_bytes(file.read_bytes()[:5])
    assert main(["verify", str(store.path)]) == 1
    assert capsys.readouterr() == (
        f"{file} has 5 bytes instead of 36\n",
        f"1 fault in {store.path}; delete it and ingest again.\n",
    )
    assert main(["verify", str(store.path / "absent")]) == 2
    assert capsys.readouterr() == ("", f"{store.path}/absent does not exist.\n")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["ingest", "synthetic", "--node", "3"], "--node is not known; did you mean --nodes?"),
        (["ingest", "synthetic", "--nodes", "3", "--partion=x"], "--partion=x is not known; did you mean --partition?"),
        (["ingest", "synthetic", "--nodes", "3", "--stores", "x"], "--stores is not known; did you mean --store?"),
        (["ingest", "synthetic", "--nodes", "3", "--qqq"], "--qqq is not known; see --help."),
        (["ingest", "synthetic"], "the number of nodes is missing; say it with --nodes N."),
        (["ingest", "synthetic", "rows", "--nodes", "3"], "rows is not of the form KEY=VALUE."),
        (
            ["ingest", "synthetic", "row=3", "--nodes", "3"],
            "row is not an option of synthetic. Did you mean rows? "
            "Options: rows, features, density, condition, seed, task, noise.",
        ),
        (["inspect", "x", "--jsn"], "--jsn is not known; did you mean --json?"),
        (["verify", "x", "y"], "y is one too many: this command takes one store at a time."),
        (["inspect", "x", "y", "--json"], "y is one too many: this command takes one store at a time."),
    ],
)
def test_wrong_usage(arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", fault + "\n")


@pytest.mark.parametrize("arguments", [[], ["ingets"], ["ingest", "synthetic", "--nodes", "many"], ["inspect"]])
def test_usage_that_argparse_refuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: dtoken-data" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["ingest", "--help"], ["inspect", "-h"], ["verify", "-h"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
    said = capsys.readouterr().out
    for word in ("ingest", "--nodes", "--partition", "KEY=VALUE", "--sigma", "rcv1_like", "last line"):
        assert word in said


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InputError("nodes=5 is odd"), 2, "nodes=5 is odd.\n"),
        (InputError("did you mean rows?"), 2, "did you mean rows?\n"),
        (InputError("Nothing was written."), 2, "Nothing was written.\n"),
        (RunError("the disk is full"), 1, "the disk is full.\n"),
        (OSError(28, "No space left on device", "/x"), 1, "[Errno 28] No space left on device: '/x'.\n"),
        (KeyboardInterrupt(), 130, "interrupted.\n"),
    ],
)
def test_errors_are_one_sentence(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise error

    assert terminal.run_command(command) == status
    assert capsys.readouterr() == ("", said)


def test_unexpected_errors_keep_their_traceback() -> None:
    def command() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        terminal.run_command(command)


def test_a_reader_that_leaves_early(store: ShardStore) -> None:
    arguments = [sys.executable, "-m", "dtoken.cli.data", "inspect", str(store.path)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(terminal, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
    file = tmp_path / "[red]x.svm"
    file.write_text(TEXT)
    assert main(["ingest", str(file), "--nodes", "2", "--store", str(tmp_path)]) == 0
    shown = screen.getvalue()
    for stage in ("reading [red]x.svm", "spreading 5 rows", "writing 5 rows of 2 nodes"):
        assert stage in shown
    assert shown.count("100%") >= 3
