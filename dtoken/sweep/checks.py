"""What a sweep does before its first run: check all configurations, and make once what many runs share."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dtoken.config.hydra import settings_of
from dtoken.config.settings import Settings
from dtoken.data.build import Watcher
from dtoken.data.ingest import ingest, store_key
from dtoken.errors import InputError, RunError
from dtoken.session import check_run, prepare_run


def check_job(config: Any) -> None:
    """Refuse what cannot run, as far as that is known without the data."""
    if config.theory == "only":
        raise InputError("theory=only is in a configuration file; give it on the command line")
    check_run(settings_of(config))


def prepare_jobs(configs: Iterable[Any], watcher: Watcher | None = None) -> None:
    """Ingest each dataset, and compute each optimum, that several runs need: else they would wait for each other."""
    stores: Counter[str] = Counter()
    problems: Counter[tuple[str, str, float]] = Counter()
    first: dict[tuple[str, str, float], Settings] = {}
    for config in configs:
        settings = settings_of(config)
        key = store_key(settings.source, settings.partition, settings.labels)
        problem = (key, settings.problem.loss, settings.problem.sigma)
        stores[key] += 1
        problems[problem] += 1
        first.setdefault(problem, settings)
    for problem, settings in first.items():
        if stores[problem[0]] > 1:
            ingest(settings.source, settings.partition, root=settings.store, labels=settings.labels, watcher=watcher)
        if problems[problem] > 1:
            with suppress(InputError, RunError):  # of this run's own, and it will say so itself
                prepare_run(settings, watcher)
