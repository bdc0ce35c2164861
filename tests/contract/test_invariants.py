"""What methods keep, whatever their events: the sum of all nodes' optimality conditions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dtoken.schedule.events import LOCAL
from tests.contract.test_methods import make_setup
from tests.engine.small import Setup

Floats = NDArray[np.float64]
SIGMA = 0.2  # of make_setup


def of_samples(case: Setup, slopes: Floats) -> Floats:
    """sum_ij g_ij a_ij."""
    total: Floats = np.vstack(case.shards.A).T @ slopes
    return total


def dual(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """sigma~ (sum_i theta_i + sum_k theta_k) + sum_ij g_ij a_ij = 0."""
    s, nodes, tokens = case.constants.sigma_t, engine.nodes, engine.tokens
    return s * nodes.theta.sum(axis=0), s * tokens.theta.sum(axis=0), of_samples(case, nodes.g)


def tavr(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """The same for v, and for x (which relax alike): here for x + v, which does not relax."""
    nodes, tokens = engine.nodes, engine.tokens
    slopes = of_samples(case, nodes.sample[:, 0] + nodes.sample[:, 1])
    return nodes.pair[:, :, 0].sum(axis=0), (tokens.x + tokens.v).sum(axis=0), slopes


def walkman(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """x is the mean of y_i - z_i / beta."""
    nodes = engine.nodes
    return -engine.tokens.x[0], nodes.y.mean(axis=0), -nodes.z.mean(axis=0) / case.constants.beta


def gd(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """All nodes have the same model, after whole rounds."""
    return -engine.nodes.theta.mean(axis=0), engine.nodes.theta[-1]


def extra(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """sum_i (x^{t+1} - x^t + s g^t) = 0: averaging keeps the mean."""
    nodes = engine.nodes
    return nodes.x.sum(axis=0), -nodes.before.sum(axis=0), case.constants.step * nodes.g.sum(axis=0)


def nids(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """As for EXTRA, after whole rounds."""
    nodes = engine.nodes
    return nodes.x.sum(axis=0), -nodes.before.sum(axis=0), case.constants.step * nodes.g_before.sum(axis=0)


def dvr(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """sigma sum_i theta_i + sum_ij g_ij a_ij = 0, after whole exchanges."""
    return SIGMA * engine.nodes.theta.sum(axis=0), of_samples(case, engine.nodes.g)


def sdca(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """n sigma theta + sum_ij g_ij a_ij = 0."""
    return case.shards.n * SIGMA * engine.tokens.theta[0], of_samples(case, engine.nodes.g)


def tracking(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """The trackers follow the mean of the gradients: sum_i y_i = sum_i g_i, after whole rounds."""
    return engine.nodes.y.sum(axis=0), -engine.nodes.g.sum(axis=0)


def sampled_tracking(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """The same with the estimates of the gradients."""
    return engine.nodes.y.sum(axis=0), -engine.nodes.v.sum(axis=0)


def mc_sag(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """The token carries the mean of the nodes' gradients."""
    return case.shards.n * engine.tokens.mean[0], *-engine.nodes.g


def api_bcd(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """Each token carries the mean of the models that it has of the nodes."""
    return case.shards.n * engine.tokens.z, *-engine.nodes.given


def adfs(case: Setup, engine: Any) -> tuple[Floats, ...]:
    """As for TAVR, without tokens, after whole exchanges."""
    nodes = engine.nodes
    return nodes.pair[:, :, 0].sum(axis=0), of_samples(case, nodes.sample[:, 0] + nodes.sample[:, 1])


INVARIANTS: dict[str, Callable[[Setup, Any], tuple[Floats, ...]]] = {
    "token": dual,
    "tvr": dual,
    "tavr": tavr,
    "walkman": walkman,
    "gd": gd,
    "extra": extra,
    "nids": nids,
    "dvr": dvr,
    "sdca": sdca,
    "adfs": adfs,
    "diging": tracking,
    "agd": gd,
    "gt_saga": sampled_tracking,
    "mc_sag": mc_sag,
    "api_bcd": api_bcd,
}


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("name", INVARIANTS)
def test_keeps_its_invariant(name: str, loss: str) -> None:
    case = make_setup(name, loss)
    pattern = getattr(case.schedule, "pattern", None)  # of a round
    events = case.events(3000 if pattern is None else 40 * pattern.size)
    if name == "adfs":
        events = events.between(0, int(np.flatnonzero(events.kind == LOCAL)[-1]) + 1)
    if name == "dvr":  # until after the last local step of all nodes, so not inside an exchange
        last = np.flatnonzero((events.kind == LOCAL) & (events.node == case.shards.n - 1))[-1]
        events = events.between(0, int(last) + 1)
    with case.engine() as engine:
        engine.run(events)
        terms = INVARIANTS[name](case, engine)
        scale = max(np.abs(term).max() for term in terms)
        assert scale > 1e-3
        assert np.abs(sum(terms)).max() <= 1e-12 * scale
