"""What the command says about a run, as text: before it begins and when it is over."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dtoken.config.values import defaults, show
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import FLOOR, LOST
from dtoken.engine.loop.settings import Recording
from dtoken.session.advice import advice, layout_of, what_bounds
from dtoken.session.duration import WORTH_SAYING, longest, stop_named
from dtoken.session.labels import HEADINGS
from dtoken.session.memory_estimate import memory_line, store_need
from dtoken.session.prepare import Prepared
from dtoken.session.result import Result
from dtoken.session.summary import constants, walk_in_words
from dtoken.text import count, duration

SHOWN = ("kappa", "p_comp", "rho_comm", "rho_comp", "rho", "beta", "step")  # constants, if they are one number
TABLE = ("jumps", "messages", "gradients", "passes", "time", "wall")
FIRST = "reached (jumps)"  # heading of the jumps until an accuracy was met for the first time


def header(prepared: Prepared) -> list[tuple[str, str]]:
    """Data, problem, method with constants, graph, what the theory says, engine, how long it takes if that is long."""
    settings = prepared.settings
    accuracy = settings.stop.suboptimality or min(settings.record.accuracies, default=1e-8)
    lines = [*description(prepared), ("theory", _theory(prepared, accuracy)), ("engine", _engine(prepared))]
    lines.append(
        ("memory", memory_line(settings, store_need(settings, prepared.store, prepared.experiment.walk)) or "")
    )
    lines.append(("duration", _duration(prepared)))
    return [(name, text) for name, text in lines if text]


def description(prepared: Prepared) -> list[tuple[str, str]]:
    """Data, problem, method with constants, graph."""
    parts = {"data": _data, "problem": _problem, "method": _method, "graph": _graph}
    return [(name, text(prepared)) for name, text in parts.items()]


def _duration(prepared: Prepared) -> str:
    """How long the run takes, if that is long enough to matter."""
    seconds = longest(prepared)
    if seconds is None or seconds < WORTH_SAYING:
        return ""
    return f"about {duration(seconds)} on one core until stop={stop_named(prepared.settings.stop)} at the latest"


def _engine(prepared: Prepared) -> str:
    engine, threads = prepared.settings.engine, prepared.threads
    return f"{engine.kind}, {threads} thread{'s' if threads > 1 else ''}" if engine.here else engine.kind


def _data(prepared: Prepared) -> str:
    meta = prepared.store.meta
    fewest, most = meta.node_rows.min(), meta.node_rows.max()
    rows = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    size = f"{meta.rows:,} x {meta.d:,}  {count(meta.nonzeros)} non-zeros  {meta.n} nodes x {rows} rows"
    return f"{prepared.settings.source.name}  {size}" + ("  (cached)" if prepared.found else "")


def _problem(prepared: Prepared) -> str:
    problem, best = prepared.settings.problem, prepared.experiment.optimum
    words = f"{problem.loss}  sigma {problem.sigma:g}" + ("  intercept" if problem.intercept else "")
    return f"{words}   F* {best.objective:.6g}, known to within {best.error:.1g}"


def where(record: Record, events: int | None = None) -> str:
    """Where a run is, by what was measured last.

    Examples
    --------
    >>> where(Record(7, 2, 2, 30, 0.5, 9.0, 0.1, 1.0, 0.25, 0, 0), 9)
    'after 9 events: F - F* was 0.25 after 0.5 passes'
    """
    after = f"after {record.event if events is None else events:,} events"
    return f"{after}: F - F* was {record.suboptimality:.2g} after {record.passes:.4g} passes"


def _method(prepared: Prepared) -> str:
    method = prepared.settings.method
    words = [method.name]
    for name, default in defaults(type(method)).items():
        words += _setting(method, name, getattr(method, name), default)
    values = constants(prepared.experiment)
    numbers = [f"{name} {values[name]:.3g}" for name in SHOWN if isinstance(values.get(name), int | float)]
    return "  ".join(words) + "   " + "  ".join(numbers)


def _setting(method: Any, name: str, value: Any, default: Any) -> list[str]:
    match name:
        case "smoothness":
            return [f"smoothness {value}" + (f" {method.factor:g}" if value == "factor" else "")]
        case "sampling":
            return [f"{value} sampling"]
        case "tokens":
            return [f"K={value}"]
        case "factor" | "mixing" | "jumps":
            return []
        case _:
            return [] if value == default else [f"{name}={show(value)}"]


def _graph(prepared: Prepared) -> str:
    walk, jumps = prepared.experiment.walk, prepared.experiment.law.jumps
    params = "".join(f" {key}={value}" for key, value in walk.topology.params.items())
    mixing = f", {jumps} jumps before each visit" if jumps > 1 else ""
    return f"{walk.topology.kind}{params}, {walk_in_words(walk.kind, walk.iid, walk.stay)}{mixing}"


def _theory(prepared: Prepared, accuracy: float) -> str:
    theory = prepared.theory
    if theory.rate is None:
        return theory.basis
    text = f"{theory.rate:.2g} per step {re.split('[:;]', theory.basis)[0]}"
    costs = theory.costs_to(accuracy, prepared.gap)
    if costs is None:
        return text
    amounts = ", ".join(f"{count(costs[name])} {name}" for name in ("events", "jumps", "passes"))
    if theory.bound is None:
        return f"{text}: about {amounts} to {accuracy:g}, without the constant"
    return f"{text}: mean gap below {accuracy:g} after {amounts}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with its first column to the left and numbers to the right.

    Examples
    --------
    >>> aligned([("", "jumps"), ("to 0.01", "9")])
    ['          jumps', 'to 0.01       9']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "   ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def closing(result: Result) -> list[str]:
    """The table of accuracies, the rates, and what else there is to say."""
    summary = result.summary
    asked, end = summary["config"]["stop"]["suboptimality"], summary["end"]
    rows = [
        (f"to {accuracy}", *amounts(taken["stays_below"], TABLE), *amounts(taken["reached"], ["jumps"]))
        for accuracy, taken in summary["to_accuracy"].items()
        if taken["reached"] or float(accuracy) >= _finest(summary["config"])
    ]
    lines = aligned([("", *headings(TABLE), FIRST), *rows])
    rates = [
        f"{name} {summary[key]:.2g}"
        for name, key in (("measured", "measured_rate"), ("predicted", "predicted_rate"), ("paper", "paper_rate"))
        if summary[key] is not None
    ]
    lines.append("rate per step: " + ", ".join(rates) if rates else "")
    lines.append(_measured_times(summary))
    lines.append(_ways(summary.get("engine") or {}))
    lines.append(_tested(summary["end"] or {}))
    if summary.get("privacy"):
        lines += [
            f"privacy: {summary['privacy']['in_words']}",
            *map("  assumed: {}".format, summary["privacy"]["assumptions"]),
        ]
    if summary.get("stopped") == FLOOR:
        lines.append(
            f"stopped after {end['passes']:.4g} passes, where float64 ends: F - F* is {end['suboptimality']:.2g}, and "
            "the last fifth of the run came no closer"
        )
    elif summary.get("stopped") == LOST:
        lines.append(
            f"ended after {end['jumps']:,} jumps: all tokens are lost; failures.control=decafork makes up for some"
        )
    elif asked is not None and summary["status"] == "done" and not end["suboptimality"] <= asked:
        reached = f"{end['suboptimality']:.2g} after {end['passes']:.4g} passes"
        lines.append(f"stopped before stop.suboptimality={asked:g}: {reached}; a later stop continues this run")
    return [line for line in lines if line]


def _finest(config: Mapping[str, Any]) -> float:
    """The finest accuracy that was asked for: below ``stop.suboptimality`` only those that the user named."""
    named = tuple(config["record"]["accuracies"]) != Recording().accuracies
    return 0.0 if named else config["stop"]["suboptimality"] or 0.0


def _tested(end: Mapping[str, Any]) -> str:
    """What the model is worth on held-out rows."""
    names = {"test_loss": "loss", "test_accuracy": "accuracy", "test_log_loss": "log-loss", "test_auc": "AUC"}
    found = [f"{name} {end[key]:.4g}" for key, name in names.items() if end.get(key) is not None]
    return "held out: " + ", ".join(found) if found else ""


def _ways(engine: Mapping[str, Any]) -> str:
    """Which ways tokens took, and why not better ones."""
    names = {
        "thread": "within a thread",
        "threads": "between threads",
        "shared": "through shared memory",
        "network": "over the network",
    }
    hops = engine.get("hops") or {}
    told = "hops: " + ", ".join(f"{hops[way]:,} {name}" for way, name in names.items() if hops.get(way))
    reasons = "".join(f"; no shared memory: {reason}" for reason in engine.get("not_shared", ()))
    return told + reasons if any(hops.values()) else ""


def _measured_times(summary: dict[str, Any]) -> str:
    """What a gradient and a hop took on this cluster, beside what ideal time assumes, and what bounds the run."""
    engine = summary.get("engine") or {}
    if not engine.get("tau_comp"):
        return ""
    gradient = f"cluster: {duration(engine['tau_comp'])} a gradient"
    if engine["tau_comm"] is None:
        return f"{gradient}, no messages between workers"
    assumed = summary["config"]["time"]
    equal = not isinstance(assumed["tau_comp"], str) and not isinstance(assumed["tau_comm"], str)
    ideal = f" (ideal time: {assumed['tau_comm'] / assumed['tau_comp']:.3g})" if equal and assumed["tau_comp"] else ""
    times = f"{gradient}, {duration(engine['tau_comm'])} a hop: tau_comm/tau_comp {engine['tau_ratio']:.3g}{ideal}"
    shares = engine.get("shares")
    if shares is None:  # a summary of an earlier version
        return times
    bound = what_bounds(**shares)
    layout = layout_of(summary["config"], summary["graph"]["nodes"], len(engine["workers"]))
    busy = f"the busiest worker computed {shares['computing']:.0%} of the time, its link was full {shares['link']:.0%}"
    return f"{times}; {busy}: {bound} bounds this run; {advice(bound, layout)} would help"


def headings(names: Sequence[str]) -> list[str]:
    """What tables call costs."""
    return [HEADINGS[name] for name in names]


def amounts(taken: Mapping[str, float] | None, names: Sequence[str]) -> list[str]:
    """Costs as tables show them; dashes if the accuracy was not reached.

    Examples
    --------
    >>> amounts({"jumps": 1234, "wall": 0.0123}, ["jumps", "wall"]), amounts(None, ["jumps"])
    (['1,234', '0.012 s'], ['-'])
    """
    written = {"gradients": count, "passes": "{:.4g}".format, "time": count, "wall": "{:.2g} s".format}
    return ["-" if taken is None else written.get(name, "{:,.0f}".format)(taken[name]) for name in names]
