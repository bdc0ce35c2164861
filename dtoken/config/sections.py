"""The sections of a configuration that no other part of the package defines, and who defines the others."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from dtoken.engine.dask.faults import Faults
from dtoken.engine.loop.run import Recording, Stop
from dtoken.engine.processors import processors
from dtoken.engine.rows.memory import parse_memory
from dtoken.errors import InputError
from dtoken.schedule.clock import TimeModel

# config name -> class; modules are loaded when they are needed
SOURCES = {
    "synthetic": "dtoken.data.synthetic.Synthetic",
    "rcv1_like": "dtoken.data.rcv1_like.Rcv1Like",
    "svmlight": "dtoken.data.svmlight.Svmlight",
    "npz": "dtoken.data.matrices.Npz",
    "anndata": "dtoken.data.matrices.AnnData",
}
SOURCE_HIDDEN = ("threads",)  # not a property of the data


def source_class(kind: str) -> type[Any]:
    """The class of a source of data."""
    module, _, name = SOURCES[kind].rpartition(".")
    found: type[Any] = getattr(import_module(module), name)
    return found


@dataclass(frozen=True)
class Problem:
    """What is minimised.

    Parameters
    ----------
    loss
        ``logistic``, ``squared`` or ``smooth_hinge``.
    sigma
        Regularisation of each node.
    """

    loss: str = "logistic"
    sigma: float = 1e-2

    def __post_init__(self) -> None:
        from dtoken.problem.losses import get_loss

        get_loss(self.loss)
        if not 0 < self.sigma < float("inf"):
            raise InputError(f"problem.sigma={self.sigma} must be a positive number; use for instance 1e-3")


def asked_accuracies(recorded: Iterable[float], stop: float | None) -> tuple[float, ...]:
    """For which suboptimalities to say what it took: those of ``record`` and the one that ends the run, coarse first.

    Examples
    --------
    >>> asked_accuracies([1e-6, 1e-2], 1e-5)
    (0.01, 1e-05, 1e-06)
    """
    return tuple(sorted({*recorded, *(() if stop is None else (stop,))}, reverse=True))


@dataclass(frozen=True)
class Record(Recording):
    """When to measure, and what to keep.

    Parameters
    ----------
    every_passes, every_jumps
        Measure each time that so many passes or jumps have gone by.
    growth
        Let intervals grow to this share of the passes (jumps) so far: 0.05 measures all methods to within 5 %.
    events
        Write the event log.
    accuracies
        For which suboptimalities to say what it took to reach them.
    """

    events: bool = False
    accuracies: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)

    def __post_init__(self) -> None:
        super().__post_init__()
        for accuracy in self.accuracies:
            if not accuracy > 0:
                raise InputError(f"record.accuracies has {accuracy}, but a suboptimality to reach is positive")


@dataclass(frozen=True)
class Checkpoint:
    """How often to keep what is needed to go on after an interruption.

    Parameters
    ----------
    seconds
        Seconds from one checkpoint to the next, more where writing takes over 2 % of the time; None: not by time.
    every
        Record points from one checkpoint to the next, whatever they cost; None: not by records.
    """

    seconds: float | None = 60.0
    every: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"checkpoint.seconds={self.seconds} must be positive, or null for no checkpoints by time")
        if self.every is not None and self.every < 1:
            raise InputError(f"checkpoint.every={self.every} must be at least 1, or null for none by records")


@dataclass(frozen=True)
class Schedule:
    """Where the events come from.

    Parameters
    ----------
    replay
        An event log, whose events are taken instead of drawn ones.
    """

    replay: str | None = None


@dataclass(frozen=True)
class Local:
    """Threads of this process.

    Parameters
    ----------
    threads
        How many; None: one per processor, or one where steps are too short to share.
    memory
        Bytes that the run may use, such as ``300MB``: rows beyond that are read when they are needed; None: no limit.
    read_ahead
        Read rows before they are needed, where they do not all fit into memory.
    """

    threads: int | None = None
    memory: int | str | None = None
    read_ahead: bool = True
    kind: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        parse_memory("engine.memory", self.memory)
        if self.threads is not None and not 1 <= self.threads <= 1024:
            raise InputError(f"engine.threads={self.threads} must lie between 1 and 1024; null is one per processor")

    def threads_for(self, nodes: int, worth_it: bool = True) -> int:
        """Threads for so many nodes: never more than nodes; left to us, one where handing over tokens costs more."""
        return min(self.threads or (processors() if worth_it else 1), nodes)


@dataclass(frozen=True)
class Dask(Faults):
    """The workers of a Dask cluster (``cluster=...``).

    Parameters
    ----------
    memory
        Bytes that the run may use on each worker; None: 60 % of the worker's own memory limit.
    read_ahead
        Read rows before they are needed, where they do not all fit into memory.
    """

    memory: int | str | None = None
    read_ahead: bool = True
    kind: ClassVar[str] = "dask"

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_memory("engine.memory", self.memory)

    def threads_for(self, nodes: int, worth_it: bool = True) -> int:
        """Threads of this process, which prepares the run."""
        return min(processors(), nodes)


Engine = Local | Dask
ENGINES: dict[str, type[Engine]] = {"local": Local, "dask": Dask}

SECTIONS: dict[str, type[Any]] = {
    "stop": Stop,
    "record": Record,
    "time": TimeModel,
    "checkpoint": Checkpoint,
    "schedule": Schedule,
}
