"""How long a run takes, roughly, before it begins: events of each kind, and what they take on a core of our days.

The figures are those of TVR on one core of a server, with rows of 20 to 71 non-zeros and models of 20 to 47,000
features. They tell minutes from hours and days, no more: measurements, reading from disk and threads are left out.
"""

import math

from dtoken.engine.loop.prediction import Expected, expected
from dtoken.engine.loop.settings import Stop
from dtoken.errors import InputError
from dtoken.session.prepare import Prepared

GRADIENT, ENTRY = 2e-7, 1e-8  # seconds of the gradient of a row, and of each of its non-zeros
VISIT, FEATURE = 1e-6, 6e-10  # seconds of a visit, and of each feature of the model
MOST_EVENTS = 1e13  # of a run: ten days at ten million a second
WORTH_SAYING = 60.0  # seconds: nobody needs to be told of less


def gradient_seconds(gradients: float, rows: int, nonzeros: int) -> float:
    """What gradients of single rows take.

    Examples
    --------
    >>> round(gradient_seconds(1e9, rows=20_000, nonzeros=20_000 * 71))
    910
    """
    return gradients * (GRADIENT + ENTRY * nonzeros / rows)


def expected_end(prepared: Prepared, passes: float | None = None, jumps: int | None = None) -> Expected | None:
    """What has happened when the run ends at the latest, or after so many passes or jumps; None: a log decides."""
    settings, experiment = prepared.settings, prepared.experiment
    if experiment.replay is not None:
        return None
    step = expected(experiment.schedule, experiment.law, experiment.costs, experiment.facts)
    rows, stop = int(experiment.facts.rows.sum()), settings.stop
    events = None
    if passes is None and jumps is None:
        passes, jumps, events = stop.passes, stop.jumps, stop.events
    wanted = ((passes and passes * rows, step.gradients), (jumps, step.jumps), (events, step.events))
    steps = min((most / each if each else math.inf for most, each in wanted if most), default=math.inf)
    return Expected(*(steps * each if each else 0.0 for each in step))


def check_length(prepared: Prepared) -> None:
    """Refuse a run that would not end, or not be measured once, in any time that a user has.

    A run with ``stop.suboptimality`` may end any time, so only the time until it is first looked at counts.
    """
    settings, last = prepared.settings, expected_end(prepared)
    if last is None:
        return
    end, record = last.events, settings.record
    if settings.stop.suboptimality is not None:
        first = expected_end(prepared, record.every_passes, record.every_jumps)
        end = min(end, first.events if first else end)
    if end <= MOST_EVENTS:
        return
    given = getattr(settings.method, "given_p_comm", None)
    remedy = "an earlier stop" if given is None else f"another algorithm.p_comm than {given}, or an earlier stop"
    raise InputError(
        f"this run would end after about {end:.0e} events, and a computer does some millions a second; use {remedy}"
    )


def longest(prepared: Prepared) -> float | None:
    """Seconds until the run ends at the latest; None: nobody knows."""
    end, meta = expected_end(prepared), prepared.store.meta
    if end is None:
        return None
    return gradient_seconds(end.gradients, meta.rows, meta.nonzeros) + end.jumps * (VISIT + FEATURE * meta.d)


def stop_named(stop: Stop) -> str:
    """The criteria that end a run for certain, as keys.

    Examples
    --------
    >>> stop_named(Stop(passes=3, suboptimality=1e-3)), stop_named(Stop(passes=None, jumps=10, events=90))
    ('passes', 'jumps or events')
    """
    return " or ".join(name for name in ("passes", "jumps", "events") if getattr(stop, name))
