"""The sections of a configuration that no other part of the package defines, and who defines the others."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.engine.settings import DaskSettings, EngineSettings, LocalSettings
from dtoken.errors import InputError
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.failures import Failures
from dtoken.theory.privacy import Privacy

# config name -> class; modules are loaded when they are needed
SOURCES = {
    "synthetic": "dtoken.data.synthetic.Synthetic",
    "tiny": "dtoken.data.bundled.Tiny",
    "rcv1_like": "dtoken.data.rcv1_like.Rcv1Like",
    "svmlight": "dtoken.data.svmlight.Svmlight",
    "npz": "dtoken.data.npz.Npz",
    "anndata": "dtoken.data.anndata.AnnData",
}
SOURCE_HIDDEN = ("threads",)  # not a property of the data
# of all sources, with their defaults
DATA_KEYS = {"labels": "auto", "store": None, "scratch": None, "test": None, "test_seed": 0}


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
        ``logistic``, ``squared``, ``smooth_hinge``, ``huber``, ``poisson``, or ``package.module.Class`` of your own.
    sigma
        Regularisation of each node.
    intercept
        Whether the model has one: a last column that is ``intercept_scale`` in every row.
    intercept_scale
        The value of that column, s. The intercept, s times its weight, is regularised 1 / s^2 as much as a weight, and
        never not at all, since methods need strongly convex nodes; the squared norm of every row grows by s^2.
    """

    loss: str = "logistic"
    sigma: float = 1e-2
    intercept: bool = False
    intercept_scale: float = 3.0

    def __post_init__(self) -> None:
        from dtoken.problem.losses import get_loss

        get_loss(self.loss)
        if not 0 < self.sigma < float("inf"):
            raise InputError(f"problem.sigma={self.sigma} must be a positive number; use for instance 1e-3")
        if not 0 < self.intercept_scale < float("inf"):
            raise InputError(f"problem.intercept_scale={self.intercept_scale} must be a positive number")


def asked_accuracies(recorded: Iterable[float], stop: float | None) -> tuple[float, ...]:
    """For which suboptimalities to say what it took: those of ``record`` and the one that ends the run, coarse first.

    Examples
    --------
    >>> asked_accuracies([1e-6, 1e-2], 1e-5)
    (0.01, 1e-05, 1e-06)
    """
    return tuple(sorted({*recorded, *(() if stop is None else (stop,))}, reverse=True))


SCHEDULES = ("drawn", "timed")


@dataclass(frozen=True)
class ScheduleSource:
    """Where the events come from.

    Parameters
    ----------
    kind
        ``drawn``: by the law of the method; ``timed``: nodes compute as fast as they can, and tokens travel as links
        allow (``time.tau_comp``, ``time.tau_comm``; ``time.rule`` is ``token_clock`` then).
    replay
        An event log, whose events are taken instead; those of a timed run want ``timed``, too.
    """

    kind: str = "drawn"
    replay: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            raise InputError(f"schedule={self.kind} is not known; use one of {', '.join(SCHEDULES)}")


ENGINES: dict[str, type[EngineSettings]] = {kind.kind: kind for kind in (LocalSettings, DaskSettings)}

SECTIONS: dict[str, type[Any]] = {
    "stop": Stop,
    "record": Recording,
    "time": TimeModel,
    "checkpoint": Checkpointing,
    "schedule": ScheduleSource,
    "privacy": Privacy,
    "failures": Failures,
}
