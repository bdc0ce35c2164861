"""The page: one HTML file that holds its data, style, script and plotly.js, so that it opens without a network."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from dtoken.report import facts, headline, sentences
from dtoken.report.carried import Carried, packed
from dtoken.report.payload import payload
from dtoken.report.study import Study
from dtoken.report.words import CONSTANTS, GENERAL
from dtoken.session.provenance import now

COMPRESSION = 6
NUMBER = r"\d[\d.,]*(?:e-\d+| [kMG]\b)"  # one that has a place at which browsers break a line
SCRIPTS = (
    "elements", "numbers", "address", "colours", "plots", "filters", "panels", "legend", "tables", "cost", "spread",
    "rates", "heatmap", "scaling", "memory", "choices", "page",
)  # one script in the page; only the last one draws anything  # fmt: skip
# The browser itself sees to it that nothing is asked for or sent.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'"
)


def page(
    study: Study,
    title: str,
    baseline: str | None,
    carried: Callable[[], Mapping[str, Sequence[Carried]]],
    claims: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    study
        What to show.
    title
        Name of the sweep.
    baseline
        Name of the method with which costs are compared at first; None: the first one.
    carried
        Waits for the files that the page carries, by what they are.
    claims
        Sentences that were checked on the results, as ``facts.claims`` reads them.
    """
    from jinja2 import Environment, PackageLoader

    sweep = study.sweep
    templates = Environment(loader=PackageLoader("dtoken.report", "template"), autoescape=True)
    templates.filters["unbroken"] = unbroken
    names, constants = facts.constants(sweep)
    private, assumptions = facts.privacy(sweep)
    return templates.get_template("page.html").render(
        title=title,
        version=version("dtoken"),
        made=now(),
        lead=sentences.lead(sweep),
        outcome=sentences.outcome(sweep) if sweep.runs else "",
        short=sentences.short_of_target(sweep),
        findings=headline.findings(sweep, study.reached),
        unfinished=facts.unfinished(sweep),
        failures=facts.failures(sweep),
        repeated=any(len(cell.runs) > 1 for cell in sweep.cells),
        intervals=sentences.intervals(sweep),
        conditions=sentences.conditions(sweep),
        has_curves=any(study.curves),
        has_rates=any(rate.measured is not None for rate in study.rates),
        violations=[rate.cell.label for rate in study.rates if rate.violated],
        proved=sum(rate.proved and rate.measured is not None for rate in study.rates),
        has_map=any(study.curves) and sum(each.numeric and len(each.given) > 1 for each in sweep.parameters) > 1,
        has_scaling=bool(study.series),
        has_memory=bool(study.memory),
        private=private,
        assumptions=assumptions,
        graphs=facts.graphs(sweep),
        partitions=facts.partitions(sweep),
        constant_names=names,
        words=GENERAL | {name: text for name, text in CONSTANTS.items() if name in names},
        meaning=CONSTANTS,
        constants=constants,
        settings=facts.common_settings(sweep),
        provenance=facts.provenance(sweep),
        claims=claims,
        runs=len(sweep.runs),
        policy=POLICY,
        style=_text("page.css"),
        theme=_text("theme.js"),
        script="\n".join(_text(f"script/{name}.js") for name in SCRIPTS),
        data=_packed(json.dumps(payload(study, baseline), separators=(",", ":"), allow_nan=False)),
        plotly=_plotly(),
        carried={
            name: files for name, files in carried().items() if files
        },  # last: what it waits for goes on meanwhile
    )


def unbroken(text: str) -> str:
    """A sentence in which no line ends within a number.

    Examples
    --------
    >>> print(unbroken("4.5 M <to> 1e-06"))
    <span class="whole">4.5 M</span> &lt;to&gt; <span class="whole">1e-06</span>
    """
    from markupsafe import Markup, escape

    return Markup(re.sub(NUMBER, r'<span class="whole">\g<0></span>', str(escape(text))))


def _text(name: str) -> str:
    return (files("dtoken.report") / "template" / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    return packed(text.encode(), COMPRESSION)


@cache
def _plotly() -> str:
    """plotly.js, packed: a third of its size."""
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())
