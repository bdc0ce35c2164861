"""Who won, in sentences: the cheapest among those that reached an accuracy, and how close the others came."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtoken.report.cells import Sweep, describe
from dtoken.report.costs import COSTS, Reached
from dtoken.report.sentences import listed
from dtoken.text import figure

FINDINGS = 6
SAME = 1.05  # costs that differ by less are told as the same
COMPARED = {"messages": "communication", "gradients": "computation", "time": "ideal time"}


def findings(sweep: Sweep, table: Sequence[Reached]) -> list[str]:
    """For each setting: which method needed the least for the finest accuracy, who did not get there, and how close."""
    contexts: dict[tuple[Any, ...], list[Reached]] = {}
    for entry in table:
        if entry.runs and entry.cell.matches(sweep.focus):
            contexts.setdefault(tuple(entry.cell.context.values()), []).append(entry)
    found = [text for entries in contexts.values() if (text := _finding(entries))]
    return found if len(found) <= FINDINGS else []


def _finding(entries: Sequence[Reached]) -> str:
    """What there is to say of one setting; empty: one method, and it got there."""
    finest = min(entry.accuracy for entry in entries)
    mine = [entry for entry in entries if entry.accuracy == finest]
    sentences = [_winners(mine), _missed(mine)]
    if len(_there(mine)) < 2 and len(mine) > 1:
        sentences.append(_coarser([entry for entry in entries if entry.accuracy > finest]))
    text = " ".join(each for each in sentences if each)
    where = ", ".join(describe(entries[0].cell.context))
    return f"With {where}, {text[0].lower()}{text[1:]}" if where and text else text


def _there(entries: Sequence[Reached]) -> list[Reached]:
    """Those of whose runs most reached the accuracy."""
    return [entry for entry in entries if math.isfinite(entry.costs["messages"].median)]


def _winners(entries: Sequence[Reached]) -> str:
    there, accuracy = _there(entries), f"{entries[0].accuracy:g}"
    if len(there) > 1:
        return _comparison(there)
    if there and len(entries) > 1:
        costs = listed((f"{figure(there[0].costs[cost].median)} {COSTS[cost]}" for cost in COMPARED), last="and")
        return f"Only {there[0].cell.method.name} reached {accuracy}, with {costs}."
    return "" if there else f"No method reached {accuracy}." if len(entries) > 1 else ""


def _missed(entries: Sequence[Reached]) -> str:
    """Whose runs did not get there, and how close they came."""
    missed = [entry for entry in entries if entry.short]
    if not missed:
        return ""
    return f"Short of {missed[0].accuracy:g}: {', '.join(map(_came_to, missed))}."


def _came_to(entry: Reached) -> str:
    known = [end for end in entry.short if math.isfinite(end)]
    runs = f"{len(entry.short)} of {entry.runs} runs" if entry.reached else ""
    close = f"came to {float(np.median(known)):.2g}" if known else "nothing measured"
    return f"{entry.cell.method.name} ({', '.join(each for each in (runs, close) if each)})"


def _coarser(entries: Sequence[Reached]) -> str:
    """Who won at the finest accuracy that several methods reached."""
    for accuracy in sorted({entry.accuracy for entry in entries}):
        there = _there([entry for entry in entries if entry.accuracy == accuracy])
        if len(there) > 1:
            return _comparison(there)
    return ""


def _comparison(entries: Sequence[Reached]) -> str:
    wins: dict[str, list[str]] = {}
    for cost, name in COMPARED.items():
        if min(entry.costs[cost].median for entry in entries) > 0:
            who, what = _cheapest(entries, cost, name)
            wins.setdefault(who, []).append(what)
    parts = [f"{who} {listed(costs, last='and')}" for who, costs in wins.items()]
    return f"To {entries[0].accuracy:g}, {'; '.join(parts)}."


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
