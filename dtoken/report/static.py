"""The static figures of a report as files, drawn by several processes where a sweep has left a server of them."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from dtoken.engine.processors import processors
from dtoken.report.figures import makers
from dtoken.report.sheet import Sheet
from dtoken.report.tex import PREAMBLE, for_tex
from dtoken.session.files import write_file
from hydra_dask.cluster import fork_server

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dtoken.report.study import Study

FORMATS = ("png", "pdf")
PGF = "pgf"
DPI = 300


class Drawing:
    """Draws the figures of a report while the rest of it is made; at the end of the context all are there.

    Its processes load what they need while trajectories are read.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._drawn: list[Future[None]] = []

    def __enter__(self) -> Self:
        if fork_server.running():
            count = processors()
            self._pool = ProcessPoolExecutor(count, get_context(fork_server.METHOD))
            self._drawn = [self._pool.submit(_load) for _ in range(count)]
        return self

    def begin(self, study: "Study", folder: Path, sheet: Sheet, formats: Sequence[str] = FORMATS) -> list[Path]:
        """Draw all figures into ``folder``; the files, in the order of the page."""
        names = list(makers(study, sheet))
        for name in names:
            if self._pool is None:
                draw(study, name, folder, sheet, formats)
            else:
                self._drawn.append(self._pool.submit(draw, study, name, folder, sheet, formats))
        return [folder / f"{name}.{kind}" for name in names for kind in formats]

    def finish(self) -> None:
        """Wait until all figures are there."""
        for each in self._drawn:
            each.result()

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if self._pool is not None:
            with self._pool:
                if kind is None:
                    self.finish()


def draw(study: "Study", name: str, folder: Path, sheet: Sheet, formats: Sequence[str]) -> None:
    """Write one figure."""
    from matplotlib import rc_context

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # a log with Hydra's settings would have each letter
    of_document: Any = {} if sheet.font else {"font.family": "serif"}
    for kinds, style in (
        ([kind for kind in formats if kind != PGF], sheet.style),
        ([kind for kind in formats if kind == PGF], sheet.style | of_document),  # its letters take other places
    ):
        with rc_context(style):
            if kinds:
                _write(makers(study, sheet)[name](), folder / name, kinds)


def _write(figure: "Figure", path: Path, formats: Sequence[str]) -> None:
    for kind in formats:
        if kind == PGF:
            for_tex(figure)
        write_file(path.with_name(f"{path.name}.{kind}"), partial(_save, figure, kind), durable=False)
        figure.set_layout_engine("none")  # the first one has found where everything goes


def _save(figure: "Figure", kind: str, file: BinaryIO) -> None:
    if kind == PGF:
        file.write(PREAMBLE)
    dateless: Any = {"metadata": {"CreationDate": None}} if kind == "pdf" else {}  # the same figure, the same file
    figure.savefig(file, format=kind, dpi=DPI, **dateless)


def _load() -> None:
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_pdf
    import matplotlib.figure  # noqa: F401
