"""What is submitted to each batch system, and what its list of jobs looks like to us."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import pytest

from hydra_dask.cluster import CLUSTERS, Jobs
from hydra_dask.cluster.queue import Entry, number

BATCH = [kind for kind, cluster in CLUSTERS.items() if issubclass(cluster, Jobs)]

# What each system is asked for: two workers a job with 3 cores and 5 GB each, and 0.3 GB for what watches them (PBS
# counts in MiB, SLURM in GiB), for two hours, never started twice.
EXPECTED = {
    "slurm": ["-p fast", "-A us", "-n 1", "--cpus-per-task=6", "--mem=9823M", "-t 02:00:00", "--no-requeue"],
    "pbs": ["-q fast", "-A us", "-l select=1:ncpus=6:mem=9823MB", "-l walltime=02:00:00", "-r n"],
    "lsf": ["-q fast", '-P "us"', "-n 6", '-R "span[hosts=1]"', "-M 10300000", "-W 02:00", "-rn"],
    "sge": ["-q fast", "-P us", "-l mem_free=9823M", "-l h_rt=02:00:00", "-r n", "-notify", "-pe smp 6"],
    "oar": ["-q fast", "--project us", "-l /nodes=1/core=6,walltime=02:00:00"],
}
PREFIX = {"slurm": "#SBATCH", "pbs": "#PBS", "lsf": "#BSUB", "sge": "#$", "oar": "#OAR"}


def described(kind: str, shared: Path, **more: Any) -> Jobs:
    keys: dict[str, Any] = {"workers": 4, "jobs": 2, "cores": 3, "memory": "5GB", "shared": shared}
    if kind != "htcondor":
        keys |= {"queue": "fast", "account": "us", "walltime": "02:00:00"}
    cluster: Jobs = CLUSTERS[kind](**keys | more)
    return cluster


@pytest.fixture(autouse=True)
def _nowhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any batch system."""
    folder = tmp_path_factory.mktemp("bin")
    for program in ("cat", "echo"):
        (folder / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_script_asks_for_what_was_given(kind: str, tmp_path: Path) -> None:
    script = described(kind, tmp_path / "shared").job_script()
    directives = re.findall(rf"^{re.escape(PREFIX[kind])} (.*)$", script, re.MULTILINE)
    assert [line for line in directives if line in EXPECTED[kind]] == EXPECTED[kind]
    assert not (tmp_path / "shared").exists()  # a script leaves nothing behind


# qsub(1B) of PBS, bsub(1) of LSF: the name, and where errors and output go; a folder, or %J for the job.
PRINTED = {
    "pbs": ["-N dask-worker", "-e {}/", "-o {}/"],
    "lsf": ["-J dask-worker", "-e {}/lsf-0-%J.err", "-o {}/lsf-0-%J.out"],
}


@pytest.mark.parametrize("kind", PRINTED)
def test_a_script_has_nothing_else_but_its_name_and_where_it_prints_to(kind: str, tmp_path: Path) -> None:
    script = described(kind, tmp_path).job_script()
    assert script.startswith("#!/usr/bin/env bash\n")
    directives = re.findall(rf"^{re.escape(PREFIX[kind])} (.*)$", script, re.MULTILINE)
    printed = [line.format(tmp_path / "logs") for line in PRINTED[kind]]
    assert sorted(directives) == sorted(EXPECTED[kind] + printed)


def test_htcondor_has_a_description_instead(tmp_path: Path) -> None:
    text = described("htcondor", tmp_path / "shared").job_script()
    given = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
    # condor_submit(1): processors, memory in MiB and disk in KiB, here as expressions over attributes of the job
    assert given["RequestCpus"] == "MY.DaskWorkerCores"
    assert given["RequestMemory"] == "floor(MY.DaskWorkerMemory / 1048576)"
    assert given["RequestDisk"] == "floor(MY.DaskWorkerDisk / 1024)"
    assert given["MY.DaskWorkerCores"] == "6"
    assert given["MY.DaskWorkerMemory"] == "10300000000"
    assert given["MY.DaskWorkerDisk"] == "1000000000"
    assert given["LogDirectory"] == str(tmp_path / "shared/logs")
    assert given["Output"] == "$(LogDirectory)/worker-$F(MY.JobId).out"
    assert given["Executable"] == "/bin/sh"
    assert given["Arguments"].startswith("\"-c 'exec ")
    assert text.rstrip().endswith("\nQueue")


@pytest.mark.parametrize("kind", BATCH)
def test_the_command_of_a_worker_leaves_in_good_order_and_is_encrypted(kind: str, tmp_path: Path) -> None:
    script = described(kind, tmp_path / "shared", scratch=Path("/scratch")).job_script()
    command = "hydra_dask.cluster._batch_worker"
    (line,) = [line for line in script.splitlines() if command in line]
    words = shlex.split(line[line.index("exec ") :].rstrip("\"'"))
    assert words[:5] == ["exec", sys.executable, "-P", "-m", command]
    given = dict(pairwise(words))
    shared = str(tmp_path / "shared")
    assert words[5].startswith("tls://")
    assert all(given[f"--tls-{name}"].startswith(shared) for name in ("ca-file", "cert", "key"))
    leaving = "hydra_dask.cluster._leaving"
    assert given["--worker-class"] == f"{leaving}.LeavingWorker"
    assert given["--preload-nanny"] == leaving
    assert given["--nworkers"] == "2"
    assert given["--nthreads"] == "3"
    assert given["--memory-limit"] == "5000000000B"  # not a share of what the job has
    assert given["--local-directory"] == "/scratch"
    if kind != "htcondor":  # which has no time limit
        assert (given["--lifetime"], given["--lifetime-stagger"]) == ("5760s", "360s")


@pytest.mark.parametrize("kind", ["slurm", "htcondor"])
def test_options_are_added_to_what_is_ours(kind: str, tmp_path: Path) -> None:
    directives: Any = {"rank": "Memory"} if kind == "htcondor" else ["--constraint=avx2"]
    options = {
        "job_extra_directives": directives,
        "worker_extra_args": ["--resources", "GPU=1"],
        "scheduler_options": {"port": 8786},
        "job_script_prologue": ["module load python"],
    }
    script = described(kind, tmp_path, options=options).job_script()
    assert "module load python" in script
    assert "--resources GPU=1" in script
    assert "--worker-class" in script
    assert ("rank = Memory" if kind == "htcondor" else "#SBATCH --no-requeue\n#SBATCH --constraint=avx2\n") in script


def test_defaults_of_a_site_count_where_nothing_was_said(tmp_path: Path) -> None:
    site = {"walltime": "10:00:00", "queue": "all", "job-extra-directives": ["--qos=low"], "worker-extra-args": ["--x"]}
    cluster = CLUSTERS["slurm"](walltime=None, shared=tmp_path)
    with dask.config.set({f"jobqueue.slurm.{key}": value for key, value in site.items()}):
        script = cluster.job_script()
    for text in ("#SBATCH -t 10:00:00", "#SBATCH -p all", "#SBATCH --qos=low", "#SBATCH --no-requeue", " --x "):
        assert text in script
    assert "--lifetime 28800s --lifetime-stagger 1800s" in script


def test_without_tls_no_credentials_are_named(tmp_path: Path) -> None:
    script = described("slurm", tmp_path, tls=False).job_script()
    assert "tcp://" in script
    assert "tls" not in script.lower().replace(str(tmp_path).lower(), "")


# As the systems' manuals show them; where there is a job 12, it is on its way out.
LISTS = {
    "slurm": "11,PD,Resources\n12,CG,None\n13,R,None\n",
    "pbs": "\nserver:\n"
    "                                                            Req'd  Req'd   Elap\n"
    "Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time\n"
    "--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----\n"
    "11.server       me       workq    dask         1234   1   1    1gb 01:00 R 00:01\n"
    "12.server       me       workq    dask         1235   1   1    1gb 01:00 F 00:01\n"
    "13.server       me       workq    dask          --    1   1    1gb 01:00 Q   -- \n",
    "lsf": "11         0\n13         0\n",
    "sge": "job-ID  prior   name  user  state submit/start at     queue\n"
    "-------------------------------------------------------\n"
    "     11 0.55500 dask  me    r     06/01/2024 10:00:00 all.q@n1\n"
    "     12 0.55500 dask  me    dr    06/01/2024 10:00:00 all.q@n2\n"
    "     13 0.00000 dask  me    qw    06/01/2024 10:00:01\n",
    "htcondor": "11 5 The job attribute PeriodicHold became true\n12 4 undefined\n13 2 undefined\n",
    "oar": "Job id     Name           User           Submission Date     S Queue\n"
    "---------- -------------- -------------- ------------------- - ----------\n"
    "11         dask           me             2024-06-01 10:00:00 R default\n"
    "12         dask           me             2024-06-01 10:00:00 E default\n"
    "13         dask           me             2024-06-01 10:00:01 W default\n",
}


# Of version 2.5.9, as it was seen.
OAR_2_5 = """\
Job id    S User     Duration   System message
--------- - -------- ---------- ------------------------------------------------
11        R ann         0:00:07 R=1,W=1:0:0,J=B,N=dask-worker (Karma=0.000,quota_ok)
12        F ann         0:00:07 R=1,W=1:0:0,J=B,N=dask-worker (Karma=0.000,quota_ok)
13        W ann         0:00:00 R=1,W=1:0:0,J=B,N=dask-worker
"""
STATES = {
    "slurm": ("PD (Resources)", "R"),
    "pbs": ("R", "Q"),
    "lsf": ("in the queue", "in the queue"),
    "sge": ("r", "qw"),
    "htcondor": ("held (The job attribute PeriodicHold became true)", "running"),
    "oar": ("R", "W"),
}
# What the systems say of one job that waits.
DETAILS = {
    "pbs": (
        "qstat",
        "Job Id: 11.server\n    Job_Name = dask\n    job_state = Q\n    comment = Not Running: Insufficient amount of\n"
        "\t resource: ncpus\n    etime = Wed Nov 18 10:00:00 2026\n",
        "Q (Not Running: Insufficient amount of resource: ncpus)",
    ),
    "lsf": (
        "bjobs",
        "PEND Job's requirements for resource reservation not satisfied: 4 hosts;\n",
        "PEND (Job's requirements for resource reservation not satisfied: 4 hosts;)",
    ),
    "sge": (
        "qstat",
        "job_number:                 11\nerror reason    1:          11/18/2026 10:00:00 [0:1]: can't chdir to /work\n"
        'scheduling info:            queue instance "all.q@n1" dropped because it is full\n'
        "                            Job is in error state\n",
        "Eqw (can't chdir to /work)",
    ),
    "oar": (
        "oarstat",
        "Job_Id: 11\n    state = Waiting\n    message = FIFO scheduling OK, no resource is free\n",
        "W (FIFO scheduling OK, no resource is free)",
    ),
}


def pretend(folder: Path, command: str, output: str, errors: str = "", status: int = 0) -> None:
    (folder / "output").write_text(output)
    path = folder / command
    path.write_text(f"#!/bin/sh\ncat {folder}/output\necho {shlex.quote(errors)} >&2\nexit {status}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("kind", "listed"), [*LISTS.items(), ("oar", OAR_2_5)])
def test_the_jobs_of_a_system_are_read_from_its_own_list(
    kind: str, listed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = CLUSTERS[kind].listing
    command = listing.command.split()[0]
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    pretend(tmp_path, command, listed)
    found = asyncio.run(listing.jobs())
    assert set(found) == {"11", "13"}
    assert tuple(map(str, found.values())) == STATES[kind]
    pretend(tmp_path, command, "", "cannot reach the server", status=1)
    assert asyncio.run(listing.jobs()) is None


@pytest.mark.parametrize("kind", DETAILS)
def test_a_system_that_lists_no_reasons_is_asked_for_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command, output, expected = DETAILS[kind]
    pretend(tmp_path, command, output)
    listed = Entry({"sge": "Eqw", "oar": "W"}.get(kind, ""))
    assert str(asyncio.run(CLUSTERS[kind].listing.explained("11", listed))) == expected
    pretend(tmp_path, command, "", "no such job", status=1)
    assert asyncio.run(CLUSTERS[kind].listing.explained("11", listed)) == listed


@pytest.mark.parametrize(
    ("kind", "command", "said", "status", "possible"),
    [
        ("slurm", "sbatch", "sbatch: Job 5 to start at 2026-11-18T10:00:00 using 6 processors", 0, True),
        ("slurm", "sbatch", "allocation failure: Requested node configuration is not available", 1, False),
        ("sge", "qsub", "verification: found suitable queue(s)", 0, True),
        ("sge", "qsub", "verification: no suitable queues", 0, False),
    ],
)
def test_a_system_says_whether_it_would_ever_run_such_a_job(
    kind: str,
    command: str,
    said: str,
    status: int,
    possible: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    pretend(tmp_path, command, "", said, status)
    assert described(kind, tmp_path / "shared").verdict() == (possible, said)


def test_a_system_that_does_not_answer_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    pretend(tmp_path, "sbatch", "", "allocation failure: Unable to contact slurm controller (connect failure)", 1)
    assert described("slurm", tmp_path / "shared").verdict() is None


def test_other_systems_cannot_be_asked(tmp_path: Path) -> None:
    assert described("pbs", tmp_path / "shared").verdict() is None


def test_no_jobs_of_lsf_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    pretend(tmp_path, "bjobs", "", "No unfinished job found", status=255)
    assert asyncio.run(CLUSTERS["lsf"].listing.jobs()) == {}


def test_a_system_that_is_not_there_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert asyncio.run(CLUSTERS["oar"].listing.jobs()) is None


def test_the_number_of_a_job_without_one_fits_none() -> None:
    assert number("?") == ""


def test_describing_a_job_leaves_ctrl_c_alone(tmp_path: Path) -> None:
    """dask-jobqueue takes it over when it is loaded; here it is loaded in a process of its own."""
    code = (
        "import signal; from hydra_dask.cluster import CLUSTERS; from pathlib import Path; "
        f"print(len(CLUSTERS['slurm'](shared=Path({str(tmp_path)!r})).job_script()) > 0); "
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]
