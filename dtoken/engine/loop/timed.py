"""An experiment whose events follow from the speeds of nodes and links: ``schedule=timed``."""

from dataclasses import replace

from dtoken.engine.loop.experiment import Experiment, with_p_comm
from dtoken.errors import InputError
from dtoken.schedule.clock import times
from dtoken.schedule.stream import Drawn
from dtoken.schedule.timed import expected_share, works


def timed(experiment: Experiment) -> Experiment:
    """The same on the timed schedule, with the share of visits that speeds make one expect.

    Methods that go in rounds stay as they are: the ideal clock has each node compute and each message travel as fast
    as it can already.
    """
    schedule = experiment.method.schedule(experiment.constants, experiment.facts, experiment.seed)
    if not isinstance(schedule, Drawn):
        return experiment
    _check(experiment, schedule)
    model = replace(experiment.time, rule="token_clock")
    taken = times(model, experiment.n)
    if works(schedule, experiment.costs).any():
        if getattr(experiment.method, "p_comm", "balanced") != "balanced":
            raise InputError(
                "schedule=timed has as many visits as speeds make; leave algorithm.p_comm out, or use schedule=drawn"
            )
        experiment = with_p_comm(experiment, expected_share(schedule, taken, experiment.costs))
    return replace(experiment, time=model, timed=True, bound=None)


def _check(experiment: Experiment, schedule: Drawn) -> None:
    """Refuse what has no place in simulated time."""
    law, model = schedule.law, experiment.time
    taken = times(model, experiment.n)
    reasons = (
        (experiment.facts.failures.on, "tokens that are lost have no simulated time yet"),
        (law.continuized, "algorithm.continuized=true has clocks of its own"),
        (law.p_meet > 0, "algorithm.interactions_anywhere says nothing of when tokens meet"),
        (law.p_here > 0, "algorithm.interactions needs tokens that stay somewhere, and here they leave at once"),
        (
            law.order is not None and len(experiment.costs.short) > 0,
            "algorithm.sampling=permuted needs blocks of one size; use block_rows that divide the rows of all nodes",
        ),
        ((taken.comp == 0).any(), f"time.tau_comp={model.tau_comp} has a node that takes no time; use positive times"),
        ((taken.comm == 0).any(), f"time.tau_comm={model.tau_comm} has a link that takes no time; use positive times"),
    )
    for wrong, why in reasons:
        if wrong:
            raise InputError(f"schedule=timed is not possible: {why}")
