"""A sweep as curves: which axis is horizontal, what is best, what is outside, in characters and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.text import Text

from txlab.drawing.sweep import Surface, across, bounds, draw_sweep, lines_of, surface_of, text_sweep
from txlab.errors import LabError
from txlab.experiments.protocol import Frame


def frame(score: np.ndarray | None = None, better: str = "low", **changes: Any) -> Frame:
    values = np.array([[3.0, 1.0, 2.0], [5.0, 4.0, 0.5]]) if score is None else score
    said = {"axes": [["lam", [0.0, 0.9]], ["alpha", [0.1, 0.4, 0.2]]], "score": "RMS error", "better": better} | changes
    return Frame(3, {"sweep/score": values, "sweep/error": np.full(values.shape, 0.1)}, facts={"sweep": said})


def test_a_curve_for_each_value_of_the_other_axis_in_the_order_of_the_one_across() -> None:
    surface = surface_of(frame())
    assert across(surface, None) == 1
    one, other = lines_of(surface, 1)
    assert (list(one.x), list(one.y), list(other.y)) == ([0.1, 0.2, 0.4], [3.0, 2.0, 1.0], [5.0, 0.5, 4.0])
    assert (one.name, other.name) == ("λ = 0", "λ = 0.9")
    assert (one.best, other.best) == (2, 1)
    assert surface.best() == (1, 2)
    assert surface.label_of((1, 2)) == "λ = 0.9, α = 0.2"
    assert surface_of(frame(better="high")).best() == (1, 0)
    assert [line.name for line in lines_of(surface, across(surface, "λ"))] == ["α = 0.1", "α = 0.4", "α = 0.2"]


def test_what_is_not_known_or_has_run_away_is_neither_best_nor_spoils_the_picture() -> None:
    values = np.array([[np.nan, 1.0, 2.0], [1e35, 1.5, np.inf]])
    surface = surface_of(frame(values))
    assert surface.best() == (0, 1)
    low, high = bounds(surface)
    assert low < 1.0 < 2.0 < high < 10
    text = plain(text_sweep(surface, 1, 70, 14))
    assert "3 of 6 settings are outside the picture" in text
    assert "e35" not in text
    assert surface_of(frame(np.full((2, 3), np.nan))).best() is None
    assert "best unknown" in plain(text_sweep(surface_of(frame(np.full((2, 3), np.nan))), 1, 70, 14))


@pytest.mark.parametrize("columns", [30, 80])
@pytest.mark.parametrize("ascii", [False, True])
def test_lines_fit_and_name_the_best_of_each(columns: int, ascii: bool) -> None:
    text = plain(text_sweep(surface_of(frame()), 1, columns, 12, ascii))
    assert "0.5" in text
    assert "0.2" in text
    assert text.isascii() == ascii
    assert all(len(line) <= columns for line in text.splitlines()[:13])


def test_three_axes_are_a_chart_for_each_value_of_the_first(tmp_path: Path) -> None:
    axes = [["method", ["td\x1b[31m", "mc"]], ["lam", [0.0, 0.5]], ["alpha", [0.1, 0.2]]]
    three = frame(np.arange(8.0).reshape(2, 2, 2), axes=axes)
    text = plain(text_sweep(surface_of(three), 2, 60, 12))
    assert text.count("λ = 0.5  best") == 2
    assert "\x1b" not in text
    out = draw_sweep(surface_of(three), 2, tmp_path / "three.svg", title="three")
    drawn = out.read_text()
    assert drawn.count("λ = 0.5") == 1  # one legend for all
    assert "<!-- mc -->" in drawn
    assert "\x1b" not in drawn


def test_one_axis_and_one_value_can_be_drawn(tmp_path: Path) -> None:
    one = surface_of(Frame(1, {"sweep/score": np.array([2.0])}, facts={"sweep": {"axes": [["alpha", [0.1]]]}}))
    assert "0.1" in plain(text_sweep(one, across(one, None), 60, 10))
    assert draw_sweep(one, 0, tmp_path / "one.png").stat().st_size > 1000


def test_pictures_of_the_same_sweep_are_the_same_bytes_and_have_error_bars(tmp_path: Path) -> None:
    first, second = (draw_sweep(surface_of(frame()), 1, tmp_path / name) for name in ("a.svg", "b.svg"))
    assert first.read_bytes() == second.read_bytes()
    bare = frame()
    wide = Frame(3, {**bare.tensors, "sweep/error": np.full((2, 3), 0.9)}, facts=bare.facts)
    assert draw_sweep(surface_of(wide), 1, tmp_path / "c.svg").read_bytes() != first.read_bytes()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Frame(1), "swept no settings"),
        (frame(axes=[["alpha", [0.1]]]), "does not fit its axes"),
        (frame(axes=3), "cannot be read"),
        (frame(axes=[["alpha", ["x", None]], ["b", [1, 2, 3]]]), "cannot be read"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(wrong: Frame, words: str) -> None:
    with pytest.raises(LabError, match=words):
        surface_of(wrong)


def test_an_axis_that_is_not_there_or_has_names_is_refused() -> None:
    named: Surface = surface_of(frame(axes=[["rule", ["a", "b"]], ["alpha", [0.1, 0.2, 0.3]]]))
    with pytest.raises(LabError, match="nearest: alpha"):
        across(named, "alpah")
    with pytest.raises(LabError, match="its values are names; allowed: alpha"):
        across(named, "rule")


def plain(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def test_in_colours_each_line_of_a_sweep_has_its_own() -> None:
    found = text_sweep(surface_of(frame()), 1, 70, 14, colours="256")
    inks = {str(span.style) for line in found if "best" in line.plain for span in line.spans if span.style}
    assert len(inks) == sum("best" in line.plain for line in found) >= 2
    assert "×" not in plain(found)
