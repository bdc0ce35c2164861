"""Every sentence that the paper says about its figure, as an inequality on what was measured.

python workflows/paper/claims.py SWEEP_DIR

TVR is looked at twice: after a local pass at each node (``algorithm.start=local``), and from margins of zero, as in the
paper's experiment. "Amount needed" is the median over seeds of what it took until a run stays at or below an accuracy.
A sentence is an inequality at two of them, that at which runs stop and a hundred times it: it holds, does not hold,
holds at one of the two, or differs, where methods do better than the paper says; or the sweep has no runs for it.
"Similar" and "comparable" mean within a factor of 2, "as fast as" within 1.5, "almost indistinguishable" within 1.1.
Prints a table, and leaves claims.json in the directory, which the report shows.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from curves import FROM_LOCAL, Curves, load_curves

TOKEN, TVR = ("Token, K=1", "Token, K=4"), ("TVR, K=1", "TVR, K=4")
WALKING = (*TOKEN, *TVR, "Walkman")
BATCH = (*TOKEN, "Walkman", "GD, all to all", "EXTRA")
NO_RUNS = "no runs"
IN_PAPER = (*WALKING, "GD, all to all", "GD, ring", "EXTRA")

Amount = Callable[[str], float]  # of a curve
Check = Callable[[Amount], tuple[bool, float]]  # whether it holds, and the number that it depends on


@dataclass(frozen=True)
class Claim:
    """A sentence and what it means.

    Parameters
    ----------
    sentence
        What the paper says.
    graph, column
        Where it is looked at.
    meaning
        The inequality in words; ``{}`` stands for the number that decides.
    check
        The inequality.
    differs
        Why it may not hold here.
    better
        What to say where it does not hold because the methods named first need less than the paper says.
    """

    sentence: str
    graph: str
    column: str
    meaning: str
    check: Check
    differs: str = ""
    better: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    sentence: str
    where: str
    meaning: str
    numbers: dict[str, float] = field(default_factory=dict)  # by accuracy
    verdict: str = ""
    why: str = ""


def spread(names: tuple[str, ...], factor: float) -> Check:
    """All within a factor."""

    def check(amount: Amount) -> tuple[bool, float]:
        amounts = [amount(name) for name in names]
        ratio = max(amounts) / min(amounts)
        return ratio <= factor, ratio

    return check


def below(smaller: tuple[str, ...], larger: tuple[str, ...], factor: float = 1.0) -> Check:
    """Each of the first below each of the others, times a factor."""

    def check(amount: Amount) -> tuple[bool, float]:
        ratio = max(map(amount, smaller)) / min(map(amount, larger))
        return ratio < factor, ratio

    return check


def near(names: tuple[str, ...], other: str, factor: float) -> Check:
    """Each within a factor of another."""

    def check(amount: Amount) -> tuple[bool, float]:
        ratios = [amount(name) / amount(other) for name in names]
        worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
        return 1 / factor <= worst <= factor, worst

    return check


def pairs(first: tuple[str, ...], second: tuple[str, ...], factor: float) -> Check:
    """Each of the first at most a factor times its partner."""

    def check(amount: Amount) -> tuple[bool, float]:
        ratio = max(amount(one) / amount(other) for one, other in zip(first, second, strict=True))
        return ratio <= factor, ratio

    return check


def not_faster(name: str, other: str, factor: float) -> Check:
    """No less than a factor times another."""

    def check(amount: Amount) -> tuple[bool, float]:
        ratio = amount(name) / amount(other)
        return ratio >= factor, ratio

    return check


CLAIMS = (
    Claim(
        "all token algorithms have similar communication complexity",
        "complete",
        "jumps",
        "jumps of Token, TVR (K=1, 4) and Walkman lie within a factor of 2 (largest / smallest {})",
        spread(WALKING, 2.0),
        "kappa is the same, but TVR has to forget its start, with few rows a jump; the finer the accuracy, the less "
        "this counts",
    ),
    Claim(
        "using multiple tokens does not hurt efficiency",
        "complete",
        "jumps",
        "jumps with K=4 at most 1.25 times those with K=1, for Token and TVR (worst ratio {})",
        pairs(("Token, K=4", "TVR, K=4"), ("Token, K=1", "TVR, K=1"), 1.25),
    ),
    Claim(
        "the communication complexity of token algorithms is lower than that of all-to-all GD",
        "complete",
        "jumps",
        "jumps of each below those of GD all to all (worst ratio {})",
        below(WALKING, ("GD, all to all",)),
    ),
    Claim(
        "and comparable to that of the efficient ring GD",
        "complete",
        "jumps",
        "jumps of each within a factor of 2 of those of GD ring (farthest ratio {})",
        near(WALKING, "GD, ring", 2.0),
        "TVR needs more for its start; Token needs fewer, because 2 n messages of a ring all-reduce buy one step of GD",
        better="the farthest needs fewer; the 2 n messages of a ring all-reduce buy one step of GD",
    ),
    Claim(
        "all batch algorithms have similar computation complexities",
        "complete",
        "gradients",
        "gradients of Token, Walkman, GD and EXTRA within a factor of 2 (largest / smallest {})",
        spread(BATCH, 2.0),
    ),
    Claim(
        "with GD and Walkman performing slightly better",
        "complete",
        "gradients",
        "gradients of GD and Walkman below those of Token and EXTRA (worst ratio {})",
        below(("GD, all to all", "Walkman"), (*TOKEN, "EXTRA")),
        "they are ahead at coarse accuracies only: Token begins later and falls faster; EXTRA is GD on this graph",
    ),
    Claim(
        "TVR is more computationally efficient",
        "complete",
        "gradients",
        "gradients of TVR below those of all batch methods (worst ratio {})",
        below(TVR, BATCH),
    ),
    Claim(
        "in terms of time, the fastest algorithm is all-to-all GD",
        "complete",
        "time",
        "time of GD all to all below all others of the paper (worst ratio {})",
        below(("GD, all to all",), tuple(name for name in IN_PAPER if name not in ("GD, all to all", "EXTRA"))),
        "TVR with four tokens is as fast; EXTRA, which on the complete graph exchanges all to all, too, is left out",
    ),
    Claim(
        "Algorithm 1 is as fast as ring GD",
        "complete",
        "time",
        "time of Token, K=1 within a factor of 1.5 of GD ring (ratio {})",
        near(("Token, K=1",), "GD, ring", 1.5),
        better="Algorithm 1 is faster; its local steps and its jumps go on at the same time, those of GD take turns",
    ),
    Claim(
        "Walkman is the slowest algorithm in this setting",
        "complete",
        "time",
        "time of Walkman above all others (largest other / Walkman {})",
        below(tuple(name for name in IN_PAPER if name != "Walkman"), ("Walkman",)),
    ),
    Claim(
        "TVR is faster than Algorithm 1",
        "complete",
        "time",
        "time of TVR below that of Token at the same K (worst ratio {})",
        pairs(TVR, TOKEN, 1.0),
        "with one token all of TVR's time goes into its jumps, of which it needs more than Algorithm 1",
    ),
    Claim(
        "using several tokens speeds up TVR",
        "complete",
        "time",
        "time of TVR with K=4 below 0.8 of K=1 (ratio {})",
        below(("TVR, K=4",), ("TVR, K=1",), 0.8),
    ),
    Claim(
        "but not Algorithm 1",
        "complete",
        "time",
        "time of Token with K=4 at least 0.8 of K=1 (ratio {})",
        not_faster("Token, K=4", "Token, K=1", 0.8),
        "this depends on tau_comm / m: computation and communication must take about as long",
    ),
    Claim(
        "for the ring graph, the same token algorithms are stable",
        "ring",
        "time",
        "Token and TVR reach the accuracy on the ring (time needed, largest: {})",
        lambda amount: ((worst := max(map(amount, (*TOKEN, *TVR)))) < float("inf"), worst),
    ),
    Claim(
        "similar results to the complete graph case",
        "ring",
        "time",
        "on the ring, too, time of TVR is below that of Token at the same K (worst ratio {})",
        pairs(TVR, TOKEN, 1.0),
        "with one token all of TVR's time goes into its jumps, of which it needs more than Algorithm 1",
    ),
    Claim(
        "using multiple tokens now accelerates Algorithm 1",
        "ring",
        "time",
        "time of Token with K=4 on the ring below 0.8 of K=1 (ratio {})",
        below(("Token, K=4",), ("Token, K=1",), 0.8),
        "most of the time goes into computing, which more tokens do not shorten: a local step takes m = 10 tau_comm",
    ),
    Claim(
        "GD and EXTRA have the same rate, and their curves are almost indistinguishable",
        "ring",
        "gradients",
        "gradients of EXTRA within a factor of 1.1 of GD's (ratio {})",
        near(("EXTRA",), "GD, ring", 1.1),
    ),
    Claim(
        "(not in the paper) TAVR needs fewer jumps than TVR",
        "complete",
        "jumps",
        "jumps of TAVR below those of TVR at the same K (worst ratio {})",
        pairs(("TAVR, K=1", "TAVR, K=4"), TVR, 1.0),
    ),
    Claim(
        "(not in the paper) TAVR needs fewer gradients than TVR",
        "complete",
        "gradients",
        "gradients of TAVR below those of TVR at the same K (worst ratio {})",
        pairs(("TAVR, K=1", "TAVR, K=4"), TVR, 1.0),
    ),
)
AS_FAST = Claim(
    "Walkman would be as fast as the single token algorithm for tau_comm >= m",
    "complete",
    "time",
    "with tau_comm = m: time of Walkman within a factor of 1.5 of Token, K=1 (ratio {})",
    near(("Walkman",), "Token, K=1", 1.5),
    "a visit of Walkman costs tau_comm + m, so at tau_comm = m it still computes half of the time",
)


def judge(claim: Claim, curves: Curves, names: Mapping[str, str] = MappingProxyType({})) -> Verdict:
    """Look at both accuracies; ``names`` are other curves to look at."""
    held, numbers = [], {}
    accuracies = (100 * curves.accuracy, curves.accuracy)
    where = f"{claim.graph} graph, {claim.column}"
    for accuracy in accuracies:
        looked_at: list[float] = []

        def amount(name: str, at: float = accuracy, looked_at: list[float] = looked_at) -> float:
            looked_at.append(curves.needed(claim.graph, names.get(name, name), claim.column, at))
            return looked_at[-1]

        holds, number = claim.check(amount)
        if any(math.isnan(each) for each in looked_at):
            return Verdict(claim.sentence, where, claim.meaning, verdict=NO_RUNS)
        held.append(holds)
        numbers[f"{accuracy:g}"] = number
    verdict = "holds" if all(held) else "does not hold"
    if any(held) and not all(held):
        verdict = f"holds at {accuracies[held.index(True)]:g} only"
    why = "" if all(held) else claim.differs
    if claim.better and not any(held) and max(numbers.values()) < 1:
        verdict, why = "differs", claim.better
    return Verdict(claim.sentence, where, claim.meaning, numbers, verdict, why)


def verdicts(sweep: Path) -> Iterator[Verdict]:
    """All sentences, as far as the runs for them are there."""
    curves = load_curves(sweep)
    for claim in CLAIMS:
        found, before = judge(claim, curves, FROM_LOCAL), judge(claim, curves)
        if NO_RUNS not in (found.verdict, before.verdict) and found.numbers != before.numbers:
            zero = f"from margins of zero: {before.verdict} ({_numbers(before)})"
            found = replace(found, why="; ".join(filter(None, (found.why, zero))))
        yield found
    slow = load_curves(sweep, tau_comm=float(curves.rows))
    if slow.of("complete", "Walkman") and slow.of("complete", "Token, K=1"):
        yield judge(AS_FAST, slow)


def _numbers(verdict: Verdict) -> str:
    return " / ".join(f"{number:.3g}" for number in verdict.numbers.values()) or "unknown"


def table(found: list[Verdict]) -> str:
    """The claims as a table of Markdown."""
    lines = ["| the paper says | meaning | verdict |", "|---|---|---|"]
    for claim in found:
        why = f": {claim.why}" if claim.why else ""
        lines.append(f"| {claim.sentence} | {claim.meaning.format(_numbers(claim))} | **{claim.verdict}**{why} |")
    return "\n".join(lines)


def main() -> None:
    """Judge the sentences, print the table, leave claims.json for the report."""
    parser = argparse.ArgumentParser(description="What the paper says about its figure, checked.")
    parser.add_argument("sweep", type=Path)
    options = parser.parse_args()
    found = list(verdicts(options.sweep))
    content = {"title": "What the paper says about its figure", "claims": [asdict(claim) for claim in found]}
    (options.sweep / "claims.json").write_text(json.dumps(content, indent=1) + "\n")
    print(table(found))
    looked_at = [claim for claim in found if claim.verdict != NO_RUNS]
    print(f"\n{sum(claim.verdict == 'holds' for claim in looked_at)} of {len(looked_at)} sentences hold")


if __name__ == "__main__":
    main()
