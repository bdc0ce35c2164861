"""``dtoken theory=only``: what the theory says about one run, or with ``-m`` about several side by side."""

import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig

from dtoken.cli.hydra_app import QUIET, Application
from dtoken.cli.screen import Bar
from dtoken.cli.terminal import WRONG_USAGE
from dtoken.config.hydra import settings_of
from dtoken.engine.loop.prediction import BASIS, COSTS, PAPER_BASIS, quantities, theory_table
from dtoken.errors import InputError
from dtoken.session.advice import foresee
from dtoken.session.lines import aligned, description
from dtoken.session.memory_estimate import memory_line, store_need
from dtoken.session.prepare import prepare_run
from dtoken.session.privacy import foreseen
from dtoken.text import count, sentence

WORDS = (BASIS, COSTS, PAPER_BASIS)  # rows that do not fit into a column


class Theory(NamedTuple):
    """What is to be said about one run."""

    overrides: list[str]
    header: list[tuple[str, str]]
    table: Mapping[str, float | str]
    refused: str | None = None  # why the method cannot do what is asked


def show_theory(app: Application) -> int:
    """Print the table of what the command line asks for; nothing is run, nothing is left."""
    if app.sweeps:
        with TemporaryDirectory() as folder:  # where Hydra leaves what it leaves for every job
            words = ["hydra/launcher=basic", "hydra.output_subdir=null", f"hydra.sweep.dir={folder}", QUIET]
            jobs = app.sweep(app.compose_sweep(words), _theory_of_job)
        found = [job.return_value for batch in jobs for job in batch]
    else:
        config = app.compose()
        found = [_theory(config, config.hydra)]
        for name, text in found[0].header:
            print(f"{name:<10} {text}")
    titles = _titles([one.overrides for one in found])
    covered = [(one.table, title) for one, title in zip(found, titles, strict=True) if not one.refused]
    for line in lines([table for table, _ in covered], [title for _, title in covered]):
        print(line)
    refused = [(one, title) for one, title in zip(found, titles, strict=True) if one.refused]
    for one, title in refused:
        print(sentence(f"{title}: {one.refused}"), file=sys.stderr)
    return WRONG_USAGE if refused else 0


def _theory_of_job(config: Any) -> Theory:
    hydra = HydraConfig.get()
    try:
        return _theory(config, hydra)
    except InputError as error:  # the others still have something to say
        return Theory(list(hydra.overrides.task), [], {}, str(error))


def _theory(config: Any, hydra: Any) -> Theory:
    settings = settings_of(config, hydra)
    with Bar() as screen:
        prepared = prepare_run(settings, screen.watcher)
        screen.hide()
        for note in prepared.notes:
            screen.note(note)
    table = theory_table(prepared.experiment, prepared.gap, settings.accuracies)
    header = description(prepared)
    if line := memory_line(settings, store_need(settings, prepared.store, prepared.experiment.walk)):
        header.append(("memory", line))
    header += [*foresee(prepared), *foreseen(prepared.experiment, settings.stop)]
    return Theory(list(hydra.overrides.task), header, table)


def _titles(overrides: Sequence[Sequence[str]]) -> list[str]:
    """What tells the runs apart; nothing if there is only one."""
    common = set.intersection(*(set(words) for words in overrides)) if len(overrides) > 1 else set(overrides[0])
    return [" ".join(word.removeprefix("algorithm=") for word in words if word not in common) for words in overrides]


def lines(tables: Sequence[Mapping[str, float | str]], titles: Sequence[str]) -> list[str]:
    """One row a quantity, one column a run; then what does not fit into columns.

    Examples
    --------
    >>> lines([{"kappa": 3.0, "basis": "proved"}, {"kappa": 3.0, "rho": 0.25}], ["tvr", "tavr"])
    ['        tvr   tavr', 'kappa     3      3', 'rho       -   0.25', 'basis (tvr): proved']
    """
    rows = [("", *titles)] if any(titles) else []
    for quantity in quantities(tables):
        if quantity not in WORDS:
            rows.append((quantity, *(_cell(table.get(quantity)) for table in tables)))
    said = aligned(rows)
    for words in WORDS:
        for table, title in zip(tables, titles, strict=True):
            if words in table:
                said.append(f"{words} ({title}): {table[words]}" if title else f"{words}: {table[words]}")
    return said


def _cell(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return count(value) if abs(value) >= 1e4 else f"{value:.4g}"
