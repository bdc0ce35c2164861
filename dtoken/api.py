"""dtoken from Python: two functions, nothing from Hydra.

What it needs is loaded when it is called: ``from dtoken import run`` costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from distributed import Client
    from numpy.typing import ArrayLike

    from dtoken.algorithms.contract import Method
    from dtoken.config.sections import Problem
    from dtoken.config.settings import Graph
    from dtoken.data.partition import Partition
    from dtoken.data.rows import Source
    from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
    from dtoken.engine.settings import EngineSettings
    from dtoken.schedule.clock import TimeModel
    from dtoken.schedule.failures import Failures
    from dtoken.session.result import Result
    from dtoken.session.viewer import Viewer
    from dtoken.theory.privacy import Privacy
    from hydra_dask.cluster import Cluster

Keys = Mapping[str, Any]


def run(
    data: str | Path | Keys | Source | tuple[Any, Any] = "synthetic",
    nodes: int | None = None,
    algorithm: str | Keys | Method = "tvr",
    graph: str | Keys | Graph | nx.Graph[Any] = "complete",
    *,
    problem: Keys | Problem | None = None,
    loss: str | type[Any] | None = None,
    sigma: float | None = None,
    partition: str | Keys | Partition | ArrayLike | None = None,
    test: float | str | Path | Source | tuple[Any, Any] | None = None,
    seed: int = 0,
    stop: Keys | Stop | None = None,
    record: Keys | Recording | None = None,
    time: Keys | TimeModel | None = None,
    privacy: Keys | Privacy | None = None,
    failures: Keys | Failures | None = None,
    engine: str | Keys | EngineSettings = "local",
    threads: int | None = None,
    cluster: str | Keys | Cluster | None = None,
    client: Client | None = None,
    schedule: str = "drawn",
    replay: str | Path | None = None,
    directory: str | Path | None = None,
    checkpoint: Keys | Checkpointing | None = None,
    progress: bool = False,
) -> Result:
    """Run a token method and return what it found.

    Parameters
    ----------
    data
        ``synthetic``, ``rcv1_like``, ``tiny``, a path, a source, or its keys such as
        ``{"kind": "synthetic", "rows": 500}``; or your own arrays: ``(X, y)`` of numpy, scipy.sparse, pandas or dask,
        ``(frame, "label")``, a bunch of scikit-learn, or with further keys ``{"X": X, "y": y, "labels": "real"}``.
    nodes
        Number of nodes, n; None: as many as the graph or the partition has, else 8.
    algorithm
        A method's name, a method such as ``TVR(tokens=4)``, or ``{"_target_": "tvr", "tokens": 4}``.
    graph
        A topology's name, or its keys such as ``{"kind": "grid", "shape": [2, 4], "walk": "lazy"}``; or a graph of
        networkx, directed or not, with the nodes 0 to n - 1, also in the place of such a kind.
    problem
        What is minimised, as an object or as a dictionary of its keys.
    loss
        Loss of every row, in the place of ``problem``: a name, or a class of your own.
    sigma
        Regularisation of each node, in the place of ``problem``.
    partition
        How rows are spread over nodes; or an array with the number of the node of each row.
    test
        Rows to test on at record points, which no node has: a share of the rows (drawn by ``test_seed``, a key of
        ``data``), a file, or ``(X, y)``.
    seed
        Seed of the schedule.
    stop
        When to stop, as an object or as a dictionary of its keys such as ``{"passes": 20}``.
    record
        When and what to measure, given in the same way.
    time
        What a gradient and a jump cost in ideal time, given in the same way.
    privacy
        How gradients are cut and made noisy, given in the same way.
    failures
        How tokens are lost, and what nodes do about it, given in the same way.
    engine
        ``local``, ``dask``, or its keys such as ``{"kind": "dask", "attempts": 3}``.
    threads
        Threads of the engine, on Dask of each worker; None: one per processor, or one where steps are too short to
        share, and on Dask as many as the worker has.
    cluster
        For the Dask engine: ``local``, ``slurm``, ..., or keys such as ``{"kind": "local", "workers": 4}``; None: the
        cluster of the client that this process has already, else two workers on this machine.
    client
        The client of a Dask cluster to use.
    schedule
        ``drawn``, or ``timed``: events as the speeds in ``time`` make them.
    replay
        An event log to replay.
    directory
        Where to leave the files of the run and its checkpoints; None: nowhere. A finished run that is found there is
        returned, an interrupted one continued.
    checkpoint
        ``{"seconds": 60}`` or ``{"every": 10}``: seconds, or record points, from one checkpoint to the next.
    progress
        Whether to show progress on a terminal.

    Returns
    -------
    Result
        Trajectory, summary and final models. A run that ended above its start has the status ``diverged``.

    Raises
    ------
    InputError
        In one sentence, before any work, if what is asked for cannot be done.

    Examples
    --------
    >>> import dtoken
    >>> result = dtoken.run(nodes=4, algorithm="tvr", graph="ring", sigma=0.1, stop={"passes": 20})
    >>> result.status
    'done'
    >>> result.trajectory.suboptimality.iloc[-1] < 1e-3
    np.True_
    """
    from dtoken.config.sections import ScheduleSource
    from dtoken.config.settings import make_settings
    from dtoken.session.execute import carry_out

    settings = make_settings(
        data=data,
        test=test,
        nodes=nodes,
        partition=partition,
        problem=_problem(problem, loss, sigma),
        graph=graph,
        algorithm=algorithm,
        engine=_engine(engine, threads, cluster, client),
        cluster=cluster or "local",
        seed=seed,
        stop=stop,
        record=record,
        time=time,
        privacy=privacy,
        failures=failures,
        checkpoint=checkpoint,
        schedule=ScheduleSource(schedule, None if replay is None else str(replay)),
    )
    if settings.engine.kind == "dask" and cluster is None and client is None:
        from dtoken.engine.dask.connect import present_client

        client = present_client()
    return carry_out(settings, None if directory is None else Path(directory), _viewer(progress), client=client)


def predict(
    data: str | Path | Keys | Source | tuple[Any, Any] = "synthetic",
    nodes: int | None = None,
    algorithm: str | Keys | Method | list[str | Keys | Method] = "tvr",
    graph: str | Keys | Graph | nx.Graph[Any] = "complete",
    *,
    problem: Keys | Problem | None = None,
    loss: str | type[Any] | None = None,
    sigma: float | None = None,
    partition: str | Keys | Partition | ArrayLike | None = None,
    accuracies: Sequence[float] = (1e-4, 1e-8),
) -> pd.DataFrame:
    """What the theory says about one or several methods, without running them.

    Parameters
    ----------
    data, nodes, graph, problem, loss, sigma, partition
        As for ``run``.
    algorithm
        A method as for ``run``, or a list of them.
    accuracies
        Suboptimalities to reach.

    Returns
    -------
    pandas.DataFrame
        A row for each quantity and a column for each method: constants, spectral facts, contraction, and steps, events,
        jumps, gradients and passes per factor e and to each accuracy. ``basis`` says in words what is proved.

    Examples
    --------
    >>> import dtoken
    >>> table = dtoken.predict(nodes=4, algorithm=["tvr", {"_target_": "tavr", "tokens": 2}], sigma=1e-3)
    >>> list(table.columns)
    ['tvr', 'tavr tokens=2']
    >>> table.loc["basis", "tvr"]
    'proved'
    >>> bool(table.loc["jumps to 1e-08", "tavr tokens=2"] < table.loc["jumps to 1e-08", "tvr"])
    True
    """
    import pandas as pd

    from dtoken.config.settings import make_settings
    from dtoken.engine.loop.prediction import quantities, theory_table
    from dtoken.session.prepare import prepare_run

    methods: Sequence[Any] = algorithm if isinstance(algorithm, list) else [algorithm]
    columns = {}
    for each in methods:
        settings = make_settings(
            data=data,
            nodes=nodes,
            partition=partition,
            problem=_problem(problem, loss, sigma),
            graph=graph,
            algorithm=each,
        )
        prepared = prepare_run(settings)
        columns[settings.method_title] = theory_table(prepared.experiment, prepared.gap, tuple(accuracies))
    return pd.DataFrame(columns, index=quantities(columns.values()), dtype=object)


def _problem(
    problem: Keys | Problem | None, loss: str | type[Any] | None, sigma: float | None
) -> Keys | Problem | None:
    """The problem, given as a whole or by its parts."""
    from dtoken.errors import InputError

    if problem is not None and (loss is not None or sigma is not None):
        raise InputError("problem is given twice; give either problem=... or loss=... and sigma=...")
    if problem is None:
        problem = {key: value for key, value in (("loss", loss), ("sigma", sigma)) if value is not None}
    if isinstance(problem, Mapping) and isinstance(kind := problem.get("loss"), type):
        return {**problem, "loss": f"{kind.__module__}.{kind.__qualname__}"}
    return problem


def _engine(
    engine: str | Keys | EngineSettings,
    threads: int | None,
    cluster: str | Keys | Cluster | None,
    client: Client | None,
) -> str | Keys | EngineSettings:
    """The engine, with its threads if they were given."""
    from dtoken.errors import InputError

    if engine == "local" and (cluster is not None or client is not None):
        raise InputError("cluster and client belong to engine='dask'; give that, too")
    if threads is None:
        return engine
    if not isinstance(engine, str):
        raise InputError(f"threads={threads} is given beside the engine's own keys; give it as one of them")
    return {"kind": engine, "threads": threads}


def _viewer(progress: bool) -> Viewer | None:
    if not progress:
        return None
    from dtoken.cli.screen import Bar

    return Bar()
