"""The address by which a machine is reached."""

import socket
import warnings
from collections import namedtuple

import psutil
import pytest

from hydra_dask.cluster import CLUSTERS
from hydra_dask.cluster.address import check_interface, own_address
from hydra_dask.cluster.opening import scheduler_options

Address, State = namedtuple("Address", "family address"), namedtuple("State", "isup")


@pytest.fixture
def no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compute node: interfaces, but no way to anywhere else."""

    def connect(self: socket.socket, target: object) -> None:
        raise OSError(101, "Network is unreachable")

    found = {"lo": [Address(socket.AF_INET, "127.0.0.1")], "down0": [Address(socket.AF_INET, "10.0.0.1")]}
    found |= {"ib0": [Address(socket.AF_INET6, "fe80::1"), Address(socket.AF_INET, "10.0.0.2")]}
    monkeypatch.setattr("socket.socket.connect", connect, raising=False)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: {name: State(name != "down0") for name in found})


@pytest.mark.usefixtures("no_route")
def test_without_a_route_it_is_that_of_an_interface_and_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_address() == "10.0.0.2"


@pytest.mark.usefixtures("no_route")
def test_what_the_user_says_of_the_scheduler_wins() -> None:
    slurm = CLUSTERS["slurm"]
    assert scheduler_options(slurm())["host"] == "10.0.0.2"
    assert "host" not in scheduler_options(slurm(interface="ib0"))
    options = {"scheduler_options": {"interface": "ib1", "port": 1}}
    assert {"host", "interface", "port"} & set(scheduler_options(slurm(options=options))) == {"interface", "port"}


@pytest.mark.usefixtures("no_route")
def test_an_interface_that_is_not_there_is_refused() -> None:
    check_interface("ib0")
    with pytest.raises(
        ValueError, match=r"cluster.interface=ib7 is no interface of this machine; use one of lo, down0, ib0"
    ):
        check_interface("ib7")
