"""All settings of a run as one value, however they were given."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from dtoken.algorithms.checks import check_class, check_parts
from dtoken.algorithms.contract import Method
from dtoken.algorithms.registry import METHODS, method_class
from dtoken.config.sections import (
    DATA_KEYS,
    ENGINES,
    SECTIONS,
    SOURCE_HIDDEN,
    SOURCES,
    Problem,
    ScheduleSource,
    asked_accuracies,
    source_class,
)
from dtoken.config.values import NOT_GIVEN, below, check_keys, construct, defaults, plain, show, typed
from dtoken.data.arrays import Arrays
from dtoken.data.labels import Labels, check_labels
from dtoken.data.partition import Partition
from dtoken.data.remote import is_remote
from dtoken.data.rows import Source
from dtoken.data.sources import open_source
from dtoken.data.wrapped import Split, WithConstant
from dtoken.engine.loop.settings import Checkpointing, Recording, Stop
from dtoken.engine.rows.memory import parse_memory
from dtoken.engine.settings import EngineSettings
from dtoken.errors import InputError
from dtoken.graph.edge_list import edges_of, is_networkx
from dtoken.graph.topologies import parameters
from dtoken.problem.own import imported
from dtoken.schedule.clock import TimeModel
from dtoken.schedule.failures import Failures
from dtoken.schedule.walks.contract import OwnWalk
from dtoken.schedule.walks.registry import LAWS, NAMES, check_law
from dtoken.text import use_one_of
from dtoken.theory.privacy import Privacy
from hydra_dask.cluster import CLUSTERS, Cluster, LocalWorkers

RUN_KEYS = ("data", "nodes", "partition", "problem", "graph", "algorithm", "engine", "cluster", "seed", *SECTIONS)
ROOT_KEYS = (*RUN_KEYS, "theory", "objective")  # what the command does and tells, not part of the run
# A run may go on with others of these.
NODES = 8  # unless graph or partition have a number of their own
FREE = ("stop", "engine", "cluster", "checkpoint", "data.store", "data.scratch", "record.accuracies")


@dataclass(frozen=True)
class Graph:
    """A topology and a walk over it."""

    kind: str = "complete"
    walk: str = "simple"
    stay: float | None = None  # of the lazy walk
    law: OwnWalk | None = None  # of a walk that is no table
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on."""

    source: Source
    partition: Partition
    problem: Problem
    graph: Graph
    method: Method
    seed: int
    stop: Stop
    record: Recording
    time: TimeModel
    checkpoint: Checkpointing
    schedule: ScheduleSource
    engine: EngineSettings
    privacy: Privacy = field(default_factory=Privacy)
    failures: Failures = field(default_factory=Failures)
    cluster: Cluster = field(default_factory=LocalWorkers)
    labels: Labels = "auto"
    store: Path | str | None = None  # folder of stores, or URL of one
    scratch: Path | None = None  # folder for what is fetched of a remote store
    test: float | Source | None = None  # rows to test on: a share of all, or others
    test_seed: int = 0  # which rows a share is

    def __post_init__(self) -> None:
        nodes = self.partition.nodes
        tokens = getattr(self.method, "tokens", None) or len(self.method.token_start(nodes))
        if tokens > nodes:
            raise InputError(f"algorithm.tokens={tokens} but there are only {nodes} nodes; use tokens<={nodes}")
        if not 0 <= self.seed < 2**64:
            raise InputError(f"seed={self.seed} must be an integer from 0 to 2**64 - 1")
        if isinstance(self.store, str) and self.problem.intercept:
            raise InputError("problem.intercept=true adds a column at ingest, and data.store is there already")
        if isinstance(self.test, float):
            _check_share(self.test, self.store, self.partition)
        elif self.test_seed:
            raise InputError(f"data.test_seed={self.test_seed} draws a share of the rows; give it, as data.test=0.2")
        if not 0 <= self.test_seed < 2**64:
            raise InputError(f"data.test_seed={self.test_seed} must be an integer from 0 to 2**64 - 1")
        parse_memory("cluster.memory", getattr(self.cluster, "memory", None))
        if self.stop.suboptimality is not None and self.record.every_passes is None and self.record.every_jumps is None:
            raise InputError("stop.suboptimality is looked at at record points; set record.every_passes or every_jumps")

    @cached_property
    def training(self) -> Source:
        """The rows that are ingested, spread over nodes and trained on."""
        source = self.source
        if isinstance(self.test, float):
            source = Split(source, self.test, held_out=False, seed=self.test_seed)
        return WithConstant(source, self.problem.intercept_scale) if self.problem.intercept else source

    @property
    def method_title(self) -> str:
        """The method's name, and its settings that are not the default."""
        kind = type(self.method)
        given = {key: getattr(self.method, key) for key in defaults(kind)}
        changed = [f"{key}={show(value)}" for key, value in given.items() if value != defaults(kind)[key]]
        return " ".join((self.method.name, *changed))

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Suboptimalities for which to say what it took to reach them."""
        return asked_accuracies(self.record.accuracies, self.stop.suboptimality)

    def as_config(self) -> dict[str, Any]:
        """The settings as the command line has them."""
        partition = self.partition.keys()
        nodes = partition.pop("nodes")
        sections = {name: asdict(getattr(self, name)) for name in SECTIONS}
        config = {
            "data": {
                **_described(self.source),
                "labels": self.labels,
                "store": self.store,
                "scratch": self.scratch,
                "test": _shown_test(self.test),
                "test_seed": self.test_seed,
            },
            "nodes": nodes,
            "partition": partition,
            "problem": asdict(self.problem),
            "graph": {
                "kind": self.graph.kind,
                "walk": self.graph.walk,
                "stay": self.graph.stay,
                **({} if self.graph.law is None else asdict(cast(Any, self.graph.law))),
                **self.graph.params,
            },
            "algorithm": {"_target_": _target(type(self.method)), **asdict(cast(Any, self.method))},
            "engine": {"kind": self.engine.kind, **asdict(self.engine)},
            "cluster": cluster_values(self.cluster),
            "seed": self.seed,
        }
        return cast("dict[str, Any]", plain(config | sections))

    def identity(self) -> dict[str, Any]:
        """The settings on which the result depends, by full key."""
        return {key: value for key, value in flat(self.as_config()).items() if not key.startswith(FREE)}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their full keys.

    Examples
    --------
    >>> flat({"stop": {"passes": 3}, "seed": 0})
    {'stop.passes': 3, 'seed': 0}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def settings_from(config: Mapping[str, Any], chosen: Mapping[str, str], given: Collection[str] = ()) -> Settings:
    """Settings from a composed configuration.

    Parameters
    ----------
    config
        The configuration, as plain values.
    chosen
        Which option of each group was chosen.
    given
        Keys that the user gave, as opposed to those that come from an option.
    """
    for key in config:
        if key not in ROOT_KEYS and (places := below(config, key)):
            raise InputError(f"{key} is not a key of dtoken. Did you mean {' or '.join(places)}, without a +?")
    check_keys(config, ROOT_KEYS, "", "dtoken")
    typed("theory", config.get("theory", "beside"), Literal["beside", "only"])
    for key in ("data", "partition", "problem", "graph", "algorithm", "engine", "cluster", *SECTIONS):
        if not isinstance(config.get(key, {}), Mapping):
            raise InputError(f"{key}={config[key]} is not a section; set its keys, as in {key}.KEY=VALUE")
    algorithm = dict(config.get("algorithm", {}))
    base = chosen.get("algorithm", "")
    if base in METHODS and algorithm.get("_target_") not in (None, base, _target(method_class(base))):
        # another class than the option's: what the option brought along is not meant for it
        inherited = defaults(method_class(base))
        algorithm = {
            key: value
            for key, value in algorithm.items()
            if f"algorithm.{key}" in given or key not in inherited or inherited[key] != value
        }
    return make_settings(**{key: config[key] for key in RUN_KEYS if key in config} | {"algorithm": algorithm})


def make_settings(
    data: Any = "synthetic",
    nodes: int | None = None,
    partition: Any = None,
    problem: Any = None,
    graph: Any = "complete",
    algorithm: Any = "tvr",
    engine: Any = "local",
    cluster: Any = "local",
    seed: int = 0,
    test: Any = None,
    **sections: Any,
) -> Settings:
    """Settings from parts, each an object, a name, or a mapping of its keys; nodes as graph or partition have them."""
    rows = _data(data)
    if test is not None:
        rows["test"] = _test(test)
    partition = _partition(partition, nodes, graph)
    return Settings(
        **rows,
        partition=partition,
        problem=_section(Problem, problem, "problem"),
        graph=_graph(graph),
        method=_method(algorithm),
        seed=typed("seed", seed, int),
        engine=_kind_of("engine", engine, ENGINES),
        cluster=_kind_of("cluster", cluster, CLUSTERS),
        **{name: _section(kind, sections.get(name), name) for name, kind in SECTIONS.items()},
    )


def _partition(value: Any, nodes: int | None, graph: Any) -> Partition:
    """The partition, for the number of nodes that is given, or that the graph has."""
    if isinstance(value, Partition):
        return value
    nodes = None if nodes is None else typed("nodes", nodes, int)
    own: Any = graph.get("kind") if isinstance(graph, Mapping) else graph
    of_graph = own.number_of_nodes() if is_networkx(own) else None
    if None not in (nodes, of_graph) and nodes != of_graph:
        raise InputError(f"nodes={nodes} but the graph has {of_graph} nodes; use nodes={of_graph}, or leave it out")
    nodes = of_graph if nodes is None else nodes
    if value is None or isinstance(value, str | Mapping):
        value = {"kind": value} if isinstance(value, str) else value
        hidden, count = ("nodes", "numbers"), NODES if nodes is None else nodes
        return construct(Partition, value or {}, "partition", "partition", hidden, nodes=count)
    found = Partition.of_rows(value)
    if of_graph not in (None, found.nodes):
        raise InputError(f"the graph has {of_graph} nodes but partition has {found.nodes}; they must be the same")
    return found if nodes is None else Partition.of_rows(value, nodes)


def _section(kind: type[Any], value: Any, where: str) -> Any:
    return value if isinstance(value, kind) else construct(kind, value or {}, where, where)


def _data(value: Any) -> dict[str, Any]:
    """The fields of ``Settings`` that are about data."""
    if isinstance(value, str | Path):
        if str(value) not in SOURCES:
            return {"source": open_source(str(value))}
        value = {"kind": str(value)}
    own = Arrays.of(value)
    if own is not None and not (isinstance(value, Mapping) and "X" in value):
        return {"source": own}
    if not isinstance(value, Mapping):
        if not hasattr(value, "blocks"):
            raise InputError(f"data is a {type(value).__name__}; give (X, y), a path, a name or a source")
        return {"source": value}
    keys = dict(value)
    kind = "arrays" if own else keys.pop("kind", "synthetic")
    if own is None:
        _check_name("data", kind, SOURCES)
    allowed = ["X", "y"] if own else list(defaults(source_class(kind), SOURCE_HIDDEN))
    check_keys(keys, [*allowed, *DATA_KEYS], "data", kind)
    found = {name: keys.pop(name, default) for name, default in DATA_KEYS.items()}
    check_labels(found["labels"])
    store = found["store"]
    found["store"] = store if isinstance(store, str) and is_remote(store) else typed("data.store", store, Path | None)
    found["scratch"] = typed("data.scratch", found["scratch"], Path | None)
    found["test"], found["test_seed"] = _test(found["test"]), typed("data.test_seed", found["test_seed"], int)
    return {"source": own or construct(source_class(kind), keys, "data", kind, SOURCE_HIDDEN), **found}


def _test(value: Any) -> float | Source | None:
    """The rows to test on: a share, a file, or arrays."""
    if value is None:
        return None
    if isinstance(value, float) and 0 < value < 1:
        return value
    if isinstance(value, str | Path):
        if str(value) in SOURCES:
            raise InputError(f"data.test={value} is the name of a source; give a file, or a share such as 0.2")
        return open_source(str(value))
    found = Arrays.of(value)
    if found is None and not hasattr(value, "blocks"):
        raise InputError(f"data.test={show(value)} is neither a file nor a share between 0 and 1 such as 0.2")
    return found or cast(Source, value)


def _shown_test(test: float | Source | None) -> Any:
    if test is None or isinstance(test, float):
        return test
    path = getattr(test, "path", None)
    return path if path is not None else str(test.identity().get("digest", test.name))


def _check_share(share: float, store: Path | str | None, partition: Partition) -> None:
    if isinstance(store, str):
        raise InputError(f"data.test={share:g} holds out rows at ingest, and data.store is there already; give a file")
    if partition.file is not None or partition.numbers is not None:
        raise InputError(
            f"data.test={share:g} leaves out rows for which the partition has nodes; hold out rows of your own with "
            "data.test=FILE"
        )


def _graph(value: Any) -> Graph:
    if isinstance(value, Graph):
        return value
    keys = dict(value) if isinstance(value, Mapping) else {"kind": value}
    if is_networkx(keys.get("kind")):
        keys |= {"kind": "edge_list", **edges_of(keys["kind"])}
    kind, walk, stay = keys.pop("kind", "complete"), keys.pop("walk", "simple"), keys.pop("stay", None)
    allowed = parameters(kind)
    law = _law(walk, keys, kind, list(allowed))
    check_keys(keys, ["walk", "stay", *allowed], "graph", f"graph={kind}")
    given = {key: value for key, value in keys.items() if value not in (None, NOT_GIVEN)}
    for key, default in allowed.items():
        if default is ... and key not in given:
            raise InputError(f"graph={kind} needs graph.{key}; give graph.{key}=VALUE")
    return Graph(kind, walk, typed("graph.stay", _fraction(stay), float | None), law, given)


def _law(walk: Any, keys: dict[str, Any], kind: str, others: list[str]) -> OwnWalk | None:
    """The law of a walk that has one, from keys that are then gone; a user's own is ``package.module.Class``."""
    if isinstance(walk, str) and "." in walk:
        law = check_law(imported(walk, "graph.walk"), walk)
    else:
        _check_name("graph.walk", walk, NAMES)
        if walk not in LAWS:
            return None
        law = LAWS[walk]
    own = list(defaults(law))
    if twice := [key for key in own if key in (*others, "kind", "walk", "stay")]:
        raise InputError(f"graph.walk={walk} has a key {twice[0]}, and so has graph={kind}; give it another name")
    check_keys(keys, ["walk", "stay", *others, *own], "graph", f"graph={kind} with graph.walk={walk}")
    given = {key: keys.pop(key) for key in own if key in keys}
    return construct(law, given, "graph", walk)


def _fraction(value: Any) -> Any:
    """The number that a text such as ``1/3`` stands for."""
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ArithmeticError):
        return value


def _method(value: Any) -> Method:
    if not isinstance(value, str | Mapping):
        check_class(type(value), f"algorithm={type(value).__name__}")
        check_parts(value, f"algorithm={type(value).__name__}")
        return cast(Method, value)
    keys: dict[str, Any] = {"_target_": value} if isinstance(value, str) else dict(value)
    target = str(keys.pop("_target_", "tvr"))
    kind = method_class(target)
    name = next(
        (name for name in METHODS if target in (name, f"dtoken.algorithms.{name}.{METHODS[name]}")), kind.__name__
    )
    check_class(kind, f"algorithm._target_={target}")
    for key, reason in getattr(kind, "refuses", {}).items():
        if key in keys:
            raise InputError(f"algorithm.{key}={show(keys[key])} is not for {name}: {reason}")
    method = construct(kind, keys, "algorithm", name)
    check_parts(method, f"algorithm._target_={target}")
    return cast(Method, method)


def _kind_of(section: str, value: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """A section that is one of several kinds, each with keys of its own."""
    if not isinstance(value, str | Mapping):
        return value
    keys = {"kind": value} if isinstance(value, str) else dict(value)
    kind = keys.pop("kind", "local")
    _check_name(section, kind, kinds)
    try:
        return construct(kinds[kind], keys, section, kind)
    except ValueError as error:  # the launcher's own clusters know no InputError
        raise InputError(str(error)) from error


def _check_name(key: str, value: Any, known: Collection[str]) -> None:
    if value not in known:
        raise InputError(f"{key}={value} is not known; {use_one_of(value, known)}")


def _described(source: Source) -> dict[str, Any]:
    for kind in SOURCES:
        if type(source) is source_class(kind):
            keys = {field.name for field in fields(cast(Any, source))} - {*SOURCE_HIDDEN}
            return {"kind": kind, **{key: getattr(source, key) for key in sorted(keys)}}
    return dict(source.identity())


def _target(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def cluster_values(cluster: Cluster) -> dict[str, Any]:
    """A cluster as the configuration has it; never what a user may have put into options."""
    return {"kind": cluster.kind, **{key: value for key, value in asdict(cluster).items() if key != "options"}}
