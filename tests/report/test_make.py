"""What a report leaves on disk, and what the command says."""

import base64
import gzip
import json
import multiprocessing
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from dtoken.cli.costs import cost_table
from dtoken.cli.report import main
from dtoken.errors import InputError, RunError
from dtoken.report import make_report
from dtoken.report.cells import cells_of
from dtoken.report.facts import graphs, partitions
from dtoken.report.figures import makers
from dtoken.report.headline import findings
from dtoken.report.sentences import lead, outcome, short_of_target
from dtoken.report.sheet import Sheet, label_values
from dtoken.report.static import draw
from dtoken.report.study import Study, study
from dtoken.sweep.runs import find_runs
from tests.sweep.made import config, trajectory, write_manifest, write_run

FIGURES = ("convergence-graph-complete", "convergence-graph-ring", "spread", "rates")


def test_everything_is_there(sweep: Path, report: Path) -> None:
    assert report == sweep / "report" / "index.html"
    assert (sweep / "results.parquet").is_file()
    assert (sweep / "results.csv").is_file()
    names = {path.name for path in report.parent.iterdir()}
    assert names == {"index.html", *(f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf"))}
    assert report.stat().st_size < 3e6


def test_the_page_asks_for_nothing_from_outside(report: Path) -> None:
    text = report.read_text()
    sources = re.findall(r"""(?:src|href)=["']([^"']*)""", text)
    own = ("#", "data:", "results.csv", *FIGURES)
    assert [source for source in sources if not source.startswith(own)] == []
    assert "://" not in re.sub(r'<script type="application/gzip".*?</script>', "", text, flags=re.DOTALL)
    assert "default-src 'none'" in unescape(text)  # and the browser would refuse


def test_the_page_carries_what_it_links_to(
    sweep: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = report.read_text()
    for path in [sweep / "results.csv", *(path for path in report.parent.iterdir() if path != report)]:
        (link,) = re.findall(rf'href="{path.name}" data-packed="([^"]*)"', text)
        (content,) = re.findall(rf'<script type="application/gzip" id="{link}">([^<]*)<', text)
        assert gzip.decompress(base64.b64decode(content)) == path.read_bytes()
    monkeypatch.setattr("dtoken.report.carried.LARGEST", 100)
    text = make_report(sweep, tmp_path).read_text()
    assert 'data-packed="' not in text
    assert "results.csv (beside the runs: too large for this page)" in text


def test_figures_are_as_wide_as_a_column(report: Path) -> None:
    for name in FIGURES:
        with Image.open(report.parent / f"{name}.png") as image:
            assert image.size[0] == 1020  # 3.4 inches at 300 dots
            pixels = np.asarray(image.convert("RGB"))
        shown = (0x00, 0x72, 0xB2) if name == "spread" else (0xD5, 0x5E, 0x00)  # tvr's or token's, as on the page
        assert (pixels == shown).all(axis=2).any()  # token did not get to the accuracy that has boxes
        assert (report.parent / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_processes_draw_the_same_figures(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_report(sweep, tmp_path / "here")
    monkeypatch.setattr("hydra_dask.cluster.fork_server.running", lambda: True)
    monkeypatch.setattr("dtoken.report.static.draw", _only_elsewhere)
    make_report(sweep, tmp_path / "there")
    here, there = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("here", "there"))
    assert here == there


def _only_elsewhere(study: Study, name: str, folder: Path, sheet: Sheet, formats: Sequence[str]) -> None:
    assert multiprocessing.parent_process() is not None
    draw(study, name, folder, sheet, formats)


def test_a_figure_that_cannot_be_written_is_said(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rates.pdf").mkdir()
    for elsewhere in (False, True):
        monkeypatch.setattr("hydra_dask.cluster.fork_server.running", lambda elsewhere=elsewhere: elsewhere)
        with pytest.raises(RunError, match=r"cannot write .*rates.pdf"):
            make_report(sweep, tmp_path)


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_drawn(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        RunError, match=r"cannot write .*file/below: not a directory; choose another folder \(--output\)"
    ):
        make_report(sweep, tmp_path / "file" / "below")
    monkeypatch.setattr("dtoken.report.make.os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(RunError, match=r"cannot write .*theirs: permission denied; choose another folder"):
        make_report(sweep, tmp_path / "theirs")
    assert not list((tmp_path / "theirs").iterdir())


@pytest.mark.parametrize(
    ("values", "expected"),
    [((8, 1, 2, 4, 2), [1, 2, 4, 8]), ((0.1, 0.001), [0.001, 0.1]), ((1, 1.01, 10, 100), [1, 10, 100])],
)
def test_axes_of_settings_are_labelled_with_their_values_where_these_have_room(
    values: tuple[float, ...], expected: list[float]
) -> None:
    axes = Figure().subplots()
    axes.set(xscale="log", xlim=(0.9 * min(values), 1.1 * max(values)))
    label_values(axes.xaxis, values, axes.get_xlim())
    assert list(axes.xaxis.get_majorticklocs()) == expected


def drawn(folder: Path) -> dict[str, Figure]:
    """The figures of a sweep, before they are written."""
    found = study(find_runs([folder]))
    with rc_context(Sheet().style):
        return {name: make() for name, make in makers(found, Sheet()).items()}


def parameter_sweep(folder: Path) -> None:
    """Three methods with long names at three values of sigma; theory does not cover the last one."""
    cases = [(a, s) for a in ("token", "tvr", "tavr") for s in (0.011, 0.014, 0.018)]
    for number, (algorithm, sigma) in enumerate(cases):
        settings = config(algorithm, tokens=1, problem={"loss": "logistic", "sigma": sigma})
        settings["algorithm"]["smoothness"] = f"a rule with a long name for {algorithm}"
        rate = {"token": 0.98, "tvr": 0.8, "tavr": 0.3}[algorithm] ** (100 * sigma)
        proved = algorithm != "tavr"
        write_run(folder / str(number), settings, trajectory(rate, 600), rate_is_proved=proved)
        write_run(folder / f"{number}x", settings | {"algorithm": settings["algorithm"] | {"tokens": 2}}, trajectory())


def test_legends_fit_into_the_column(tmp_path: Path) -> None:
    parameter_sweep(tmp_path)
    for figure in drawn(tmp_path).values():
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw_without_rendering()
        for legend in figure.legends:
            box = legend.get_window_extent(renderer)
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width


def test_logarithmic_axes_have_labels_and_nothing_at_zero(tmp_path: Path) -> None:
    """Runs of one panel end after 600 points or after a few."""
    parameter_sweep(tmp_path)
    found = drawn(tmp_path)
    first = found["convergence-problem_sigma-0_011"].axes[0]
    assert first.get_xscale() == "log"
    assert all(min(line.get_xdata()) > 0 for line in first.lines)
    for axes in [first, *found["scaling-problem_sigma"].axes]:
        low, high = axes.get_xlim()
        assert sum(low <= place <= high for place in axes.xaxis.get_majorticklocs()) >= 2
        low, high = axes.get_ylim()
        assert sum(low <= place <= high for place in axes.yaxis.get_majorticklocs()) >= 2


def test_markers_of_rates_are_explained(tmp_path: Path) -> None:
    parameter_sweep(tmp_path)
    (legend,) = drawn(tmp_path)["rates"].legends
    names = [text.get_text() for text in legend.get_texts()]
    methods = [f"{name} K={tokens}" for tokens in (1, 2) for name in ("token", "tvr", "tavr")]
    assert sorted(names) == sorted([*methods, "filled: proved", "open: not proved"])
    faces = {
        name: str(handle.get_markerfacecolor())  # type: ignore[union-attr]
        for name, handle in zip(names, legend.legend_handles, strict=True)
    }
    assert [name for name, face in faces.items() if face == "none"] == ["open: not proved"]


def test_several_sweeps_make_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        write_run(tmp_path / name / "0", config(tokens=len(name)), trajectory())
    write_run(tmp_path / "two" / "1", config(tokens=7), trajectory())
    assert make_report(["one", "two"]) == Path("report/index.html")
    assert (tmp_path / "report" / "results.csv").is_file()
    assert not (tmp_path / "one" / "results.csv").exists()


def test_it_can_be_made_again(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    first = make_report(tmp_path).read_text()
    write_run(tmp_path / "1", config(seed=1), trajectory())
    assert "1 run of tvr" in first
    assert "2 runs of tvr" in make_report(tmp_path).read_text()
    assert len(find_runs([tmp_path])) == 2  # the report is not taken for a run


def test_claims_of_a_workflow_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    claim = {"sentence": "A & B agree", "where": "ring, jumps", "meaning": "within {} of 2", "why": "few rows"}
    content = {"title": "Said", "claims": [claim | {"numbers": {"1e-4": 1.5, "1e-6": 2.5}, "verdict": "holds at 1e-4"}]}
    (tmp_path / "claims.json").write_text(json.dumps(content))
    text = make_report(tmp_path).read_text()
    for part in ("<h2>Said</h2>", "A &amp; B agree", "within 1.5 / 2.5 of 2", "holds at 1e-4", "0 of 1 sentences hold"):
        assert part in text
    (tmp_path / "claims.json").write_text('{"claims": [7]}')
    with pytest.raises(InputError, match=r"claims.json is damaged; delete it"):
        make_report(tmp_path)


def test_the_command_prints_the_path(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(sweep), "--output", str(tmp_path / "there"), "--baseline", "tvr", "--accuracies", "1e-1,1e-3"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'there' / 'index.html'}\n"
    assert (tmp_path / "there" / "rates.pdf").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere is not a directory; give the directory of a sweep or of a run."),
        (["SWEEP", "--baseline", "sgd"], "baseline sgd is not a method of this sweep; use one of token, tvr, tavr."),
        (["SWEEP", "--accuracies", "fine"], "accuracy fine is not a number; give for instance --accuracies 1e-4 1e-6."),
        (["SWEEP", "--accuracies", "0"], "accuracy 0 is not a positive number; give for instance 1e-4."),
    ],
)
def test_bad_input_gets_a_sentence(
    words: list[str], message: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    words = [word.replace("SWEEP", str(sweep)) for word in words]
    assert main([*words, "--output", str(output)]) == 2
    assert capsys.readouterr().err == f"{message}\n"
    assert not output.exists()


def test_sentences_say_what_is_seen(sweep: Path) -> None:
    found = study(find_runs([sweep]), [1e-2])
    assert lead(found.sweep) == "18 runs of token, tvr and tavr, with graph complete or ring, each with 3 seeds."
    complete, ring = findings(found.sweep, found.reached)
    # falling by 0.37 a point (the middle seed), tavr needs ceil(log 0.01 / log 0.37) = 5 points of 40 gradients
    assert complete.startswith("With graph=complete, to 0.01, tavr needs the least communication (")
    assert "computation (200; tvr 2 times as much)" in complete
    assert "graph=ring" in ring


def test_conditions_under_which_seconds_cannot_be_compared_are_told(tmp_path: Path) -> None:
    usual = {"engine": "local", "threads": 1, "processors": 2, "load": 2.5}
    for number, conditions in enumerate([usual, usual, {**usual, "load": 0.1}]):
        write_run(tmp_path / str(number), config("tvr", seed=number), trajectory(0.5, 9), conditions=conditions)
    assert "may not be comparable" not in make_report(tmp_path).read_text()
    others = [{**usual, "threads": 2}, {**usual, "engine": "dask", "threads": None}, {**usual, "load": 7.0}]
    for number, conditions in enumerate(others, 3):
        write_run(tmp_path / str(number), config("tvr", seed=number), trajectory(0.5, 9), conditions=conditions)
    said = (
        "Seconds (wall) may not be comparable: engine dask or local; threads 1 or 2; "
        "1 of 6 began on a machine with up to 3.5 times as much to do as it has processors."
    )
    assert said in make_report(tmp_path).read_text()


def test_different_record_intervals_are_told(tmp_path: Path) -> None:
    def settings(algorithm: str, every: float) -> Any:
        return config(algorithm, record={"accuracies": [1e-2], "every_passes": every, "growth": None})

    write_run(tmp_path / "0", settings("tvr", 1.0), trajectory())
    write_run(tmp_path / "1", settings("token", 1.0), trajectory())
    assert "different intervals" not in make_report(tmp_path).read_text()
    write_run(tmp_path / "2", settings("gd", 10.0), trajectory())
    said = "Runs were measured at different intervals (record.every_passes 1 or 10): "
    assert said in make_report(tmp_path).read_text()
    assert cost_table(study(find_runs([tmp_path])))[-1].startswith(said)


def costly(folder: Path, algorithm: str, gradients: int, jumps: int) -> None:
    """A run of two points that needs so much."""
    table = trajectory(1e-3, 2).assign(gradients=[0, gradients], jumps=[0, jumps], messages=[0, jumps])
    write_run(folder, config(algorithm), table)


def test_ties_are_no_wins_and_large_ratios_are_written_out(tmp_path: Path) -> None:
    costly(tmp_path / "0", "tvr", 9000, 1)
    costly(tmp_path / "1", "tavr", 9000, 110)
    found = study(find_runs([tmp_path]))
    (said,) = findings(found.sweep, found.reached)
    assert said == (
        "To 0.01, tvr needs the least communication (1; tavr 110 times as much); "
        "tvr and tavr need the same computation (9,000) and ideal time (700)."
    )
    costly(tmp_path / "2", "token", 9100, 500)
    found = study(find_runs([tmp_path]))
    assert "tvr, tavr and token need about the same computation (9,000 to 9,100)" in "".join(
        findings(found.sweep, found.reached)
    )


def test_winners_are_named_among_those_that_got_there_and_the_others_with_how_close_they_came(tmp_path: Path) -> None:
    """0.5 falls below 1e-4 after 14 points, 0.8 needs 42."""
    cases = [("tvr", 0.5, 20), ("token", 0.6, 30), ("gd", 0.8, 20), ("tavr", 0.5, 20)]
    for number, (algorithm, rate, points) in enumerate((*case,) for case in cases for _ in range(3)):
        short = algorithm == "tavr" and number % 3 == 0
        settings = config(algorithm, seed=number % 3, stop={"suboptimality": 1e-4})
        table = trajectory(rate, 11 if short else points)
        end = {"suboptimality": float(table.suboptimality.iloc[-1]), "wall": 1.0}
        write_run(tmp_path / str(number), settings, table, end=end)
    found = study(find_runs([tmp_path]))
    (said,) = findings(found.sweep, found.reached)
    first, second = said.split(" Short of 0.0001: ")
    assert first.startswith("To 0.0001, tvr and tavr need the same communication")
    assert "gd" not in first
    assert second == f"gd (came to {0.8**19:.2g}), tavr (1 of 3 runs, came to {0.5**10:.2g})."
    short = "4 of 12 runs that are done stopped short of the suboptimality that they were to reach (0.0001)."
    assert short_of_target(found.sweep) == short
    assert outcome(found.sweep).startswith("12 done")
    assert short in cost_table(found)
    assert short in make_report(tmp_path).read_text()


def test_a_single_winner_and_no_winner_are_told(tmp_path: Path) -> None:
    """To 1e-4 one method, to 1e-2 both; then none."""
    write_run(tmp_path / "one" / "0", config("tvr"), trajectory(0.5, 20))
    write_run(tmp_path / "one" / "1", config("gd"), trajectory(0.5, 10))
    found = study(find_runs([tmp_path / "one"]))
    assert findings(found.sweep, found.reached) == [
        f"Only tvr reached 0.0001, with 84 messages, 560 gradients and 9,800 ideal time. "
        f"Short of 0.0001: gd (came to {0.5**9:.2g}). "
        "To 0.01, tvr and gd need the same communication (42), computation (280) and ideal time (4,900)."
    ]
    write_run(tmp_path / "none" / "0", config("tvr"), trajectory(0.5, 3))
    write_run(tmp_path / "none" / "1", config("gd"), None, status="failed", failure="reason")
    found = study(find_runs([tmp_path / "none"]))
    assert findings(found.sweep, found.reached) == [
        "No method reached 0.0001. Short of 0.0001: tvr (came to 0.25), gd (nothing measured)."
    ]


def test_a_finding_says_all_of_its_setting(tmp_path: Path) -> None:
    first = {"loss": "logistic", "sigma": 0.01} | dict.fromkeys("abcdefg", 1)
    for number, algorithm in enumerate(("tvr", "token")):
        write_run(tmp_path / str(number), config(algorithm, problem=first), trajectory(0.4 + 0.1 * number))
    for at in range(7):  # no two of the seven say the same
        write_run(tmp_path / f"{2 + at}", config(problem=first | dict.fromkeys("abcdefg"[at:], 2)), trajectory())
    found = study(find_runs([tmp_path]))
    said = findings(found.sweep, found.reached)[0]
    assert said.startswith("With a=1, b=1, c=1, d=1, e=1, f=1, g=1, to 0.01, tvr needs")


def test_the_lead_tells_seeds_and_what_has_begun(tmp_path: Path) -> None:
    for number, (algorithm, seed) in enumerate([("tvr", 0), ("tvr", 1), ("tvr", 2), ("gd", 0)]):
        write_run(tmp_path / str(number), config(algorithm, seed=seed), trajectory())
    assert lead(cells_of(find_runs([tmp_path]))) == "4 runs of tvr and gd, each with 1 to 3 seeds."
    write_manifest(tmp_path, [{"folder": "9", "overrides": ["algorithm=tavr"]}])
    assert lead(cells_of(find_runs([tmp_path]))) == "5 runs, so far of tvr and gd, each with 1 to 3 seeds."


def test_runs_of_one_seed_and_two_lengths_are_no_seeds(tmp_path: Path) -> None:
    for number, (seed, passes) in enumerate((seed, passes) for seed in (0, 1) for passes in (60, 3000)):
        write_run(tmp_path / str(number), config(seed=seed, stop={"passes": passes}), trajectory())
    assert lead(cells_of(find_runs([tmp_path]))) == "4 runs of tvr."


def test_the_title_is_the_end_of_the_path(tmp_path: Path) -> None:
    write_run(tmp_path / "2026-11-17" / "12-00-00" / "0", config(), trajectory())
    text = make_report(tmp_path / "2026-11-17" / "12-00-00").read_text()
    assert ">2026-11-17/12-00-00</h1>" in text


def test_only_measured_rates_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "0", config(), trajectory())
    write_run(tmp_path / "1", config("tavr"), None, status="running", measured_rate=None)
    assert "The proved rate was met: no error fell" in make_report(tmp_path).read_text()
    write_run(tmp_path / "2", config("token"), trajectory())
    assert "All 2 proved rates were met" in make_report(tmp_path).read_text()


def test_setting_is_drawn_from_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dtoken

    monkeypatch.setenv("DTOKEN_STORE", str(tmp_path / "stores"))
    dtoken.run(
        {"kind": "synthetic", "rows": 60, "features": 4},
        4,
        "gd",
        {"kind": "star", "walk": "lazy"},
        sigma=0.1,
        stop={"passes": 3.0},
        directory=tmp_path / "runs" / "0",
    )
    sweep = cells_of(find_runs([tmp_path / "runs"]))
    (graph,) = graphs(sweep)
    assert graph.title == "star, 4 nodes"
    assert graph.text.startswith("lazy walk, spectral gap")
    assert graph.svg is not None
    assert (graph.svg.count("<line"), graph.svg.count("<circle")) == (3, 4)
    (partition,) = partitions(sweep)
    assert "60 rows × 4 features" in partition.text
    assert "contiguous over 4 nodes with 15 rows each" in partition.text
    assert partition.svg is not None
    assert partition.svg.count("<title>node") == 4
