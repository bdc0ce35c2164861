"""Bands, costs and slopes against plain numpy, pandas and scipy."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t

from dtoken.engine.loop.recorder import LIVING, TEST
from dtoken.errors import InputError
from dtoken.report.bands import AXES, MEASURES, POINTS, aggregate, thin
from dtoken.report.cells import Cell, Sweep, cells_of
from dtoken.report.costs import Reached, accuracies_of, costs_to, reached, scaling, shown_accuracy, slope, spread
from dtoken.report.study import study
from dtoken.session.colours import DASHES, ORDERED, colours, ordered, shades
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
    assert set(curves.median) == set(MEASURES) - {*TEST, LIVING}
    for measure in curves.median:
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


def test_runs_that_are_done_stay_at_their_last_value() -> None:
    """Else only the slow ones would be left, and the median would rise again."""
    tables = [trajectory(rate, points) for rate, points in ((0.5, 10), (0.5, 10), (0.9, 20), (0.9, 20))]
    left, all_ = aggregate(tables, "gradients"), aggregate(tables, "gradients", done=[True] * 4)
    assert left is not None
    assert all_ is not None
    assert left.median["suboptimality"][-1] == pytest.approx(0.9**19)
    assert all_.median["suboptimality"][-1] == pytest.approx((0.5**9 * 0.9**19) ** 0.5)
    assert (np.diff(all_.median["suboptimality"]) < 0).all()
    some = aggregate(tables, "gradients", done=[True, False, True, True])
    assert some is not None
    assert some.median["suboptimality"][-1] == pytest.approx(0.9**19)  # of 0.5**9 and twice this


def test_a_study_knows_which_runs_are_done(tmp_path: Path) -> None:
    for seed, (rate, points, status) in enumerate([(0.5, 10, "done"), (0.9, 20, "done"), (0.9, 20, "failed")]):
        write_run(tmp_path / str(seed), config(seed=seed), trajectory(rate, points), status=status)
    ends = [curves["gradients"].low["suboptimality"][-1] for curves in study(find_runs([tmp_path])).curves]
    assert ends == [pytest.approx(10 ** np.quantile(np.log10([0.5**9, 0.9**19, 0.9**19]), 0.1))]


def test_axes_are_logarithmic_where_curves_of_one_panel_end_far_apart(tmp_path: Path) -> None:
    """The ring takes a hundred times the jumps of the complete graph, but has panels of its own."""
    for number, (graph, jumps) in enumerate([("complete", 7), ("complete", 9), ("ring", 700), ("ring", 900)]):
        settings = config("tvr" if number % 2 else "token", graph=graph)
        write_run(tmp_path / str(number), settings, trajectory(0.5, 10, jumps))
    assert study(find_runs([tmp_path])).logarithmic == []
    write_run(tmp_path / "4", config("tavr", graph="ring"), trajectory(0.5, 10, 7))
    assert study(find_runs([tmp_path])).logarithmic == ["messages", "jumps", "time"]


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


def test_costs_are_those_of_the_record_from_which_on_a_run_stays_below(tmp_path: Path) -> None:
    cell, tables = one_cell(tmp_path, [noisy(seed, 200) for seed in range(4)])
    for seed, table in enumerate(tables):
        table["suboptimality"] *= np.random.default_rng(seed).lognormal(0, 0.3, 200)
    entry = reached(cell, tables, 0.05)
    rows = pd.DataFrame([table.iloc[table.index[table.suboptimality > 0.05][-1] + 1] for table in tables])
    first = pd.DataFrame([table[table.suboptimality <= 0.05].iloc[0] for table in tables])
    assert entry.first["jumps"].median == sorted(first.jumps)[2] < entry.costs["jumps"].median
    assert (entry.reached, entry.runs) == (4, 4)
    for cost in entry.costs:
        assert entry.costs[cost].median == sorted(rows[cost])[2]  # of the two in the middle the larger: it occurred
        assert entry.costs[cost].low == rows[cost].min()
        assert entry.costs[cost].high == rows[cost].max()
    assert costs_to(tables[0], 1e-300) == {"reached": None, "stays_below": None}


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
    assert [one.look.colour, four.look.colour] == shades(colours(["tvr"])["tvr"], 2)
    assert gd.look.colour == colours(["gd"])["gd"]
    assert one.look.dash != four.look.dash


def test_methods_are_named_by_what_was_given_for_them(tmp_path: Path) -> None:
    """Also where one of them has a single value, which is not that of the others; gd keeps its line."""
    for number, (algorithm, tokens) in enumerate([("tvr", 1), ("tvr", 4), ("tavr", 2)]):
        words = [f"algorithm={algorithm}:tokens:{tokens}"]
        write_run(tmp_path / str(number), config(algorithm, tokens=tokens), trajectory(), overrides=words)
    write_run(tmp_path / "3", config("gd"), trajectory(), overrides=["algorithm=gd"])
    methods = cells_of(find_runs([tmp_path])).methods
    assert [method.name for method in methods] == ["tvr K=1", "tvr K=4", "tavr K=2", "gd"]
    assert [method.look.dash for method in methods] == [DASHES[0], DASHES[1], DASHES[0], DASHES[0]]


def test_a_number_that_is_swept_has_ordered_shades_and_lines(tmp_path: Path) -> None:
    """One algorithm: the whole ordered scale, whatever the order of the runs; with a name beside it, lines tell it."""
    for number, tokens in enumerate((8, 1, 4, 2)):
        write_run(tmp_path / "one" / str(number), config(tokens=tokens), trajectory())
    looks = {method.name: method.look for method in cells_of(find_runs([tmp_path / "one"])).methods}
    ordered_ = [looks[f"tvr K={tokens}"] for tokens in (1, 2, 4, 8)]
    assert [look.colour for look in ordered_] == ordered(4)
    assert [look.dash for look in ordered_] == list(DASHES[:4])
    for number, (tokens, start) in enumerate((k, s) for k in (1, 2) for s in ("zero", "local")):
        settings = config(tokens=tokens)
        settings["algorithm"]["start"] = start
        write_run(tmp_path / "two" / str(number), settings, trajectory())
    looks = {method.name: method.look for method in cells_of(find_runs([tmp_path / "two"])).methods}
    one, local, two = (looks[f"tvr {name}"] for name in ("K=1 start=zero", "K=1 start=local", "K=2 start=zero"))
    assert one.colour == local.colour != two.colour
    assert one.dash == two.dash != local.dash


def test_curves_of_one_method_are_told_apart_by_what_else_is_swept(tmp_path: Path) -> None:
    for number, sigma in enumerate((0.1, 0.01, 0.001)):
        settings = config(problem={"loss": "logistic", "sigma": sigma})
        write_run(tmp_path / str(number), settings, trajectory())
    sweep = cells_of(find_runs([tmp_path]))
    assert sweep.group is not None
    assert (sweep.group.name, sweep.facet) == ("problem.sigma", None)
    drawn = dict(sweep.drawn_as(cell) for cell in sweep.cells)
    assert {name: look.colour for name, look in drawn.items()} == dict(
        zip(("sigma = 0.001", "sigma = 0.01", "sigma = 0.1"), ordered(3), strict=True)
    )
    assert len({look.dash for look in drawn.values()}) == 3


def test_algorithms_alone_differ_in_colours_and_lines(tmp_path: Path) -> None:
    for number, algorithm in enumerate(("tvr", "gd", "token")):
        write_run(tmp_path / str(number), config(algorithm), trajectory())
    looks = [method.look for method in cells_of(find_runs([tmp_path])).methods]
    assert [look.dash for look in looks] == ["solid", "dash", "dot"]
    assert [look.colour for look in looks] == list(colours(["tvr", "gd", "token"]).values())


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by the rule of WCAG."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_ordered_colours_can_be_seen_on_both_backgrounds_and_grow_lighter() -> None:
    on_light, on_dark = ([pair[theme] for pair in ORDERED] for theme in (0, 1))
    assert min(contrast(colour, "#ffffff") for colour in on_light) >= 3
    assert min(contrast(colour, "#14171b") for colour in on_dark) >= 3
    for scale in (on_light, on_dark):
        brightness = [contrast(colour, "#000000") for colour in scale]
        assert brightness == sorted(brightness)


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


def test_places_and_what_says_the_same_tell_no_cells_apart(tmp_path: Path) -> None:
    """Two sweeps on different data, each with its own store; in a third, two stores are what is compared."""
    for sweep, source in (("one", {"kind": "svmlight", "path": "a.svm"}), ("two", {"kind": "synthetic"})):
        for seed in (0, 1):
            problem = {"loss": "logistic", "sigma": 0.1 if sweep == "one" else 0.2}
            places = {"store": f"{sweep}/stores", "scratch": f"/fast/{sweep}"}
            settings = config(seed=seed, data=source | places, problem=problem)
            words = [f"problem.sigma={problem['sigma']}", f"data={source['kind']}", f"data.store={sweep}/stores"]
            write_run(tmp_path / sweep / str(seed), settings, trajectory(), overrides=words)
    sweep = cells_of(find_runs([tmp_path / "one", tmp_path / "two"]))
    assert [parameter.name for parameter in sweep.parameters] == ["data"]
    assert [cell.label for cell in sweep.cells] == ["tvr, data=svmlight", "tvr, data=synthetic"]
    for number, store in enumerate(("slow", "fast")):
        settings = config(data={"kind": "synthetic", "store": store})
        write_run(tmp_path / "three" / str(number), settings, trajectory(), overrides=[f"data.store={store}"])
    assert [cell.label for cell in cells_of(find_runs([tmp_path / "three"])).cells] == [
        "tvr, store=slow",
        "tvr, store=fast",
    ]


def cells_with(folder: Path, *reached_: tuple[int, ...]) -> list[Reached]:
    """Entries at 1e-1 and 1e-2 of cells with so many of two runs there; 0.5 falls below 1e-2 after 7 points."""
    table = []
    for number, runs in enumerate(reached_):
        for seed, points in enumerate(runs):
            settings = config("tvr", tokens=1 + number, seed=seed)
            write_run(folder / f"{number}-{seed}", settings, trajectory(0.5, points))
    for cell in cells_of(find_runs([folder])).cells:
        tables = [pd.read_parquet(run.trajectory) for run in cell.runs if run.trajectory]
        table += [reached(cell, tables, accuracy) for accuracy in (1e-1, 1e-2)]
    return table


@pytest.mark.parametrize(
    ("points", "accuracy"),
    [
        ([(10, 10), (6, 6)], 1e-2),  # one of two cells
        ([(10, 10), (6, 6), (6, 6)], 1e-1),  # one of three
        ([(10, 3), (3, 3)], 1e-2),  # in no cell most runs, but one run
        ([(3, 3)], 1e-1),  # none: the coarsest
    ],
)
def test_first_comes_the_finest_accuracy_that_half_of_the_cells_reached(
    points: list[tuple[int, ...]], accuracy: float, tmp_path: Path
) -> None:
    table = cells_with(tmp_path, *points)
    assert shown_accuracy(table) == accuracy
    assert shown_accuracy([]) is None


def test_accuracies_that_no_run_reached_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), trajectory(0.5, 10))
    runs = find_runs([tmp_path])
    assert study(runs).accuracies == [1e-2]
    assert study(runs, [1e-1, 1e-9]).accuracies == [1e-1, 1e-9]
    write_run(tmp_path / "1" / "0", config(), trajectory(0.5, 3))
    assert study(find_runs([tmp_path / "1"])).accuracies == [1e-2, 1e-4]


def test_the_accuracy_that_ends_runs_is_one_of_the_accuracies(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(stop={"suboptimality": 1e-3}), trajectory())
    write_run(tmp_path / "1", config(stop={"suboptimality": 1e-2}, seed=1), trajectory())
    assert accuracies_of(cells_of(find_runs([tmp_path])), None) == [1e-2, 1e-3]  # none was to come to 1e-4
    write_run(tmp_path / "2", config(seed=2), trajectory())
    assert accuracies_of(cells_of(find_runs([tmp_path])), None) == [1e-2, 1e-3, 1e-4]


def test_accuracies_come_from_the_runs_or_from_the_user(tmp_path: Path) -> None:
    sweep = sigma_sweep(tmp_path)
    assert accuracies_of(sweep, None) == [1e-2, 1e-4]
    assert accuracies_of(sweep, [1e-6, 1e-3]) == [1e-3, 1e-6]
    with pytest.raises(InputError, match="accuracy -1 is not a positive number"):
        accuracies_of(sweep, [-1.0])


def test_bands_of_estimates_contain_two_standard_errors() -> None:
    table = pd.DataFrame({"messages": [0, 1, 2], "suboptimality": [4.0, 2.0, 1.0], "objective": [5.0, 3.0, 2.0]})
    for name in ("distance", "consensus"):
        table[name] = 1.0
    table["objective_error"] = [0.0, 0.5, 0.75]
    curves = aggregate([table], "messages")
    assert curves is not None
    assert curves.estimated
    np.testing.assert_allclose(curves.low["suboptimality"], [4.0, 1.0, 0.01])  # 1 - 1.5 has no logarithm
    np.testing.assert_allclose(curves.high["suboptimality"], [4.0, 3.0, 2.5])
    np.testing.assert_allclose(curves.low["objective"], [5.0, 2.0, 0.5])
    np.testing.assert_allclose(curves.median["suboptimality"], [4.0, 2.0, 1.0])
    assert not aggregate([table.drop(columns="objective_error")], "messages").estimated  # type: ignore[union-attr]
