"""What a report shows of private runs."""

import re
from pathlib import Path

import dtoken
from dtoken.report.drawings import distance_drawing, matrix_drawing
from dtoken.report.make import make_report
from dtoken.theory.privacy import ASSUMPTIONS


def test_pairs_distances_and_assumptions_stand_together(tmp_path: Path) -> None:
    for name, noise in (("0", 0.0), ("1", 2.0)):
        dtoken.run(
            data={"kind": "synthetic", "rows": 60, "features": 3},
            nodes=6,
            graph={"kind": "ring", "walk": "self_repelling", "alpha": 1.0},
            algorithm="walk_sgd",
            privacy={"clip": 1.0, "noise": noise},
            sigma=0.1,
            stop={"passes": 3},
            directory=tmp_path / name,
        )
    make_report([tmp_path], tmp_path / "report")
    text = (tmp_path / "report/index.html").read_text()
    section = text.partition('<section id="privacy">')[2].partition("</section>")[0]
    assert section.count('<svg class="matrix"') == section.count('<svg class="distances"') == 1  # of the one with noise
    assert len(re.findall("what node \\d learns about node \\d", section)) == 6 * 5
    assert all(assumption in section for assumption in ASSUMPTIONS)
    assert "against who sees everything" in section
    assert '<svg class="graph"' in text  # keys of the walk are none of the graph


def test_no_section_without_private_runs(tmp_path: Path) -> None:
    dtoken.run(nodes=3, stop={"passes": 1}, directory=tmp_path / "0")
    make_report([tmp_path], tmp_path / "report")
    assert 'id="privacy"' not in (tmp_path / "report/index.html").read_text()


def test_drawings_are_as_large_as_what_they_show() -> None:
    drawing = matrix_drawing([[0, 4.0], [2.0, 0]])
    assert re.findall('fill-opacity="([0-9.]+)"', drawing) == ["1.000", "0.525"]
    heights = re.findall('height="([0-9.]+)"', distance_drawing({"1": 4.0, "2": 1.0}))
    assert heights == ["90.0", "22.5"]
    assert matrix_drawing([[0.0] * 151] * 151) == ""
