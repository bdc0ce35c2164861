"""What tests of several packages share: the real datasets, tiny sources and stores, and child processes."""

import hashlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rows import RowBlock
from dtoken.data.store import ShardStore
from tests.waiting import NEVER

ROOT = Path(__file__).parent.parent
collect_ignore = ["sweep/faulty.py"]  # changes what it imports: for the processes of sweeps only

# The first call of a compiled function compiles it, and the machine may have other work: no example is too slow.
settings.register_profile("dtoken", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dtoken")


def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: tests of batch systems mostly wait, and come early, beside the others."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real datasets (tests marked ``real_data``): DTOKEN_REAL_DATA or ../shared/data."""
    folder = Path(os.environ.get("DTOKEN_REAL_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "a9a.xz").is_file():
        pytest.skip(f"no real datasets in {folder}; say where they are with DTOKEN_REAL_DATA")
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Rows:
    """A matrix in memory as a source."""

    matrix: Any  # CSR
    y: NDArray[np.float64]
    block_rows: int = 7
    name: str = "rows"
    index_base: int | None = 0

    @property
    def features(self) -> int:
        return int(self.matrix.shape[1])

    def identity(self) -> dict[str, object]:
        arrays = (self.matrix.data, self.matrix.indices, self.matrix.indptr, self.y)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
        return {"kind": "rows", "digest": digest.hexdigest()}

    def blocks(self, *, advance: Callable[[float], None] | None = None) -> Iterator[RowBlock]:
        for start in range(0, len(self.y), self.block_rows):
            part = self.matrix[start : start + self.block_rows]
            labels = self.y[start : start + self.block_rows]
            yield RowBlock(part.data, part.indices.astype(np.int32), part.indptr.astype(np.int64), labels)
            if advance is not None:
                advance((start + len(labels)) / len(self.y))


@pytest.fixture
def rows_source() -> type[Rows]:
    return Rows


@pytest.fixture
def random_rows() -> Callable[..., Rows]:
    """Random sparse rows, every fifth of them empty, with labels -1 and +1 or real numbers."""

    def make(rows: int = 50, features: int = 12, *, seed: int = 0, classes: bool = True) -> Rows:
        rng = np.random.default_rng(seed)
        dense = rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.4)
        dense[::5] = 0.0
        y = rng.standard_normal(rows)
        return Rows(sp.csr_array(dense), np.where(y > 0, 1.0, -1.0) if classes else y)

    return make


@pytest.fixture
def make_store(tmp_path: Path, random_rows: Callable[..., Rows]) -> Callable[..., ShardStore]:
    """Make a small store below ``tmp_path``: of ``source``, or of random rows."""

    def make(source: Any = None, nodes: int = 3, labels: Any = "auto", **partition: Any) -> ShardStore:
        source = random_rows() if source is None else source
        return ingest(source, Partition(nodes, **partition), root=tmp_path / "stores", labels=labels)

    return make


@pytest.fixture(scope="session")
def start_child() -> Callable[..., Any]:
    """Start Python code in a process of its own; the keywords become the code's variables."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dtoken.cli.data", "dtoken.data.ingest", "dtoken.data.sources"])

    def start(code: str, **variables: Any) -> Any:
        process = context.Process(target=exec, args=(code, variables), daemon=True)
        process.start()
        return process

    return start


@pytest.fixture(scope="session")
def run_child(start_child: Callable[..., Any]) -> Callable[..., int]:
    """Run Python code in a process of its own and return its exit status (-9: killed by SIGKILL)."""

    def run(code: str, **variables: Any) -> int:
        process = start_child(code, **variables)
        process.join(NEVER)
        assert process.exitcode is not None, "the child did not end"
        return int(process.exitcode)

    return run
