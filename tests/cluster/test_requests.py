"""What jobs ask for where a site decides how things are called; arrays, several machines, ports."""

import asyncio
import math
import re
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from hydra_dask.cluster import CLUSTERS, Jobs
from hydra_dask.cluster import _batch_worker as batch_worker
from hydra_dask.cluster import _spread as spread
from hydra_dask.cluster.arrays import Array
from hydra_dask.cluster.opening import scheduler_options
from hydra_dask.cluster.ports import Ports

# As `qconf` of Grid Engine 8.1.9 prints them; the first parallel environment may take slots of several machines.
COMPLEXES = """\
#name               shortcut   type        relop requestable consumable default  urgency
#----------------------------------------------------------------------------------------
h_vmem              h_vmem     MEMORY      <=    YES         {h_vmem}   0        0
mem_free            mf         MEMORY      <=    YES         NO         0        0
# >#< starts a comment but comments are not saved across edits --------
"""
QCONF = """\
case "$1" in
  -spl) echo make; echo threads ;;
  -sp) [ "$2" = threads ] && echo 'allocation_rule    $pe_slots' || echo 'allocation_rule    $round_robin' ;;
  -sc) cat {folder}/complexes ;;
esac
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the only programs that there are."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def described(kind: str, **more: Any) -> Jobs:
    keys: dict[str, Any] = {
        "workers": 4,
        "jobs": 2,
        "cores": 3,
        "memory": "5GB",
        "shared": Path("/shared"),
        "tls": False,
    }
    cluster: Jobs = CLUSTERS[kind](**keys | more)
    return cluster


def directives(cluster: Jobs, prefix: str) -> list[str]:
    return re.findall(rf"^{re.escape(prefix)} (.*)$", cluster.job_script(), re.MULTILINE)


def grid_engine(folder: Path, h_vmem: str) -> None:
    (folder / "complexes").write_text(COMPLEXES.format(h_vmem=h_vmem))
    program(folder, "qconf", QCONF.format(folder=folder))


def test_grid_engine_gives_slots_of_one_machine_and_memory_as_the_site_counts_it(programs: Path) -> None:
    grid_engine(programs, "NO")
    found = directives(described("sge"), "#$")
    assert "-pe threads 6" in found
    assert "-l mem_free=9823M" in found  # 2 workers of 5 GB, and 0.3 GB, in MiB: what a machine must have free
    grid_engine(programs, "YES")
    found = directives(described("sge"), "#$")
    # for each of the 6 slots: with what addresses are not used, 1.2 GB by a worker and 0.1 GB by a thread
    assert f"-l h_vmem={math.ceil((10.3e9 + 2 * 1.2e9 + 6 * 0.1e9) / 6 / 2**20)}M" in found


def test_grid_engine_gives_what_was_asked_for_by_name(programs: Path) -> None:
    grid_engine(programs, "YES")
    asked = described("sge", parallel_environment="smp", memory_resource="virtual_free")
    assert {"-pe smp 6", "-l virtual_free=9823M"} <= set(directives(asked, "#$"))
    own = described("sge", options={"resource_spec": "gpu=1", "job_extra_directives": ["-pe mine 6"]})
    found = directives(own, "#$")
    assert [line for line in found if line.startswith(("-pe", "-l gpu", "-l h_vmem"))] == ["-l gpu=1", "-pe mine 6"]


def test_one_slot_needs_no_parallel_environment(programs: Path) -> None:
    grid_engine(programs, "NO")
    assert not [line for line in directives(described("sge", workers=1, jobs=1, cores=1), "#$") if "-pe" in line]


def test_a_grid_engine_without_a_parallel_environment_is_told(programs: Path) -> None:
    program(programs, "qconf", 'case "$1" in -spl) exit 1 ;; esac')
    with pytest.raises(ValueError, match="a job of 6 cores needs a parallel environment"):
        described("sge").job_script()


def test_torque_has_words_of_its_own(programs: Path) -> None:
    program(programs, "qsub", "echo 'Version: 6.1.3' >&2; echo 'Commit: 69bd5e0' >&2")
    assert "-l nodes=1:ppn=6,mem=9823mb" in directives(described("pbs"), "#PBS")
    with pytest.raises(ValueError, match="not for Torque"):
        described("pbs", array=True)
    program(programs, "qsub", "echo 'pbs_version = 20.0.1'")
    assert "-l select=1:ncpus=6:mem=9823MB" in directives(described("pbs"), "#PBS")


@pytest.mark.parametrize(
    ("listed", "keys", "condition"),
    [
        ("properties: core=1, memcore=4096, type=default", {}, ["-p 'memcore>=1638'"]),
        ("properties: core=1, memnode=64000", {}, ["-p 'memnode>=9823'"]),
        ("properties: core=1, memnode=64000", {"memory_resource": "ram"}, ["-p 'ram>=9823'"]),
        ("properties: core=1", {}, []),
        (
            "properties: memnode=64000",
            {"options": {"job_extra_directives": ['-p "gpu > 0"', "-t besteffort"]}},
            ["-p '(gpu > 0) AND memnode>=9823'"],
        ),
    ],
)
def test_oar_has_enough_memory_and_prints_among_the_logs(
    programs: Path, listed: str, keys: dict[str, Any], condition: list[str]
) -> None:
    program(programs, "oarnodes", f"echo {shlex.quote(listed)}")
    found = directives(described("oar", logs=Path("/sweep/workers"), **keys), "#OAR")
    assert [line for line in found if line.startswith("-p")] == condition
    assert "-O /sweep/workers/dask-worker-%jobid%.out" in found
    assert "-E /sweep/workers/dask-worker-%jobid%.err" in found
    assert ("-t besteffort" in found) == ("options" in keys)


# What each system is asked for when four jobs are submitted at once, and what the elements are called.
ARRAYS = {
    "slurm": ("--array=1-4", "SLURM_ARRAY_TASK_ID", "Submitted batch job 17", "17_3", "17.3"),
    "sge": ("-t 1-4", "SGE_TASK_ID", 'Your job-array 17.1-4:1 ("dask-worker") has been submitted', "17.3", "17.3"),
    "pbs": ("-J 1-4", "PBS_ARRAY_INDEX", "17[].server", "17[3]", "17.3"),
    "lsf": ('-J "dask-worker[1-4]"', "LSB_JOBINDEX", "Job <17> is submitted to queue <fast>.", "17[3]", "17.3"),
    "oar": ("--array 4", "OAR_ARRAY_INDEX", "\n".join(f"OAR_JOB_ID={n}" for n in range(17, 21)), "19", "19"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_jobs_of_an_array_are_submitted_once_and_have_numbers_of_their_own(
    kind: str, programs: Path, tmp_path: Path
) -> None:
    from hydra_dask.cluster import jobqueue

    directive, variable, printed, element, key = ARRAYS[kind]
    cluster = described(kind, array=True, workers=4, jobs=None, cores=1, logs=tmp_path / "logs")
    job_class = getattr(jobqueue.load(), cluster.system).job_cls
    command = job_class.submit_command.split()[0]
    program(
        programs,
        command,
        f'echo once >> {tmp_path}/submitted; for w; do l="$w"; done; '
        f'[ -f "$l" ] && cat "$l" > {tmp_path}/script || echo "$@" > {tmp_path}/script; '
        f"[ -t 0 ] || cat >> {tmp_path}/script < /dev/null; echo {shlex.quote(printed)}",
    )
    assert cluster.form is not None
    array = Array(cluster.form, job_class, 4, f"{kind}-0")
    spec = {"cls": job_class, "options": cluster.job_arguments(None)}

    async def start() -> list[Any]:
        made = [one["cls"]("tcp://head:1", name=name, **one["options"]) for name, one in array.specs(spec).items()]
        await asyncio.gather(*(job.start() for job in made))
        return made

    jobs = asyncio.run(start())
    assert (tmp_path / "submitted").read_text() == "once\n"
    assert (jobs[2].job_id, jobs[2].key, jobs[2].name) == (element, key, f"{kind}-0.3")
    script = jobs[0].job_script()
    assert directive in script
    assert f"--name {kind}-0.${{{variable}}} " in script
    assert "-r n" not in script or kind != "pbs"  # which refuses arrays that cannot be started again


# Elements in the lists of the systems, as their manuals show them; 17.2 has ended, and so has all of 18.
LISTS = {
    "slurm": "17_1,R,None\n17_2,CG,None\n17_3,PD,Resources\n",
    "sge": "job-ID  prior   name       user         state submit/start at     queue           slots ja-task-ID\n"
    "-------------------------------------------------------------------------------------------------\n"
    "     17 0.55500 dask-worke me           r     11/18/2026 10:00:00 all.q@n1            2 1\n"
    "     17 0.00000 dask-worke me           qw    11/18/2026 10:00:01                     2 3\n",
    "pbs": "17[].server     me       workq    dask          --    1   1    1gb 01:00 B   --\n"
    "17[1].server    me       workq    dask         1234   1   1    1gb 01:00 R 00:01\n"
    "17[2].server    me       workq    dask         1235   1   1    1gb 01:00 X 00:01\n"
    "17[3].server    me       workq    dask          --    1   1    1gb 01:00 Q   --\n",
    "lsf": "17         1\n17         3\n",
}


@pytest.mark.parametrize("kind", LISTS)
def test_elements_of_arrays_are_found_in_lists(kind: str, programs: Path) -> None:
    listing = CLUSTERS[kind].listing
    (programs / "list").write_text(LISTS[kind])
    program(programs, listing.command.split()[0], f"cat {programs}/list")
    found = asyncio.run(listing.jobs())
    assert found is not None
    assert set(found) - {"17"} == {"17.1", "17.3"}


# Four workers on two machines, in one job: two workers of 3 cores and 5 GB on each.
MACHINES = {
    "slurm": (
        ["--cpus-per-task=6", "--mem=9823M", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"],
        "#SBATCH",
        "srun ",
    ),
    "pbs": (["-l select=2:ncpus=6:mem=9823MB -l place=scatter"], "#PBS", "PBS_NODEFILE pbs_tmrsh -- "),
    "lsf": (["-n 12", '-R "span[ptile=6]"'], "#BSUB", "LSB_DJOB_HOSTFILE blaunch -- "),
    "oar": (["-l /nodes=2/core=6,walltime=01:00:00"], "#OAR", "OAR_NODEFILE oarsh -- "),
}


@pytest.mark.parametrize("kind", MACHINES)
def test_a_job_of_several_machines_starts_workers_on_each(kind: str) -> None:
    expected, prefix, launcher = MACHINES[kind]
    cluster = described(kind, workers=4, jobs=1, nodes=2)
    found = directives(cluster, prefix)
    assert [line for line in expected if line not in found] == []
    assert 'span[hosts=1]"' not in cluster.job_script()
    (line,) = [line for line in cluster.job_script().splitlines() if "_batch_worker" in line]
    assert launcher in line
    assert "--nworkers 2" in line
    assert "--nthreads 3" in line
    assert cluster.endings == ["-0-0", "-0-1", "-1-0", "-1-1"]


def test_machines_are_not_more_than_workers() -> None:
    cluster = described("slurm", workers=8, jobs=1, nodes=4).for_runs(2)
    assert (cluster.machines, cluster.per_node, cluster.per_job) == (2, 1, 2)


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("slurm", {"jobs": None, "nodes": 2}, "cluster.nodes=2 needs cluster.jobs"),
        ("sge", {"nodes": 2}, "cluster.nodes=2 means nothing to sge"),
        ("htcondor", {"array": True}, "cluster.array=true means nothing to htcondor"),
        ("slurm", {"ports": "40000"}, "cluster.ports=40000 must be the first and the last port"),
        ("slurm", {"ports": "40001-40000"}, "must be the first and the last port"),
        ("slurm", {"ports": "40000-40001"}, "are too few: a worker needs 3, for itself, its nanny and tokens"),
    ],
)
def test_what_cannot_be_is_refused(kind: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        described(kind, **keys)


def test_a_worker_takes_the_number_of_its_machine_into_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(batch_worker, "main", lambda words, standalone_mode: called.append(words))
    monkeypatch.setenv("SLURM_NODEID", "3")
    for node in ("SLURM_NODEID", "3"):
        batch_worker.run(["tcp://127.0.0.1:1", "--name", "slurm-0", "--node", node])
    assert [words[:3] for words in called] == [["tcp://127.0.0.1:1", "--name", "slurm-0-3"]] * 2


def test_a_command_is_started_on_each_machine(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts").write_text("n1\nn1\nn2\n")
    monkeypatch.setenv("NODEFILE", str(tmp_path / "hosts"))
    program(programs, "oarsh", f'echo "$@" > {tmp_path}/$1; [ $1 = n1 ]')
    before = signal.getsignal(signal.SIGINT)
    assert spread.run(["NODEFILE", "oarsh", "--", "python", "-m", "worker"]) == 1
    assert signal.getsignal(signal.SIGINT) == before
    assert [(tmp_path / host).read_text() for host in ("n1", "n2")] == [
        "n1 python -m worker --node 0\n",
        "n2 python -m worker --node 1\n",
    ]


def test_ports_of_a_firewall_are_those_of_scheduler_dashboard_workers_and_nannies() -> None:
    cluster = described("slurm", ports="40000-40100")
    assert "--worker-port 40000:40100 --nanny-port 40000:40100" in cluster.job_script()
    chosen = scheduler_options(cluster)
    ports = [chosen["port"], int(chosen["dashboard_address"].removeprefix("127.0.0.1:"))]
    assert len({*ports} & {*range(40000, 40101)}) == 2


def test_a_port_that_is_in_use_is_passed_over_and_none_left_is_a_sentence() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        assert Ports(port, min(port + 20, 65535)).free("") != port
        with pytest.raises(ValueError, match=f"cluster.ports={port}-{port}: all are in use"):
            Ports(port, port).free("")
