"""Matrices from scipy and anndata as sources."""

import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from dtoken.data.anndata import AnnData
from dtoken.data.ingest import ingest
from dtoken.data.npz import Npz
from dtoken.data.partition import Partition
from dtoken.data.rows import concatenate
from dtoken.errors import InputError, RunError

# anndata announces its next defaults, and zarr what anndata does
pytestmark = [
    pytest.mark.filterwarnings("ignore:Writing zarr v2 data"),
    pytest.mark.filterwarnings("ignore:zarr v3 autosharding"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata"),
    pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 specification"),
]


def random_matrix(rows: int = 60, columns: int = 9, seed: int = 0) -> sp.csr_matrix:
    return sp.random(rows, columns, 0.3, "csr", rng=np.random.default_rng(seed))


def read(source: Npz | AnnData) -> tuple[sp.csr_matrix, np.ndarray]:
    block = concatenate(list(source.blocks()))
    shape = (block.rows, source.features)
    return sp.csr_matrix((block.data, block.indices, block.indptr), shape=shape), block.y


def add_labels(file: Path, y: np.ndarray) -> None:
    np.save(file.parent / "member.npy", y)
    with zipfile.ZipFile(file, "a") as archive:
        archive.write(file.parent / "member.npy", "y.npy")


@pytest.fixture(params=[1 << 19, 10], ids=["one slice", "many slices"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matrices.SLICE_ENTRIES", "matrices.SLICE_ROWS", "anndata.SLICE_ENTRIES"):
        monkeypatch.setattr(f"dtoken.data.{name}", request.param)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("labels", ["member", "file"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_npz(tmp_path: Path, compressed: bool, labels: str, dtype: str) -> None:
    matrix = (10 * random_matrix()).astype(dtype)
    y = np.arange(60) % 2
    file = tmp_path / "x.npz"
    sp.save_npz(file, matrix, compressed=compressed)
    if labels == "file":
        np.save(tmp_path / "y.npy", y)
        source = Npz(file, tmp_path / "y.npy")
    else:
        add_labels(file, y)
        source = Npz(file)
    ours, our_y = read(source)
    theirs = sp.load_npz(file).astype(np.float64)
    assert (ours != theirs).nnz == 0
    assert ours.shape == theirs.shape
    assert our_y.tolist() == y.tolist()


@pytest.mark.usefixtures("slices")
def test_unsorted_indices_and_duplicates_become_canonical(tmp_path: Path) -> None:
    data, indices = np.array([1.0, 2.0, 3.0, 4.0, 0.0]), np.array([3, 0, 3, 1, 0])
    matrix = sp.csr_matrix((data, indices, np.array([0, 3, 3, 5])), shape=(3, 5))
    file = tmp_path / "x.npz"
    sp.save_npz(file, matrix)
    add_labels(file, np.array([True, False, True]))
    ours, y = read(Npz(file))
    assert ours.indices.tolist() == [0, 3, 0, 1]
    assert ours.data.tolist() == [2.0, 4.0, 0.0, 4.0]
    assert ours.indptr.tolist() == [0, 2, 2, 4]
    assert y.tolist() == [1.0, 0.0, 1.0]


def test_a_format_written_as_text(tmp_path: Path) -> None:
    matrix = random_matrix()
    names = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "x.npz", format="csr", y=np.arange(60.0), **names)
    assert (read(Npz(tmp_path / "x.npz"))[0] != matrix).nnz == 0


def npz_members(**changes: Any) -> dict[str, Any]:
    matrix = random_matrix()
    members = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    return members | {"format": b"csr", "y": np.arange(60.0)} | changes


def changed(array: np.ndarray, place: int, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


BASE = random_matrix()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"format": b"csc"}, "x.npz holds a csc matrix, and dtoken reads csr; save X.tocsr()"),
        ({"y": None}, "x.npz has no member y; give the labels with y=FILE.npy"),
        ({"indptr": None}, "x.npz has no member indptr; write it with scipy.sparse.save_npz"),
        ({"y": np.arange(59.0)}, "x.npz has 59 labels for 60 rows"),
        ({"y": np.array(["a"] * 60)}, "x.npz holds <U1 instead of numbers"),
        ({"y": changed(np.ones(60), 7, np.nan)}, "x.npz: the label of row 7 is not a finite number"),
        ({"data": BASE.data.astype(complex)}, "x.npz holds complex128 instead of numbers"),
        (
            {"data": changed(BASE.data, int(BASE.indptr[33]), np.inf)},
            "x.npz: a value of row 33 is not a finite number",
        ),
        ({"indices": changed(BASE.indices, 4, 9)}, "x.npz: a column lies outside 0..8"),
        ({"indices": changed(BASE.indices, 4, -1)}, "x.npz: a column lies outside 0..8"),
        ({"indptr": changed(BASE.indptr, 5, 99)}, "x.npz: its row starts (indptr) decrease"),
        ({"indptr": changed(BASE.indptr, 0, 1)}, "x.npz: its row starts (indptr) do not begin with 0"),
        ({"indptr": changed(BASE.indptr, 60, 9999)}, "x.npz ends early; it was cut short"),
    ],
)
def test_npz_files_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    members = {name: array for name, array in npz_members(**changes).items() if array is not None}
    np.savez(tmp_path / "x.npz", **members)
    with pytest.raises(InputError) as caught:
        read(Npz(tmp_path / "x.npz"))
    assert str(caught.value).startswith(f"{tmp_path}/{fault}")


@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_and_truncated_npz(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / "x.npz"
    (np.savez_compressed if compressed else np.savez)(file, **npz_members())
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        places = {name: archive.getinfo(f"{name}.npy") for name in ("data", "indices", "indptr", "y")}
    file.write_bytes(content[:-100])
    with pytest.raises(InputError, match=r"x\.npz is not an \.npz file, or it was cut short"):
        read(Npz(file))
    for name, info in places.items():
        damaged = bytearray(content)
        damaged[info.header_offset + 30 + len(name) + 20 + info.compress_size - 7] ^= 0x10
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"x\.npz"):
            read(Npz(file))


def write_anndata(path: Path, x: Any, y: np.ndarray, zarr_format: int = 3) -> None:
    table = anndata.AnnData(x)
    table.obs["number"] = y
    table.obs["name"] = pd.Categorical.from_codes((y > 0).astype(int), ["no", "yes"])
    table.obs["text"] = [f"row {i}" for i in range(len(y))]
    with anndata.settings.override(zarr_write_format=zarr_format):
        table.write_zarr(path)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_anndata(tmp_path: Path, dense: bool, zarr_format: int) -> None:
    matrix = random_matrix()
    y = np.where(np.arange(60) % 3 == 0, 1.0, -1.0)
    write_anndata(tmp_path / "a.zarr", matrix.toarray() if dense else matrix, y, zarr_format)
    ours, numbers = read(AnnData(tmp_path / "a.zarr", y="obs/number"))
    assert (ours != matrix).nnz == 0
    assert ours.shape == matrix.shape
    assert numbers.tolist() == y.tolist()
    _, codes = read(AnnData(tmp_path / "a.zarr", y="obs/name"))
    assert codes.tolist() == (y > 0).tolist()


def test_anndata_that_cannot_be_used(tmp_path: Path) -> None:
    matrix = random_matrix()
    path = tmp_path / "a.zarr"
    write_anndata(path, matrix.tocsc(), np.arange(60.0))

    def fault(**options: str) -> str:
        with pytest.raises(InputError) as caught:
            read(AnnData(path, **options))
        return str(caught.value)

    assert fault(y="obs/number") == (
        f"{path}/X is no matrix that dtoken reads (encoding csc_matrix); use a csr_matrix or a dense array"
    )
    shutil.rmtree(path)
    write_anndata(path, matrix, np.arange(60.0))
    assert fault() == f"{path} has no y; say where it is with x=... and y=..."
    assert fault(x="Z") == f"{path} has no Z; say where it is with x=... and y=..."
    assert "instead of numbers" in fault(y="obs/text")
    assert fault(y="obs") == f"{path}/obs holds no labels that dtoken reads (encoding dataframe)"
    assert fault(x="obs", y="obs/number").startswith(f"{path}/obs is no matrix that dtoken reads")
    codes = zarr.open_array(path / "obs" / "name" / "codes", mode="r+")
    codes[3] = -1
    assert fault(y="obs/name") == f"{path}/obs/name has rows without a label; leave them out"
    for chunk in sorted(path.glob("X/data/**/*")):
        if chunk.is_file() and chunk.name not in (".zarray", ".zattrs", "zarr.json"):
            chunk.write_bytes(chunk.read_bytes()[:9])
    assert fault(y="obs/number").startswith(f"{path} is damaged (")


def test_identity_follows_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write_anndata(path, random_matrix(), np.arange(60.0))
    source = AnnData(path, y="obs/number")
    before = source.identity()
    assert source.identity() == before
    numbers = zarr.open_array(path / "obs" / "number", mode="r+")
    numbers[0] = 77.0
    assert source.identity() != before

    file = tmp_path / "x.npz"
    np.savez(file, **npz_members())
    np.save(tmp_path / "y.npy", np.arange(60.0))
    source = Npz(file, tmp_path / "y.npy")
    before = source.identity()
    np.save(tmp_path / "y.npy", np.arange(60))
    assert source.identity() != before


def test_a_pack_of_a_store_is_a_source(make_store: Callable[..., Any]) -> None:
    store = make_store(nodes=1)
    again, y = read(AnnData(store.path, x="packs/0/X", y="packs/0/y"))
    shard = store.shard(0)
    assert again.data.tobytes() == shard.data.tobytes()
    assert again.indices.tolist() == shard.indices.tolist()
    assert y.tolist() == shard.y.tolist()
    assert again.shape == (store.node_rows[0], store.d)


def members(matrix: sp.csr_matrix, **changed: Any) -> dict[str, Any]:
    arrays = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    arrays["y"] = np.arange(matrix.shape[0]) % 2
    return arrays | {"shape": np.array(matrix.shape), "format": np.array(b"csr")} | changed


ODD: dict[str, Callable[[sp.csr_matrix], dict[str, Any]]] = {
    "indices with NaN": lambda m: {"indices": np.where(np.arange(m.nnz) == 3, np.nan, m.indices)},
    "fractional indices": lambda m: {"indices": m.indices + 0.5},
    "real row starts": lambda m: {"indptr": m.indptr.astype(float)},
    "index -1": lambda m: {"indices": np.where(np.arange(m.nnz) == 3, -1, m.indices)},
    "index 2^31": lambda m: {"indices": np.where(np.arange(m.nnz) == 3, 2**31, m.indices.astype(np.int64))},
    "index 2^32": lambda m: {"indices": np.where(np.arange(m.nnz) == 3, 2**32, m.indices.astype(np.int64))},
    "row starts that go back": lambda m: {"indptr": m.indptr[::-1].copy()},
    "row starts beyond": lambda m: {"indptr": m.indptr + 5},
    "wild row starts": lambda m: {"indptr": np.full(len(m.indptr), 2**62)},
    "too few row starts": lambda m: {"indptr": m.indptr[:-1]},
    "too few indices": lambda m: {"indices": m.indices[:-1]},
    "too many values": lambda m: {"data": np.append(m.data, 1.0)},
    "no indices": lambda m: {"indices": np.array(7)},
    "values of two dimensions": lambda m: {"data": np.tile(m.data, (2, 1))},
    "text": lambda m: {"data": np.array(["x"] * m.nnz)},
    "objects": lambda m: {"data": np.array([None] * m.nnz)},
    "complex": lambda m: {"data": m.data + 1j},
    "dates": lambda m: {"y": np.array(["2026-01-01"] * m.shape[0], "datetime64[D]")},
    "records": lambda m: {"y": np.zeros(m.shape[0], [("a", "f8")])},
    "no rows of labels": lambda m: {"y": np.array([])},
    "labels with NaN": lambda m: {"y": np.full(m.shape[0], np.nan)},
    "no shape": lambda m: {"shape": np.array([])},
    "three sizes": lambda m: {"shape": np.array([60, 9, 2])},
    "real sizes": lambda m: {"shape": np.array([60.0, 9.0])},
    "negative rows": lambda m: {"shape": np.array([-60, 9])},
    "no columns": lambda m: {"shape": np.array([60, 0])},
    "too many columns": lambda m: {"shape": np.array([60, 2**31])},
    "sizes beyond all": lambda m: {"shape": np.array([2**62, 9])},
    "another format": lambda m: {"format": np.array(b"coo")},
    "a format in numbers": lambda m: {"format": np.array(7)},
    "values that add up to infinity": lambda m: {
        "data": np.full(m.nnz, 1.7e308),
        "indices": np.zeros(m.nnz, np.int32),
    },
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_members_get_a_sentence_about_the_file(tmp_path: Path, odd: str) -> None:
    matrix, file = random_matrix(), tmp_path / "x.npz"
    np.savez(file, **members(matrix, **ODD[odd](matrix)))
    with pytest.raises(InputError) as caught:
        ingest(Npz(file), Partition(2), root=tmp_path / "stores")
    assert str(file) in str(caught.value)
    assert not list((tmp_path / "stores").glob("*.zarr"))


def test_damaged_archives_get_a_sentence_about_the_file(tmp_path: Path) -> None:
    """Any changed bit: refused, or the same rows."""
    file = tmp_path / "x.npz"
    np.savez_compressed(file, **members(random_matrix(12, 4)))
    whole, expected = file.read_bytes(), [array.tobytes() for array in concatenate(list(Npz(file).blocks()))]
    rng = np.random.default_rng(0)
    for _ in range(150):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(content)
        with suppress(InputError, RunError):
            assert [array.tobytes() for array in concatenate(list(Npz(file).blocks()))] == expected


def test_a_missing_chunk_is_not_taken_for_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    group = zarr.create_group(path)
    matrix = random_matrix()
    x = group.create_group("X", attributes={"encoding-type": "csr_matrix", "shape": list(matrix.shape)})
    for name in ("indptr", "indices", "data"):
        x.create_array(name, data=getattr(matrix, name), chunks=(20,))
    group.create_array("y", data=np.arange(60) % 2 + 1, chunks=(20,))
    assert read(AnnData(path))[1].tolist() == (np.arange(60) % 2 + 1).tolist()
    for lost in ("X/data/c/1", "X/indices/c/0", "X/indptr/c/2", "y/c/1"):
        kept = (path / lost).read_bytes()
        (path / lost).unlink()
        array = lost.partition("/c/")[0]
        with pytest.raises(InputError, match=rf"lacks 1 of \d+ chunks of {array}: lost, or left out"):
            read(AnnData(path))
        (path / lost).write_bytes(kept)
