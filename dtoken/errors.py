"""The two ways in which work can fail, told apart because the exit status of every command depends on it."""


class InputError(ValueError):
    """What the user asked for cannot be done: exit status 2.

    The message is one sentence that names the thing, its value and the remedy.

    Examples
    --------
    >>> raise InputError("nodes=50 but the dataset has only 20 rows; use nodes<=20")
    Traceback (most recent call last):
        ...
    dtoken.errors.InputError: nodes=50 but the dataset has only 20 rows; use nodes<=20
    """


class RunError(RuntimeError):
    """The request was fine, but carrying it out failed (a damaged store, a full disk): exit status 1."""


class JobFailed(RunError):
    """A run of a sweep did not end well; the launcher tells the ``reason`` in its table."""

    @property
    def reason(self) -> str:
        """The sentence."""
        return str(self)


class Diverged(JobFailed):
    """A run of a sweep ended above its start: that is its result, and to run it again would give the same."""

    status = "diverged"
