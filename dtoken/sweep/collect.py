"""All runs of one or several sweeps in one table, parameters as columns; written run by run, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dtoken.config.values import show
from dtoken.engine.loop.recorder import COLUMNS, ERROR, LIVING, TEST, Record
from dtoken.errors import InputError
from dtoken.schedule.failures import WAYS
from dtoken.session.files import write_file
from dtoken.session.result import Result
from dtoken.sweep.results import Results
from dtoken.sweep.runs import KINDS, Run, find_runs, named

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results.parquet", "results.csv"
ALWAYS = ("algorithm", "seed")  # parameters that every table has
PLACES = ("data.store", "data.scratch")  # where runs keep data
WHERE_ONLY = (*PLACES, "data.path")  # where a run found its data changes no result, unless it was asked for
COUNTS = ("event", "jumps", "messages", "gradients")  # columns of a trajectory that are whole numbers
BATCH_ROWS = 100_000  # rows held while results are written


def load(*directories: str | Path | Sequence[str | Path]) -> Results:
    """Read sweeps (or single runs) into pandas; runs that are under way or failed are there with their status.

    Parameters
    ----------
    directories
        One or several, one by one or as a list.

    Examples
    --------
    >>> results = load("multirun/tokens")  # doctest: +SKIP
    >>> results.trajectories.groupby("algorithm").suboptimality.min()  # doctest: +SKIP
    """
    lists = [[each] if isinstance(each, str | Path) else each for each in directories]
    return _results(find_runs([one for some in lists for one in some]))


def collect(results: Mapping[str, Result] | Iterable[Result]) -> Results:
    """Put results of this process side by side, in one table and one figure.

    Parameters
    ----------
    results
        By the names that figures are to show, or in a list: then runs are called by what they differ in.

    Examples
    --------
    >>> import dtoken
    >>> runs = [dtoken.run(graph=graph, nodes=4, stop={"passes": 3}) for graph in ("ring", "complete")]
    >>> together = dtoken.collect(runs)
    >>> together
    Results(2 runs: 2 done; parameters algorithm, graph, seed)
    >>> list(together.labels().values())
    ['tvr graph=ring', 'tvr graph=complete']
    >>> together.to_frame().groupby("graph").suboptimality.last().shape
    (2,)
    """
    own_names = isinstance(results, Mapping)
    by_name = results if isinstance(results, Mapping) else {str(place): each for place, each in enumerate(results)}
    for name, result in by_name.items():
        if not isinstance(result, Result):
            raise InputError(f"{name} is a {type(result).__name__}; give results of dtoken.run")
    runs = [_run_of(name, result) for name, result in by_name.items()]
    records = {name: result.records for name, result in by_name.items()}
    return replace(_results(runs, records), named=own_names)


def _run_of(name: str, result: Result) -> Run:
    """A run as it would be found on the disk."""
    config = named(result.summary["config"])
    return Run(name, "", result.directory, result.status, result.failure, {}, config, frozenset(config), result.summary)


def _results(runs: Sequence[Run], records: Mapping[str, Sequence[Record]] | None = None) -> Results:
    import pandas as pd
    import pyarrow as pa

    parameters = swept(runs)
    kinds = column_kinds(runs, parameters)
    columns = trajectory_columns(runs)
    there = [run for run in runs if records is not None or run.trajectory is not None]
    tables = [_table(run, kinds, columns, records) for run in there]
    rows = pa.concat_tables(tables).to_pandas() if tables else _schema(kinds, columns).empty_table().to_pandas()
    return Results(
        trajectories=rows.drop(columns="error"),
        runs=pd.concat([run_frame(runs), parameter_frame(runs, parameters), _measured(runs)], axis=1),
        summaries={run.name: run.summary for run in runs if run.summary},
        parameters=parameters,
    )


def write_results(runs: Sequence[Run], directory: Path) -> tuple[Path, Path]:
    """Write ``results.parquet`` and ``results.csv``, one row per record point; a run without any has one row."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    kinds = column_kinds(runs, swept(runs))
    schema = _schema(kinds, trajectory_columns(runs))
    parquet, text = (directory / name for name in RESULTS)

    def write_both(parquet: BinaryIO, text: BinaryIO) -> None:
        with (
            pq.ParquetWriter(parquet, schema, write_page_checksum=True) as first,
            pyarrow.csv.CSVWriter(text, schema) as second,
        ):
            for table in _batches(runs, kinds):
                first.write_table(table)
                second.write_table(table)

    write_file(parquet, lambda one: write_file(text, lambda other: write_both(one, other)))
    return parquet, text


def _batches(runs: Sequence[Run], kinds: Mapping[str, type]) -> Iterator[Any]:
    import pyarrow as pa

    waiting: list[Any] = []
    columns = trajectory_columns(runs)
    for run in runs:
        waiting.append(_table(run, kinds, columns))
        if sum(table.num_rows for table in waiting) >= BATCH_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def trajectory_columns(runs: Sequence[Run]) -> tuple[str, ...]:
    """The columns of the trajectories of runs, those of held-out rows, estimates and losses where a run has some."""
    tested = any(run.config.get("data.test") is not None for run in runs)
    sampled = any(run.config.get(f"record.{name}") is not None for name in ("sample", "tokens") for run in runs)
    failing = any(run.config.get(f"failures.{way}") for run in runs for way in WAYS)
    return (*COLUMNS, *((ERROR,) if sampled else ()), *(TEST if tested else ()), *((LIVING,) if failing else ()))


def swept(runs: Sequence[Run]) -> tuple[str, ...]:
    """Names of the parameters: what command lines gave, and what differs between runs of the same kinds.

    A setting that only differs because another algorithm (graph, source of data) has another default is not one.
    """
    given = dict.fromkeys(key for run in runs for key in run.given)
    seen: dict[tuple[str, Any], set[str]] = {}
    for run in runs:
        for key, value in run.config.items():
            group = key.partition(".")[0]
            kind = run.config.get(group) if group in KINDS.values() and key != group else None
            seen.setdefault((key, kind), set()).add(show(value))
    differing = dict.fromkeys(key for (key, _), values in seen.items() if len(values) > 1 and key not in WHERE_ONLY)
    between = [key for key in given | differing if key not in ALWAYS]
    return (ALWAYS[0], *between, ALWAYS[1])


def column_kinds(runs: Sequence[Run], parameters: Sequence[str]) -> dict[str, type]:
    """The type of each parameter's column: bool, int, float, or str for everything else."""
    kinds: dict[str, type] = {}
    for key in parameters:
        types = {type(run.config[key]) for run in runs if run.config.get(key) is not None}
        single = next(iter(types)) if len(types) == 1 else float if types == {int, float} else str
        kinds[key] = single if single in (bool, int, float) else str
    return kinds


def value_of(run: Run, key: str, kind: type) -> Any:
    """A parameter of a run as its column has it; None: the run has no such setting."""
    value = run.config.get(key)
    if value is None:
        return None
    return show(value) if kind is str else kind(value)


def parameter_frame(runs: Sequence[Run], parameters: Sequence[str]) -> "pd.DataFrame":
    """One row per run, one column per parameter."""
    import pandas as pd

    pandas_kinds = {bool: "boolean", int: "Int64", float: "float64", str: "object"}
    columns = {}
    for key, kind in column_kinds(runs, parameters).items():
        values = [value_of(run, key, kind) for run in runs]
        complete = kind is int and None not in values
        columns[key] = pd.Series(values, dtype="int64" if complete else pandas_kinds[kind])
    return pd.DataFrame(columns, index=range(len(runs)))


def run_frame(runs: Sequence[Run]) -> "pd.DataFrame":
    """One row per run: where it is and how it went."""
    import pandas as pd

    rows = [(run.name, run.sweep, str(run.directory or ""), run.status, run.error) for run in runs]
    return pd.DataFrame(rows, columns=["run", "sweep", "directory", "status", "error"])


def _measured(runs: Sequence[Run]) -> "pd.DataFrame":
    """One row per run: rates, times, and the last record point."""
    import pandas as pd

    rates = ("predicted_rate", "paper_rate", "measured_rate", "rate_is_proved")
    columns = trajectory_columns(runs)
    rows = []
    for run in runs:
        summary = run.summary or {}
        provenance, end = summary.get("provenance") or {}, summary.get("end") or {}
        row = {name: summary.get(name) for name in rates}
        row |= {name: provenance.get(name) for name in ("started", "ended")}
        rows.append(row | {f"end.{name}": end.get(name) for name in columns})
    names = [*rates, "started", "ended", *(f"end.{name}" for name in columns)]
    frame = pd.DataFrame(rows, columns=names)
    numbers = [name for name in names if name not in ("rate_is_proved", "started", "ended")]
    return frame.astype(dict.fromkeys(numbers, "float64") | {"rate_is_proved": "boolean"})


def read_trajectory(run: Run, columns: Sequence[str] = COLUMNS) -> "pd.DataFrame":
    """The record points of a run, none if it has not got that far."""
    import pandas as pd

    if run.trajectory is None:
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in columns})
    frame: pd.DataFrame = _read(run.trajectory, columns).to_pandas()
    return frame.reindex(columns=list(columns))


def _read(trajectory: Path, columns: Sequence[str]) -> Any:
    """Those of the columns that a trajectory has."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(trajectory) as file:
        there = file.schema_arrow.names
        return file.read([name for name in columns if name in there])


def _schema(kinds: Mapping[str, type], columns: Sequence[str]) -> Any:
    import pyarrow as pa

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    fields = [(name, pa.string()) for name in ("run", "sweep", "status", "error")]
    fields += [(key, types[kind]) for key, kind in kinds.items()]
    fields += [(name, pa.int64() if name in COUNTS else pa.float64()) for name in columns]
    return pa.schema(fields)


def _table(
    run: Run,
    kinds: Mapping[str, type],
    names: Sequence[str],
    records: Mapping[str, Sequence[Record]] | None = None,
) -> Any:
    """The rows of one run with the columns ``names``; one row without measurements if it has none.

    They are read from its file, or are those of ``records`` by the name of the run.
    """
    import pyarrow as pa

    schema = _schema(kinds, names)
    if records is not None:
        measured = pa.Table.from_pylist([record.as_dict() for record in records[run.name]])
    else:
        measured = _read(run.trajectory, names) if run.trajectory else None
    rows = measured.num_rows if measured is not None else 1
    constant = {"run": run.name, "sweep": run.sweep, "status": run.status, "error": run.error}
    constant |= {key: value_of(run, key, kind) for key, kind in kinds.items()}
    columns = [pa.repeat(pa.scalar(value, schema.field(name).type), rows) for name, value in constant.items()]
    there = {} if measured is None else dict(zip(measured.column_names, measured.columns, strict=True))
    for name in names:
        kind = schema.field(name).type
        columns.append(there[name].cast(kind) if name in there else pa.nulls(rows, kind))
    return pa.Table.from_arrays(columns, schema=schema)
