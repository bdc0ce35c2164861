"""What a sweep was and what it shows, in sentences."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from dtoken.engine.loop.accuracy import measurable
from dtoken.report.cells import Sweep, short, show_value
from dtoken.session.files import DIVERGED, DONE
from dtoken.sweep.runs import Run
from dtoken.text import duration, plural

SHOWN_VALUES = 6
BUSY = 1.5  # load average by processors from which runs share processors with others


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
    return ", ".join(parts + ([f"each with {told}"] if told.endswith("seeds") else [])) + "."


def seeds(sweep: Sweep) -> str:
    """How many runs the cells have that differ in nothing but seeds, or in how long they are; empty: one each."""
    numbers = {len(cell.runs) for cell in sweep.cells} or {1}
    fewest, most = min(numbers), max(numbers)
    drawn = all(len({_seeds(run) for run in cell.runs}) == len(cell.runs) for cell in sweep.cells)
    what = "seeds" if drawn else "runs"
    return "" if most == 1 else f"{most} {what}" if fewest == most else f"{fewest} to {most} {what}"


def _seeds(run: Run) -> tuple[str, ...]:
    return tuple(str(value) for name, value in run.config.items() if name.endswith("seed"))


def outcome(sweep: Sweep) -> str:
    """How many runs came to which end, and how long that took."""
    statuses = [run.status for run in sweep.runs]
    known = (DONE, DIVERGED, "failed", "interrupted", "running", "waiting", "started", "damaged")
    numbers = [f"{statuses.count(status)} {status}" for status in known if status in statuses]
    if set(statuses) == {DONE} and not short_of_target(sweep):
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


def _has_come(end: Mapping[str, float], target: float) -> bool:
    gap = end.get("suboptimality")
    return gap is None or (gap <= target and measurable(target, end.get("objective", gap) - gap))


def short_of_target(sweep: Sweep) -> str:
    """A sentence about runs that are done, but not as close as ``stop.suboptimality`` asked; empty: all are."""
    asked = [(run.config.get("stop.suboptimality"), run) for run in sweep.runs if run.status == DONE]
    ends = [(target, (run.summary or {}).get("end") or {}) for target, run in asked]
    short = [target for target, end in ends if target is not None and end and not _has_come(end, target)]
    if not short:
        return ""
    targets = listed((f"{target:g}" for target in sorted(set(short), reverse=True)), last="or")
    return (
        f"{len(short)} of {plural(len(asked), 'run')} that {'are' if len(asked) > 1 else 'is'} done stopped short of "
        f"the suboptimality that {'they were' if len(short) > 1 else 'it was'} to reach ({targets})."
    )


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
        values = {str(each[name]) for each in known if each.get(name) is not None}
        if len(values) > 1:
            told.append(f"{name} {listed(sorted(values), last='or')}")
    loads = [each["load"] / each["processors"] for each in known if each["load"] and each["processors"]]
    busy = sum(load > BUSY for load in loads)
    if busy:
        most = f"{max(loads):.1f} times as much to do as it has processors"
        told.append(f"{busy} of {len(known)} began on a machine with up to {most}")
    return f"Seconds (wall) may not be comparable: {'; '.join(told)}." if told else ""
