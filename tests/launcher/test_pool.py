"""Which job a worker is given, and what is said about one whose process is gone."""

import logging
import pickle
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hydra_dask.blame import EXITS
from hydra_dask.errors import NoWorkers
from hydra_dask.manifest import Job, write_record
from hydra_dask.pool import Pool, Rules, _Running
from hydra_dask.worker import Outcome, Task, _done_elsewhere

OVERDUE = "ran longer than hydra.launcher.timeout=10 seconds and was stopped"


class Quiet:
    """A client that has nothing to tell."""

    cluster = None

    def __init__(self, *exits: dict[str, Any]) -> None:
        self._exits = exits

    def get_events(self, topic: str) -> list[tuple[float, dict[str, Any]]]:
        return [(0.0, exit) for exit in self._exits] if topic == EXITS else []


@pytest.mark.parametrize(
    ("told", "overdue", "said"),
    [
        ("exited with status 7", False, "its process ended with status 7"),
        ("was killed by signal 9", False, "its process was killed by signal 9 (SIGKILL)"),
        ("exited with status 1", False, OVERDUE),  # the watchdog of the job did that
        ("was killed by signal 9", True, OVERDUE),  # the driver did that
        (None, False, OVERDUE),  # on another machine: nobody knows more
    ],
)
def test_only_what_was_stopped_took_too_long(told: str | None, overdue: bool, said: str, tmp_path: Path) -> None:
    """A busy worker takes long before the job itself starts: time alone is no proof."""
    client: Any = Quiet()
    pool = Pool(client, "token", tmp_path, Rules(timeout=10.0), {}, lambda _: None)
    if told is not None:
        pool.deaths.emit(logging.makeLogRecord({"msg": f"Worker process 17 {told}"}))
    future: Any = None
    entry = _Running(Job("id", 0, "0", []), future, "tcp://there", time.monotonic() - 100, 1, overdue)
    assert pool._cause(entry, pool.deaths.of(17, 0.0)) == (said, said == OVERDUE)


class Forgotten:
    """A future that nobody needs any more."""

    def release(self) -> None: ...


@dataclass
class Losing:
    """A job on a batch system, whose worker is lost again and again."""

    folder: Path
    client: Any
    fates: list[str | None]
    notes: list[str] = field(default_factory=list)
    job: Job = field(default_factory=lambda: Job("id", 0, "0", []))

    def __post_init__(self) -> None:
        (self.folder / ".jobs").mkdir()
        self.pool = Pool(self.client, "token", self.folder, Rules(attempts=2), {0: b""}, lambda _: None)
        self.pool.fate, self.pool.note = (lambda _: self.fates.pop(0)), self.notes.append

    def lose(self, **told: Any) -> str:
        """What the job is after its next attempt, which ended with this record."""
        self.job.attempts += 1
        record = {"id": "id", "status": "running", "attempt": self.job.attempts, "pid": 17, "host": "n1", "worker": "w"}
        write_record(self.folder, 0, record | told)
        future: Any = Forgotten()
        self.pool._lost(_Running(self.job, future, "tls://n1:1", time.monotonic(), self.job.attempts))
        return self.job.status


def test_what_the_batch_system_ends_is_not_charged_to_a_job_that_gets_on(tmp_path: Path) -> None:
    losing = Losing(tmp_path, Quiet(), ["CANCELLED", "NODE_FAIL", "gone"] * 4)
    assert {losing.lose(kept=True) for _ in range(12)} == {"waiting"}
    assert losing.notes == []
    assert not losing.pool._again  # nobody suspects it


def test_a_job_that_never_keeps_anything_is_told_at_the_second_loss_and_stopped_at_the_third(tmp_path: Path) -> None:
    losing = Losing(tmp_path, Quiet(), ["TIMEOUT"] * 9)
    assert [losing.lose(), losing.lose(status="left"), losing.lose(kept=True), losing.lose()] == ["waiting"] * 4
    assert losing.lose() == "waiting"
    assert len(losing.notes) == 2
    assert losing.notes[-1].startswith("job 0 lost its worker two times and had kept nothing: it takes longer than")
    assert losing.lose() == "failed"
    assert str(losing.job.error).startswith("lost its worker 3 times and had kept nothing")


@pytest.mark.parametrize(
    ("exit", "fate", "text"),
    [
        ({"code": -9, "full": False}, None, "its process was killed by signal 9 (SIGKILL)"),
        ({"code": -9, "full": True}, None, "needed more memory than its job has"),
        (None, "OUT_OF_MEMORY", "needed more memory than its job has (OUT_OF_MEMORY)"),
    ],
)
def test_what_a_job_does_to_itself_counts(
    exit: dict[str, Any] | None, fate: str | None, text: str, tmp_path: Path
) -> None:
    client = Quiet(*([exit | {"pid": 17, "host": "n1"}] if exit else []))
    losing = Losing(tmp_path, client, [fate] * 9)
    assert losing.lose() == "waiting"
    assert losing.pool._again
    assert losing.lose(kept=True) == "failed"
    assert losing.job.error == f"{text} (attempt 2)"


def test_a_silent_loss_stays_unclear_until_the_system_says_what_it_was(tmp_path: Path) -> None:
    losing = Losing(tmp_path, Quiet(), [None, "NODE_FAIL"])
    losing.job.status = "running"
    assert losing.lose() == "running"
    losing.pool._unclear[0].asked = 0.0
    losing.pool._clear_up()
    assert losing.job.status == "waiting"


def test_a_record_that_comes_late_is_believed(tmp_path: Path) -> None:
    losing = Losing(tmp_path, Quiet(), [None, "CANCELLED"])
    losing.lose()
    done = {"id": "id", "status": "done", "attempt": 1, "value": 0.5, "error": None, "started": "a", "ended": "b"}
    write_record(tmp_path, 0, done)
    losing.pool._unclear[0].asked = 0.0
    losing.pool._clear_up()
    assert losing.job.status == "done"
    assert pickle.loads(losing.pool.returned[0].value) == 0.5


def test_a_job_that_was_finished_after_all_is_not_done_again(tmp_path: Path) -> None:
    """Its worker was cut off, and came to the end before the next one could begin."""
    (tmp_path / ".jobs").mkdir()
    (tmp_path / "0").mkdir()
    task = Task(tmp_path, "id", 0, 2, "0", "0/app.log", b"", None)
    assert _done_elsewhere(task) is None
    done = {"id": "id", "status": "done", "attempt": 1, "value": 0.5, "error": None, "started": "a", "ended": "b"}
    write_record(tmp_path, 0, done)
    found = _done_elsewhere(task)
    assert found is not None
    assert (found.status, pickle.loads(found.value)) == ("done", 0.5)
    assert _done_elsewhere(replace(task, id="other")) is None
    (tmp_path / "0").rmdir()
    assert _done_elsewhere(task) is None


def test_workers_without_work_are_released_and_the_others_are_kept(tmp_path: Path) -> None:
    client: Any = Quiet()
    told: list[tuple[int | None, list[str]]] = []
    pool = Pool(client, "token", tmp_path, Rules(), {}, lambda _: None)
    pool.demand = lambda needed, free: told.append((needed, list(free)))
    pool._workers = ["a", "b", "c", "d"]
    pool._tell_demand()
    assert told[-1] == (None, [])  # there may be more to come
    pool._exhausted = True
    job, future = Job("0", 0, "0", []), None
    pool._running["a"] = _Running(job, future, "a", 0.0, 1)  # type: ignore[arg-type]
    pool._again.append(Job("1", 1, "1", []))
    pool._tell_demand()
    assert told[-1] == (2, ["c", "d"])  # b waits with the job that waits
    pool._again.clear()
    pool._tell_demand()
    assert told[-1] == (1, ["b"])
    pool._fresh.extend(Job(str(index), index, str(index), []) for index in range(2, 9))
    pool._hand_out()  # nothing is given to those that are about to go
    assert list(pool._running) == ["a"]


@pytest.mark.parametrize(("jobs", "begun"), [(9, [0, 8]), (8, [0, 1])])
def test_workers_begin_far_apart_if_there_are_many_jobs(jobs: int, begun: list[int], tmp_path: Path) -> None:
    """Neighbours are alike, and what is the same about them need not be made ready twice at the same time."""
    client: Any = Quiet()
    pool = Pool(client, "token", tmp_path, Rules(), {}, lambda _: None)
    pool._fresh.extend(Job(str(index), index, str(index), []) for index in range(jobs))
    pool._workers = ["first", "second"]
    taken = [pool._next_for(worker).index for worker in ["first", "second", "second", "first"]]
    assert taken[:2] == begun
    rest = [index for index in range(jobs) if index not in begun]
    assert taken[2:] == rest[:2]


class Instant(Quiet):
    """A client with one worker, on which every job is over as soon as it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def nthreads(self) -> dict[str, int]:
        return {"w": 1}

    def submit(self, function: Any, token: str, task: Task, *, key: str, **_: Any) -> Any:
        self.told.append(f"handed {task.index}{', heard' if task.reports else ''}")
        return Over(self, key, task.index)


@dataclass
class Over(Forgotten):
    """The future of a job that is over."""

    client: Instant
    key: str
    index: int
    status: str = "finished"

    def add_done_callback(self, call: Any) -> None:
        call(self)

    def result(self, timeout: float) -> Outcome:
        self.client.told.append(f"fetched {self.index}")
        return Outcome("done", pickle.dumps(None), None, None, "a", "b")


def run_instantly(folder: Path, rules: Rules, *, searched: bool = False) -> list[str]:
    """What is handed out and fetched, in order, when three jobs run on one worker."""
    client: Any = Instant()
    jobs = [Job(str(index), index, str(index), []) for index in range(3)]
    pool = Pool(client, "token", folder, rules, dict.fromkeys(range(3), b""), lambda _: None, listens=searched)
    if searched:
        left = iter(jobs)
        pool.run([], lambda: next(left, None))
    else:
        pool.run(jobs)
    assert {job.status for job in jobs} == {"done"}
    told: list[str] = client.told
    return told


def test_a_worker_gets_its_next_job_before_the_result_of_the_last_one_is_here(tmp_path: Path) -> None:
    told = run_instantly(tmp_path, Rules())
    assert told == ["handed 0", "handed 1", "fetched 0", "handed 2", "fetched 1", "fetched 2"]


def test_where_a_result_decides_what_is_next_it_is_awaited(tmp_path: Path) -> None:
    in_turns = ["handed 0", "fetched 0", "handed 1", "fetched 1", "handed 2", "fetched 2"]
    assert run_instantly(tmp_path, Rules(stop_at_failure=True)) == in_turns
    heard = [f"{word}, heard" if word.startswith("handed") else word for word in in_turns]
    assert run_instantly(tmp_path, Rules(), searched=True) == heard


def test_workers_that_cannot_be_used_end_the_sweep_though_they_are_there(tmp_path: Path) -> None:
    class OneWorker(Quiet):
        def nthreads(self) -> dict[str, int]:
            return {"tls://n1:1": 1}

    client: Any = OneWorker()
    pool = Pool(client, "token", tmp_path, Rules(), {}, lambda _: None, lambda: "it cannot be reached")
    with pytest.raises(NoWorkers, match="there will be no workers: it cannot be reached"):
        pool._look()
