"""What users do on a batch system, and what happens to them there: the same table for every system, and more on one.

After each scenario nothing is left of it: no job in the queue, no key, no process and no temporary file on any machine.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import zarr

import dtoken
from hydra_dask.manifest import PROGRESS
from hydra_dask.queue_file import read_queue
from tests.batch.machines import ADDRESSES, LOGIN, NODES, USERS
from tests.batch.system import System
from tests.launcher.conftest import APP
from tests.waiting import NEVER, until

LENGTH = {"stop.passes": 20, "record.every_passes": 5}
PORTS = range(40_000, 40_041)
WHOLE_NODE = "cores=2"  # of a job: no other one fits beside it


class User:
    """Ann, in a folder of her own for each scenario."""

    def __init__(self, system: System, name: str) -> None:
        self.system, self.site = system, system.site
        self.folder = self.site.home("ann") / name
        self.folder.mkdir()
        os.chown(self.folder, USERS["ann"], USERS["ann"])
        self.started: list[subprocess.Popen[str]] = []

    @property
    def keys(self) -> Path:
        """Where the credentials are."""
        return self.folder / "keys"

    @property
    def folders_of_keys(self) -> list[Path]:
        return [path for path in self.keys.glob("tls@*") if path.is_dir()]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Type a command on the login machine."""
        self.started.append(self.site.start(LOGIN, "ann", *words, cwd=self.folder, printed=self.printed))
        return self.started[-1]

    @property
    def printed(self) -> Path:
        """What the command last typed prints."""
        return self.folder / "printed.txt"

    def app(self, workers: int | str, *words: str) -> "subprocess.Popen[str]":
        """Sweep the small application."""
        return self.start(
            *(sys.executable, str(APP), "-m", "hydra/launcher=dask", f"+ran={self.folder}/ran", "hydra.sweep.dir=all"),
            *(f"hydra.launcher.cluster={self.system.kind}", f"hydra.launcher.workers={workers}"),
            *("hydra.launcher.memory_limit=500MB", f"+hydra.launcher.options.shared={self.keys}", *words),
        )

    def ran(self) -> Counter[str]:
        """How often each job of the small application was started."""
        file = self.folder / "ran"
        return Counter(file.read_text().split() if file.exists() else [])

    def asks(self, *words: str) -> str:
        """What a command prints that tells something, typed in another shell."""
        return self.site.call(LOGIN, "ann", *words, cwd=self.folder)

    def signal(self, *numbers: int) -> None:
        """Send signals to the command last typed: to the child of what entered the machine for it."""
        outside = self.started[-1].pid
        (command,) = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
        for number in numbers:
            os.kill(int(command), number)

    def open_gate(self) -> None:
        """Let the runs go on that wait."""
        (self.folder / "ran.go").touch()

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait for something to happen while the command last typed goes on."""
        until(lambda: condition() or self.started[-1].poll() is not None)
        assert self.started[-1].poll() is None, self.printed.read_text()

    def end(self, status: int = 0) -> str:
        """What the command last typed has printed when it has ended as expected."""
        found = self.started[-1].wait(NEVER)
        assert found == status, self.printed.read_text()
        return self.printed.read_text()

    def manifest(self, sweep: str = "all") -> list[dict[str, Any]]:
        file = self.folder / sweep / "manifest.json"
        return json.loads(file.read_text())["jobs"] if file.exists() else []  # type: ignore[no-any-return]

    def outcomes(self, sweep: str = "all") -> list[tuple[str, int]]:
        """How each run of a sweep is, and how often it was started."""
        return [(job["status"], job["attempts"]) for job in self.manifest(sweep)]

    def job_of(self, index: int) -> str | None:
        """The job of the batch system in which a run is."""
        try:
            host = json.loads((self.folder / "all/.jobs" / f"{index}.json").read_text())["host"]
        except (OSError, KeyError, ValueError):
            return None
        found = [job for job, node in self.system.running().items() if node == host]
        return found[0] if len(found) == 1 else None

    def left(self) -> dict[str, list[str]]:
        """Processes and files that are still there, by machine."""
        return self.site.left("ann", self.system.cleans)

    def nothing_is_left(self) -> None:
        """Wait until nothing is: processes take a moment to end."""
        until(lambda: not self.system.jobs())
        try:
            until(lambda: not self.left())
        except AssertionError:
            assert self.left() == {}  # says what
        assert not self.folders_of_keys

    def close(self) -> None:
        """End what a scenario has left behind that failed."""
        for job in self.system.jobs():
            with suppress(RuntimeError):  # it ends already
                self.system.cancel("root", job)
        for machine in self.site.machines.values():
            machine.kill(USERS["ann"])
            machine.tidy(USERS["ann"])
        for process in self.started:
            process.wait(NEVER)


@pytest.fixture
def ann(system: System, request: pytest.FixtureRequest) -> Any:
    system.ready()
    user = User(system, request.node.name)
    yield user
    user.close()


class Scenarios:
    """The table."""

    kind: ClassVar[type[System]]

    def test_a_sweep_has_equal_bits_and_every_run_starts_once(self, ann: User) -> None:
        ann.start("dtoken", "-m", *dtoken_words(ann), "seed=1,2", "hydra.sweep.dir=all", "cluster.workers=2")
        ann.end()
        assert ann.outcomes() == [("done", 1)] * 2
        for seed, job in zip((1, 2), ann.manifest(), strict=True):
            assert_equal(ann, job["folder"], seed)
        ann.nothing_is_left()

    def test_what_cannot_be_is_told_in_the_words_of_the_system(self, ann: User) -> None:
        queue, words = ann.system.refused
        ann.start("dtoken", "-m", *dtoken_words(ann), "seed=1,2", f"cluster.queue={queue}")
        printed = ann.end(2)
        assert f"{ann.system.kind} refuses the job: " in printed
        assert words in printed
        assert "Traceback" not in printed
        command = ["dtoken", "-m"] if "refuses" in ann.system.unfit else ["dtoken-sweep", "dry-run"]
        ann.start(*command, *dtoken_words(ann), "seed=1,2", "cluster.cores=64")
        printed = ann.end(2)
        assert ann.system.unfit in printed
        assert "Traceback" not in printed
        ann.nothing_is_left()

    def test_jobs_that_wait_are_shown_with_the_reason_and_gone_after_ctrl_c(self, ann: User) -> None:
        directive, shown = ann.system.waits
        words = [*dtoken_words(ann), "seed=1,2", "hydra.sweep.dir=all", "cluster.workers=2"]
        words += [f'+cluster.options.job_extra_directives=["{directive}"]']
        ann.start("dtoken", "-m", *words)
        ann.wait(lambda: [f"{job['state']} ({job['reason']})" for job in read_queue(ann.folder / "all")] == [shown] * 2)
        first, second = ann.system.jobs()
        status = ann.asks("dtoken-sweep", "status", "all").splitlines()
        assert status[:2] == [
            "0/2 done   0 running   0 failed   2 waiting",
            f"queue      2 {ann.system.kind} jobs, 0 at work",
        ]
        assert sorted(status[2:]) == sorted(f"  {job:<6} {shown}" for job in (first, second))
        ann.signal(signal.SIGINT)
        assert ann.end(130).splitlines()[-1] == "interrupted with 2 waiting; to go on: dtoken-sweep resume all"
        ann.nothing_is_left()
        ann.start("dtoken", "-m", *words, "cluster.start_timeout=5")
        printed = ann.end(1)
        assert f"no job of {ann.system.kind} has started within cluster.start_timeout=5 seconds; " in printed
        assert f": {shown.partition(' ')[0]}" in printed
        assert ann.outcomes() == [("waiting", 0)] * 2
        ann.nothing_is_left()

    def test_losses_of_jobs_and_machines_cost_one_start_each_and_are_nobodys_fault(self, ann: User) -> None:
        system, site = ann.system, ann.site
        words = [*system.preemptible, f"hydra.launcher.{WHOLE_NODE}", "hydra.launcher.attempts=1"]
        words += [f"+hydra.launcher.options.ports={PORTS[0]}-{PORTS[-1]}"]
        ann.app("1..3", "+what=slow1,slow2,slow3", *words)
        ann.wait(lambda: all(ann.job_of(index) for index in range(3)))  # one job at first, which grow
        assert len(doors := strangers_get_nowhere(ann)) >= 7  # those of scheduler, three workers and their nannies
        assert {*doors} <= {*PORTS}
        for job in system.jobs():
            for text in system.asked:
                assert text in system.described(job)
            assert any((ann.folder / "all/workers").glob(f"*{job}*"))  # what it prints

        cancelled = str(ann.job_of(0))
        system.cancel("ann", cancelled)
        ann.wait(lambda: ann.ran()["slow1"] == 2)
        assert cancelled not in system.running()

        if system.preemptible:
            pushed_out = str(ann.job_of(1))
            system.preempt(system.running()[pushed_out])
            ann.wait(lambda: ann.ran()["slow2"] == 2)
            assert pushed_out not in system.running()

        gone = system.running()[str(ann.job_of(2))]
        site.machines[gone].end()
        ann.wait(lambda: ann.outcomes()[2][0] != "running")  # it is noticed, and the next worker that is free takes it
        ann.open_gate()
        ann.end()
        expected = {"slow1": 2, "slow2": 1 + bool(system.preemptible), "slow3": 2}
        assert ann.ran() == expected, ann.printed.read_text()
        assert ann.outcomes() == [("done", count) for count in expected.values()]
        system.start_node(site.add(gone))
        ann.nothing_is_left()

    def test_elements_of_an_array_are_lost_replaced_and_released_alone(self, ann: User) -> None:
        system = ann.system
        words = ["+what=quick1,slow2,slow3", f"hydra.launcher.{WHOLE_NODE}", "+hydra.launcher.options.array=true"]
        ann.app(3, *words)
        ann.wait(lambda: ann.ran() == {"quick1": 1, "slow2": 1, "slow3": 1})
        ann.wait(lambda: len(system.jobs()) == 2)  # the first run is over, and nothing waits for its worker
        first = {*system.running()}
        assert len({system.array_of(job) for job in first}) == 1
        cancelled = str(ann.job_of(1))
        system.cancel("ann", cancelled)
        ann.wait(lambda: ann.ran()["slow2"] == 2)
        assert {*system.running()} & first == first - {cancelled}
        ann.open_gate()
        ann.end()
        assert ann.ran() == {"quick1": 1, "slow2": 2, "slow3": 1}, ann.printed.read_text()
        assert ann.outcomes() == [("done", 1), ("done", 2), ("done", 1)]
        ann.nothing_is_left()

    def test_a_run_that_is_longer_than_a_job_keeps_what_it_has_and_goes_on_in_another(self, ann: User) -> None:
        ann.app(1, "+what=keeps1", "hydra.launcher.walltime=00:01:00")
        ann.wait(lambda: ann.ran() == {"keeps1": 2, "kept": 1})
        ann.open_gate()
        ann.end()
        assert ann.outcomes() == [("done", 2)]
        ann.nothing_is_left()

    def test_submit_and_leave_and_go_on_after_the_driver_is_lost(self, ann: User) -> None:
        words = [*dtoken_words(ann), "cluster.workers=1", "seed=1,2", "hydra.sweep.dir=all"]
        ann.start("dtoken-sweep", "submit", *words, *gate(ann, first=2))
        driver = submitted(ann)
        until(lambda: [status for status, _ in ann.outcomes()] == ["done", "running"])
        ann.system.cancel("ann", driver)
        until(lambda: not ann.system.jobs())  # its workers go with it
        ann.open_gate()
        ann.start("dtoken-sweep", "status", "all")
        assert "1/2 done   0 running   0 failed   1 waiting" in ann.end()
        ann.start("dtoken-sweep", "submit", "all")
        submitted(ann)
        until(lambda: [status for status, _ in ann.outcomes()] == ["done", "done"])
        assert ann.outcomes() == [("done", 1), ("done", 2)]
        ann.nothing_is_left()

    def test_a_driver_that_is_killed_leaves_no_jobs_and_the_next_one_tidies_up(self, ann: User) -> None:
        ann.app(1, "+what=slow1")
        ann.wait(lambda: ann.ran()["slow1"] == 1)
        (folder,) = ann.folders_of_keys
        assert keys_of_a_namesake(ann) != str(folder)
        assert ann.folders_of_keys == [folder]
        ann.site.machines[LOGIN].kill(USERS["ann"])
        ann.end(-9)
        until(lambda: not ann.system.jobs())
        assert ann.folders_of_keys == [folder]
        until(lambda: list(ann.left()) == [LOGIN])  # its own temporary files are all that stays
        assert len(ann.left()[LOGIN]) == 1
        ann.site.machines[LOGIN].tidy(USERS["ann"])
        ann.open_gate()
        ann.app(1, "+what=slow1", "hydra.launcher.resume=true")
        ann.end()
        assert ann.ran() == {"slow1": 2}, ann.printed.read_text()
        ann.nothing_is_left()

    def test_one_run_over_two_nodes_has_equal_bits(self, ann: User) -> None:
        words = ["engine=dask", "cluster.workers=2", "seed=1", "hydra.run.dir=all"]
        words += [f"cluster.{WHOLE_NODE}", "engine.rejoin=600"]
        ann.start(sys.executable, "-m", "tests.batch.both", *dtoken_words(ann), *words)
        ann.end()
        engine = json.loads((ann.folder / "all/summary.json").read_text())["engine"]
        assert engine["hops"]["shared"] == 0  # they are two machines
        assert engine["hops"]["network"] > 0
        assert_equal(ann, ".", 1)
        ann.nothing_is_left()


class OnOne:
    """What it is enough to see on one system, as it is the same for all."""

    def test_a_closed_terminal_takes_all_jobs_with_it_and_the_sweep_goes_on_later(self, ann: User) -> None:
        words = [
            *dtoken_words(ann),
            f"cluster.{WHOLE_NODE}",
            "cluster.workers=4",
            "seed=1,2,3,4",
            "hydra.sweep.dir=all",
        ]
        ann.start("dtoken", "-m", *words, *gate(ann, first=1))
        ann.wait(lambda: len([*(ann.folder / "all").glob(f"*/{PROGRESS}")]) == 3)  # there are three nodes
        ann.wait(lambda: len(ann.system.jobs()) == 4)
        ann.wait(lambda: sorted(ann.outcomes()) == [("running", 1)] * 3 + [("waiting", 0)])
        begun = [count for _, count in ann.outcomes()]
        ann.signal(signal.SIGHUP, signal.SIGHUP)  # from the shell and from the system
        assert ann.end(130).splitlines()[-1] == "interrupted with 4 waiting; to go on: dtoken-sweep resume all"
        ann.nothing_is_left()
        ann.open_gate()
        ann.start("dtoken-sweep", "resume", "all")
        ann.end()
        assert ann.outcomes() == [("done", 1 + count) for count in begun]
        ann.nothing_is_left()

    def test_a_run_that_ends_behind_a_cut_link_is_not_repeated(self, ann: User) -> None:
        ann.app(1, "+what=slow1", f"hydra.launcher.{WHOLE_NODE}")
        ann.wait(lambda: ann.ran()["slow1"] == 1)
        node = ann.system.running()[str(ann.job_of(0))]
        ann.site.machines[node].cut()
        ann.open_gate()
        ann.end()
        assert ann.ran() == {"slow1": 1}, ann.printed.read_text()
        assert ann.outcomes() == [("done", 1)]
        ann.site.machines[node].end()
        ann.system.start_node(ann.site.add(node))
        ann.nothing_is_left()

    def test_what_a_run_does_to_itself_is_its_own_fault(self, ann: User) -> None:
        ann.app(2, "+what=exit1,kill2,memory3,quick4", "hydra.launcher.attempts=1")
        ann.end(1)
        assert ann.ran() == {"exit1": 1, "kill2": 1, "memory3": 1, "quick4": 1}, ann.printed.read_text()
        assert ann.outcomes() == [("failed", 1)] * 3 + [("done", 1)]
        reasons = [job["error"] for job in ann.manifest()]
        assert reasons[:2] == ["its process ended with status 7", "its process was killed by signal 9 (SIGKILL)"]
        assert re.fullmatch(r"needed more memory than its worker has \(\d+ MB\)", reasons[2])
        ann.nothing_is_left()


def dtoken_words(user: User) -> list[str]:
    """A short run on the embedded data, in jobs of the batch system."""
    cluster = {"cluster": user.system.kind, "cluster.memory": "1GB", "cluster.shared": user.keys}
    problem = {"data": "tiny", "nodes": 4, "problem.sigma": 1e-3, "algorithm.tokens": 2}
    return [f"{key}={value}" for key, value in (cluster | problem | LENGTH).items()]


def gate(user: User, first: int) -> list[str]:
    """What lets runs from a seed on wait until the gate is open, or they are asked to stop."""
    words = {"_target_": "tests.slurm.gate.Gate", "file": user.folder / "ran.go", "first": first, "lets_go": True}
    return [f"+hydra.callbacks.gate.{key}={value}" for key, value in words.items()]


def submitted(user: User) -> str:
    """The job of the driver that was submitted last."""
    found = re.search(rf"submitted  {user.system.kind} job (\d+)", user.end())
    assert found is not None
    return found[1]


NAMESAKE = """
import sys
from pathlib import Path
from hydra_dask.cluster.credentials import shared_credentials
with shared_credentials(Path(sys.argv[1])) as found:
    print(Path(found.tls_ca_file).parent)
"""


def keys_of_a_namesake(user: User) -> str:
    """Where a driver has its keys, and tidies up, whose machine is called the same, and has other processes."""
    uid = USERS["ann"]
    script = f'hostname {LOGIN}; exec setpriv --reuid={uid} --regid={uid} --clear-groups -- "$@"'
    words = ["unshare", "--uts", "sh", "-c", script, "sh", sys.executable, "-c", NAMESAKE, str(user.keys)]
    return user.site.call(NODES[0], "root", *words)


STRANGER = """
import ssl, sys
from tests.knocking import knock
anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
doors = [(host, int(port)) for host, port in (word.split(":") for word in sys.argv[1:])]
print({knock(door, context, bytes(8)) for door in doors for context in (None, anonymous)})
"""


def strangers_get_nowhere(user: User) -> list[int]:
    """Let Bob try to read Ann's keys and to enter by every door that she opened on any machine; returns their ports."""
    (folder,) = user.folders_of_keys
    for path in [folder, *(folder / name for name in ("ca.pem", "cert.pem", "key.pem"))]:
        assert user.site.ask(LOGIN, "root", "test", "-e", str(path)).returncode == 0
        assert user.site.ask(LOGIN, "bob", "cat", str(path)).stderr.endswith("Permission denied\n")
    doors = []
    for name in user.site.machines:
        listed = user.site.call(name, "root", "ss", "-Htnle").splitlines()
        addresses = [line.split()[3] for line in listed if f"uid:{USERS['ann']}" in line]
        doors += [address for address in addresses if address.startswith(ADDRESSES[name])]
    found = user.site.call(LOGIN, "bob", sys.executable, "-c", STRANGER, *doors)
    assert found == "{'sent away'}"
    return [int(door.rpartition(":")[2]) for door in doors]


def assert_equal(user: User, run: str, seed: int) -> None:
    """Compare with the same run in this process, from the same store: errors are distances to the optimum in it."""
    folder = user.folder / "all" / run
    expected = dtoken.run(
        {"kind": "tiny", "store": user.site.variables["DTOKEN_STORE"]},
        4,
        {"_target_": "tvr", "tokens": 2},
        sigma=1e-3,
        seed=seed,
        stop={"passes": LENGTH["stop.passes"]},
        record={"every_passes": LENGTH["record.every_passes"]},
    )
    found: Any = zarr.open_group(folder / "result.zarr", mode="r")
    np.testing.assert_array_equal(found["tokens"][:], expected.tokens)
    np.testing.assert_array_equal(found["theta"][:], expected.theta)
    trajectory = pd.read_parquet(folder / "trajectory.parquet")
    same = [name for name in trajectory.columns if name != "wall"]
    pd.testing.assert_frame_equal(trajectory[same], expected.trajectory[same], check_exact=True)
