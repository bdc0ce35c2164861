"""From directories of sweeps to a report: results in one table, figures, and the page."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtoken.data.files import reason
from dtoken.errors import InputError, RunError
from dtoken.session.files import write_file
from hydra_dask.durable import sync_tree

if TYPE_CHECKING:
    from dtoken.report.paper import Paper
    from dtoken.report.study import Study

PAGE, FOLDER = "index.html", "report"


def make_report(
    directories: str | Path | Sequence[str | Path],
    output: str | Path | None = None,
    *,
    baseline: str | None = None,
    accuracies: Sequence[float] | None = None,
    paper: "Paper | None" = None,
    told: Callable[["Study"], None] = lambda _: None,
) -> Path:
    """Collect the runs of sweeps and write their report; may be called again at any time, also while runs go on.

    Parameters
    ----------
    directories
        One sweep or several, or single runs.
    output
        Folder of the report; None: ``report`` inside the sweep, or in the working directory for several. The table of
        all runs (``results.parquet``, ``results.csv``) lies in the sweep; of several, or with a folder that was given,
        it lies in the folder of the report: a sweep of somebody else may be for reading only.
    baseline
        Method with which costs are compared, as the report names it; None: the first. The page can choose another.
    accuracies
        Suboptimalities for which costs are told; None: those of the runs' ``record.accuracies`` and
        ``stop.suboptimality`` that a run reached.
    paper
        What a paper asks of its figures: they and the table of costs are also written to ``paper`` inside the report.
    told
        Called with what the report will show as soon as all trajectories are read.

    Returns
    -------
    pathlib.Path
        The page.
    """
    from dtoken.report.carried import Carried, carry
    from dtoken.report.facts import claims
    from dtoken.report.page import page
    from dtoken.report.paper import FOLDER as PAPER
    from dtoken.report.paper import write_tables
    from dtoken.report.sheet import Sheet
    from dtoken.report.static import Drawing
    from dtoken.report.study import study
    from dtoken.sweep.collect import write_results
    from dtoken.sweep.runs import find_runs

    places = [Path(each) for each in ([directories] if isinstance(directories, str | Path) else directories)]
    with Drawing() as drawing:
        runs = find_runs(places)
        found, checked = study(runs, accuracies), claims(places)
        names = list(dict.fromkeys(method.name for method in found.sweep.methods))
        if baseline is not None and names and baseline not in names:
            raise InputError(f"baseline {baseline} is not a method of this sweep; use one of {', '.join(names)}")
        told(found)
        single = places[0] if len(places) == 1 else None
        folder = Path(output) if output is not None else (single or Path()) / FOLDER
        _make_folder(folder)
        figures = drawing.begin(found, folder, Sheet())
        if paper is not None:
            _make_folder(folder / PAPER)
            drawing.begin(found, folder / PAPER, paper.sheet, paper.formats)
            write_tables(found, folder / PAPER, paper.sheet.axes)
        results = write_results(runs, folder if single is None or output is not None else single)[1]

        def carried() -> dict[str, list[Carried]]:
            """What the page links to."""
            drawing.finish()
            return {"figures": carry(figures), "all runs": carry([results] if any(found.curves) else [])}

        title = ", ".join("/".join(place.resolve().parts[-2:]) for place in places)
        text = page(found, title, baseline, carried, checked)
    sync_tree(folder)  # one flush for all of it
    write_file(folder / PAGE, lambda file: file.write(text.encode()))
    return folder / PAGE


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {folder}: {reason(error)}; choose another folder (--output)") from error
    if not os.access(folder, os.W_OK):  # before anything is drawn
        raise RunError(f"cannot write {folder}: permission denied; choose another folder (--output)")
