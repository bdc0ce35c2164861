"""What a sweep does before its first run: check all configurations, and make once what many runs share."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dtoken.cluster import processors
from dtoken.config.hydra import settings_of, settings_to_run
from dtoken.config.settings import Settings
from dtoken.data.build import Watcher
from dtoken.data.ingest import store_key
from dtoken.errors import InputError, RunError
from dtoken.preparation import check_run, open_data
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import optimum


def check_job(config: Any) -> None:
    """Refuse what cannot run, as far as that is known without the data."""
    check_run(settings_to_run(config))


def prepare_jobs(configs: Iterable[Any], watcher: Watcher | None = None) -> None:
    """Ingest each dataset, and compute each optimum, that several runs need: else they would wait for each other."""
    stores: Counter[str] = Counter()
    problems: Counter[tuple[str, str, float]] = Counter()
    first: dict[tuple[str, str, float], Settings] = {}
    for config in configs:
        settings = settings_of(config)
        key = f"{settings.store} {store_key(settings.source, settings.partition, settings.labels)}"
        problem = (key, settings.problem.loss, settings.problem.sigma)
        stores[key] += 1
        problems[problem] += 1
        first.setdefault(problem, settings)
    for problem, settings in first.items():
        if stores[problem[0]] < 2:
            continue
        store, _ = open_data(settings, watcher)
        if problems[problem] > 1:  # nothing of a method's own code runs here: it might take this process with it
            with suppress(InputError, RunError):  # the runs will say so themselves
                optimum(FiniteSum(store, get_loss(settings.problem.loss), settings.problem.sigma, threads=processors()))
