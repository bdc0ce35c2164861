"""Memory that the hosts of one machine share, so that a token goes from one to another without being copied.

One of them makes it, without a name: it is a file in memory that has only a descriptor (memfd). The others open that
descriptor where Linux shows it, below /proc, which lets in nobody but processes of the same user; the file itself can
be read and written by its owner only. When the last process that has it ends, however it ends, nothing is left.

That somebody could open something is no proof that both see the same bytes: the one that made it has written random
ones there, and every other answers beside them with a word that only who knows the secret of the run and has read them
can say.
"""

import hashlib
import hmac
import mmap
import os
import secrets
import sys
from pathlib import Path
from typing import NamedTuple

import psutil

from dtoken.text import show_bytes

MEMORY_NAME = "dtoken-tokens"  # shown in /proc/PID/maps; nothing can be opened by it
WORD = 32  # bytes of the proof and of each answer
PAGE = 4096
FREE_SHARE = 0.5  # of the memory that is free: nothing else bounds it, and who takes too much is killed


class Offer(NamedTuple):
    """Where shared memory can be opened."""

    process: int
    descriptor: int
    size: int  # of what is to be shared, in bytes
    hosts: int  # that may answer
    proof: bytes


def machine() -> str:
    """What processes have in common that can share memory: kernel, view of processes, user; empty: it has none."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getuid()}"
    except OSError:
        return ""


class SharedMemory:
    """Shared memory, as one process has it; it goes with the last array in it, for arrays keep it open."""

    def __init__(self, offer: Offer, descriptor: int) -> None:
        self._offer, self._descriptor = offer, descriptor
        self._map = mmap.mmap(descriptor, _start(offer.hosts) + offer.size)

    @classmethod
    def make(cls, size: int, hosts: int) -> "SharedMemory":
        """Make new memory for so many hosts; OSError: there is not enough."""
        free = psutil.virtual_memory().available
        if size > FREE_SHARE * free:
            raise OSError(f"tokens of {show_bytes(size)} would take too much of the {show_bytes(free)} that are free")
        descriptor = os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)
            os.posix_fallocate(descriptor, 0, _start(hosts) + size)  # now, or it would be missed in the middle of a run
            offer = Offer(os.getpid(), descriptor, size, hosts, secrets.token_bytes(WORD))
            made = cls(offer, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        made._map[:WORD] = offer.proof
        return made

    @classmethod
    def attach(cls, offer: Offer, me: int, secret: bytes) -> "SharedMemory":
        """Open what another process has made, and answer; OSError: that is not possible."""
        descriptor = os.open(f"/proc/{offer.process}/fd/{offer.descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != _start(offer.hosts) + offer.size:
                raise OSError("another file was found in place of the shared memory")
            found = cls(offer, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        found.shut()
        if not hmac.compare_digest(found._map[:WORD], offer.proof):
            raise OSError("other bytes were found in place of the shared memory")
        found._map[_place(me)] = _answer(secret, offer.proof, me)
        return found

    @property
    def offer(self) -> Offer:
        """For others to attach."""
        return self._offer

    @property
    def memory(self) -> memoryview:
        """What is shared."""
        return memoryview(self._map)[_start(self._offer.hosts) :]

    def has_answer(self, host: int, secret: bytes) -> bool:
        """Whether a host has proved that it sees these bytes, and this one sees its."""
        return hmac.compare_digest(self._map[_place(host)], _answer(secret, self._offer.proof, host))

    def shut(self) -> None:
        """Let nobody attach any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _start(hosts: int) -> int:
    """Where the shared bytes begin, after proof and answers."""
    return -(-WORD * (hosts + 1) // PAGE) * PAGE


def _place(host: int) -> slice:
    return slice(WORD * (host + 1), WORD * (host + 2))


def _answer(secret: bytes, proof: bytes, host: int) -> bytes:
    return hmac.digest(secret, proof + host.to_bytes(8, "little"), hashlib.sha256)
