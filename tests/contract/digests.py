"""Small runs of everything, reduced to digests: what a change of structure must leave as it is, to the last bit.

``python -m tests.contract.digests`` writes the digests of the code as it is now to ``digests.json``. Do that only for a
change that is meant to change results, and say in the commit why.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zarr

import dtoken
from dtoken.compiled import compiled

FILE = Path(__file__).with_suffix(".json")
DATA = {"kind": "synthetic", "rows": 240, "features": 12, "seed": 3}
COMMON: dict[str, Any] = {"data": DATA, "nodes": 8, "sigma": 1e-2, "stop": {"passes": 12}, "record": {"events": True}}
LAZY = {"kind": "ring", "walk": "lazy"}
ZERO = {"start": "zero"}  # whatever the default is
PERMUTED = {"sampling": "permuted", "bucket_rows": 4}
CASES: dict[str, dict[str, Any]] = {
    "token": {"algorithm": {"_target_": "token", **ZERO}},
    "token, 3 tokens, on arrival": {"algorithm": {"_target_": "token", **ZERO, "tokens": 3, "compute": "on_arrival"}},
    "token, in blocks": {"algorithm": {"_target_": "token", **ZERO, "block_rows": 4}},
    "tvr": {"algorithm": {"_target_": "tvr", **ZERO}},
    "tvr, 4 tokens, ring": {"algorithm": {"_target_": "tvr", **ZERO, "tokens": 4}, "graph": "ring"},
    "tvr, uniform, grid": {"algorithm": {"_target_": "tvr", **ZERO, "sampling": "uniform"}, "graph": "grid"},
    "tvr, on arrival": {"algorithm": {"_target_": "tvr", **ZERO, "compute": "on_arrival"}, "stop": {"passes": 3}},
    "tvr, tokens meet": {"algorithm": {"_target_": "tvr", **ZERO, "tokens": 4, "interactions": 0.1}},
    "tvr, blocks of rows": {"algorithm": {"_target_": "tvr", **ZERO, "block_rows": 4}},
    "tvr, mixed": {"algorithm": {"_target_": "tvr", **ZERO, "tokens": 2, "jumps": "auto"}, "graph": LAZY},
    "tvr, directed": {"algorithm": {"_target_": "tvr", **ZERO}, "graph": "directed_random"},
    "tvr, time-varying": {"algorithm": {"_target_": "tvr", **ZERO, "tokens": 3}, "graph": "time_varying"},
    "tvr, squared": {"algorithm": {"_target_": "tvr", **ZERO}, "loss": "squared"},
    "tvr, unequal nodes": {
        "algorithm": {"_target_": "tvr", **ZERO},
        "partition": {"kind": "shuffled", "sizes": "unequal"},
    },
    "tavr": {"algorithm": {"_target_": "tavr", **ZERO}},
    "tavr, 2 tokens, ring": {"algorithm": {"_target_": "tavr", **ZERO, "tokens": 2}, "graph": LAZY},
    "tavr, continuized": {"algorithm": {"_target_": "tavr", **ZERO, "continuized": True}},
    "tavr, smooth hinge": {"algorithm": {"_target_": "tavr", **ZERO}, "loss": "smooth_hinge"},
    "walkman": {"algorithm": "walkman"},
    "walkman, proximal": {"algorithm": {"_target_": "walkman", "mode": "proximal"}},
    "gd": {"algorithm": "gd"},
    "gd, ring": {"algorithm": {"_target_": "gd", "allreduce": "ring"}},
    "extra": {"algorithm": "extra", "graph": "ring"},
    "nids": {"algorithm": "nids", "graph": "ring"},
    "dvr": {"algorithm": {"_target_": "dvr", **ZERO}, "graph": "ring"},
    "tvr, permuted": {"algorithm": {"_target_": "tvr", **ZERO, "tokens": 2, **PERMUTED}},
    "tavr, permuted": {"algorithm": {"_target_": "tavr", **ZERO, **PERMUTED}},
    "sdca": {"algorithm": "sdca"},
    "sdca, uniform, directed": {
        "algorithm": {"_target_": "sdca", "share": 0.1, "sampling": "uniform"},
        "graph": "directed_random",
    },
    "dvr, permuted": {"algorithm": {"_target_": "dvr", **ZERO, **PERMUTED}, "graph": "ring"},
}


def found(case: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The digests of a run, and its last numbers for machines whose functions round differently."""
    dtoken.run(**(COMMON | dict(case)), directory=directory)
    events = pd.read_parquet(directory / "events.parquet")
    trajectory = pd.read_parquet(directory / "trajectory.parquet").drop(columns="wall")
    result = zarr.open_group(directory / "result.zarr", mode="r")
    models = {name: np.asarray(result[name]) for name in ("theta", "tokens", "nodes")}
    return {
        "events": _digest({name: _plain(events[name]) for name in events.columns if name != "at"}),
        "times": _digest({"at": events["at"].to_numpy(np.float64)} if "at" in events else {}),
        "trajectory": _digest({name: trajectory[name].to_numpy() for name in trajectory.columns}),
        "models": _digest(models),
        "end": {name: float(value) for name, value in trajectory.iloc[-1].items()},
    }


def _plain(column: "pd.Series[Any]") -> Any:
    words = column.dtype == object or column.dtype == "category"
    return column.astype(str).to_numpy(str) if words else column.to_numpy()


def _digest(arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


@compiled
def _functions(x: Any, out: Any) -> None:
    for i in range(len(x)):
        out[0, i], out[1, i], out[2, i] = np.exp(x[i]), np.log1p(x[i]), np.expm1(-x[i])


def machine() -> str:
    """How this machine rounds what the results depend on: elementary functions, and sums of products."""
    x = np.linspace(0.01, 7.0, 1001)
    out = np.empty((3, len(x)))
    _functions(x, out)
    matrix = np.outer(x, x[:50])
    sums = {"product": matrix.T @ matrix, "eigenvalues": np.linalg.eigvalsh(matrix[:50] + matrix[:50].T)}
    return _digest({"compiled": out, "numpy": np.stack([np.exp(x), np.log1p(x)]), **sums})


def main() -> int:
    """Write the digests of the code as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: found(case, Path(folder) / str(number)) for number, (name, case) in enumerate(CASES.items())}
    FILE.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
