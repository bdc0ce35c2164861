"""Where bytes become objects: exactly where docs/security.md says, and never from a file that somebody handed over."""

import re
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtoken.engine.loop.arrays import read_arrays

ROOT = Path(__file__).parents[2]
UNPICKLES = re.compile(r"pickle\.loads?\(|Unpickler|read_pickle|allow_pickle=True|joblib\.load|yaml\.(unsafe_)?load\(")
OPENS = re.compile(r"np\.load\((?!.*allow_pickle=False)")


def sources() -> dict[str, str]:
    packages = ("dtoken", "hydra_dask", "hydra_plugins")
    return {str(file.relative_to(ROOT)): file.read_text() for name in packages for file in (ROOT / name).rglob("*.py")}


def test_the_list_of_places_is_complete() -> None:
    listed = re.findall(r"^\| `((?:dtoken|hydra_dask)/[^`]*\.py)` \|", (ROOT / "docs/security.md").read_text(), re.M)
    found = {name for name, text in sources().items() if UNPICKLES.search(text)}
    assert found == set(listed)


def test_numpy_files_are_read_without_unpickling() -> None:
    assert not [name for name, text in sources().items() if OPENS.search(text)]


def test_a_result_of_zarr_version_2_is_not_opened(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "result.zarr", mode="w", zarr_format=2)
    group.create_array("theta", data=np.zeros(3))
    group.attrs["arrays"] = ["theta"]
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "result.zarr")
