"""The cells of a sweep: runs that differ in nothing but their seeds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtoken.config.values import show
from dtoken.data.remote import is_remote
from dtoken.report.looks import Look, Variant, differing, is_number, value_looks, variant_looks
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
        return all(map(is_number, self.given))

    @property
    def given(self) -> tuple[Any, ...]:
        """The values, without the missing one."""
        return tuple(value for value in self.values if value is not None)


@dataclass(frozen=True)
class Method:
    """An algorithm with those of its settings that were swept, and how it is drawn."""

    name: str
    algorithm: str
    look: Look


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
    def group(self) -> Parameter | None:
        """Which parameter colours tell apart where there is only one method; None: colours tell methods apart."""
        if len(self.methods) != 1:
            return None
        return next((each for each in self.context if each.numeric), next(iter(self.context), None))

    @property
    def facet(self) -> Parameter | None:
        """By which parameter panels are best told apart: the first with a handful of values."""
        return next((each for each in self.context if 2 <= len(each.values) <= 4 and each != self.group), None)

    def drawn_as(self, cell: Cell) -> tuple[str, Look]:
        """What a legend calls a cell, and how it is drawn."""
        group = self.group
        if group is None:
            return cell.method.name, cell.method.look
        value = cell.values[group.name]
        return value_title(group.name, value), value_looks(group.values)[group.values.index(value)]

    @property
    def focus(self) -> dict[str, Any]:
        """What to show first where panels would be crowded: the middle value of what nothing else tells apart."""
        chosen: dict[str, Any] = {}
        for each in self.context:
            if self._crowd(chosen) > CROWD and each not in (self.facet, self.group):
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


def value_title(name: str, value: Any) -> str:
    """A value of a parameter, as a legend or the title of panels has it."""
    return f"no {short(name)}" if value is None else f"{short(name)} = {show_value(value)}"


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
    methods = _methods(table, varying, [run.given for run in begun])
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
        if len(values) > 1 and not name.endswith("seed") and not name.startswith(LENGTH):
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


def _methods(
    table: Sequence[Mapping[str, Any]], varying: Sequence[str], given: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], Method]:
    """Methods by their key, drawn by what was swept of them, and named by it and by what else was given for them."""
    keys: dict[tuple[Any, ...], set[str]] = {}
    for row, names in zip(table, given, strict=True):
        keys.setdefault(_method_key(row, varying), set()).update(names)
    variants: dict[tuple[Any, ...], Variant] = {}
    for key in keys:
        telling = differing([dict(other[1:]) for other in keys if other[0] == key[0]])
        variants[key] = str(key[0] or "?"), tuple(pair for pair in key[1:] if pair[0] in telling)
    looks = variant_looks(list(dict.fromkeys(variants.values())))
    found = {}
    for key, (algorithm, settings) in variants.items():
        told = {name: value for name, value in key[1:] if (name, value) in settings or name in keys[key]}
        found[key] = Method(" ".join([algorithm, *describe(told)]), algorithm, looks[algorithm, settings])
    return found
