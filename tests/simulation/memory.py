"""Memory that processes of one machine share, and the system call by which threads sleep on it."""

import ctypes
import errno
from types import SimpleNamespace
from typing import Any

from dtoken.engine.events.sleeping import WAIT
from tests.simulation.world import Thread, world

SPURIOUS = 0.02  # share of sleeps that end for no reason, as the system may let them


class Futex:
    """Sleeping while a number in memory is what it was."""

    def __init__(self) -> None:
        self._sleeping: dict[int, list[tuple[Thread, int]]] = {}

    def __call__(self, number: int, address: int, operation: int, value: int, *_: Any) -> int:
        if operation == WAIT:
            if ctypes.c_uint32.from_address(address).value == value & 0xFFFFFFFF and not world().chance(SPURIOUS):
                self._sleeping.setdefault(address, []).append(world().ticket())
                world().wait()
            return 0
        for each in self._sleeping.pop(address, []):
            world().wake(*each)
        return 0


class Memory:
    """Files in memory that have only descriptors."""

    def __init__(self) -> None:
        self.full_until = 0.0
        self.processes: dict[int, Any] = {}

    def modules(self) -> dict[str, Any]:
        """In place of ``os``, ``mmap`` and ``psutil``."""
        system = SimpleNamespace(
            O_RDWR=2,
            O_CLOEXEC=0,
            MFD_CLOEXEC=0,
            memfd_create=lambda name, flags: self._opened(SimpleNamespace(content=bytearray())),
            fchmod=lambda descriptor, mode: None,
            posix_fallocate=self._allocate,
            getpid=self._pid,
            open=self._open,
            fstat=lambda descriptor: SimpleNamespace(st_size=len(self._file(descriptor).content)),
            close=self._close,
        )
        mapping = SimpleNamespace(mmap=lambda descriptor, size: self._file(descriptor).content)
        free = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1 << 33))
        return {"os": system, "mmap": mapping, "psutil": free}

    def _pid(self) -> int:
        process = world().current()
        self.processes[process.pid] = process
        return process.pid

    def _opened(self, file: Any) -> int:
        descriptor = world().number()
        world().current().files[descriptor] = file
        return descriptor

    def _file(self, descriptor: int) -> Any:
        return world().current().files[descriptor]

    def _allocate(self, descriptor: int, start: int, size: int) -> None:
        if world().now < self.full_until:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file(descriptor).content = bytearray(size)

    def _open(self, path: str, flags: int) -> int:
        _, _, pid, _, descriptor = path.split("/")
        process = self.processes.get(int(pid))
        alien = process is None or not process.alive or process.machine != world().current().machine
        if alien or int(descriptor) not in process.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return self._opened(process.files[int(descriptor)])

    def _close(self, descriptor: int) -> None:
        del world().current().files[descriptor]
