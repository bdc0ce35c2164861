"""Arrays on disk are what other tools read as a zarr group, and what was damaged is noticed."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from dtoken.engine.loop import arrays

CONTENT = {
    "tokens": np.linspace(0.0, 1.0, 24).reshape(3, 8),
    "below/count": np.arange(40),
    "flags": np.array([True, False]),
    "none": np.zeros((3, 0)),
}


@pytest.mark.parametrize("chunk_bytes", [1 << 23, 100])
def test_zarr_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(arrays, "CHUNK_BYTES", chunk_bytes)
    arrays.write_arrays(tmp_path / "all", CONTENT, {"note": 7})
    group = zarr.open_group(tmp_path / "all", mode="r")
    listed = dict(group.attrs)
    assert listed.pop("checksums")
    assert listed == {"note": 7, "arrays": sorted(CONTENT)}
    assert {name for name, _ in group.members(max_depth=None)} == {*CONTENT, "below"}
    for name, array in CONTENT.items():
        stored = group[name]
        assert isinstance(stored, zarr.Array)
        assert stored.dtype == array.dtype
        assert stored.nchunks_initialized == stored.nchunks
        np.testing.assert_array_equal(np.asarray(stored), array)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    arrays.write_arrays(tmp_path / "all", CONTENT)
    chunk = tmp_path / "all/tokens/c/0/0"
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(ValueError, match=r"[Cc]hecksum"):
        np.asarray(zarr.open_group(tmp_path / "all", mode="r")["tokens"])


def test_everything_that_is_not_in_its_place_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks swapped inside an array and between arrays, metadata of another array, a root that fits them."""
    monkeypatch.setattr(arrays, "CHUNK_BYTES", 64)
    content = {"a": np.arange(24.0).reshape(3, 8), "b": np.arange(24.0, 48.0).reshape(3, 8), "c": np.zeros((2, 8))}
    path = tmp_path / "all"
    digest = arrays.write_arrays(path, content)
    assert {name: array.tolist() for name, array in arrays.read_arrays(path, digest).items()} == {
        name: array.tolist() for name, array in content.items()
    }
    for first, second in [("a/c/0/0", "a/c/1/0"), ("a/c/0/0", "b/c/0/0"), ("a/zarr.json", "c/zarr.json")]:
        kept = (path / first).read_bytes()
        (path / first).write_bytes((path / second).read_bytes())
        with pytest.raises(ValueError, match=f"{first} is not what was written there"):
            arrays.read_arrays(path)
        (path / first).write_bytes(kept)
    arrays.write_arrays(path, content | {"a": content["b"]})
    with pytest.raises(ValueError, match="it is not what was written"):
        arrays.read_arrays(path, digest)
