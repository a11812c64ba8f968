"""Scatters: every point inside has its dot, labels are whole and never touch, the most wanted first."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.scatter import HEADS, Camera, Label, Shows, dots_of, ground, scatter, whole
from txlab.drawing.text import width

ODD = ["a", "word", "näive", "我们", "e\u0301te", "[/x][bold]", "\x1b[31m", "x" * 60, "👩‍👩‍👧", "\n"]


def joined(cells: list[str]) -> str:
    return "".join(cells)


@pytest.mark.parametrize("seed", range(40))
def test_labels_are_whole_apart_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, count = int(rng.integers(1, 40)), int(rng.integers(1, 120)), int(rng.integers(1, 300))
    points = rng.standard_normal((count, 2)) * rng.choice([1e-6, 1, 1e6])
    kinds = rng.choice([Shows.LABEL, Shows.NEAR, Shows.HERE], count)
    labels = [Label(row, str(rng.choice(ODD)), Shows(int(kinds[row]))) for row in range(count)]
    drawn = scatter(ground(points, whole(points), rows, columns), labels=labels, ascii=bool(seed % 2))
    assert all(len(line) == columns for line in drawn.characters)
    assert all(width(joined(line)) == columns for line in drawn.characters)
    if seed % 2:
        assert all(joined(line).isascii() for line in drawn.characters)
    for _row, (line, column) in drawn.places.items():
        assert 0 <= line < rows
        assert 0 <= column < columns
        first = next(each for each, place in drawn.places.items() if place == (line, column))
        assert drawn.shows[line, column] == labels[first].shows
    written = sum(1 for line in drawn.characters for cell in line if cell in "•o" and cell)
    assert written >= len(drawn.places)


def test_every_written_label_is_found_in_the_picture_as_often_as_it_is_written() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((200, 2))
    labels = [Label(row, f"<{row:03d}>") for row in range(200)]
    drawn = scatter(ground(points, whole(points), 30, 90), labels=labels)
    text = "\n".join(joined(line) for line in drawn.characters)
    assert 10 < len(drawn.places) < 200
    for row in range(200):
        assert text.count(f"<{row:03d}>") == (row in drawn.places)


def test_the_most_wanted_label_is_written_first() -> None:
    points = np.zeros((50, 2))
    labels = [Label(row, "same-place") for row in (17, *range(50))]
    drawn = scatter(ground(points, Camera(0, 0, 1, 1), 3, 30), labels=labels)
    assert next(iter(drawn.places)) == 17


def test_each_point_inside_is_counted_and_those_outside_are_not() -> None:
    points = np.array([[0.0, 0.0], [0.01, 0.0], [5.0, 5.0], [np.nan, 0.0]])
    drawn = scatter(ground(points, Camera(0, 0, 1, 1), 11, 22))
    assert drawn.inside == 2
    assert sum(cell != " " for line in drawn.characters for cell in line) in (1, 2)


def test_up_is_up_right_is_right_and_distances_are_true() -> None:
    camera = Camera(0, 0, 1, 1)
    middle, right, up = dots_of(np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]), camera, 20, 60)
    assert right[0] > middle[0]
    assert right[1] == middle[1]
    assert up[1] < middle[1]
    assert up[0] == middle[0]
    assert abs((right[0] - middle[0]) - (middle[1] - up[1])) <= 1


def test_the_camera_sees_all_but_a_few_outliers() -> None:
    points = np.random.default_rng(1).uniform(-1, 1, (10_000, 2))
    points[0] = (1e9, 0)
    seen = scatter(ground(points, whole(points), 40, 80))
    assert seen.inside >= 9_950
    assert whole(np.empty((0, 2))) == Camera(0, 0, 1, 1)
    assert whole(np.zeros((3, 2))).up > 0


def test_the_class_of_a_cell_is_that_of_its_most_important_point() -> None:
    points = np.zeros((3, 2))
    drawn = scatter(ground(points, Camera(0, 0, 1, 1), 5, 10, np.array([4, 2, 1])))
    assert drawn.classes.max() == 4


def test_arrows_point_to_their_end_and_paths_are_drawn() -> None:
    start, end = np.array([-0.9, 0.0]), np.array([0.9, 0.0])
    drawn = scatter(ground(np.stack([start, end]), Camera(0, 0, 1, 1), 9, 60), arrows=[(start, end)])
    line = joined(drawn.characters[4])
    assert line.rstrip()[-2] == "→"
    assert "→" in HEADS
    assert (drawn.shows[4] == Shows.ARROW).sum() > 15
    path = np.array([[-0.9, -0.9], [0.9, 0.9]])
    drawn = scatter(ground(np.stack([start, end]), Camera(0, 0, 1, 1), 9, 60), path=path)
    assert (drawn.shows == Shows.PATH).sum() > 8


def test_arrows_that_end_far_outside_take_no_time() -> None:
    start, end = np.array([0.0, 0.0]), np.array([1e300, -1e300])
    scatter(ground(np.stack([start, end]), Camera(0, 0, 1, 1), 9, 60), arrows=[(start, end)])
