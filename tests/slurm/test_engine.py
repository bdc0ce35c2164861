"""A run whose nodes are spread over threads of jobs of a real SLURM, one of which is cancelled: equal bits."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dtoken
from dtoken.config.settings import make_settings
from dtoken.session.execute import execute
from dtoken.session.prepare import prepare_run
from tests.slurm.site import Site
from tests.waiting import until


@dataclass
class Cancels:
    """Waits for two workers before the run starts, and cancels the job of one at the third record."""

    site: Site
    logs: Path
    records: int = 0
    notes: list[str] = field(default_factory=list)
    cancelled: str = ""

    def events(self, count: int) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show(self, name: str, text: str) -> None:
        assert "2 jobs on slurm" in text
        until(lambda: sum("Registered to" in path.read_text() for path in self.logs.glob("*.err")) == 2)

    def record(self, record: Any) -> None:
        self.records += 1
        if self.records == 3:
            self.cancelled = self.site.jobs()[0]
            self.site.call("scancel", self.cancelled)
            until(lambda: self.cancelled not in self.site.jobs("R,CG"))


def test_a_run_gives_equal_bits_while_a_job_is_cancelled(site: Site, shared: Path, tmp_path: Path) -> None:
    problem: dict[str, Any] = {
        "data": {"kind": "synthetic", "rows": 120, "features": 6, "store": tmp_path / "stores"},
        "nodes": 6,
        "graph": "ring",
        "algorithm": {"_target_": "tvr", "tokens": 2},
        "stop": {"passes": 60},
        "record": {"every_passes": 5},
    }
    expected = dtoken.run(**problem)
    cluster = {"kind": "slurm", "workers": 2, "cores": 2, "memory": "1GB", "shared": shared}
    engine = {"kind": "dask", "silence": 30.0}  # both take part, even if the machine is slow
    settings = make_settings(**problem, engine=engine, cluster=cluster, checkpoint={"every": 2})
    (tmp_path / "run").mkdir()
    watching = Cancels(site, shared / "logs")
    found = execute(prepare_run(settings), tmp_path / "run", watching)
    assert site.state(watching.cancelled) == "CANCELLED"
    assert found.summary["engine"]["faults"] >= 1
    assert "went on with" in watching.notes[0]
    hops = found.summary["engine"]["hops"]
    assert hops["threads"] > 0
    assert hops["shared"] > 0  # the jobs are on one machine
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.theta, expected.theta)
    same = [name for name in expected.trajectory.columns if name != "wall"]
    assert found.trajectory[same].equals(expected.trajectory[same])
