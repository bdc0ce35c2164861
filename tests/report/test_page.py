"""The page in a real browser, without a network."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtoken.report import make_report
from dtoken.report.facts import CONSTANTS
from dtoken.session.colours import DASHES, ordered
from dtoken.session.files import write_memory
from tests.report.conftest import MILLISECONDS
from tests.sweep.made import config, trajectory, write_manifest, write_run

Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open a report with the network off; anything that the browser complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_(path: Path, width: int = 1280, theme: str = "light", chosen: str = "") -> Any:
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_default_timeout(MILLISECONDS)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"asked for {request.url[:100]}"))
        page.goto(path.resolve().as_uri() + (f"#{chosen}" if chosen else ""))
        if page.query_selector("#packed-data"):
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def lines(page: Any) -> list[list[str]]:
    """For each panel the names of the lines that one can see."""
    script = """panels => panels.map(panel => panel.data
        .filter(trace => trace.uid.startsWith("line") && trace.visible !== false)
        .filter(trace => panel.querySelector(`.trace${trace.uid} path.js-line`)).map(trace => trace.name))"""
    found: list[list[str]] = page.eval_on_selector_all(".panel", script)
    return found


def test_the_panels_are_drawn(report: Path, open_page: Open) -> None:
    page = open_page(report)
    assert lines(page) == [["token", "tvr", "tavr"]] * 8  # two graphs, four axes
    assert page.locator("#panels h3").all_inner_texts() == ["graph = complete", "graph = ring"]
    assert "18 runs of token, tvr and tavr, with graph complete or ring, each with 3 seeds." in page.inner_text(
        "header"
    )


def test_hiding_a_method_hides_it_in_all_panels(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.click("#legend button:has-text('tvr')")
    assert lines(page) == [["token", "tavr"]] * 8
    bands = page.eval_on_selector_all(".panel", "all => all.map(p => p.data.filter(t => t.visible && t.fill).length)")
    assert bands == [2] * 8
    page.click("#legend button:has-text('tvr')")
    assert lines(page) == [["token", "tvr", "tavr"]] * 8


def test_pointing_at_a_method_dims_the_others_in_all_panels(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.hover("#legend button:has-text('tavr')")
    script = "all => all.map(trace => trace.style.opacity)"
    assert page.eval_on_selector_all(".panel .traceline0", script) == ["0.13"] * 8
    assert page.eval_on_selector_all(".panel .traceline2", script) == [""] * 8
    page.hover("h1")
    assert page.eval_on_selector_all(".panel .traceline0", script) == [""] * 8


def test_a_curve_is_the_median_of_its_runs(report: Path, tables: dict[str, Any], open_page: Open) -> None:
    """Gradients are the same in all seeds, so that no interpolation stands between the page and pandas."""
    page = open_page(report)
    panel = page.locator('.panel[data-axis="gradients"]').first
    x, y = panel.evaluate("p => { const t = p.data.find(t => t.uid === 'line1'); return [t.x, t.y] }")
    expected = tables["4"].suboptimality  # tvr on the complete graph: runs 3, 4 and 5, the middle one is the median
    assert x[:-1] == tables["4"].gradients.tolist()
    assert y[:-1] == pytest.approx(expected.tolist(), rel=1e-3)


def test_no_button_sends_anything_and_none_covers_a_curve(report: Path, open_page: Open) -> None:
    page = open_page(report)
    buttons = page.eval_on_selector_all(".modebar-btn", "all => all.map(button => button.dataset.title)")
    own = {"Download this picture (SVG)", "Show the whole curves"}
    assert set(buttons) == {*own, "Zoom", "Pan", "Reset axes"}
    servers = page.eval_on_selector_all(".js-plotly-plot", "all => all.map(plot => plot._context.plotlyServerURL)")
    assert set(servers) == {""}
    assert page.evaluate("Plotly.Plots.sendDataToCloud === undefined")
    covered = """plots => plots.filter(plot => plot.querySelector(".modebar").getBoundingClientRect().bottom >
        plot.querySelector(".nsewdrag").getBoundingClientRect().top).map(plot => plot.id)"""
    assert page.eval_on_selector_all(".js-plotly-plot", covered) == []


def test_a_downloaded_picture_has_legend_labels_and_a_telling_name(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.evaluate("document.getElementById('title').textContent = 'demo/sweep'")
    panel = page.locator('.panel[data-axis="gradients"]').nth(1)  # neither the first of its row nor of its column
    with page.expect_download() as found:
        panel.locator('.modebar-btn[data-title^="Download"]').evaluate("button => button.click()")
    assert found.value.suggested_filename == "demo-sweep-suboptimality-gradients-graph-ring.svg"
    text = Path(found.value.path()).read_text()
    for words in ("token", "tvr", "tavr", "gradients", "F(θ) − F*", "graph = ring"):
        assert re.search(f">[^<]*{re.escape(words)}<", text)


def test_zoom_is_linked(report: Path, open_page: Open) -> None:
    """Vertically in all panels, horizontally in those of the same axis."""
    page = open_page(report)
    page.evaluate(
        """Plotly.relayout(document.querySelector('.panel[data-axis="gradients"]'),
        {"xaxis.range": [100, 400], "yaxis.range": [-3, -1]})"""
    )
    page.wait_for_function("document.querySelector('.panel').layout.yaxis.range[0] === -3")
    shown = "all => all.map(p => [p.dataset.axis, p.layout.xaxis.range, p.layout.yaxis.range])"
    for axis, x, y in page.eval_on_selector_all(".panel", shown):
        assert (x == [100, 400]) == (axis == "gradients")
        assert y == [-3, -1]
    page.locator('.panel .modebar-btn[data-title="Show the whole curves"]').first.evaluate("button => button.click()")
    page.wait_for_function("document.querySelector('.panel').layout.yaxis.range[0] !== -3")
    assert page.eval_on_selector_all(".panel", "all => all.map(p => p.layout.xaxis.autorange)") == [True] * 8
    assert "#" not in page.url


def test_the_address_holds_what_was_chosen(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#measure", "distance")
    page.select_option("#facet", "")
    page.select_option("#filters select", "ring")
    page.uncheck("#axes input[value=wall]")
    page.click("#legend button:has-text('tvr')")
    page.select_option("#accuracy", "0.01")
    page.click("#cost-table th button:has-text('messages')")
    page.fill("#cost .tools input", "ring")
    page.click("#cost .columns summary")
    page.uncheck("#cost .columns input[value=jumps]")
    page.click("#theme")
    page.evaluate("Plotly.relayout(document.querySelector('.panel'), {'yaxis.range': [-2, 0]})")
    page.wait_for_function("location.hash.includes('zoom.y')")
    page.click("nav a:has-text('Cost')")
    seen = """[...document.querySelectorAll('.panel')].map(p => [p.dataset.axis, p.layout.yaxis.range,
        p.data.filter(t => t.visible).map(t => [t.name, t.text?.[0]])])"""
    wanted = page.evaluate(seen)
    other = open_page(report, chosen=page.url.partition("#")[2])
    assert other.evaluate(seen) == wanted
    assert [axis for axis, *_ in wanted] == ["messages", "gradients", "time"]
    assert (other.input_value("#measure"), other.input_value("#accuracy")) == ("distance", "0.01")
    assert other.evaluate("document.documentElement.dataset.theme") == "dark"
    rows = other.locator("#cost-table tbody tr:visible").all_inner_texts()
    assert rows == page.locator("#cost-table tbody tr:visible").all_inner_texts()
    assert len(rows) == 3
    assert all("ring" in row for row in rows)
    assert "jumps" not in [head.strip() for head in other.locator("#cost-table th:visible").all_inner_texts()]
    assert other.evaluate("document.getElementById('cost').getBoundingClientRect().top") < 100


def test_tables_can_be_searched_and_columns_left_out(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.fill("#cost .tools input", "TVR complete")
    assert page.locator("#cost-table tbody tr:visible").count() == 1
    page.select_option("#accuracy", "0.1")  # made anew, and still found
    assert page.locator("#cost-table tbody tr:visible").count() == 1
    page.fill("#cost .tools input", "")
    assert page.locator("#cost-table tbody tr:visible").count() == 6
    assert page.locator("#failures .tools").count() == 0  # a single row
    page.click("#cost .columns summary")
    page.uncheck("#cost .columns input[value='ideal time']")
    assert page.locator("#cost-table th:visible").count() == 8
    assert page.locator("#cost-table tbody tr:first-child td:visible").count() == 8


def test_boxes_show_the_runs(report: Path, tables: dict[str, Any], open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#accuracy", "0.01")
    page.select_option("#spread-cost", "jumps")
    drawn = page.evaluate("document.querySelector('#spread-plot').data.map(t => [t.name, t.x, t.y])")
    name, x, y = drawn[1]
    expected = [
        float(table[table.suboptimality <= 0.01].jumps.iloc[0])
        for table in (tables[str(run)] for run in (3, 4, 5, 12, 13, 14))
    ]
    assert (name, x) == ("tvr", expected)
    assert y == ["tvr, graph=complete"] * 3 + ["tvr, graph=ring"] * 3
    assert "tavr, graph=ring (2 of 3)" in drawn[2][2]


def test_two_numbers_that_were_swept_make_a_map(tmp_path: Path, open_page: Open) -> None:
    """Points to 1e-2 are 7 and 14 at rates of 2^-1 and 2^-1/2."""
    for number, (tokens, sigma) in enumerate((k, s) for k in (1, 2, 4) for s in (1, 2)):
        settings = config(tokens=tokens, problem={"loss": "logistic", "sigma": float(sigma)})
        points = 5 if (tokens, sigma) == (4, 2) else 30
        write_run(tmp_path / str(number), settings, trajectory(0.5 ** (1 / sigma), points, jumps=1 + tokens))
    page = open_page(make_report(tmp_path, accuracies=[1e-2]))
    grid = "(trace => [trace.x, trace.y, trace.text])(document.querySelector('#map-plot').data[0])"
    by_tokens = {"1": ["7", "14"], "2": ["14", "28"], "4": ["28", "–"]}  # messages are K a point
    names = [page.input_value("#map-x"), page.input_value("#map-y")]
    assert sorted(names) == ["algorithm.tokens", "problem.sigma"]
    page.select_option("#map-x", "problem.sigma")
    page.select_option("#map-y", "algorithm.tokens")
    assert page.evaluate(grid) == [["1", "2"], list(by_tokens), list(by_tokens.values())]
    page.select_option("#map-cost", "jumps")
    assert page.evaluate(grid)[2] == [["14", "28"], ["21", "42"], ["35", "–"]]
    hover = "document.querySelector('#map-plot').data[0].customdata[2][1]"
    assert page.evaluate(hover) == "0 of 1 runs got there, the others came to 0.25"


def test_shades_and_lines_follow_what_was_swept(tmp_path: Path, open_page: Open) -> None:
    for number, tokens in enumerate((1, 2, 4, 8)):
        write_run(tmp_path / str(number), config(tokens=tokens), trajectory())
    page = open_page(make_report(tmp_path))
    script = "document.querySelector('.panel').data.map(t => [t.name, t.line.color, t.line.dash])"
    looks = zip((1, 2, 4, 8), ordered(4), DASHES, strict=False)
    assert page.evaluate(script) == [[f"tvr K={tokens}", light, dash] for tokens, (light, _), dash in looks]
    sample = "all => all.map(line => line.getAttribute('stroke-dasharray'))"
    assert len(set(page.eval_on_selector_all("#legend line", sample))) == 4


def test_the_page_saves_what_it_carries(sweep: Path, report: Path, open_page: Open) -> None:
    page = open_page(report)
    with page.expect_download() as found:
        page.click("a:text-is('results.csv')")
    assert found.value.suggested_filename == "results.csv"
    assert Path(found.value.path()).read_bytes() == (sweep / "results.csv").read_bytes()


def test_nothing_is_drawn_at_zero_of_a_logarithmic_axis(report: Path, open_page: Open) -> None:
    page = open_page(report)
    drawn = "[...document.querySelectorAll('.panel')].flatMap(p => p.data.flatMap(t => t.x.filter(x => x !== null)))"
    least = f"Math.min(...{drawn})"
    assert page.evaluate(least) == 0
    page.select_option("#scale", "log")
    assert page.evaluate(least) > 0


def test_scales_are_those_that_python_chose(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "0", config("tvr"), trajectory(0.5, 10, 7))
    write_run(tmp_path / "1", config("token"), trajectory(0.5, 10, 700))
    page = open_page(make_report(tmp_path))
    types = page.eval_on_selector_all(".panel", "all => all.map(panel => panel.layout.xaxis.type)")
    assert types == ["log", "linear", "log", "linear"]  # messages, gradients, ideal time, wall time


def test_short_logarithmic_axes_have_few_labels(tmp_path: Path, open_page: Open) -> None:
    """Less than two decades: 1, 2 and 5 are labelled, as numbers."""
    write_run(tmp_path / "0", config("tvr"), trajectory(0.7, 10))
    page = open_page(make_report(tmp_path))
    ticks = page.evaluate("document.querySelector('.panel').layout.yaxis.ticktext")
    assert {"0.05", "0.1", "0.2", "0.5", "1"} <= set(ticks)


def test_where_colours_tell_values_apart_lines_tell_methods_apart(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#facet", "")
    page.select_option("#group", "graph")
    script = "document.querySelector('.panel').data.filter(t => !t.fill).map(t => [t.name, t.line.dash])"
    dashes = ["solid", "dash", "dot"]
    assert page.evaluate(script) == [[f"graph = {graph}", dash] for graph in ("complete", "ring") for dash in dashes]
    caption = page.inner_text("#panels-caption")
    assert "Lines tell methods apart: token solid, tvr dashed, tavr dotted." in caption
    page.hover("#legend button:has-text('ring')")
    dimmed = (
        "[...document.querySelectorAll('.panel:first-child .trace')].filter(t => t.style.opacity === '0.13').length"
    )
    assert page.evaluate(dimmed) == 2 * 3  # lines and bands of the other graph
    page.select_option("#filters select[data-parameter=method]", "tvr")
    assert page.evaluate(script) == [["graph = complete", "solid"], ["graph = ring", "dash"]]  # of the values now
    page.select_option("#group", "method")
    assert page.locator("#filters select[data-parameter=method]").count() == 0
    assert lines(page) == [["token", "tvr", "tavr"]] * 4


def test_more_methods_than_kinds_of_lines_are_not_told_apart(tmp_path: Path, open_page: Open) -> None:
    for number, (tokens, sigma) in enumerate((k, s) for k in range(1, 8) for s in (0.1, 0.2)):
        settings = config(tokens=tokens, problem={"loss": "logistic", "sigma": sigma})
        write_run(tmp_path / str(number), settings, trajectory())
    page = open_page(make_report(tmp_path))
    page.select_option("#group", "problem.sigma")
    assert "more methods than kinds of lines" in page.inner_text("#panels-caption")
    page.select_option("#filters select[data-parameter=method]", "tvr K=7")
    assert "more methods than kinds of lines" not in page.inner_text("#panels-caption")


def test_a_legend_keeps_the_focus_of_the_keyboard(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.focus("#legend button:has-text('tvr')")
    page.keyboard.press("Enter")
    assert page.evaluate("[document.activeElement.innerText, document.activeElement.ariaPressed]") == ["tvr", "false"]
    assert lines(page) == [["token", "tavr"]] * 8


def test_words_are_explained(report: Path, open_page: Open) -> None:
    page = open_page(report)
    assert not page.is_visible("#words dd >> nth=0")
    page.click("#words summary")
    assert "jumps between two different nodes" in page.inner_text("#words")
    assert "condition number" in page.inner_text("#words")
    assert page.locator("#cost-table th:has-text('ideal time')").get_attribute("title").startswith("computed from")
    assert page.locator("th:text-is('kappa')").get_attribute("title").startswith("κ, condition number")


def test_the_table_begins_with_the_accuracy_that_python_chose(tmp_path: Path, open_page: Open) -> None:
    """Five methods come to 1e-2, two of them to 1e-4."""
    for tokens in range(1, 6):
        write_run(tmp_path / str(tokens), config(tokens=tokens), trajectory(0.5, 20 if tokens > 3 else 10))
    assert open_page(make_report(tmp_path)).input_value("#accuracy") == "0.01"


def test_axes_measures_groups_and_facets_can_be_chosen(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#facet", "")
    assert len(lines(page)) == 4
    page.check("#axes input[value=jumps]")
    assert len(lines(page)) == 5
    page.select_option("#measure", "distance")
    assert page.evaluate("document.querySelector('.panel').layout.yaxis.title.text") == "squared distance to θ*"
    page.select_option("#group", "graph")
    assert lines(page) == [["graph = complete"] * 3 + ["graph = ring"] * 3] * 5  # a line for each method
    page.select_option("#measure", "objective")
    assert page.evaluate("document.querySelector('.panel').layout.yaxis.type") == "linear"
    page.select_option("#scale", "log")
    assert page.evaluate("document.querySelector('.panel').layout.xaxis.type") == "log"


def column(page: Any, title: str) -> list[str]:
    """The first line of each cell of a column of the table of costs."""
    heads = page.locator("#cost-table thead th").all_inner_texts()
    at = [head.strip() for head in heads].index(title)
    cells = page.locator(f"#cost-table tbody td:nth-child({at + 1})").all_inner_texts()
    return [text.split("\n")[0].strip() for text in cells]


def test_the_table_tells_what_it_took_and_sorts(report: Path, tables: dict[str, Any], open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#accuracy", "0.01")
    page.click("#cost-table th button:has-text('messages')")
    shown = column(page, "messages")
    expected = []
    for first in range(0, 18, 3):
        taken = []
        for run in range(first, first + 3):
            table = tables[str(run)]
            there = table[table.suboptimality <= 0.01]
            taken.append(there.messages.iloc[0] if len(there) else float("inf"))
        expected.append(sorted(taken)[1])
    assert shown == [f"{value:,}" for value in sorted(expected)]
    page.click("#cost-table th button:has-text('messages')")
    assert column(page, "messages") == shown[::-1]
    assert page.get_attribute("#cost-table th[aria-sort]", "aria-sort") == "descending"


def test_the_table_tells_how_close_others_came(report: Path, tables: dict[str, Any], open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#accuracy", "0.01")
    row = page.locator("#cost-table tbody tr:has-text('tavr'):has-text('ring')")
    assert row.locator("td").nth(2).inner_text().split("\n") == [
        "2 of 3",
        f"came to {float(tables['17'].suboptimality.iloc[-1]):.3g}",
    ]


def test_ratios_are_to_the_baseline_in_the_same_setting(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.select_option("#accuracy", "0.01")
    page.select_option("#baseline", "tvr")
    costs = dict(
        zip(zip(column(page, "method"), column(page, "graph"), strict=True), column(page, "jumps"), strict=True)
    )
    ratio = int(costs["token", "ring"].replace(",", "")) / int(costs["tvr", "ring"].replace(",", ""))
    row = page.locator("#cost-table tbody tr:has-text('token'):has-text('ring')")
    assert row.locator(".ratio").first.inner_text() == f"× {ratio:.2g}"


def test_unmet_bounds_are_flagged(report: Path, open_page: Open) -> None:
    page = open_page(report)
    assert "2 of 6 proved rates were not met: token, graph=complete; token, graph=ring" in page.inner_text("#theory")
    assert page.locator("#rates-table td:has-text('not met')").count() == 2


def test_failures_are_told_as_text(report: Path, open_page: Open) -> None:
    page = open_page(report)
    assert "diverged: <b>tavr</b> & a ring need algorithm.jumps=auto" in page.inner_text("#failures")
    assert "1 of 18 runs failed" in page.inner_text("header")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_800_pixels_in_both_themes(theme: str, report: Path, open_page: Open) -> None:
    page = open_page(report, width=800, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 3 * 128) == (theme == "dark")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != back
    assert lines(page) == [["token", "tvr", "tavr"]] * 8


def test_wide_tables_scroll_and_keep_their_first_column(tmp_path: Path, open_page: Open) -> None:
    for number in range(3):
        problem = {"loss": "logistic", "sigma": 0.1} | {
            f"a_rather_long_name_{n}": number * (n != number) for n in range(6)
        }
        write_run(
            tmp_path / str(number), config(problem=problem), trajectory(), status="failed", failure=40 * "reason "
        )
    page = open_page(make_report(tmp_path), width=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    assert page.evaluate("document.querySelector('td.reason').getBoundingClientRect().width") > 200
    place = "document.querySelector('#cost-table td').getBoundingClientRect().left"
    before = page.evaluate(place)
    assert (
        page.evaluate(
            "(box => { box.scrollLeft = 300; return box.scrollLeft })(document.querySelector('#cost .scroll'))"
        )
        > 0
    )
    assert page.evaluate(place) == before


def test_scaling_shows_slopes(tmp_path: Path, open_page: Open) -> None:
    """The number of record points to an accuracy is proportional to 1 / log(1 / rate), which is 1 / sigma here."""
    for number, sigma in enumerate((0.01, 0.02, 0.04, 0.08)):
        settings = config(problem={"loss": "logistic", "sigma": sigma})
        write_run(tmp_path / str(number), settings, trajectory(1e-2 ** (sigma / 0.8), 82))
    page = open_page(make_report(tmp_path, accuracies=[1e-2 * (1 + 1e-9)]))
    assert page.locator("#scaling-table tbody td").nth(1).inner_text() == "-1.00"
    assert page.evaluate("document.querySelector('#scaling-plot').data[0].x") == [0.01, 0.02, 0.04, 0.08]
    assert page.evaluate("document.querySelector('#scaling-plot').layout.xaxis.ticktext") == [
        "0.01",
        "0.02",
        "0.04",
        "0.08",
    ]


def test_memory_of_runs_with_a_budget_is_drawn(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    write_run(tmp_path / "1", config(seed=1), trajectory())
    write_run(tmp_path / "2", config(seed=2), trajectory())
    taken = [(0.1 * at, (400 if at == 3217 else 300) * 10**6) for at in range(5000)]
    write_memory(tmp_path / "1", taken, 250 * 10**6)
    (tmp_path / "2/memory.parquet").write_bytes(b"damaged")
    found = make_report(tmp_path)
    page = open_page(found)
    budget, used = page.evaluate("document.querySelector('#memory-plot').data.map((line) => line.y)")
    assert budget == [250, 250]
    assert len(used) == 300
    assert max(used) == 400
    assert (found.parent / "memory.pdf").is_file()


def test_a_single_run_has_a_page(tmp_path: Path, open_page: Open) -> None:
    page = open_page(make_report(write_run(tmp_path / "alone", config(), trajectory())))
    assert lines(page) == [["tvr"]] * 4
    assert "1 run of tvr." in page.inner_text("header")
    captions = " ".join(page.locator(".caption").all_inner_texts())
    assert "seed" not in captions
    assert "ratio" not in captions


def test_a_sweep_under_way_has_a_page(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    write_run(tmp_path / "1", config(seed=1), None, status="running")
    write_manifest(tmp_path, [{"folder": str(n), "overrides": [f"seed={n}"]} for n in range(4)])
    page = open_page(make_report(tmp_path))
    assert lines(page) == [["tvr"]] * 4
    text = page.inner_text("header")
    assert "1 done" in text
    assert "3 runs waiting: this report shows what there is so far" in text


def test_a_sweep_of_failures_has_a_page(tmp_path: Path, open_page: Open) -> None:
    write_manifest(
        tmp_path,
        [{"folder": "0", "overrides": ["nodes=500"], "status": "failed", "error": "nodes=500 but there are 20 rows"}],
    )
    page = open_page(make_report(tmp_path))
    assert "No run has left measurements yet" in page.inner_text("header")
    assert "nodes=500 but there are 20 rows" in page.inner_text("#failures")
    assert page.locator("#convergence").count() == 0
    assert page.locator("nav a").all_inner_texts() == ["Failures"]
    assert "1 of 1 runs failed; its reason is below" in page.inner_text("header")


def test_a_sweep_that_has_not_begun_has_no_links_to_nowhere(tmp_path: Path, open_page: Open) -> None:
    write_manifest(tmp_path, [{"folder": "0", "overrides": ["nodes=5"]}])
    page = open_page(make_report(tmp_path))
    assert page.locator("nav a").count() == 0


def test_runs_that_cannot_be_read_did_not_fail(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    folder = write_run(tmp_path / "1", config(seed=1), trajectory())
    (folder / "trajectory.parquet").write_bytes(b"PAR1 cut")
    page = open_page(make_report(tmp_path))
    assert "1 of 2 runs did not end well" in page.inner_text("header")


def test_an_empty_sweep_has_a_page(tmp_path: Path, open_page: Open) -> None:
    (tmp_path / "multirun.yaml").write_text("")
    page = open_page(make_report(tmp_path))
    assert "This sweep has no runs yet" in page.inner_text("header")


def test_constants_fit_on_paper(tmp_path: Path, open_page: Open) -> None:
    found = {name: [1.234e-5, 5.678e-4] for name in CONSTANTS}
    for number in range(2):
        settings = config(tokens=1 + number, problem={"loss": "logistic", "sigma": 0.001 * (1 + number)})
        write_run(tmp_path / str(number), settings, trajectory(), constants=found)
    page = open_page(make_report(tmp_path))
    page.emulate_media(media="print")
    page.evaluate("forPaper(true)")
    assert page.evaluate("document.querySelector('table.constants').getBoundingClientRect().width") <= 690


def test_printing_leaves_the_page_as_it_was(report: Path, open_page: Open) -> None:
    page = open_page(report, theme="dark")
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("[document.documentElement.dataset.theme, document.body.className]") == ["dark", ""]
    assert lines(page) == [["token", "tvr", "tavr"]] * 8


def test_settings_that_only_crowd_can_be_held(tmp_path: Path, open_page: Open) -> None:
    """Five values of sigma for each of three methods: first the middle one, then all."""
    for number, (algorithm, sigma) in enumerate((a, s) for a in ("token", "tvr", "tavr") for s in (1, 2, 3, 4, 5)):
        settings = config(algorithm, problem={"loss": "logistic", "sigma": float(sigma)})
        write_run(tmp_path / str(number), settings, trajectory(1 - sigma / 20))
    page = open_page(make_report(tmp_path))
    pieces = "document.querySelector('.panel').data.map(trace => trace.x.filter(x => x === null).length)"
    assert page.evaluate(pieces) == [1, 1, 1]
    page.select_option("#filters select", "all")
    assert page.evaluate(pieces) == [5, 5, 5]
