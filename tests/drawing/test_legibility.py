"""What is drawn for the back row: solid, dashed and dotted are different, and names are at the ends of curves."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.axis import Window
from txlab.drawing.curve import QUADRANTS, Chart, Curve, Style, draw, signs_of, trace
from txlab.drawing.legibility import DESK, HALL, Legibility
from txlab.drawing.plane import Path, Shows, contours, empty, ends
from txlab.drawing.plot import Furniture, end_rows, plot_lines, room_for_ends, shorten

LOOKS = {"desk": DESK, "hall": HALL}
SMOOTH = np.sin(np.linspace(0, 6, 5000))


def drawn(style: Style, legibility: Legibility, values: np.ndarray = SMOOTH) -> Chart:
    chart = draw([Curve("a", np.arange(len(values)), values, style)], 80, 16, legibility=legibility)
    assert chart is not None
    return chart


def inked(chart: Chart) -> np.ndarray:
    """The columns of cells in which anything is drawn."""
    columns: np.ndarray = (chart.characters != " ").any(0)
    return columns


def lengths(columns: np.ndarray) -> tuple[list[int], list[int]]:
    """The lengths of the stretches that are drawn, and of the gaps between them."""
    text = "".join("x" if each else " " for each in columns.tolist()).strip()
    return [len(each) for each in text.split()], [len(each) for each in text.replace("x", "|").split("|") if each]


@pytest.mark.parametrize("look", LOOKS)
def test_solid_dashed_and_dotted_differ_however_many_points_a_curve_has(look: str) -> None:
    """A dashed curve of 5 000 points was solid: its points filled the gaps."""
    solid, dashed = (inked(drawn(style, LOOKS[look])) for style in ("line", "dashed"))
    assert solid.all()
    assert not dashed.all()
    dashes, gaps = lengths(dashed)
    assert len(dashes) >= 8
    assert min(dashes[1:-1]) >= 1 <= min(gaps)


def test_in_a_hall_dots_are_apart_and_dashes_are_longer_than_dots() -> None:
    flat = np.zeros(5000)
    dots, between = lengths(inked(drawn("points", HALL, flat)))
    dashes, gaps = lengths(inked(drawn("dashed", HALL, flat)))
    assert max(dots) <= 2 < min(dashes[1:-1])
    assert min(between) >= 1 <= min(gaps)
    assert len(dots) > 2 * len(dashes)
    at_desk, _ = lengths(inked(drawn("points", DESK, flat)))
    assert at_desk == [80], "at the desk every point is drawn"


def test_a_thick_line_fills_whole_quadrants_where_the_thin_one_has_dots() -> None:
    thin, thick = drawn("line", DESK), drawn("line", HALL)
    assert set(thick.characters.ravel().tolist()) <= set(QUADRANTS.tolist())
    assert ((thin.characters != " ") <= (thick.characters != " ")).all(), "no part of it is lost"
    grid = np.zeros((8, 4), bool)
    grid[0, 0] = grid[7, 3] = True
    assert signs_of(grid, HALL).tolist() == [["▘", " "], [" ", "▗"]]
    full = signs_of(np.ones((4, 2), bool), HALL).tolist()
    assert full == [["█"]]


def test_a_value_between_two_gaps_is_drawn_in_a_dashed_curve_too() -> None:
    values = np.array([np.nan, 1.0, np.nan, 2.0, 2.0])
    grid = trace(np.arange(5.0), values, 4, 5, "dashed")
    assert grid[1, 1]


def test_names_at_the_ends_are_in_the_order_of_the_values_and_each_in_its_own_row() -> None:
    chart = drawn("line", HALL)
    values = [1.0, 0.99, 0.98, -1.0, -0.999, 0.0, -5.0]
    rows = end_rows(chart, values)
    assert len(set(rows)) == len(rows)
    assert [rows[each] for each in np.argsort(values)[::-1]] == sorted(rows)
    assert min(rows) >= 0 <= max(rows) < 16
    assert end_rows(chart, [0.0])[0] in (7, 8)


def test_a_plot_with_names_has_them_whole_beside_the_last_values() -> None:
    chart = drawn("line", HALL)
    names = ["Expected SARSA", "a"]
    right = room_for_ends(names, 80, 16, ascii=False)
    assert right == len(names[0]) + 1
    lines = plot_lines(chart, Furniture(ends=[(SMOOTH[-1], names[0], 0), (1.0, names[1], 1)], right=right), ascii=False)
    texts = ["".join(text for text, _ in line) for line in lines]
    assert sum(text.endswith(" Expected SARSA") for text in texts) == 1
    assert texts[1].endswith(" a")
    assert (
        room_for_ends(names, 30, 16, False)
        == room_for_ends(names, 80, 1, False)
        == room_for_ends([], 80, 9, False)
        == 0
    )
    long = room_for_ends(["x" * 90], 80, 16, False)
    assert long == 21
    assert len(shorten("x" * 90, long - 1, False)) == 20


def test_fewer_labels_are_written_for_the_back_row_but_never_fewer_than_four_where_they_fit() -> None:
    assert [HALL.labels(most) for most in (1, 3, 4, 8, 20)] == [2, 3, 4, 4, 10]
    assert [DESK.labels(most) for most in (1, 3, 20)] == [2, 3, 20]


def test_methods_have_their_names_beside_them_where_they_are() -> None:
    window = Window(-1, 1, -1, 1)
    paths = [
        Path(np.array([[-1.0, 0.0], [0.0, 0.0]]), "G", 0, "gradient descent"),
        Path(np.zeros((1, 2)), "A", 1, "Adam"),
    ]
    sheet = contours(window, np.ones((20, 60)), paths, ascii=False, legibility=HALL)
    rows = ["".join(line) for line in sheet.characters.tolist()]
    assert any(" Adam " in row for row in rows)
    assert any(" gradient descent " in row for row in rows)
    narrow = empty(window, 3, 6)
    ends(narrow, paths, HALL)
    assert (narrow.shows == Shows.GROUND).all(), "a name that does not fit is left out"
    ends(narrow, paths, DESK)
    assert "A" in narrow.characters
