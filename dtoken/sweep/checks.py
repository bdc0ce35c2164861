"""What a sweep does before its first run: check all configurations, and make once what many runs share."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from dtoken.config.hydra import settings_of, settings_to_run
from dtoken.config.settings import Settings
from dtoken.data.build import Watcher
from dtoken.data.ingest import store_key
from dtoken.engine.processors import processors
from dtoken.errors import InputError, RunError
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import optimum
from dtoken.session.objective import check_objective
from dtoken.session.prepare import check_run, open_data


class Shared(NamedTuple):
    """What runs may have in common."""

    data: str
    loss: str
    sigma: float


def check_job(config: Any) -> Shared:
    """Refuse what cannot run, as far as that is known without the data; say what it may share with other runs."""
    settings = settings_to_run(config)
    check_objective(config.objective)
    check_run(settings)
    return _shared(settings)


def _shared(settings: Settings) -> Shared:
    data = f"{settings.store} {store_key(settings.training, settings.partition, settings.labels)}"
    return Shared(data, settings.problem.loss, settings.problem.sigma)


def prepare_jobs(kinds: Iterable[tuple[Any, int]], watcher: Watcher | None = None) -> None:
    """Ingest each dataset, and compute each optimum, that several runs need: else they would wait for each other.

    ``kinds`` has a configuration for each thing that runs share, and how many they are.
    """
    runs = [(settings_of(config), count) for config, count in kinds]
    of_data: Counter[str] = Counter()
    for settings, count in runs:
        of_data[_shared(settings).data] += count
    for settings, count in runs:
        if of_data[_shared(settings).data] < 2:
            continue
        store, _ = open_data(settings, watcher)
        if count > 1:  # nothing of a method's own code runs here: it might take this process with it
            with suppress(InputError, RunError):  # the runs will say so themselves
                optimum(FiniteSum(store, get_loss(settings.problem.loss), settings.problem.sigma, threads=processors()))
