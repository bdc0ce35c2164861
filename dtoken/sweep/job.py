"""The job of a sweep: one run, in the process of a worker."""

from pathlib import Path
from typing import Any

from dtoken.errors import Diverged, InputError, JobFailed, RunError
from dtoken.session.files import DIVERGED
from dtoken.session.result import Result


def run_of_sweep(config: Any) -> float:
    """Carry out the run that ``config`` describes, in Hydra's output directory; JobFailed if it does not end well.

    Returns the run's ``objective``, for sweepers that search.
    """
    from hydra.core.hydra_config import HydraConfig

    from dtoken.config.hydra import settings_to_run
    from dtoken.session.execute import carry_out
    from dtoken.session.objective import objective
    from dtoken.sweep.progress import ProgressFile

    hydra = HydraConfig.get()
    directory = Path(hydra.runtime.output_dir)
    progress = ProgressFile(directory)
    try:
        result = carry_out(settings_to_run(config, hydra), directory, progress)
    except (InputError, RunError, OSError) as error:
        raise JobFailed(str(error)) from error
    except Exception as error:
        raise JobFailed(f"{type(error).__name__}: {error}") from error
    finally:
        progress.remove()
    if reason := bad_end(result, progress.subject):
        raise reason
    return objective(str(config.objective), result)


def bad_end(result: Result, subject: str) -> JobFailed | None:
    """How a run ended that did not end well, as an error; None: it did. ``subject`` begins the sentence."""
    if result.failure is None:
        return None
    kind = Diverged if result.status == DIVERGED else JobFailed
    return kind(f"{subject} {result.failure}")
