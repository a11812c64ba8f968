"""A function drawn: levels, positions, lines that leave the picture, ASCII."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.axis import Window
from txlab.drawing.plane import (
    BANDS,
    HERE,
    Graph,
    Path,
    Shows,
    bands,
    clip_line,
    contours,
    graph_sheet,
    ground,
    heights,
    places,
    sheet_lines,
    window_of,
)
from txlab.drawing.scatter import Camera

ROWS, COLUMNS = 12, 40


def bowl(f: object = lambda x, y: x**2 + y**2, *paths: Path, ascii: bool = False):  # type: ignore[no-untyped-def]
    window = window_of(Camera(0.0, 0.0, 2.0, 2.0), ROWS, COLUMNS)
    x, y = places(window, ROWS, COLUMNS)
    with np.errstate(all="ignore"):
        return contours(window, f(*np.meshgrid(x, y)), paths, ascii)  # type: ignore[operator]


def test_levels_rise_with_f_and_each_is_used() -> None:
    values = np.linspace(0, 4, 200)
    levels = bands(values)
    assert (np.diff(levels.astype(int)) >= 0).all()
    assert (levels[0], levels[-1]) == (0, BANDS - 1)
    assert (bands(values - 3) == levels).all()  # where f is 0 does not matter
    assert set(bands(np.random.default_rng(0).random((50, 50)) ** 4).ravel().tolist()) == set(range(BANDS))


def test_a_pole_does_not_swallow_the_levels_and_what_is_undefined_has_none() -> None:
    values = np.concatenate([np.linspace(1, 2, 400), [1e300, -np.inf, np.nan]])
    levels = bands(values)
    assert levels[-2:].tolist() == [-1, -1]
    assert len(set(levels[:400].tolist())) > BANDS / 2
    assert (bands(np.full((4, 4), 3.0)) == 0).all()
    assert (bands(np.full((4, 4), np.nan)) == -1).all()


def test_a_dot_is_as_wide_as_it_is_high_and_the_camera_sees_all_it_should() -> None:
    for rows, columns in ((10, 80), (40, 20)):
        window = window_of(Camera(1.0, -1.0, 3.0, 2.0), rows, columns)
        assert (window.right - window.left) / columns == pytest.approx((window.high - window.low) / rows / 2)
        assert window.left <= -2
        assert window.right >= 4
        assert window.low <= -3
        assert window.high >= 1


def test_the_ground_is_lowest_where_f_is_and_hatched_where_it_is_not_defined() -> None:
    sheet = bowl()
    assert sheet.levels[ROWS, COLUMNS // 2] == sheet.levels.min()
    assert sheet.levels[0, 0] == BANDS - 1
    half = bowl(lambda x, y: np.log(x) + 0 * y)
    assert (half.characters[:, : COLUMNS // 2] == "╱").all()
    assert (half.shows[:, COLUMNS // 2 + 1 :] == Shows.GROUND).all()


def test_a_path_is_drawn_from_its_start_to_the_letter_at_its_end() -> None:
    points = np.array([[-0.95, -0.9], [0.05, 0.45], [1.0, 1.0]])
    sheet = bowl(lambda x, y: x + y, Path(points, "G", 3))
    row, column = sheet.cell_of(1.0, 1.0)
    assert sheet.characters[row, column] == "G"
    assert sheet.shows[row, column] == HERE + 3
    for x, y in points[:-1].tolist():
        assert sheet.shows[sheet.cell_of(x, y)] == 3


def test_letters_in_one_place_are_side_by_side_and_those_outside_at_the_edge() -> None:
    here = np.array([[0.0, 0.0]])
    paths = [Path(here, letter, number) for number, letter in enumerate("GMA")]
    sheet = bowl(lambda x, y: x + y, *paths, Path(np.array([[0.0, 0.0], [50.0, 0.0]]), "N", 5))
    row, column = sheet.cell_of(0.0, 0.0)
    assert {"G", "M", "A"} <= set(sheet.characters[row, column - 2 : column + 3].tolist())
    assert sheet.characters[row, -1] == "N"


def test_lines_are_cut_at_the_edge_however_far_they_go() -> None:
    far = np.array([[5.0, 5.0], [5.0, 1e300], [-1e300, 3.0], [np.nan, 1.0], [2.0, 2.0], [1e8, 2.0]])
    cut = clip_line(far, 80, 40)
    seen = cut[np.isfinite(cut).all(1)]
    assert (seen >= -1).all()
    assert (seen <= [80, 40]).all()
    assert [5.0, 40.0] in seen.tolist()
    assert [80.0, 2.0] in seen.tolist()
    through = clip_line(np.array([[-10.0, -5.0], [90.0, 45.0]]), 80, 40)  # y = x / 2, both ends outside
    assert through[:2].tolist() == [[-1.0, -0.5], [80.0, 40.0]]
    assert not np.isfinite(clip_line(np.array([[-10.0, 50.0], [90.0, 60.0]]), 80, 40)).any()


def test_a_graph_has_its_axis_its_tangent_and_its_points() -> None:
    x = np.linspace(-2, 2, 160)
    path = Path(np.array([[-1.0, -1.0], [1.5, 0.25]]), "R", 1)
    graph = Graph(x, x**2 - 2, (1.5, 0.25), 3.0)
    sheet = graph_sheet(Window(-2, 2, -2.5, 2.5), graph, [path], 20, 60, False)
    for shows in (Shows.AXIS, Shows.CURVE, Shows.TANGENT, 1, HERE + 1):
        assert (sheet.shows == shows).any(), shows
    row, column = sheet.cell_of(1.5 - 0.25 / 3, 0.0)  # where the tangent meets the axis
    assert Shows.TANGENT in sheet.shows[row, column - 1 : column + 2]
    assert sheet.characters[sheet.cell_of(-1.0, -1.0)] == "●"


def test_the_heights_of_a_graph_leave_its_poles_out_and_keep_the_axis_if_it_is_near() -> None:
    x = np.linspace(-1, 1, 400)
    low, high = heights(Graph(x, 1 / x), [])
    assert -100 < low < -5
    assert 5 < high < 100
    assert heights(Graph(x, x**2 + 0.1), [])[0] <= 0
    assert heights(Graph(x, np.full(400, np.nan)), [])[0] < heights(Graph(x, np.full(400, np.nan)), [])[1]
    assert heights(Graph(x, np.full(400, 7.0)), [])[0] < heights(Graph(x, np.full(400, 7.0)), [])[1]


@pytest.mark.parametrize("filled", [True, False])
def test_in_ascii_everything_is_ascii_and_every_level_can_be_told(filled: bool) -> None:
    path = Path(np.array([[-1.0, -1.0], [1.0, 1.0]]), "G", 0)
    sheet = bowl(lambda x, y: np.where(x > -1.5, x**2 + y**2, np.nan), path, ascii=True)
    text = "\n".join("".join(piece[0] for piece in line) for line in sheet_lines(sheet, True, filled, (3, 3)))
    assert text.isascii()
    assert {"g", "G", "/", "+", ".", ":", "-", "="} <= set(text)


def test_lines_are_as_wide_as_the_sheet_and_halves_of_cells_have_separate_levels() -> None:
    sheet = bowl(lambda x, y: y)
    lines = sheet_lines(sheet, False, True)
    assert len({sum(len(text) for text, *_ in line) for line in lines}) == 1
    assert len(lines) == ROWS + 2
    halves = {(upper, lower) for line in lines for text, shows, upper, lower in line if "▀" in text}
    assert halves
    assert all(upper != lower for upper, lower in halves)


def test_the_ground_has_a_colour_for_each_level_where_there_are_enough() -> None:
    for dark in (True, False):
        for colours in ("truecolor", "256"):
            found = ground(colours, dark)  # type: ignore[arg-type]
            assert found is not None
            assert len(found) == BANDS
        assert ground("16", dark) is None
