"""What Python shows of one result and of several."""

import pydoc

import numpy as np
import pytest

import dtoken
from dtoken.errors import InputError

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, 1, -1)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dtoken.Result]:
    stores = tmp_path_factory.mktemp("stores")
    return [
        dtoken.run({"X": X, "y": y, "store": stores}, nodes=4, graph=graph, seed=seed, sigma=0.1, stop={"passes": 20})
        for graph in ("ring", "complete")
        for seed in (0, 1)
    ]


def test_a_result_is_shown_in_a_line(results: list[dtoken.Result]) -> None:
    text, last = repr(results[0]), results[0].records[-1]
    assert text.startswith("Result(tvr: status done; data 40 rows x 3 features, 4 nodes; graph ring; F - F* ")
    assert f"{last.suboptimality:.2g} after {last.passes:.4g} passes, {last.jumps} jumps" in text
    assert len(text) < 200


def test_a_notebook_shows_a_table_without_a_way_out_of_it(results: list[dtoken.Result]) -> None:
    from dataclasses import replace

    failed = replace(results[0], summary=results[0].summary | {"failure": "x < y & <script>", "status": "failed"})
    html = failed._repr_html_()
    assert "failed (x &lt; y &amp; &lt;script&gt;)" in html
    assert html.count("<tr>") == html.count("</tr>") == 5


def test_several_results_in_one_table(results: list[dtoken.Result]) -> None:
    together = dtoken.collect(results)
    assert repr(together) == "Results(4 runs: 4 done; parameters algorithm, graph, seed)"
    assert together.parameters == ("algorithm", "graph", "seed")
    frame = together.to_frame()
    for number, result in enumerate(results):
        own = frame[frame.run == str(number)]
        assert own.suboptimality.tolist() == result.to_frame().suboptimality.tolist()
        assert set(own.seed) == {result.summary["config"]["seed"]}
    assert together._repr_html_().count("<tr") == 5


def test_several_results_in_one_figure(results: list[dtoken.Result]) -> None:
    axes = dtoken.collect(results).plot("jumps")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["tvr graph=ring", "tvr graph=complete"]
    colours = [line.get_color() for line in axes.lines]
    assert len(colours) == 4
    assert colours[0] == colours[1] != colours[2] == colours[3]
    named = dtoken.collect({"mine": results[0], "theirs": results[2]}).plot()
    assert [text.get_text() for text in named.get_legend().get_texts()] == ["mine", "theirs"]


def test_only_results_are_collected(results: list[dtoken.Result]) -> None:
    with pytest.raises(InputError, match=r"0 is a DataFrame; give results of dtoken.run"):
        dtoken.collect([results[0].trajectory])  # type: ignore[list-item]


def test_help_lists_the_interface() -> None:
    text = pydoc.plain(pydoc.render_doc(dtoken))
    for name in ("run(", "predict(", "load(", "collect(", "class Result(", "class Results(", "dtoken.sklearn"):
        assert name in text
    assert set(dtoken.__all__) <= set(dir(dtoken))
