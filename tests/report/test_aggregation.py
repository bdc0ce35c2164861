"""Bands, costs and slopes against plain numpy, pandas and scipy."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t

from dtoken.errors import InputError
from dtoken.report.bands import AXES, MEASURES, POINTS, aggregate, thin
from dtoken.report.cells import Cell, Sweep, cells_of
from dtoken.report.costs import accuracies_of, first_costs, reached, scaling, slope, spread
from dtoken.report.study import study
from dtoken.sweep.runs import find_runs
from tests.sweep.made import config, trajectory, write_manifest, write_run


def noisy(seed: int, points: int, jumps: int = 7) -> pd.DataFrame:
    """A run whose measures wander, and whose jumps and wall time differ from seed to seed."""
    rng = np.random.default_rng(seed)
    table = trajectory(0.97, points, jumps)
    for measure in ("suboptimality", "distance", "consensus"):
        table[measure] *= np.exp(rng.normal(0, 0.3, points).cumsum() / 5)
    table["jumps"] = np.concatenate([[0], rng.integers(4, 10, points - 1).cumsum()])
    table["wall"] = np.concatenate([[0.0], rng.uniform(0.01, 0.02, points - 1).cumsum()])
    return table


def test_where_record_points_agree_bands_are_quantiles_of_the_records() -> None:
    tables = [noisy(seed, 60) for seed in range(5)]
    curves = aggregate(tables, "gradients")
    assert curves is not None
    long = pd.concat(tables)
    assert curves.x.tolist() == tables[0].gradients.tolist()
    for measure in MEASURES:
        grouped = long.groupby("gradients")[measure]
        assert curves.median[measure] == pytest.approx(grouped.median().to_numpy(), rel=1e-12)
        if measure != "objective":
            logs = np.log10(long[measure]).groupby(long.gradients)
            assert curves.low[measure] == pytest.approx(10 ** logs.quantile(0.1).to_numpy(), rel=1e-12)
            assert curves.high[measure] == pytest.approx(10 ** logs.quantile(0.9).to_numpy(), rel=1e-12)


def test_elsewhere_logarithms_are_interpolated() -> None:
    tables = [noisy(seed, 40) for seed in range(3)]
    curves = aggregate(tables, "jumps")
    assert curves is not None
    for at in (3, 17, 31):
        x, values = curves.x[at], []
        for table in tables:
            after = int((table.jumps < x).sum())
            one, two = table.iloc[max(after - 1, 0)], table.iloc[after]
            share = (x - one.jumps) / (two.jumps - one.jumps)
            values.append(one.suboptimality ** (1 - share) * two.suboptimality**share)
        assert curves.median["suboptimality"][at] == pytest.approx(sorted(values)[1], rel=1e-12)


def test_a_band_reaches_as_far_as_half_of_the_runs() -> None:
    tables = [trajectory(0.9, points) for points in (10, 20, 30)]
    curves = aggregate(tables, "gradients")
    assert curves is not None
    assert curves.x[-1] == tables[1].gradients.iloc[-1]
    assert curves.median["suboptimality"][-1] == pytest.approx(0.9**19)  # of the two that got there
    assert aggregate([], "gradients") is None
    assert aggregate([trajectory(points=1)], "gradients") is None


def test_values_that_have_no_logarithm_are_left_out() -> None:
    table = trajectory(0.5, 6)
    table.loc[4:, "suboptimality"] = [-1e-17, 0.0]  # rounding at the optimum
    table["consensus"] = 0.0
    curves = aggregate([table], "gradients")
    assert curves is not None
    assert curves.median["suboptimality"][:4] == pytest.approx(table.suboptimality[:4].to_numpy())
    assert np.isnan(curves.median["suboptimality"][4:]).all()
    assert np.isnan(curves.median["consensus"]).all()
    assert curves.median["objective"].tolist() == table.objective.tolist()


@pytest.mark.parametrize("axis", AXES)
def test_thinning_cannot_be_seen(axis: str) -> None:
    """The curve through the points that are left is nowhere further than 1 % of the height from the whole one."""
    points = 5000
    table = trajectory(0.5, points)
    steps = np.arange(points)
    fall = -6 * (1 - np.exp(-steps / (0.01 * points)))  # steep at first
    table["suboptimality"] = 10 ** (fall - 2 * steps / points + 0.3 * np.sin(steps / 900))
    kept = thin(table, axis, POINTS)
    assert len(kept) <= POINTS
    assert {0.0, float(table[axis].iloc[-1])} <= set(kept.tolist())
    logs = np.log10(table.suboptimality.to_numpy())
    drawn = np.interp(table[axis], kept, np.interp(kept, table[axis], logs))
    assert np.abs(drawn - logs).max() < 0.01 * np.ptp(logs)


def one_cell(folder: Path, tables: list[pd.DataFrame], status: str = "done") -> tuple[Cell, list[pd.DataFrame]]:
    for seed, table in enumerate(tables):
        write_run(folder / str(seed), config(seed=seed), table, status=status)
    (cell,) = cells_of(find_runs([folder])).cells
    return cell, tables


def test_costs_are_those_of_the_first_record_that_got_there(tmp_path: Path) -> None:
    cell, tables = one_cell(tmp_path, [noisy(seed, 200) for seed in range(4)])
    entry = reached(cell, tables, 0.05)
    rows = pd.DataFrame([table[table.suboptimality <= 0.05].iloc[0] for table in tables])
    assert (entry.reached, entry.runs) == (4, 4)
    for cost in entry.costs:
        assert entry.costs[cost].median == np.median(rows[cost])
        assert entry.costs[cost].low == rows[cost].min()
        assert entry.costs[cost].high == rows[cost].max()
    assert first_costs(tables[0], 1e-300) is None


def test_a_run_that_did_not_get_there_is_infinitely_expensive(tmp_path: Path) -> None:
    cell, tables = one_cell(tmp_path, [trajectory(0.5, 10), trajectory(0.5, 10), trajectory(0.99, 10)])
    entry = reached(cell, tables, 0.1)
    assert (entry.reached, entry.runs) == (2, 3)
    assert (entry.costs["jumps"].median, entry.costs["jumps"].high) == (28.0, math.inf)
    assert reached(cell, tables, 1e-9).costs["jumps"].median == math.inf


def test_a_run_under_way_may_still_get_there(tmp_path: Path) -> None:
    cell, tables = one_cell(tmp_path, [trajectory(0.5, 10), trajectory(0.99, 3)], status="running")
    entry = reached(cell, tables, 0.1)
    assert (entry.reached, entry.runs) == (1, 1)
    assert spread([]).median == math.inf


def test_slope_and_interval_agree_with_scipy() -> None:
    rng = np.random.default_rng(1)
    x = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    y = 5 * x**0.7 * np.exp(rng.normal(0, 0.1, len(x)))
    found = slope(x.tolist(), y.tolist())
    assert found is not None
    (a, _), covariance = curve_fit(lambda u, a, b: a * u + b, np.log(x), np.log(y))
    half = t.ppf(0.975, len(x) - 2) * np.sqrt(covariance[0, 0])
    assert (found.value, found.low, found.high) == pytest.approx((a, a - half, a + half), rel=1e-6)
    assert slope([1.0, 1.0, 2.0], [1.0, 1.1, 2.0]) is None


def sigma_sweep(folder: Path) -> Sweep:
    number = 0
    for algorithm in ("tvr", "gd"):
        for sigma in (0.01, 0.02, 0.04):
            for seed in (0, 1):
                settings = config(algorithm, seed=seed, problem={"loss": "logistic", "sigma": sigma})
                write_run(folder / str(number), settings, trajectory(1 - sigma, 400, jumps=5 + seed))
                number += 1
    return cells_of(find_runs([folder]))


def test_cells_hold_seeds_together(tmp_path: Path) -> None:
    sweep = sigma_sweep(tmp_path)
    assert [parameter.name for parameter in sweep.parameters] == ["algorithm", "problem.sigma"]
    assert [[run.name for run in cell.runs] for cell in sweep.cells[:2]] == [["0", "1"], ["2", "3"]]
    assert [method.name for method in sweep.methods] == ["tvr", "gd"]
    assert sweep.seeds == (0, 1)
    assert sweep.facet is not None
    assert sweep.facet.name == "problem.sigma"


def test_methods_differ_in_what_was_swept_of_them(tmp_path: Path) -> None:
    for number, (algorithm, tokens) in enumerate([("tvr", 1), ("tvr", 4), ("gd", 0)]):
        write_run(tmp_path / str(number), config(algorithm, tokens=tokens), trajectory())
    one, four, gd = cells_of(find_runs([tmp_path])).methods
    assert [method.name for method in (one, four, gd)] == ["tvr K=1", "tvr K=4", "gd"]
    assert one.colour == four.colour != gd.colour
    assert one.dash != four.dash


def test_scaling_has_a_series_for_each_method(tmp_path: Path) -> None:
    found = study(find_runs([tmp_path]) if sigma_sweep(tmp_path) else [], [0.1])
    assert [series.label for series in found.series] == ["tvr", "gd"]
    for series in found.series:
        assert [x for x, _ in series.points] == [0.01, 0.02, 0.04]
        steps = [math.ceil(math.log(0.1) / math.log(1 - sigma)) for sigma in (0.01, 0.02, 0.04)]
        assert [entry.costs["gradients"].median for _, entry in series.points] == [40 * step for step in steps]
        fit = np.polyfit(np.log(np.repeat([0.01, 0.02, 0.04], 2)), np.log(np.repeat(steps, 2)), 1)
        law = series.slopes["gradients"]
        assert law is not None
        assert law.value == pytest.approx(fit[0])


def test_slopes_need_most_runs_to_get_there(tmp_path: Path) -> None:
    sweep = sigma_sweep(tmp_path)
    table = [reached(cell, [trajectory(0.99, 400)] + [trajectory(0.999, 400)] * 1, 0.1) for cell in sweep.cells]
    assert all(series.slopes["gradients"] is None for series in scaling(sweep, table))


def test_crowded_panels_show_the_middle_first(tmp_path: Path) -> None:
    for number, (sigma, tokens) in enumerate((s, k) for s in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5) for k in (1, 2, 3)):
        settings = config(tokens=tokens, problem={"loss": "logistic", "sigma": sigma})
        write_run(tmp_path / str(number), settings, trajectory())
    assert cells_of(find_runs([tmp_path])).focus == {"problem.sigma": 1e-3}


def test_groups_of_settings_are_no_parameters(tmp_path: Path) -> None:
    """+curve=... chose algorithm and tokens, which tell the runs apart; a job that waits is in no cell."""
    for number, (algorithm, tokens) in enumerate([("tvr", 1), ("tvr", 4), ("gd", 0)]):
        words = [f"+curve={algorithm}_{tokens}"]
        write_run(tmp_path / str(number), config(algorithm, tokens=tokens), trajectory(), overrides=words)
    write_manifest(tmp_path, [{"folder": "3", "overrides": ["+curve=walkman"]}])
    sweep = cells_of(find_runs([tmp_path]))
    assert [parameter.name for parameter in sweep.parameters] == ["algorithm", "algorithm.tokens"]
    assert [cell.label for cell in sweep.cells] == ["tvr K=1", "tvr K=4", "gd"]
    assert len(sweep.runs) == 4


def test_accuracies_come_from_the_runs_or_from_the_user(tmp_path: Path) -> None:
    sweep = sigma_sweep(tmp_path)
    assert accuracies_of(sweep, None) == [1e-2, 1e-4]
    assert accuracies_of(sweep, [1e-6, 1e-3]) == [1e-3, 1e-6]
    with pytest.raises(InputError, match="accuracy -1 is not a positive number"):
        accuracies_of(sweep, [-1.0])
