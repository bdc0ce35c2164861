"""Faults: what is done to a world, and when."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dtoken.engine.dask.greeting import HELLO
from dtoken.engine.dask.tcp import HEADER
from tests.simulation.network import connected
from tests.simulation.world import Process


@dataclass(frozen=True)
class Fault:
    """One of them; numbers are of any size, and choose among what there is then."""

    pause: float  # seconds after the one before,
    steps: int  # or, if there are any, steps of the world: many where much happens
    kind: str
    target: int
    amount: float  # between 0 and 1

    def __str__(self) -> str:
        when = f"{self.steps} steps" if self.steps else f"{self.pause:.4f} s"
        return f"{self.kind:<12} target {self.target:<4} amount {self.amount:.3f}  {when} after the last"


def draw_faults(rng: random.Random, most: int) -> tuple[Fault, ...]:
    """Random faults: few or many, and often one while the one before is being mended."""
    kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
    return tuple(
        Fault(
            rng.choice((0.0, 0.01, 0.1, 0.5)) * rng.random(),
            rng.choice((0, 0, 30, 300, 1000)) * rng.randint(1, 4) // 2,
            rng.choices(kinds, weights)[0],
            rng.randrange(10_000),
            rng.random(),
        )
        for _ in range(max(1, rng.choice((most, most, most // 3, most // 10))))
    )


def kill(trial: Any, fault: Fault) -> None:
    """SIGKILL; a new worker comes for it, soon or late."""
    living = trial.cluster.living
    if living:
        dead = living[fault.target % len(living)]
        dead.process.kill()
        trial.cluster.replace(dead, 1.5 * fault.amount**3)


def kill_on_disk(trial: Any, fault: Fault) -> None:
    """SIGKILL in the middle of writing or reading a checkpoint, whoever does."""
    trial.disk.kill_after = fault.target % 40


def pause(trial: Any, fault: Fault) -> None:
    """SIGSTOP, and SIGCONT some time later."""
    living = [each for each in trial.cluster.living if not each.process.paused]
    if living:
        stopped = living[fault.target % len(living)].process
        stopped.paused = True
        trial.world.later(0.1 + 6 * fault.amount**2, stopped.resume)


def hang(trial: Any, fault: Fault) -> None:
    """A worker stops for good, and another one comes."""
    living = [each for each in trial.cluster.living if not each.process.paused]
    if living:
        living[fault.target % len(living)].process.paused = True
        trial.world.later(fault.amount, trial.cluster.start, 100 + len(trial.cluster.workers))


def leave(trial: Any, fault: Fault) -> None:
    """SIGTERM, as from a batch system."""
    living = [each for each in trial.cluster.living if each.status == "running"]
    if living:
        leaving = living[fault.target % len(living)]
        leaving.process.soon(lambda: leaving.process.start_task(trial.cluster.leave(leaving)))
        trial.cluster.replace(leaving, 3.0 * fault.amount)


def breaks(trial: Any, fault: Fault) -> None:
    """A connection between two hosts is reset."""
    pairs = trial.network.living()
    if pairs:
        for end in pairs[fault.target % len(pairs)]:
            end.breaks(ConnectionResetError("connection reset"))


def cut_cable(trial: Any, fault: Fault) -> None:
    """A connection between two hosts falls silent."""
    pairs = trial.network.living()
    if pairs:
        pairs[fault.target % len(pairs)][0].stall()


def slow_network(trial: Any, fault: Fault) -> None:
    trial.network.slow_until, trial.network.slowness = trial.world.now + 0.5, 1 + 100 * fault.amount


def late_calls(trial: Any, fault: Fault) -> None:
    """Some calls of the driver arrive when it does not wait for them any more."""
    trial.cluster.late_until, trial.cluster.lateness = trial.world.now + 0.3, 8.0 * fault.amount


def full_disk(trial: Any, fault: Fault) -> None:
    trial.disk.full_until = trial.world.now + fault.amount


def slow_disk(trial: Any, fault: Fault) -> None:
    trial.disk.slow_until = trial.world.now + fault.amount


def broken_disk(trial: Any, fault: Fault) -> None:
    trial.disk.broken_until = trial.world.now + 0.1 * fault.amount


def full_memory(trial: Any, fault: Fault) -> None:
    """There is no memory that hosts could share."""
    trial.memory.full_until = trial.world.now + fault.amount


def kill_driver(trial: Any, fault: Fault) -> None:
    """SIGKILL for the driver; somebody starts it again."""
    trial.driver.kill()
    trial.restart(fault.amount)


def stop_driver(trial: Any, fault: Fault) -> None:
    """SIGTERM for the driver: it ends at a cut, and somebody starts it again."""
    trial.asked.add(trial.driver)


def power(trial: Any, fault: Fault) -> None:
    """All machines go off at once."""
    trial.driver.kill()
    for each in trial.cluster.living:
        each.process.kill()
        trial.cluster.replace(each, 1.0)
    trial.disk.lose_power(early=fault.target % 2 == 0)
    trial.after_power_failure()
    trial.restart(1.0)


def ghost(trial: Any, fault: Fault) -> None:
    """A host that was given up comes back: it greets a former peer for a generation that is over, and sends a token."""
    seats = [seat for each in trial.cluster.living for seat in each.seats.values()]
    if seats:
        seat = seats[fault.target % len(seats)]
        port = seat.listener.address.port
        newest = max(each.process.generations.get(seat.listener.secret, 0) for each in trial.cluster.living)
        hello = HELLO.pack(seat.listener.secret, newest - 1 - fault.target % 2, fault.target % 3, bytes(32))
        for knock in range(10):
            said = hello + HEADER.pack(0, fault.target % 50) + bytes(64)
            trial.world.later(0.1 * knock * fault.amount, _knock, trial, port, said)


def stranger(trial: Any, fault: Fault) -> None:
    """Somebody knocks who does not know the secret, or says nothing at all."""
    doors = list(trial.network.listeners)
    if doors:
        _knock(trial, doors[fault.target % len(doors)], bytes(int(150 * fault.amount)))


def _knock(trial: Any, port: int, said: bytes) -> None:
    door = trial.network.listeners.get(port)
    if door is not None and door.process.alive:
        who = Process(trial.world, "visitor", "machine 9")
        mine, theirs = connected(trial.network, who, door.process)
        mine.peer.capacity = 1000
        door.backlog.append(theirs)
        door._wake(door._readers)
        mine.sendall(said)
        trial.world.later(5.0, who.kill)


KINDS: dict[str, tuple[float, Callable[[Any, Fault], None]]] = {
    "kill": (6, kill),
    "kill_on_disk": (2, kill_on_disk),
    "pause": (2, pause),
    "hang": (1, hang),
    "leave": (1, leave),
    "breaks": (6, breaks),
    "cut_cable": (1, cut_cable),
    "slow_network": (1, slow_network),
    "late_calls": (1, late_calls),
    "full_disk": (0.5, full_disk),
    "slow_disk": (1, slow_disk),
    "broken_disk": (0.5, broken_disk),
    "full_memory": (0.5, full_memory),
    "kill_driver": (0.5, kill_driver),
    "stop_driver": (0.3, stop_driver),
    "power": (0.3, power),
    "ghost": (1, ghost),
    "stranger": (0.5, stranger),
}
