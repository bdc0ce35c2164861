"""Times of unequal nodes and links: a number for all, a law that each draws from, or a file.

=========================  ========================================================================================
``100``                    the same for all
``lognormal(100, 0.5)``    exp of a normal number: median 100, standard deviation 0.5 of the logarithm
``uniform(50, 150)``       anything between, equally likely
``slow(1, 0.1, 10)``       1, but for a share of 0.1, which takes 10 times as long; of nodes that many, rounded up
``speeds.csv``             a file: ``node,time`` in each line, or ``node,node,time``
=========================  ========================================================================================

Links are between any two nodes, and as fast in one direction as in the other unless a file says both. A law has numbers
for all of them, so that those of an edge do not depend on the graph.
"""

import csv
import math
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dtoken.errors import InputError

Vector = NDArray[np.float64]
CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
LAWS = {"lognormal": 2, "uniform": 2, "slow": 3}  # and how many numbers each has
MOST_LINKED = 2_000  # nodes up to which every pair has a time of its own
NODES, LINKS = 0, 1  # what numbers are drawn for


def check_time(key: str, value: float | str) -> None:
    """Refuse a time that makes no sense, as far as can be seen without the nodes."""
    if not isinstance(value, str):
        if not 0 <= value < math.inf:
            raise InputError(f"{key}={value} must be a finite number, not a negative one")
        return
    if (law := _law(key, value)) is None:
        if not Path(value).expanduser().is_file():
            known = ", ".join(f"{name}({', '.join('abc'[:count])})" for name, count in LAWS.items())
            raise InputError(f"{key}={value} is neither a number nor a law ({known}) nor a file that is there")
        return
    name, numbers = law
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise InputError(f"{key}={value} must have finite numbers, none of them negative")
    if numbers[0] == 0 and name != "uniform":
        raise InputError(f"{key}={value} makes all times 0; use {key}=0, or a positive first number")
    if name == "uniform" and not numbers[0] < numbers[1]:
        raise InputError(f"{key}={value} must have a first number below the second")
    if name == "slow" and not (numbers[1] <= 1 and numbers[2] > 0):
        raise InputError(f"{key}={value} must have a share in [0, 1] and a positive factor")


def is_law(value: float | str) -> bool:
    """Whether times are drawn."""
    return isinstance(value, str) and CALL.fullmatch(value) is not None


def _law(key: str, value: str) -> tuple[str, list[float]] | None:
    """Name and numbers of a law; None: it does not look like one."""
    if (found := CALL.fullmatch(value)) is None:
        return None
    name, inside = found.groups()
    if name not in LAWS:
        raise InputError(f"{key}={value} is not a known law; use one of {', '.join(LAWS)}")
    try:
        numbers = [float(number) for number in inside.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != LAWS[name]:
        raise InputError(
            f"{key}={value} must have {LAWS[name]} numbers, as in {name}(1, 0.5{', 2' * (name == 'slow')})"
        )
    return name, numbers


def node_times(key: str, value: float | str, n: int, seed: int) -> Vector:
    """(n,) the time of each node.

    Examples
    --------
    >>> sorted(node_times("time.tau_comp", "slow(2, 0.25, 10)", 4, seed=0).tolist())
    [2.0, 2.0, 2.0, 20.0]
    """
    if not isinstance(value, str):
        return np.full(n, float(value))
    if (law := _law(key, value)) is not None:
        return _drawn(*law, n, seed, NODES)
    times = np.full(n, np.nan)
    for line, (node,), time in _read(key, value, n, 1):
        if not np.isnan(times[node]):
            raise InputError(f"{key}={value}: node {node} has two times, the second in line {line}")
        times[node] = time
    if (lacking := np.flatnonzero(np.isnan(times))).size:
        raise InputError(f"{key}={value} has no time for node {lacking[0]}; there are {n} nodes")
    return times


def link_times(key: str, value: float | str, n: int, seed: int) -> Vector:
    """(n, n) the time of each link, NaN where a file says nothing; (1, 1): all are alike.

    A token that stays where it is takes the mean time of all links, where that is charged at all.
    """
    if not isinstance(value, str):
        return np.full((1, 1), float(value))
    if n > MOST_LINKED:
        raise InputError(f"{key}={value} has a time for every pair of nodes, and {n} nodes are more than {MOST_LINKED}")
    times = np.full((n, n), np.nan)
    if (law := _law(key, value)) is not None:
        pairs = np.triu_indices(n, 1)
        times[pairs] = times.T[pairs] = _drawn(*law, len(pairs[0]), seed, LINKS)
    else:
        for line, (node, other), time in _read(key, value, n, 2):
            if not np.isnan(times[node, other]):
                raise InputError(f"{key}={value}: nodes {node},{other} have two times, the second in line {line}")
            times[node, other] = time
        times = np.where(np.isnan(times), times.T, times)
    known = times[~np.isnan(times)]
    itself = np.arange(n)[np.isnan(np.diag(times))]
    times[itself, itself] = known.mean() if known.size else 0.0
    return times


def _drawn(name: str, numbers: list[float], size: int, seed: int, what: int) -> Vector:
    generator = np.random.default_rng([seed, what])
    match name:
        case "lognormal":
            return np.asarray(numbers[0] * np.exp(numbers[1] * generator.standard_normal(size)))
        case "uniform":
            return generator.uniform(numbers[0], numbers[1], size)
        case _:
            times = np.full(size, numbers[0])
            times[generator.permutation(size)[: math.ceil(numbers[1] * size - 1e-9)]] *= numbers[2]
            return times


def _read(key: str, value: str, n: int, nodes: int) -> list[tuple[int, tuple[int, ...], float]]:
    """The lines of a file: number, nodes, time. A first line without numbers is a heading."""
    found = []
    with Path(value).expanduser().open(newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.reader(file), 1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            try:
                numbers, time = tuple(int(entry) for entry in row[:-1]), float(row[-1])
            except ValueError:
                if line == 1:
                    continue
                raise InputError(f"{key}={value}, line {line}: {','.join(row)} is not {_form(nodes)}") from None
            if len(numbers) != nodes:
                raise InputError(f"{key}={value}, line {line}: {','.join(row)} is not {_form(nodes)}")
            for number in numbers:
                if not 0 <= number < n:
                    raise InputError(f"{key}={value}, line {line}: there is no node {number}; nodes are 0 to {n - 1}")
            if not 0 <= time < math.inf:
                raise InputError(f"{key}={value}, line {line}: the time {time} must be finite and not negative")
            found.append((line, numbers, time))
    return found


def _form(nodes: int) -> str:
    return ",".join(["NODE"] * nodes + ["TIME"])
