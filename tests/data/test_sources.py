"""Sources by name, with their options as text."""

import io
import lzma
from pathlib import Path

import pytest
from sklearn.datasets import load_svmlight_file

from dtoken.data.anndata import AnnData
from dtoken.data.bundled import FILE, Tiny
from dtoken.data.npz import Npz
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.sources import open_source
from dtoken.data.svmlight import Svmlight
from dtoken.data.synthetic import Synthetic
from dtoken.errors import InputError


def test_sources_that_need_no_file() -> None:
    assert open_source("synthetic") == Synthetic()
    options = {"rows": "1e3", "density": "0.5", "task": "regression", "seed": "7"}
    assert open_source("synthetic", options) == Synthetic(rows=1000, density=0.5, task="regression", seed=7)
    assert open_source("rcv1_like", {"rows": "30"}) == Rcv1Like(rows=30)
    assert open_source("tiny") == Tiny()


def test_the_bundled_dataset_is_the_file_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_svmlight_file(io.BytesIO(lzma.decompress(FILE.read_bytes())), zero_based=False, n_features=2000)
    (block,) = Tiny().blocks()
    assert (block.indptr == X.indptr).all()
    assert (block.indices == X.indices + 1).all()  # as in the file, whose first index is 1
    assert (block.data == X.data).all()
    assert (block.y == y).all()
    copy = tmp_path / "moved.svm.xz"
    copy.write_bytes(FILE.read_bytes())
    before = Tiny().identity()
    monkeypatch.setattr("dtoken.data.bundled.FILE", copy)
    assert Tiny().identity() == before


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("x.svm", "x.npz"):
        (tmp_path / name).write_text("1 1:1")
    (tmp_path / "x.zarr").mkdir()
    assert open_source("~/x.svm") == Svmlight(tmp_path / "x.svm")
    options = {"index_base": "0", "features": "9"}
    assert open_source(str(tmp_path / "x.svm"), options) == Svmlight(tmp_path / "x.svm", 0, 9)
    options = {"index_base": "auto", "features": "none"}
    assert open_source(str(tmp_path / "x.svm"), options) == Svmlight(tmp_path / "x.svm")
    assert open_source(str(tmp_path / "x.npz"), {"y": "~/y.npy"}) == Npz(tmp_path / "x.npz", tmp_path / "y.npy")
    source = open_source(str(tmp_path / "x.zarr"), {"y": "obs/label"})
    assert source == AnnData(tmp_path / "x.zarr", y="obs/label")


@pytest.mark.parametrize(
    ("where", "options", "fault"),
    [
        (
            "synthetic",
            {"row": "5"},
            "row is not an option of synthetic. Did you mean rows? "
            "Options: rows, features, density, condition, seed, task, noise",
        ),
        ("rcv1_like", {"zzz": "5"}, "zzz is not an option of rcv1_like. Options: rows, features, nonzeros, seed"),
        ("tiny", {"rows": "5"}, "rows is not an option of tiny. Options: none"),
        ("synthetic", {"rows": "many"}, "rows=many is not an integer"),
        ("synthetic", {"rows": "1.5"}, "rows=1.5 is not an integer"),
        ("synthetic", {"rows": "inf"}, "rows=inf is not an integer"),
        ("synthetic", {"density": "half"}, "density=half is not a number"),
        ("synthetic", {"task": "ranking"}, "task=ranking is not known; use one of classification, regression"),
        ("synthetic", {"rows": "-3"}, "data.rows=-3 must be an integer from 1 to 4611686018427387904"),
        ("rcv1like", {}, "rcv1like does not exist; did you mean rcv1_like?"),
        ("nowhere.svm", {}, "nowhere.svm does not exist"),
    ],
)
def test_refused(where: str, options: dict[str, str], fault: str) -> None:
    with pytest.raises(InputError) as caught:
        open_source(where, options)
    assert str(caught.value) == fault


def test_refused_option_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.svm").write_text("1 1:1")
    with pytest.raises(InputError, match=r"index_base=2 is not known; use one of 0, 1$"):
        open_source(str(tmp_path / "x.svm"), {"index_base": "2"})
    with pytest.raises(InputError, match=r"threads is not an option of .*\. Options: index_base, features$"):
        open_source(str(tmp_path / "x.svm"), {"threads": "2"})
