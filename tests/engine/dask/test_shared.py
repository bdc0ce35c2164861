"""Memory that hosts share: who sees it, what is proved, and that nothing of it is left."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dtoken.engine.dask import shared
from dtoken.engine.dask.shared import MEMORY_NAME, Offer, SharedMemory, machine
from dtoken.engine.dask.sharing import share_memory
from tests.waiting import NEVER, until

SECRET = b"s" * 32

pytestmark = pytest.mark.skipif(not machine(), reason="this system has no memory that processes can share")


def mapped() -> list[str]:
    """The processes that have such memory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if MEMORY_NAME in (process / "maps").read_text() else []
        except OSError:
            continue
    return found


def test_both_see_the_same_bytes_and_prove_it() -> None:
    made = SharedMemory.make(10_000, 3)
    assert len(made.memory) == 10_000
    found = SharedMemory.attach(made.offer, 2, SECRET)
    found.memory[:5] = b"token"
    assert bytes(made.memory[:5]) == b"token"
    assert [made.has_answer(host, SECRET) for host in range(3)] == [False, False, True]
    assert not made.has_answer(2, b"x" * 32)


def test_only_the_user_can_open_it_and_only_while_it_is_offered() -> None:
    before = os.listdir("/dev/shm")
    made = SharedMemory.make(100, 2)
    place = Path(f"/proc/{os.getpid()}/fd/{made.offer.descriptor}")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert os.listdir("/dev/shm") == before  # it has no name that could be guessed
    if os.getuid() == 0:
        stranger = subprocess.run(["cat", place], user=65534, capture_output=True, check=False)
        assert stranger.returncode != 0
        assert b"Permission" in stranger.stderr
    made.shut()
    with pytest.raises(OSError, match="No such file"):
        SharedMemory.attach(made.offer, 1, SECRET)


@pytest.mark.parametrize("other", ["a file", "other memory", "no such process"])
def test_what_is_not_the_same_memory_is_refused(other: str, tmp_path: Path) -> None:
    """As where another container has a process and a descriptor of the same numbers."""
    made, wrong = SharedMemory.make(100, 2), SharedMemory.make(100, 2)
    offer = made.offer._replace(descriptor=wrong.offer.descriptor)
    if other == "a file":
        (tmp_path / "file").write_bytes(b"0" * 50)
        with (tmp_path / "file").open("r+b") as file, pytest.raises(OSError, match="another file"):
            SharedMemory.attach(made.offer._replace(descriptor=file.fileno()), 1, SECRET)
    elif other == "other memory":
        with pytest.raises(OSError, match="other bytes"):
            SharedMemory.attach(offer, 1, SECRET)
        assert not wrong.has_answer(1, SECRET)
    else:
        with pytest.raises(OSError, match="No such file"):
            SharedMemory.attach(made.offer._replace(process=2**22 - 1), 1, SECRET)


def test_more_than_there_is_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "FREE_SHARE", 0.0)
    files = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="would take too much"):
        SharedMemory.make(1000, 2)
    monkeypatch.undo()

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        SharedMemory.make(1000, 2)
    assert os.listdir("/proc/self/fd") == files


HOLD = """
import sys
from dtoken.engine.dask.shared import Offer, SharedMemory
process, descriptor, size, hosts, proof = sys.argv[1:]
offer = Offer(int(process), int(descriptor), int(size), int(hosts), bytes.fromhex(proof))
held = SharedMemory.attach(offer, 1, b"s" * 32) if offer.process else SharedMemory.make(offer.size, offer.hosts)
print(*held.offer[:4], held.offer.proof.hex(), flush=True)
sys.stdin.read()
"""


def hold(offer: Offer) -> tuple[Any, Offer]:
    """A process that makes shared memory, or attaches to it."""
    words = [str(number) for number in offer[:4]] + [offer.proof.hex()]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", HOLD, *words], **pipes)
    *numbers, proof = process.stdout.readline().split()  # type: ignore[union-attr]
    return process, Offer(*map(int, numbers), bytes.fromhex(proof))


def named() -> list[str]:
    """What has a name in shared memory, but for semaphores, of which other processes have some."""
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith("sem."))


def test_nothing_is_left_when_all_are_killed() -> None:
    before = named()
    leader, offer = hold(Offer(0, 0, 1 << 20, 2, b""))
    member, _ = hold(offer)
    assert {str(leader.pid), str(member.pid)} <= set(mapped())
    leader.kill()
    leader.wait(NEVER)
    assert str(member.pid) in mapped()  # who is left still has it
    member.kill()
    member.wait(NEVER)
    until(lambda: not {str(leader.pid), str(member.pid)} & set(mapped()))
    assert named() == before
    for process in (leader, member):
        process.stdin.close()
        process.stdout.close()
        process.stdout.close()


def answer(offers: Any, answers: Any, proofs: Any) -> Any:
    """A cluster that answers so."""
    replies = iter((offers, answers, proofs))
    return lambda _, arguments: next(replies)


def test_who_shares_with_whom() -> None:
    offer = Offer(1, 2, 3, 4, b"")
    two = share_memory(
        answer([offer, None, offer, None, None], [None] * 5, [[0, 1], [], [2, 4], [], []]), "run", list("aabcb")
    )
    assert (two.near, two.transport, two.reasons) == ([[1], [0], [4], [], [2]], "mixed", [])
    failed = share_memory(answer(["full", None], [None, "full"], [[], []]), "run", list("aa"))
    assert (failed.near, failed.transport, failed.reasons) == ([[], []], "tcp", ["full"])
    blind = share_memory(answer([offer, None], [None, None], [[], []]), "run", list("aa"))
    assert (blind.near, blind.reasons) == ([[], []], ["its bytes are not the same for all"])
    assert share_memory(answer(None, None, None), "run", ["a", "b"]).transport == "tcp"
    assert share_memory(answer(None, None, None), "run", ["", ""]).transport == "tcp"  # no system for it
