"""What the launcher raises. Hydra shows the sentence of such an exception, and no traceback of the launcher."""

from hydra.errors import CompactHydraException


class SweepError(CompactHydraException):
    """The sweep as a whole cannot be done; nothing was started."""


class NoWorkers(CompactHydraException):
    """A sweep cannot go on, because there are no workers and there will be none; how it goes on was told."""


class Interrupted(KeyboardInterrupt):
    """The user stopped the sweep, and was told how it goes on."""


class JobRaised(CompactHydraException):
    """A job raised something, which is the cause of this; its log has the traceback."""


class JobDied(CompactHydraException):
    """A job did not come to its end: its process died, or it was never started."""

    @property
    def reason(self) -> str:
        """The sentence."""
        return str(self)


def reason(error: BaseException) -> str:
    """An exception in a sentence; one that has a ``reason`` knows its own."""
    own = getattr(error, "reason", None)
    if isinstance(own, str):
        return own
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
