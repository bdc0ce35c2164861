"""The cells of a sweep: runs that differ in nothing but their seeds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtoken.config.values import show
from dtoken.data.remote import is_remote
from dtoken.session.colours import DASHES, Pair, colours
from dtoken.sweep.collect import PLACES, column_kinds, swept, value_of
from dtoken.sweep.runs import Run

CROWD = 12  # curves that a panel can hold
LENGTH = ("stop.", "record.", "checkpoint.")  # how long runs went on and what was kept: no reason to tell curves apart
SHORT = {"algorithm.tokens": "K"}  # how people call it


@dataclass(frozen=True)
class Parameter:
    """A setting that has several values in the sweep, seeds excepted."""

    name: str
    values: tuple[Any, ...]  # in order; None: some runs have no such setting

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.given)

    @property
    def given(self) -> tuple[Any, ...]:
        """The values, without the missing one."""
        return tuple(value for value in self.values if value is not None)


@dataclass(frozen=True)
class Method:
    """An algorithm with those of its settings that were swept, and how it is drawn."""

    name: str
    algorithm: str
    colour: Pair
    dash: str


@dataclass(frozen=True)
class Cell:
    """Runs that differ only in seeds."""

    method: Method
    values: Mapping[str, Any]  # of the sweep's parameters
    runs: tuple[Run, ...]

    @property
    def context(self) -> dict[str, Any]:
        """The parameters that do not belong to the method."""
        return {name: value for name, value in self.values.items() if not _of_method(name)}

    def matches(self, chosen: Mapping[str, Any]) -> bool:
        """Whether the cell has these values."""
        return all(self.values[name] == value for name, value in chosen.items())

    @property
    def label(self) -> str:
        """The cell in words."""
        return ", ".join([self.method.name, *describe(self.context)])


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, in cells."""

    runs: tuple[Run, ...]  # all, those that have not begun included
    parameters: tuple[Parameter, ...]
    methods: tuple[Method, ...]
    cells: tuple[Cell, ...]
    seeds: tuple[Any, ...]  # of the schedule

    @property
    def context(self) -> tuple[Parameter, ...]:
        """The parameters that do not belong to the methods."""
        return tuple(parameter for parameter in self.parameters if not _of_method(parameter.name))

    @property
    def facet(self) -> Parameter | None:
        """By which parameter panels are best told apart: the first with a handful of values."""
        return next((each for each in self.context if 2 <= len(each.values) <= 4), None)

    @property
    def focus(self) -> dict[str, Any]:
        """What to show first where panels would be crowded: the middle value of what nothing else tells apart."""
        chosen: dict[str, Any] = {}
        for each in self.context:
            if self._crowd(chosen) > CROWD and each != self.facet:
                chosen[each.name] = each.values[(len(each.values) - 1) // 2]
        return chosen

    def _crowd(self, chosen: Mapping[str, Any]) -> int:
        """Curves of the fullest panel."""
        facet = self.facet
        shown = [cell for cell in self.cells if cell.matches(chosen)]
        return max(Counter(cell.values[facet.name] if facet else None for cell in shown).values(), default=0)


def _of_method(name: str) -> bool:
    return name.partition(".")[0] == "algorithm"


def describe(values: Mapping[str, Any]) -> list[str]:
    """Parameters in words, as on the command line.

    Examples
    --------
    >>> describe({"graph": "ring", "problem.sigma": 0.001, "graph.degree": None})
    ['graph=ring', 'sigma=0.001']
    """
    return [f"{short(name)}={show_value(value)}" for name, value in values.items() if value is not None]


def short(name: str) -> str:
    """The last part of a parameter's name, unless the first says more."""
    return SHORT.get(name, name.rpartition(".")[2] if not name.endswith((".kind", ".seed")) else name)


def show_value(value: Any) -> str:
    """A value, numbers without needless digits."""
    return f"{value:g}" if isinstance(value, float) else show(value)


def cells_of(runs: Sequence[Run]) -> Sweep:
    """Put runs that have begun into cells; methods and parameters keep the order in which the sweep has them."""
    begun = [run for run in runs if run.composed]
    names = [name for name in swept(begun) if any(name in run.composed for run in begun)]
    kinds = column_kinds(begun, names)
    table = [{name: value_of(run, name, kinds[name]) for name in names} for run in begun]
    places = {name for name in PLACES if not _compared(begun, name)}
    parameters = _telling([each for each in _parameters(names, table) if each.name not in places], table)
    varying = [parameter.name for parameter in parameters]
    keys = [tuple(row[name] for name in varying) for row in table]
    methods = _methods(table, varying)
    cells = []
    for key in dict.fromkeys(keys):
        members = [at for at, other in enumerate(keys) if other == key]
        method = methods[_method_key(table[members[0]], varying)]
        cells.append(Cell(method, dict(zip(varying, key, strict=True)), tuple(begun[at] for at in members)))
    seeds = tuple(dict.fromkeys(row["seed"] for row in table if row.get("seed") is not None))
    return Sweep(tuple(runs), parameters, tuple(methods.values()), tuple(cells), seeds)


def _parameters(names: Sequence[str], table: Sequence[Mapping[str, Any]]) -> Iterator[Parameter]:
    for name in names:
        values = dict.fromkeys(row[name] for row in table)
        if len(values) > 1 and name.rpartition(".")[2] != "seed" and not name.startswith(LENGTH):
            given = [value for value in values if value is not None]
            numeric = all(isinstance(value, int | float) for value in given)
            yield Parameter(name, (*(sorted(given) if numeric else given), *([None] if None in values else [])))


def _compared(runs: Sequence[Run], name: str) -> bool:
    """Whether a place, where runs find or keep data, tells them apart.

    It does where one sweep has several, or where a place is the dataset itself; in another sweep it is merely another.
    """
    seen: dict[str, set[str]] = {}
    for run in runs:
        seen.setdefault(run.sweep, set()).add(str(run.config.get(name)))
    return any(len(values) > 1 or any(map(is_remote, values)) for values in seen.values())


def _telling(parameters: Sequence[Parameter], table: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """One parameter of each set of the context that say the same, value by value: the first, or the dataset's name."""
    kept: list[Parameter] = []
    for each in parameters:
        same = [at for at, earlier in enumerate(kept) if _say_the_same(earlier, each, table)]
        if not same:
            kept.append(each)
        elif each.name == "data":
            kept[same[0]] = each
    return tuple(kept)


def _say_the_same(one: Parameter, other: Parameter, table: Sequence[Mapping[str, Any]]) -> bool:
    if _of_method(one.name) or _of_method(other.name) or len(one.values) != len(other.values):
        return False
    return len({(row[one.name], row[other.name]) for row in table}) == len(one.values)


def _method_key(row: Mapping[str, Any], varying: Sequence[str]) -> tuple[Any, ...]:
    return (row.get("algorithm"), *((name, row[name]) for name in varying if name.startswith("algorithm.")))


def _methods(table: Sequence[Mapping[str, Any]], varying: Sequence[str]) -> dict[tuple[Any, ...], Method]:
    """Methods by their key: one colour per algorithm, one kind of line per variant of it."""
    keys = dict.fromkeys(_method_key(row, varying) for row in table)
    palette = colours(list(dict.fromkeys(str(key[0] or "?") for key in keys)))
    found: dict[tuple[Any, ...], Method] = {}
    for key in keys:
        algorithm = str(key[0] or "?")
        siblings = [other for other in keys if other[0] == key[0]]
        settings = [pair for at, pair in enumerate(key[1:], 1) if len({other[at] for other in siblings}) > 1]
        name = " ".join([algorithm, *describe(dict(settings))])
        dash = DASHES[siblings.index(key) % len(DASHES)]
        found[key] = Method(name, algorithm, palette[algorithm], dash)
    return found
