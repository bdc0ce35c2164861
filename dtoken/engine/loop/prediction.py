"""What the theory says of a run before it starts: contraction per step, and what a factor e or an accuracy costs.

The rate and its ground are what the method promises (``Method.promise``); what a step takes follows from the schedule.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dtoken.algorithms.contract import Arrays, Facts, Method
from dtoken.schedule.clock import Costs
from dtoken.schedule.events import DELIVER, LOCAL, MOVE, VISIT, Events
from dtoken.schedule.exchanges import PARTS as PARTS_OF_EXCHANGE
from dtoken.schedule.exchanges import Exchanges
from dtoken.schedule.rounds import RandomRounds, Rounds
from dtoken.schedule.stream import Law, Schedule
from dtoken.theory.local_work import PARTS, Work, rate_share, work
from dtoken.theory.promise import PROVED, Promise

SPECTRUM_NODES = 500  # nodes up to which the spectral gap of a walk that is not reversible is computed
BASIS, PAPER_BASIS, COSTS = "basis", "basis of the paper's rate", "costs to an accuracy"  # the rows in words
BOUNDS = "bounds: after so many steps the mean of F - F* is below it"  # with the constant of the proof
ABOUT = "about, without the constant: as if F - F* fell by the rate from the start on"


class Expected(NamedTuple):
    """What one step of a method takes on average."""

    events: float
    jumps: float
    gradients: float  # of single samples, at all nodes together


@dataclass(frozen=True)
class Prediction:
    """What the theory says about a method on a problem."""

    method: str
    step: str  # what is counted: step or round
    rate: float | None  # share by which the squared error falls at each step; None: the theory has none
    basis: str  # why this rate is believed, in words
    paper_rate: float | None  # a faster rate that was observed but is not proved; None: there is none
    expected: Expected  # of one step
    rows: int  # of all nodes
    bound: float | None = None  # C: E[F - F*] <= C (1 - rate)^t is proved; None: it is not
    start: int = 0  # gradients of the start, before the first step

    @property
    def words(self) -> str:
        """What costs to an accuracy are."""
        return ABOUT if self.bound is None else BOUNDS

    @property
    def proved(self) -> bool:
        """Whether the theory covers what is run: independent visits, and no heuristic step size."""
        return self.basis.startswith(PROVED)

    def steps(self, factor: float = math.e, rate: float | None = None) -> float | None:
        """Steps until the squared error (or the suboptimality) has fallen by ``factor``."""
        rate = self.rate if rate is None else rate
        return math.log(factor) / -math.log1p(-rate) if rate else None  # 0: float64 cannot tell the rate from it

    def costs(self, factor: float = math.e, rate: float | None = None) -> dict[str, float] | None:
        """Steps, events, jumps, gradients and passes until then.

        Examples
        --------
        >>> prediction = Prediction("gd", "round", 0.5, "proved", None, Expected(9.0, 6.0, 30.0), 30)
        >>> prediction.costs(factor=8.0)["jumps"]
        18.0
        """
        steps = self.steps(factor, rate)
        if steps is None:
            return None
        events, jumps, gradients = (steps * each for each in self.expected)
        return {
            "steps": steps,
            "events": events,
            "jumps": jumps,
            "gradients": gradients,
            "passes": gradients / self.rows,
        }

    def costs_to(self, accuracy: float, gap: float) -> dict[str, float] | None:
        """What it takes to start and to come from ``gap`` to ``accuracy``: bounds, if there is one (see `words`).

        Examples
        --------
        >>> prediction = Prediction("gd", "round", 0.5, "proved", None, Expected(9.0, 6.0, 30.0), 30, bound=8.0)
        >>> prediction.costs_to(1.0, gap=2.0)["steps"], prediction.words
        (3.0, 'bounds: after so many steps the mean of F - F* is below it')
        """
        if not 0 < accuracy < gap:
            return None
        taken = self.costs(max(1.0, (gap if self.bound is None else self.bound) / accuracy))
        if taken is None:
            return None
        gradients = self.start + taken["gradients"]
        return taken | {"gradients": gradients, "passes": gradients / self.rows}


class Setting(Protocol):
    """A run that has been prepared."""

    @property
    def method(self) -> Method:
        """The method."""

    @property
    def constants(self) -> Arrays:
        """Its constants."""

    @property
    def facts(self) -> Facts:
        """What it knows."""

    @property
    def law(self) -> Law:
        """The law of its events."""

    @property
    def costs(self) -> Costs:
        """What its steps compute."""

    @property
    def timed(self) -> bool:
        """Whether events follow from speeds."""

    @property
    def bound(self) -> float | None:
        """C, if E[F - F*] <= C (1 - rate)^t is proved."""


def predict(setting: Setting) -> Prediction:
    """What the theory says about a prepared run."""
    schedule = setting.method.schedule(setting.constants, setting.facts, 0)
    promise = setting.method.promise(setting.constants, setting.facts)
    if setting.facts.failures.on:
        promise = Promise(None, "no rate: no theorem covers tokens that are lost")
    if setting.timed and promise.rate is not None:
        promise = promise._replace(basis="not proved: steps come as speeds have it, the rate is for independent draws")
    return Prediction(
        method=setting.method.name,
        step="round" if isinstance(schedule, Rounds) else "step",
        rate=promise.rate,
        basis=promise.basis,
        paper_rate=promise.paper_rate,
        expected=expected(schedule, setting.law, setting.costs, setting.facts),
        rows=int(setting.facts.rows.sum()),
        bound=setting.bound,
        start=int(setting.method.start_gradients(setting.facts).sum()),
    )


def expected(schedule: Schedule, law: Law, costs: Costs, facts: Facts) -> Expected:
    """What one step takes: a round for methods with rounds, a drawn step for the others."""
    costs = costs.expected()
    if isinstance(schedule, Rounds):
        return _count(schedule.pattern, costs)
    if isinstance(schedule, RandomRounds):
        messages = _count(schedule.exchange, costs)
        p, local = schedule.p, 1 - schedule.p
        gradients = p * messages.gradients + local * float(costs.local.sum())
        return Expected(p * messages.events + local * facts.n, p * messages.jumps, gradients)
    if isinstance(schedule, Exchanges):
        local = 1 - schedule.p
        return Expected(PARTS_OF_EXCHANGE * schedule.p + local, 2 * schedule.p, local * float(law.nodes @ costs.local))
    p_local = max(0.0, 1 - law.p_visit - law.p_meet)
    at_visits = float(facts.walk.visit_law(law.jumps) @ costs.visit)
    meetings = _meetings(law, facts)
    return Expected(
        events=1 + law.p_visit * (law.jumps * facts.walk.moves - 1) + (meetings.share if law.p_here > 0 else 0.0),
        jumps=law.p_visit * law.jumps * facts.walk.moves + meetings.share * meetings.jumps,
        gradients=p_local * float(law.nodes @ costs.local) + law.p_visit * at_visits,
    )


def _messages(setting: Setting) -> int | None:
    """Messages of a round: one along each edge in each direction, where nodes exchange; None: there are no rounds."""
    schedule = setting.method.schedule(setting.constants, setting.facts, 0)
    if not isinstance(schedule, Rounds | RandomRounds):
        return None
    events = schedule.pattern if isinstance(schedule, Rounds) else schedule.exchange
    sent = np.isin(events.kind, (VISIT, MOVE, DELIVER)) & (events.node != events.source)
    return int(np.count_nonzero(sent))


class Meetings(NamedTuple):
    """What tokens that meet do, on average, with tokens independently spread by the law of their visits."""

    share: float  # meetings a step
    jumps: float  # of the token that comes and goes back


def _meetings(law: Law, facts: Facts) -> Meetings:
    pi = facts.walk.visit_law(law.jumps)
    if law.p_here > 0:  # where it arrives, at least one of the others is
        return Meetings(law.p_visit * law.p_here * float(pi @ (1 - (1 - pi) ** (law.tokens - 1))), 0.0)
    if law.p_meet == 0:
        return Meetings(0.0, 0.0)
    hops = facts.walk.hops
    return Meetings(law.p_meet, 2 * float(pi @ hops @ pi if len(hops) else 1 - pi @ pi))


def _count(events: Events, costs: Costs) -> Expected:
    jumps = np.isin(events.kind, (VISIT, MOVE, DELIVER))
    local, visit = events.node[events.kind == LOCAL], events.node[events.kind == VISIT]
    gradients = costs.local[local].sum() + costs.visit[visit].sum()
    return Expected(float(events.size), float(np.count_nonzero(jumps)), float(gradients))


def theory_table(setting: Setting, gap: float = 1.0, accuracies: tuple[float, ...] = ()) -> dict[str, float | str]:
    """What the theory says about a prepared run: numbers, ranges over nodes, and words, by quantity.

    A step of a method with rounds is a round.

    Parameters
    ----------
    setting
        A prepared run, for instance an ``Experiment``.
    gap
        Suboptimality at the start.
    accuracies
        Suboptimalities to reach.
    """
    found = predict(setting)
    table = _constants(setting.constants) | _spectrum(setting)
    table |= {f"{name} a step": value for name, value in found.expected._asdict().items()}
    if (messages := _messages(setting)) is not None:
        table["messages an exchange"] = messages
    if setting.law.p_here > 0 or setting.law.p_meet > 0:
        meetings = _meetings(setting.law, setting.facts)
        table |= {"meetings a step": meetings.share, "jumps a meeting": meetings.jumps}
    if found.rate is None:
        return table | {BASIS: found.basis}
    table |= {"contraction a step": found.rate} | _costs(found, math.e, "per factor e")
    if found.paper_rate is not None:
        table["contraction a step, paper"] = found.paper_rate
        table |= _costs(found, math.e, "per factor e, paper", found.paper_rate)
    for accuracy in accuracies:
        taken = found.costs_to(accuracy, gap) or {}
        table |= {f"{name} to {accuracy:g}": value for name, value in taken.items()}
    table |= _local_work(setting, found.rate)
    table |= {BASIS: found.basis, COSTS: found.words}
    if found.paper_rate is not None:
        table[PAPER_BASIS] = "observed in everything that was tested, not proved"
    return table


def _local_work(setting: Setting, rate: float) -> dict[str, float | str]:
    """What more local steps between visits would cost in gradients and save in jumps and reads, if they can be chosen.

    Rows are read at most once between two visits of their node, if there is memory for so many and no more.
    """
    c, law = setting.constants, setting.law
    if not hasattr(c, "balanced") or c.p_comp == 0 or law.p_meet > 0:
        return {}
    rate /= rate_share(c.p_comm, c.balanced)
    gradients = float(law.nodes @ setting.costs.expected().local)
    samples = float(setting.facts.samples.mean()) if setting.method.draws_samples else 1.0

    def with_p_comm(p_comm: float) -> Work:
        return work(p_comm, c.balanced, rate, gradients, law.jumps, samples)

    table: dict[str, float | str] = {"local steps a visit": c.p_comp / c.p_comm}
    table["rows read per factor e"] = with_p_comm(c.p_comm).reads
    for part in PARTS:
        found, which = with_p_comm(c.balanced / part), f"p_comm balanced / {part}"
        table[f"gradients per factor e, {which}"] = found.gradients
        table[f"jumps per factor e, {which}"] = found.jumps
        table[f"rows read per factor e, {which}"] = found.reads
        table[f"rows read a gradient, {which}"] = found.reads / found.gradients
    return table


def quantities(tables: Iterable[Iterable[str]]) -> list[str]:
    """The quantities of several tables, each after the one that it follows in its own table.

    Examples
    --------
    >>> quantities([["kappa", "eta", "basis"], ["n", "kappa", "rho", "basis"]])
    ['n', 'kappa', 'rho', 'eta', 'basis']
    """
    found: list[str] = []
    for table in tables:
        place = 0
        for quantity in table:
            if quantity not in found:
                found.insert(place, quantity)
            place = found.index(quantity) + 1
    return found


def _costs(prediction: Prediction, factor: float, until: str, rate: float | None = None) -> dict[str, float | str]:
    return {f"{name} {until}": value for name, value in (prediction.costs(factor, rate) or {}).items()}


def _constants(constants: Arrays) -> dict[str, float | str]:
    """Constants in the paper's names: one number, or the range over the nodes."""
    table: dict[str, float | str] = {}
    for name, value in constants._asdict().items():
        if name not in ("rate", "paper_rate"):
            low, high = float(np.min(value)), float(np.max(value))
            table[name] = low if low == high else f"{low:.4g} to {high:.4g}"
    return table


def _spectrum(setting: Setting) -> dict[str, float | str]:
    walk = setting.facts.walk
    if not (walk.iid or walk.reversible or walk.n <= SPECTRUM_NODES):
        return {}
    pi, known = walk.visit_law(setting.law.jumps), dict[str, float | str]()
    if not walk.remembers:
        gap = float(walk.spectral_gap)
        known["spectral gap of the walk"] = f"{gap:.4g} (within {walk.gap_error:.1g})" if walk.gap_error else gap
    return known | {
        "smallest stationary probability": float(pi.min()),
        "largest stationary probability": float(pi.max()),
        "jumps a visit": setting.law.jumps,
    }
