"""What the runs worked on: graphs, data and partition, constants, and where the results come from."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtoken.data.store import ShardStore
from dtoken.errors import InputError, RunError
from dtoken.graph.topologies import parameters
from dtoken.report.cells import Sweep, describe, show_value
from dtoken.report.drawings import distance_drawing, graph_drawing, matrix_drawing, partition_drawing
from dtoken.report.sentences import listed
from dtoken.session.files import DIVERGED, FAILED, INTERRUPTED
from dtoken.session.summary import walk_in_words
from dtoken.sweep.runs import DAMAGED, Run
from dtoken.text import figure, plural

CLAIMS = "claims.json"
SHOWN = 6  # graphs and partitions that are drawn
MOST_PRIVATE = 24  # private runs whose pairs are drawn
CONSTANTS = (
    "kappa",
    "sigma_t",
    "alpha",
    "eta",
    "rho",
    "p_comm",
    "p_comp",
    "rho_comm",
    "rho_comp",
    "L_b",
    "beta",
    "step",
)


@dataclass(frozen=True)
class Drawing:
    """A picture (SVG), its title, and a sentence below it."""

    title: str
    svg: str | None
    text: str


def _distinct(summaries: Iterable[Mapping[str, Any]], part: str, *but: str) -> list[list[Mapping[str, Any]]]:
    """Summaries grouped by what they say under ``part``, the keys ``but`` excepted."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for summary in summaries:
        if facts := summary.get(part):
            content = {key: value for key, value in facts.items() if key not in but}
            groups.setdefault(json.dumps(content, sort_keys=True), []).append(summary)
    return list(groups.values())


def summaries_of(sweep: Sweep) -> list[Mapping[str, Any]]:
    """The summaries of all runs that have one."""
    return [run.summary for run in sweep.runs if run.summary]


def graphs(sweep: Sweep) -> list[Drawing]:
    """The graphs of the sweep with their spectral gaps."""
    found = []
    for summary, *others in _distinct(summaries_of(sweep), "graph", "jumps_per_visit")[:SHOWN]:
        facts, config = summary["graph"], summary["config"]["graph"]
        known = parameters(facts["kind"])  # others are keys of the walk
        params = {key: value for key, value in config.items() if key in known and value is not None}
        gap = facts.get("spectral_gap")
        words = [walk_in_words(facts["walk"], bool(facts.get("independent")), facts.get("stay"))]
        words += [f"spectral gap {gap:.3g}"] if gap is not None else []
        jumps = sorted({each["graph"].get("jumps_per_visit") or 1 for each in (summary, *others)})
        words += [f"{listed(map(str, jumps), last='or')} jumps per visit"] if jumps != [1] else []
        title = f"{facts['kind']}, {facts['nodes']} nodes"
        found.append(Drawing(title, graph_drawing(facts["kind"], facts["nodes"], params), ", ".join(words)))
    return found


def partitions(sweep: Sweep) -> list[Drawing]:
    """The datasets as they lie on the nodes."""
    found = []
    for summary, *_ in _distinct(summaries_of(sweep), "data", "optimum")[:SHOWN]:
        facts, config = summary["data"], summary["config"]
        source = config["data"].get("path") or config["data"].get("kind", "data")
        size = f"{facts['rows']:,} rows × {facts['features']:,} features, {figure(facts['nonzeros'])} non-zeros"
        try:
            meta = ShardStore.open(facts["path"]).meta
        except (InputError, RunError, OSError):
            text = f"{size}, {facts['nodes']} nodes. The store is not there any more: no rows of single nodes."
            found.append(Drawing(str(source), None, text))
            continue
        rows, positives = meta.node_rows.tolist(), meta.node_positives.tolist() if meta.classes else None
        kind = meta.partition.get("kind", "")
        spread = f"{min(rows):,}" if min(rows) == max(rows) else f"{min(rows):,} to {max(rows):,}"
        text = f"{size}; {kind} over {facts['nodes']} nodes with {spread} rows each"
        if positives:
            shares = [positive / size for positive, size in zip(positives, rows, strict=True) if size]
            text += (
                f"; {sum(positives) / sum(rows):.0%} positive labels, {min(shares):.0%} to {max(shares):.0%} by node"
            )
        found.append(Drawing(str(source), partition_drawing(rows, positives), text + "."))
    return found


def privacy(sweep: Sweep) -> tuple[list[Drawing], list[str]]:
    """What nodes can learn about each other, of the first run of each kind that is private, and what it rests on."""
    found: list[Drawing] = []
    assumptions: list[str] = []
    for cell in sweep.cells:
        told = next((run.summary["privacy"] for run in cell.runs if run.summary and run.summary.get("privacy")), None)
        if told is None:
            continue
        assumptions = told["assumptions"]
        if len(found) < MOST_PRIVATE:
            svg = matrix_drawing(told["epsilon"]) + distance_drawing(told["epsilon_by_distance"])
            found.append(Drawing(cell.label, svg, told["in_words"] + "."))
    return found, assumptions


def constants(sweep: Sweep) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Names of the constants, and for each cell the values that its runs have in common."""
    rows = []
    for cell in sweep.cells:
        found = [(run.summary or {}).get("constants") or {} for run in cell.runs]
        if any(found):
            rows.append((cell.label, [_values(each.get(name) for each in found) for name in CONSTANTS]))
    used = [at for at in range(len(CONSTANTS)) if any(values[at] for _, values in rows)]
    return [CONSTANTS[at] for at in used], [(label, [values[at] for at in used]) for label, values in rows]


def _values(values: Iterable[Any]) -> str:
    """Numbers of several runs, or lists of one per node, as one number or a range."""
    flat = [one for value in values if value is not None for one in (value if isinstance(value, list) else [value])]
    texts = list(dict.fromkeys(figure(float(one)) for one in flat))
    return texts[0] if len(texts) == 1 else f"{figure(min(flat))} to {figure(max(flat))}" if texts else ""


def provenance(sweep: Sweep) -> list[tuple[str, str]]:
    """Versions, code, machines and the command, each with all values that occur."""
    found = [summary.get("provenance") or {} for summary in summaries_of(sweep)]
    packages = [(name, version) for each in found for name, version in (each.get("packages") or {}).items()]
    commits = [each["git"] for each in found if each.get("git")]
    commands = dict.fromkeys(" ".join(each["command"]) for each in found if each.get("command"))
    rows = [
        ("dtoken", listed(dict.fromkeys(each.get("dtoken") or "" for each in found))),
        ("python", listed(dict.fromkeys(each.get("python") or "" for each in found))),
        ("packages", ", ".join(dict.fromkeys(f"{name} {version}" for name, version in packages))),
        ("code", listed(dict.fromkeys(f"{git['commit'][:12]}{' with changes' * git['dirty']}" for git in commits))),
        ("host", listed(dict.fromkeys(each.get("host") or "" for each in found))),
        ("platform", listed(dict.fromkeys(each.get("platform") or "" for each in found))),
        ("data", listed(dict.fromkeys(each.get("data") or "" for each in found))),
        ("command", next(iter(commands)) if len(commands) == 1 else listed(commands, 3)),
    ]
    return [(name, value) for name, value in rows if value]


def common_settings(sweep: Sweep) -> list[tuple[str, str]]:
    """Settings that all runs share, of the parts that a reader asks for."""
    parts = ("data", "nodes", "partition", "problem", "graph", "time", "stop", "record", "algorithm", "engine")
    varying = {parameter.name for parameter in sweep.parameters}
    begun = [run for run in sweep.runs if run.composed]
    first: Mapping[str, Any] = begun[0].config if begun else {}
    rows = []
    for key, value in first.items():
        known = value not in (None, "", [])
        if key.partition(".")[0] in parts and key not in varying and known and _everywhere(begun, key, value):
            rows.append((key, show_value(value)))
    return rows


def _everywhere(runs: Iterable[Run], key: str, value: Any) -> bool:
    return all(run.config.get(key) == value for run in runs)


def failures(sweep: Sweep) -> list[dict[str, str]]:
    """Runs that did not end well, with the reason."""
    labels = {run.name: cell.label for cell in sweep.cells for run in cell.runs}
    found = []
    for run in sweep.runs:
        if run.status in (DIVERGED, FAILED, INTERRUPTED, DAMAGED):
            seed = describe({"seed": run.config.get("seed")})
            what = ", ".join([labels[run.name], *seed] if run.name in labels else describe(run.given))
            reason = run.error or "no reason was left"
            found.append({"run": run.name, "what": what, "status": run.status, "error": reason})
    return found


def claims(directories: Iterable[Path]) -> list[dict[str, Any]]:
    """What workflows left in ``claims.json``: sentences, what they mean in numbers, and whether they hold."""
    found = []
    for path in (directory / CLAIMS for directory in directories):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = [_claim(each) for each in content["claims"]]
            found.append({"title": str(content["title"]), "rows": rows})
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise InputError(f"{path} is damaged; delete it, or have it written again") from None
    return found


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    numbers = " / ".join(figure(float("nan") if each is None else each) for each in claim["numbers"].values())
    verdict = str(claim["verdict"])
    return {
        "sentence": str(claim["sentence"]),
        "where": str(claim["where"]),
        "meaning": str(claim["meaning"]).replace("{}", numbers),
        "verdict": verdict,
        "why": str(claim["why"]),
        "holds": verdict == "holds",
    }


def unfinished(sweep: Sweep) -> str:
    """A sentence about runs that are still to come; empty if there are none."""
    words = []
    for status, text in (("running", "under way"), ("waiting", "waiting"), ("started", "without a result yet")):
        number = sum(run.status == status for run in sweep.runs)
        words += [f"{plural(number, 'run')} {text}"] if number else []
    return f"{'; '.join(words)}: this report shows what there is so far." if words else ""
