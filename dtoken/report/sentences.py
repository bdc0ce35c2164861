"""What a sweep was and what it shows, in sentences."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from dtoken.report.cells import Sweep, describe, short, show_value
from dtoken.report.costs import Reached
from dtoken.session.files import DIVERGED, DONE
from dtoken.text import duration, figure, plural

SHOWN_VALUES = 6
FINDINGS = 6
BUSY = 1.5  # load average by processors from which runs share processors with others
SAME = 1.05  # costs that differ by less are told as the same
COMPARED = {"messages": "communication", "gradients": "computation", "time": "ideal time"}


def listed(words: Iterable[str], most: int = SHOWN_VALUES, last: str = "") -> str:
    """Words with commas, the end of many left out, ``last`` (such as "and") before the last one.

    Examples
    --------
    >>> listed(["a", "b", "c", "d"], most=3)
    'a, b, … (4)'
    >>> listed(["a", "b", "c"], last="and")
    'a, b and c'
    """
    words = list(words)
    if len(words) > most:
        return ", ".join([*words[: most - 1], f"… ({len(words)})"])
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if last and len(words) > 1 else ", ".join(words)


def lead(sweep: Sweep) -> str:
    """What was swept, and how many runs that makes."""
    if not sweep.runs:
        return "There is no run."
    methods = listed(dict.fromkeys(method.name for method in sweep.methods), 10, "and")
    waiting = any(not run.composed for run in sweep.runs)
    of = f"{', so far' if waiting else ''} of {methods}" if methods else ", none of which has begun"
    parts = [plural(len(sweep.runs), "run") + of]
    for each in sweep.context:
        parts.append(f"with {short(each.name)} {listed((show_value(value) for value in each.given), last='or')}")
    told = seeds(sweep)
    return ", ".join(parts + ([f"each with {told}"] if told else [])) + "."


def seeds(sweep: Sweep) -> str:
    """How many runs the cells have that differ in nothing but seeds; empty: one each."""
    numbers = {len(cell.runs) for cell in sweep.cells} or {1}
    fewest, most = min(numbers), max(numbers)
    return "" if most == 1 else f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"


def outcome(sweep: Sweep) -> str:
    """How many runs came to which end, and how long that took."""
    statuses = [run.status for run in sweep.runs]
    known = (DONE, DIVERGED, "failed", "interrupted", "running", "waiting", "started", "damaged")
    numbers = [f"{statuses.count(status)} {status}" for status in known if status in statuses]
    if set(statuses) == {DONE}:
        numbers = ["all done" if len(statuses) > 1 else "done"]
    walls = [(run.summary or {}).get("end") or {} for run in sweep.runs]
    spent = sum(float(end.get("wall") or 0.0) for end in walls)
    times = [(run.summary or {}).get("provenance") or {} for run in sweep.runs]
    started = [found["started"] for found in times if found.get("started")]
    ended = [found["ended"] for found in times if found.get("ended")]
    text = ", ".join(numbers).capitalize()
    if started and ended:
        first, last = datetime.fromisoformat(min(started)), datetime.fromisoformat(max(ended))
        text += f", within {duration((last - first).total_seconds())} on {first:%-d %B %Y}"
    return f"{text}; {duration(spent)} of it in iterations." if spent else f"{text}."


def intervals(sweep: Sweep) -> str:
    """A sentence about runs that were not measured equally often; empty: all were."""
    keys = ("every_passes", "every_jumps", "growth")
    asked = [[run.config.get(f"record.{key}") for key in keys] for run in sweep.runs if run.composed]
    different = {
        key: sorted({values[at] for values in asked}, key=lambda value: (value is None, value or 0))
        for at, key in enumerate(keys)
    }
    told = [
        f"record.{key} {listed(map(show_value, values), last='or')}"
        for key, values in different.items()
        if len(values) > 1
    ]
    if not told:
        return ""
    return f"Runs were measured at different intervals ({'; '.join(told)}): a cost is known to within its interval."


def conditions(sweep: Sweep) -> str:
    """A sentence about runs whose seconds cannot be compared; empty: all can, as far as is known."""
    known = [run.summary["conditions"] for run in sweep.runs if run.summary and "conditions" in run.summary]
    told = []
    for name in ("engine", "threads"):
        values = {str(each[name]) for each in known if each[name] is not None}
        if len(values) > 1:
            told.append(f"{name} {listed(sorted(values), last='or')}")
    loads = [each["load"] / each["processors"] for each in known if each["load"] and each["processors"]]
    busy = sum(load > BUSY for load in loads)
    if busy:
        most = f"{max(loads):.1f} times as much to do as it has processors"
        told.append(f"{busy} of {len(known)} began on a machine with up to {most}")
    return f"Seconds (wall) may not be comparable: {'; '.join(told)}." if told else ""


def findings(sweep: Sweep, table: Sequence[Reached]) -> list[str]:
    """Which method was cheapest, for each setting in which several methods reached the same accuracy."""
    found: list[str] = []
    contexts: dict[tuple[Any, ...], list[Reached]] = {}
    for entry in table:
        if entry.cell.matches(sweep.focus) and math.isfinite(entry.costs["messages"].median):
            contexts.setdefault(tuple(entry.cell.context.values()), []).append(entry)
    for entries in contexts.values():
        finest = [
            accuracy
            for accuracy in sorted({entry.accuracy for entry in entries})
            if sum(entry.accuracy == accuracy for entry in entries) > 1
        ]
        if finest:
            found.append(_comparison([entry for entry in entries if entry.accuracy == finest[0]]))
    return found if len(found) <= FINDINGS else []


def _comparison(entries: Sequence[Reached]) -> str:
    where = ", ".join(describe(entries[0].cell.context))
    start = f"With {where}, to" if where else "To"
    wins: dict[str, list[str]] = {}
    for cost, name in COMPARED.items():
        if min(entry.costs[cost].median for entry in entries) > 0:
            who, what = _cheapest(entries, cost, name)
            wins.setdefault(who, []).append(what)
    parts = [f"{who} {listed(costs, last='and')}" for who, costs in wins.items()]
    return f"{start} {entries[0].accuracy:g}, {'; '.join(parts)}."


def _cheapest(entries: Sequence[Reached], cost: str, name: str) -> tuple[str, str]:
    """Who needs the least of a cost, and how much that is; methods that are as good as equal share it."""
    ordered = sorted(entries, key=lambda entry: entry.costs[cost].median)
    least = ordered[0].costs[cost].median
    tied = [entry for entry in ordered if entry.costs[cost].median < SAME * least]
    if len(tied) > 1:
        most = tied[-1].costs[cost].median
        amount = figure(least) if figure(least) == figure(most) else f"{figure(least)} to {figure(most)}"
        methods = listed((entry.cell.method.name for entry in tied), last="and")
        return f"{methods} need {'the same' if most == least else 'about the same'}", f"{name} ({amount})"
    second = ordered[1]
    times = figure(float(f"{second.costs[cost].median / least:.2g}"))
    text = f"{name} ({figure(least)}; {second.cell.method.name} {times} times as much)"
    return f"{ordered[0].cell.method.name} needs the least", text
