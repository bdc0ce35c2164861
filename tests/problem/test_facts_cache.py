import multiprocessing
import os
import time

import numpy as np
import pytest

from dtoken.problem.cache import cached
from tests.waiting import NEVER


def answer(store, log, number):
    """Compute slowly, and note every computation in ``log``."""

    def compute():
        with open(log, "a") as stream:
            stream.write("x")
        time.sleep(0.3)
        return {"value": np.array([float(number)])}

    return cached(store, "answer", compute)["value"][0]


def ask(store, log, number, queue):
    queue.put(answer(store, log, number))


def test_processes_that_ask_together_compute_once(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    arguments = [(tmp_path / "store", tmp_path / "log", number, queue) for number in range(8)]
    workers = [context.Process(target=ask, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    values = {queue.get(timeout=NEVER) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(values) == 1
    assert (tmp_path / "log").read_text() == "x"


def test_a_damaged_file_is_computed_again(tmp_path):
    store, file = tmp_path / "store", tmp_path / "store.facts" / "answer.npz"
    arrays = {"theta": np.linspace(0, 1, 50), "numbers": np.array([1.5])}
    cached(store, "answer", lambda: arrays)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:size] for size in rng.integers(0, len(whole), 20)]
    for position in rng.integers(0, len(whole), 200):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for content in [*damaged, b"", b"not a zip file"]:
        file.write_bytes(content)
        found = cached(store, "answer", lambda: arrays)
        assert found.keys() == arrays.keys()
        for name in arrays:
            np.testing.assert_array_equal(found[name], arrays[name])


def test_facts_of_a_store_that_was_replaced_are_not_used(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    for number in (1.0, 2.0):
        (store / "zarr.json").write_text(f'{{"source": {number}}}')
        assert cached(store, "answer", lambda number=number: {"value": np.array([number])})["value"][0] == number


def test_a_failed_computation_leaves_nothing_that_looks_finished(tmp_path):
    def fail():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        cached(tmp_path / "store", "answer", fail)
    assert [path.suffix for path in (tmp_path / "store.facts").iterdir()] in ([], [".lock"])
    assert cached(tmp_path / "store", "answer", lambda: {"value": np.ones(1)})["value"][0] == 1.0


def test_where_nothing_can_be_written_it_is_computed_with_a_warning(tmp_path):
    (tmp_path / "store.facts").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match=r"store.facts.answer.npz cannot be written"):
        found = cached(tmp_path / "store", "answer", lambda: {"value": np.ones(1)})
    assert found["value"][0] == 1.0


def test_a_full_disk_loses_only_the_cache(tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        found = cached(tmp_path / "store", "answer", lambda: {"value": np.ones(1)})
    assert found["value"][0] == 1.0
    assert not [path for path in (tmp_path / "store.facts").iterdir() if path.suffix != ".lock"]
