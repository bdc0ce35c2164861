"""The driver of a sweep as a job of each batch system, with commands that only pretend to be one."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from dtoken.cli.sweep import main
from dtoken.errors import InputError
from dtoken.sweep.submit import Resources, batch_system, driver, submission, submit
from hydra_dask.cluster import CLUSTERS, Jobs

BATCH = [kind for kind, cluster in CLUSTERS.items() if issubclass(cluster, Jobs)]

# How each system is told to run a script, and how it says the number of the job. The pretended ones run it at once.
SUBMIT = {
    "slurm": ("sbatch", 'bash "$1" && echo Submitted batch job 17'),
    "pbs": ("qsub", 'bash "$1" && echo 17.server'),
    "lsf": ("bsub", 'bash /dev/stdin && echo "Job <17> is submitted to queue <fast>."'),
    "sge": ("qsub", 'bash "$1" && echo \'Your job 17 ("dtoken-sweep") has been submitted\''),
    "oar": ("oarsub", 'for last; do :; done; bash -c "$last" && echo OAR_JOB_ID=17'),
}
LIST = {
    "slurm": ("squeue", "17,R"),
    "pbs": ("qstat", "17.server me workq dask 1 1 1 1gb 01:00 R 00:01"),
    "lsf": ("bjobs", "17"),
}
ASKED = {
    "slurm": ["-J dtoken-sweep", "-p long", "--mem=2G", "-t 24:00:00", "--requeue", "--open-mode=append"],
    "pbs": ["-N dtoken-sweep", "-q long", "-l select=1:ncpus=1:mem=1908MB", "-l walltime=24:00:00", "-r y", "-V"],
    "lsf": ["-J dtoken-sweep", "-q long", "-n 1", "-M 2000000", "-W 24:00", "-r"],
    "sge": ["-N dtoken-sweep", "-q long", "-l h_rt=24:00:00", "-r y", "-V"],
    "htcondor": ["batch_name = dtoken-sweep", "MY.DaskWorkerMemory = 2000000000", "getenv = True"],
    "oar": ["-n dtoken-sweep", "-q long", "-l /nodes=1/core=1,walltime=24:00:00", "-t idempotent"],
}
PRINTS = "import os, sys; print(os.getcwd(), sys.argv[1], file=sys.stderr)"


def cluster(kind: str, **keys: Any) -> Jobs:
    options = {"options": {"memory_per_core_property_name": "not_applicable"}} if kind == "oar" else {}
    found: Jobs = CLUSTERS[kind](**options | keys)
    return found


def pretend(folder: Path, command: str, text: str) -> None:
    path = folder / command
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("kind", BATCH)
def test_the_job_asks_for_what_a_driver_needs(kind: str, tmp_path: Path) -> None:
    keys = {} if kind == "htcondor" else {"queue": "long"}
    script = driver(["-m", "x"], tmp_path, tmp_path / "sweep", Resources()).script(cluster(kind, **keys))
    assert all(line in script for line in ASKED[kind])
    assert f"exec {sys.executable} -P -m x >> {tmp_path}/sweep/driver.log" in script


@pytest.mark.parametrize("kind", SUBMIT)
def test_the_command_runs_where_it_should_and_prints_to_the_log(kind: str, tmp_path: Path, commands: Path) -> None:
    pretend(commands, *SUBMIT[kind])
    where = tmp_path / "a folder"
    where.mkdir()
    sweep = tmp_path / "my sweep"
    found = submit(cluster(kind), ["-c", PRINTS, "it's '$HOME'"], where, sweep, Resources())
    assert (found.kind, found.job) == (kind, "17")
    assert submission(sweep) == found
    assert (sweep / "driver.log").read_text() == f"{where} it's '$HOME'\n"


def test_htcondor_gets_the_command_in_its_own_quotes(tmp_path: Path) -> None:
    script = driver(["-c", "it's"], tmp_path, tmp_path, Resources()).script(cluster("htcondor"))
    (line,) = [line for line in script.splitlines() if line.startswith("Arguments = ")]
    inner = line.removeprefix("Arguments = \"-c '").removesuffix("'\"").replace('""', '"').replace("''", "'")
    assert shlex.split(inner.partition("exec ")[2])[:4] == [sys.executable, "-P", "-c", "it's"]


@pytest.mark.parametrize("kind", LIST)
def test_a_sweep_has_one_driver_at_a_time(kind: str, tmp_path: Path, commands: Path) -> None:
    pretend(commands, *SUBMIT[kind])
    command, line = LIST[kind]
    pretend(commands, command, f"echo {line}")
    submit(cluster(kind), ["-c", ""], tmp_path, tmp_path / "sweep", Resources())
    with pytest.raises(InputError, match=f"has a driver already, {kind} job 17"):
        submit(cluster(kind), ["-c", ""], tmp_path, tmp_path / "sweep", Resources())
    pretend(commands, command, "echo")
    submit(cluster(kind), ["-c", ""], tmp_path, tmp_path / "sweep", Resources())


def test_a_refused_driver_is_told(tmp_path: Path, commands: Path) -> None:
    pretend(commands, "sbatch", "echo sbatch: error: no such account >&2; exit 1")
    with pytest.raises(InputError, match="slurm refuses the job: sbatch: error: no such account"):
        submit(cluster("slurm"), ["-c", ""], tmp_path, tmp_path / "sweep", Resources())


def test_only_a_batch_system_has_a_queue(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cluster=local has no queue to submit to"):
        batch_system(CLUSTERS["local"](), tmp_path)


def test_the_command_checks_the_whole_sweep_before_it_submits(
    tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["dtoken-sweep"])
    pretend(commands, "sbatch", 'cat "$1" > submitted.sh; echo Submitted batch job 17')
    pretend(commands, "squeue", "echo 17,PD,Priority")
    words = ["submit", "cluster=slurm", "seed=1,2", "hydra.sweep.dir=my sweep"]
    assert main([*words, "algorithm.tokens=1,-1"]) == 2
    assert "2 of 4 jobs cannot run, so nothing was started" in capsys.readouterr().err
    assert main(["submit", "seed=1,2"]) == 2
    assert "cluster=local has no queue" in capsys.readouterr().err
    assert main([*words, "cluster.cores=1,2"]) == 2
    assert "cluster.cores=1,2 has several values, but the runs of a sweep share one cluster" in capsys.readouterr().err
    assert not (tmp_path / "submitted.sh").exists()
    assert not (tmp_path / "my sweep").exists()

    assert main(words) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "2 jobs, all configurations valid; 2 to run"
    assert told[1].startswith("submitted  slurm job 17")
    assert told[-1] == str(tmp_path / "my sweep")
    script = (tmp_path / "submitted.sh").read_text()
    arguments = shlex.split(script[script.index("exec ") :])
    assert arguments[1:8] == [sys.executable, "-P", "-m", "dtoken.cli.run", "-m", "cluster=slurm", "seed=1,2"]
    assert arguments[8] == f"hydra.sweep.dir='{tmp_path / 'my sweep'}'"
    assert main(words) == 2
    assert "has a driver already, slurm job 17" in capsys.readouterr().err
    assert main(["status", "my sweep"]) == 2
    assert "has not begun: its driver is slurm job 17; PD (Priority)" in capsys.readouterr().err


def test_a_dry_run_asks_whether_such_a_job_could_ever_run(
    tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pretend(commands, "sbatch", 'test "$1" = --test-only && echo allocation failure: no such node >&2; exit 1')
    assert main(["dry-run", "cluster=slurm", "seed=1,2"]) == 2
    assert "slurm would never run such a job: allocation failure: no such node" in capsys.readouterr().err
    assert main(["dry-run", "cluster=pbs", "cluster.workers=4", "cluster.jobs=2", "seed=1,2,3,4"]) == 0
    out = capsys.readouterr().out
    assert "memory     of a job 8.3 GB: 2 workers of 4GB, and 300 MB for what watches them\n" in out
    assert out.endswith("pbs        cannot be asked here whether such a job could run\n")
