"""What control groups of both versions tell about processes that had too little memory."""

from pathlib import Path

import pytest

from hydra_dask.cluster.cgroup import out_of_memory_kills

KINDS = {
    "v2": ("0::/slurm/job_7/step_0\n", "slurm/job_7/step_0/memory.events", "low 0\noom 3\noom_kill 2\n"),
    "v1": (
        "5:cpu,cpuacct:/x\n4:memory:/slurm/job_7\n",
        "memory/slurm/job_7/memory.oom_control",
        "under_oom 0\noom_kill 2\n",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kills_are_counted(kind: str, tmp_path: Path) -> None:
    own, file, text = KINDS[kind]
    (tmp_path / "own").write_text(own)
    assert out_of_memory_kills(tmp_path, tmp_path / "own") == 0
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert out_of_memory_kills(tmp_path, tmp_path / "own") == 2


def test_where_there_are_no_control_groups_nothing_is_told(tmp_path: Path) -> None:
    assert out_of_memory_kills(tmp_path, tmp_path / "own") == 0
