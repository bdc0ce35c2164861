"""Folders of runs made by hand: what collection and report read, without running anything."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

TARGETS = {"token": "Token", "tvr": "TVR", "tavr": "TAVR", "gd": "GD"}


def config(algorithm: str = "tvr", *, tokens: int = 1, graph: str = "complete", seed: int = 0, **more: Any) -> Any:
    """The settings of a run, nested as in ``summary.json``."""
    method = {"_target_": f"dtoken.algorithms.{algorithm}.{TARGETS[algorithm]}"}
    method |= {} if algorithm == "gd" else {"tokens": tokens}
    found = {
        "data": {"kind": "synthetic", "rows": 40, "store": None},
        "nodes": 4,
        "problem": {"loss": "logistic", "sigma": 0.01},
        "graph": {"kind": graph, "walk": "simple" if graph == "complete" else "lazy"},
        "algorithm": method,
        "record": {"accuracies": [1e-2, 1e-4]},
        "seed": seed,
    }
    return found | more


def trajectory(rate: float = 0.5, points: int = 10, jumps: int = 7, first: float = 1.0) -> pd.DataFrame:
    """Record points of a run that falls by ``rate`` from one to the next."""
    k = np.arange(points)
    return pd.DataFrame(
        {
            "event": 10 * k,
            "jumps": jumps * k,
            "messages": (jumps - 1) * k,
            "gradients": 40 * k,
            "passes": 1.0 * k,
            "time": 100.0 * jumps * k,
            "wall": 0.01 * k,
            "objective": 2.0 + first * rate**k,
            "suboptimality": first * rate**k,
            "distance": 3.0 * first * rate**k,
            "consensus": 2.0 * first * rate**k,
        }
    )


def write_run(
    folder: Path,
    settings: Mapping[str, Any],
    table: pd.DataFrame | None,
    *,
    status: str = "done",
    failure: str | None = None,
    overrides: Sequence[str] = (),
    **more: Any,
) -> Path:
    """A run directory; without a table it has no trajectory."""
    (folder / ".hydra").mkdir(parents=True)
    OmegaConf.save(list(overrides), folder / ".hydra" / "overrides.yaml")
    OmegaConf.save(settings, folder / ".hydra" / "config.yaml")
    summary = {
        "status": status,
        "failure": failure,
        "algorithm": settings["algorithm"]["_target_"].rpartition(".")[2].lower(),
        "constants": {"kappa": 30.0, "token_start": [0]},
        "data": {"key": "x.zarr", "path": "/nowhere/x.zarr", "nodes": 4, "features": 5, "rows": 40, "nonzeros": 200},
        "graph": {"kind": settings["graph"]["kind"], "walk": settings["graph"]["walk"], "nodes": 4},
        "provenance": {
            "dtoken": "0.1.0",
            "python": "3.12.0",
            "host": "h",
            "packages": {"numpy": "2.3"},
            "git": {"commit": "0123456789abcdef", "dirty": False},
            "command": ["dtoken", "-m"],
            "started": "2026-01-01T10:00:00+00:00",
            "ended": "2026-01-01T10:00:30+00:00",
        },
        "config": settings,
        "predicted_rate": 0.01,
        "paper_rate": None,
        "rate_is_proved": True,
        "measured_rate": 0.02,
        "end": None if table is None else dict(table.iloc[-1]),
    }
    (folder / "summary.json").write_text(json.dumps(summary | more))
    if table is not None:
        table.to_parquet(folder / "trajectory.parquet")
    return folder


def write_manifest(folder: Path, jobs: Sequence[Mapping[str, Any]]) -> None:
    """``manifest.json`` with the keys that are given, the others as of a job that waits."""
    waiting = {"status": "waiting", "attempts": 0, "error": None, "log": None, "started": None, "ended": None}
    full = [{"id": str(index), "index": index, **waiting, **job} for index, job in enumerate(jobs)]
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "command": ["dtoken", "-m"], "jobs": full}))
