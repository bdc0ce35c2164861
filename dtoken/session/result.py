"""The result of a run, as Python has it."""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dtoken.algorithms.contract import Models
from dtoken.engine.loop.recorder import Record, columns_of
from dtoken.errors import InputError
from dtoken.session.files import RESULT, SUMMARY, TRAJECTORY, final_model, load_summary, read_records, read_result
from dtoken.text import figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Result:
    """What a run found.

    Parameters
    ----------
    records
        What was measured, as a list.
    summary
        The content of ``summary.json``.
    theta
        (d,) the estimate: the mean of the tokens.
    tokens, nodes
        (K, d) and (n, d), the models of all tokens and nodes.
    directory
        The run directory; None: nothing was written.
    """

    records: list[Record]
    summary: dict[str, Any]
    theta: NDArray[np.float64]
    tokens: NDArray[np.float64]
    nodes: NDArray[np.float64]
    directory: Path | None = None

    @classmethod
    def of(cls, records: list[Record], summary: dict[str, Any], models: Models, directory: Path | None) -> Self:
        """A result from the models that a run ended with."""
        return cls(records, summary, final_model(models), models.tokens, models.nodes, directory)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read the result of a run that ended.

        Examples
        --------
        >>> Result.load("outputs/2026-11-16/10-12-03").summary["status"]  # doctest: +SKIP
        'done'
        """
        directory = Path(directory)
        for name in (SUMMARY, TRAJECTORY, RESULT):
            if not (directory / name).exists():
                raise InputError(f"{directory} does not hold a finished run: it has no {name}")
        summary, arrays = load_summary(directory) or {}, read_result(directory)
        theta, tokens, nodes = (arrays[name] for name in ("theta", "tokens", "nodes"))
        return cls(read_records(directory), summary, theta, tokens, nodes, directory)

    def __repr__(self) -> str:
        facts = "; ".join(f"{name} {value}" for name, value in self._facts()[1:])
        return f"Result({self.summary['algorithm']}: {facts})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in self._facts())
        return f"<table>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        """What to know of a run at a glance."""
        data, graph, end = self.summary["data"], self.summary["graph"], self.records[-1] if self.records else None
        found = [
            ("algorithm", str(self.summary["algorithm"])),
            ("status", self.status + (f" ({self.failure.removeprefix(f'{self.status}: ')})" if self.failure else "")),
            ("data", f"{data['rows']:,} rows x {data['features']:,} features, {data['nodes']} nodes"),
            ("graph", str(graph["kind"])),
        ]
        if end is not None:
            costs = f"{end.passes:.4g} passes, {figure(end.jumps)} jumps"
            found.append(("F - F*", f"{end.suboptimality:.2g} after {costs}"))
        if end is not None and end.test_loss is not None:
            tested = {"loss": end.test_loss, "accuracy": end.test_accuracy, "AUC": end.test_auc}
            found.append(("held out", ", ".join(f"{k} {v:.4g}" for k, v in tested.items() if v is not None)))
        return found + ([] if self.directory is None else [("directory", str(self.directory))])

    def to_frame(self) -> "pd.DataFrame":
        """The trajectory, one row per record point; ``dtoken.collect`` puts those of several runs into one."""
        return self.trajectory

    @cached_property
    def trajectory(self) -> "pd.DataFrame":
        """One row per record point, with the columns of ``trajectory.parquet``."""
        import pandas as pd

        return pd.DataFrame([record.as_dict() for record in self.records], columns=list(columns_of(self.records)))

    def to_accuracy(self, accuracy: float) -> dict[str, Any]:
        """Costs until ``accuracy`` was ``reached``, and until the run ``stays_below`` it; None: never.

        Examples
        --------
        >>> result.to_accuracy(1e-4)["stays_below"]["jumps"]  # doctest: +SKIP
        711
        """
        from dtoken.session.summary import to_accuracy

        (found,) = to_accuracy(self.records, [accuracy]).values()
        return found

    @property
    def intercept(self) -> float:
        """The intercept of the estimate; 0 without ``problem.intercept``."""
        problem = self.summary["config"]["problem"]
        return float(self.theta[-1] * problem["intercept_scale"]) if problem.get("intercept") else 0.0

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The weights of the features in the estimate, without the intercept."""
        return self.theta[:-1] if self.summary["config"]["problem"].get("intercept") else self.theta

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the method, in the paper's names."""
        return dict(self.summary["constants"])

    @property
    def status(self) -> str:
        """``done``, ``diverged`` or ``failed``."""
        return str(self.summary["status"])

    @property
    def failure(self) -> str | None:
        """Why the run did not end well, in a sentence; None: it did."""
        reason: str | None = self.summary["failure"]
        return reason

    def plot(self, x: str = "passes", ax: "Axes | None" = None) -> "Axes":
        """Draw the suboptimality against ``passes``, ``jumps``, ``messages``, ``time`` or another column."""
        from dtoken.session.curves import plot_curves

        return plot_curves({self.summary["algorithm"]: [self.trajectory]}, x=x, ax=ax)
