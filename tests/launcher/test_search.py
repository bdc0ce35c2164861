"""``hydra/sweeper=dask_optuna``: no worker waits for another one's job, and a study goes on where it was."""

import json
import queue
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from hydra_dask.manifest import DONE, RECORDS, Job
from hydra_dask.optuna_search import Search, open_study, space
from hydra_dask.pool import Pool, Rules
from hydra_dask.pruning import JOB_FILES, Pruned, files_of, report
from hydra_dask.worker import Outcome

WORKERS = 8


class Future:
    """A job that ends when the simulated clock says so."""

    status = "finished"

    def __init__(self, key: str, end: float) -> None:
        self.key, self.end = key, end

    def add_done_callback(self, _: Any) -> None:
        pass

    def release(self) -> None:
        pass

    def result(self, timeout: float) -> Outcome:
        import pickle

        return Outcome(DONE, pickle.dumps(0.0), None, None, "", "")


class Simulated:
    """A cluster whose clock goes from the end of one job to the end of the next; it is the client and the queue."""

    cluster = None

    def __init__(self, seconds: list[float]) -> None:
        self.now, self.seconds, self.running = 0.0, iter(seconds), []

    def nthreads(self) -> dict[str, int]:
        return {f"worker {number}": 1 for number in range(WORKERS)}

    def submit(self, *_: Any, key: str, **__: Any) -> Future:
        self.running.append(Future(key, self.now + next(self.seconds)))
        return self.running[-1]

    def put(self, _: Future) -> None:
        pass

    def get(self, timeout: float) -> Future:
        first = min(self.running, key=lambda future: future.end)
        self.running.remove(first)
        self.now = first.end
        return first

    def get_nowait(self) -> Future:
        if all(future.end > self.now for future in self.running):
            raise queue.Empty
        return self.get(0.0)


def test_workers_are_busy_with_unequal_jobs(tmp_path: Path) -> None:
    draw = random.Random(0)
    seconds = [draw.lognormvariate(0.0, 1.0) for _ in range(400)]
    cluster: Any = Simulated(seconds)
    jobs = (Job(str(number), number, str(number), []) for number in range(len(seconds)))
    configs = dict.fromkeys(range(len(seconds)), b"")
    pool = Pool(cluster, "token", tmp_path, Rules(), configs, lambda _: None)
    pool._events = cluster
    pool.run([], lambda: next(jobs, None))
    assert len(pool.returned) == len(seconds)
    assert sum(seconds) / (WORKERS * cluster.now) >= 0.95
    batches = [seconds[first : first + WORKERS] for first in range(0, len(seconds), WORKERS)]
    assert sum(seconds) / (WORKERS * sum(map(max, batches))) < 0.5  # what a sweeper with batches would come to


def test_a_search_goes_on_when_all_its_jobs_end_at_once(tmp_path: Path) -> None:
    cluster: Any = Simulated([1.0] * 30)
    jobs = (Job(str(number), number, str(number), []) for number in range(30))
    pool = Pool(cluster, "token", tmp_path, Rules(), dict.fromkeys(range(30), b""), lambda _: None)
    pool._events = cluster
    pool.run([], lambda: next(jobs, None))
    assert len(pool.returned) == 30


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    (tmp_path / RECORDS).mkdir()
    return open_study(
        None, "s", "minimize", optuna.samplers.RandomSampler(0), optuna.pruners.ThresholdPruner(upper=5), tmp_path
    )


def search(study: optuna.Study, folder: Path, trials: int) -> Search:
    searched, fixed = space(["+fixed=1", "x=interval(0,1)"], {"k": "1,2"})
    return Search(study, searched, fixed, trials, folder)


def begun(trials: Search) -> Job:
    asked = trials.ask()
    assert asked is not None
    number, words = asked
    assert [word.partition("=")[0] for word in words] == ["+fixed", "x", "k"]
    job = Job(str(number), number, str(number), words)
    trials.begin(number, job)
    return job


def test_a_study_goes_on_where_its_driver_died(study: optuna.Study, tmp_path: Path) -> None:
    first = search(study, tmp_path, 4)
    done, lost = begun(first), begun(first)
    done.status = DONE
    first.over(done, 0.25)
    again = open_study(None, "s", "minimize", optuna.samplers.RandomSampler(1), None, tmp_path)
    assert [trial.value for trial in again.get_trials(states=[TrialState.COMPLETE])] == [0.25]
    second = search(again, tmp_path, 4)
    assert begun(second).overrides == lost.overrides  # what was running is run first
    assert [second.ask() is None for _ in range(3)] == [False, False, True]


def test_a_job_is_pruned_by_what_it_reports(study: optuna.Study, tmp_path: Path) -> None:
    trials = search(study, tmp_path, 2)
    bad, good = begun(trials), begun(trials)
    for job, value in ((bad, 7.0), (good, 3.0)):
        JOB_FILES.set(files_of(tmp_path, job.index))
        report(1, value)
    trials.look()
    report(2, 3.0)  # the good one goes on
    JOB_FILES.set(files_of(tmp_path, bad.index))
    with pytest.raises(Pruned):
        report(2, 1.0)
    JOB_FILES.set(None)
    bad.status, good.status = Pruned.status, DONE
    trials.over(bad, None)
    trials.over(good, 3.0)
    states = [(trial.state, trial.intermediate_values) for trial in study.trials]
    assert states == [(TrialState.PRUNED, {1: 7.0, 2: 1.0}), (TrialState.COMPLETE, {1: 3.0, 2: 3.0})]


APP = """
import hydra
from hydra_dask.pruning import report
@hydra.main(version_base="1.3", config_path=None, config_name=None)
def main(cfg):
    report(1, cfg.x)
    return (cfg.x - 0.5) ** 2 + (cfg.kind == "worse")
if __name__ == "__main__":
    main()
"""


def test_any_hydra_application(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    words = [
        "-m",
        "hydra/launcher=dask",
        "hydra.launcher.workers=2",
        "hydra/sweeper=dask_optuna",
        "hydra.sweep.dir=all",
    ]
    command = [sys.executable, "app.py", *words, "+x=interval(0,1)", "+kind=better,worse"]
    for trials in (3, 5):
        done = subprocess.run(
            [*command, f"hydra.sweeper.n_trials={trials}", "hydra.launcher.resume=true"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith("best       0.")
    jobs = json.loads((tmp_path / "all/manifest.json").read_text())["jobs"]
    assert [job["status"] for job in jobs] == 5 * ["done"]
    assert (tmp_path / "all/optimization_results.yaml").read_text().startswith("name: optuna\nbest_params:\n")
    assert len(list((tmp_path / "all" / RECORDS).glob("*.reports"))) == 5
    plain = [word for word in command if "sweep" not in word]
    subprocess.run([*plain[:-2], "hydra.sweep.dir=plain", "+x=1", "+kind=better"], cwd=tmp_path, check=True)
    assert (tmp_path / "plain" / RECORDS / "0.json").is_file()
    assert not list((tmp_path / "plain" / RECORDS).glob("*.reports"))  # nobody would read them
