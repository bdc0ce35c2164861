"""Other shapes of jobs on a real SLURM: arrays, several machines in one job, a range of ports, a firewall."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from hydra_dask.cluster import CLUSTERS, reach
from tests.slurm.site import Site
from tests.waiting import NEVER, until


def jobs(shared: Path, **keys: Any) -> Any:
    return CLUSTERS["slurm"](**{"workers": 1, "memory": "500MB", "shared": shared} | keys)


def element() -> str:
    return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def node() -> tuple[str, str]:
    return os.environ["SLURM_JOB_ID"], os.environ["SLURMD_NODENAME"]


def listening() -> set[int]:
    """The ports at which this process and its parent, the nanny, listen."""
    import psutil

    processes = [psutil.Process(), psutil.Process().parent()]
    return {
        each.laddr.port
        for process in processes
        if process is not None
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }


def elements(site: Site) -> list[str]:
    command = ["squeue", "--noheader", "--array", "--format=%i", "--sort=i", "--states=PD,R"]
    return site.call(*command).split()


def test_an_array_is_submitted_at_once_and_an_element_that_is_lost_is_replaced(site: Site, shared: Path) -> None:
    with jobs(shared, workers=3, array=True).open() as connection:
        client = connection.client
        client.wait_for_workers(3, timeout=NEVER)
        running = elements(site)
        array = running[0].partition("_")[0]
        assert running == [f"{array}_{number}" for number in (1, 2, 3)]
        assert set(client.run(element).values()) == set(running)
        site.call("scancel", running[1])
        until(lambda: running[1] not in elements(site) and len(elements(site)) == 3)
        assert {running[0], running[2]} < set(elements(site))
        client.wait_for_workers(3, timeout=NEVER)
        idle = next(address for address, name in client.run(_element_if_any).items() if name == running[2])
        connection.demand(2, [idle])
        until(lambda: running[2] not in elements(site))
        assert running[0] in elements(site)
    until(lambda: not elements(site))


def _element_if_any() -> str | None:
    return element() if "SLURM_ARRAY_JOB_ID" in os.environ else None


def test_one_job_of_several_machines_has_workers_on_each(site: Site, shared: Path) -> None:
    with jobs(shared, workers=4, jobs=1, nodes=2, cores=1).open() as connection:
        client = connection.client
        client.wait_for_workers(4, timeout=NEVER)
        (job,) = site.jobs()
        found = list(client.run(node).values())
        assert {each[0] for each in found} == {job}
        machines = [each[1] for each in found]
        assert sorted(machines.count(name) for name in set(machines)) == [2, 2]
        (entry,) = connection.jobs()
        until(lambda: connection.jobs()[0]["works"])
        assert entry["job"] == job
        site.call("scancel", job)  # all of it is lost, and replaced
        until(lambda: site.jobs() not in ([], [job]))
        client.wait_for_workers(4, timeout=NEVER)
        assert {each[0] for each in client.run(node).values()} == set(site.jobs())
    until(lambda: not site.jobs("PD,R,CG"))


def test_all_ports_are_those_that_were_given_and_none_speaks_http(site: Site, shared: Path) -> None:
    with jobs(shared, workers=2, ports="23400-23460").open() as connection:
        client = connection.client
        client.wait_for_workers(2, timeout=NEVER)
        allowed = set(range(23400, 23461))
        assert int(client.scheduler.address.rpartition(":")[2]) in allowed
        assert connection.dashboard is None or int(connection.dashboard.split(":")[2].split("/")[0]) in allowed
        found = list(client.run(listening).values())
        assert all(ports <= allowed for ports in found)
        assert [len(ports) for ports in found] == [2, 2]  # a worker and its nanny, and nothing else
        assert not found[0] & found[1]


def test_a_worker_behind_a_firewall_is_told(site: Site, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        nobody.close()
        said = ["--listen-address", "tls://127.0.0.1:0", "--contact-address", f"tls://127.0.0.1:{port}"]
        hidden = {"worker_extra_args": said}
        with jobs(shared, options=hidden).open() as connection:
            until(connection.trouble)
            text = str(connection.trouble())
            assert f"cannot be reached at tls://127.0.0.1:{port} from here" in text
            assert "cluster.ports=" in text
