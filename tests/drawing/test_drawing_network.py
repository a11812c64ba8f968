"""Where the pictures of a network lie, and its wires."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.drawing.network import Wires, plan

COLUMNS = [["x", "y"], [f"a{place}" for place in range(8)], ["b0", "b1", "b2"]]


@pytest.mark.parametrize(("lines", "cells"), [(14, 48), (15, 48), (30, 72), (50, 120), (5, 30), (3, 12), (1, 4)])
def test_pictures_are_inside_and_do_not_overlap(lines: int, cells: int) -> None:
    found = plan(COLUMNS, lines, cells, 7, keep="a7")
    boxes = [(top, left, top + found.pitch, left + found.wide) for top, left in found.places.values()]
    for top, left, bottom, right in boxes:
        assert top >= 0
        assert bottom <= lines
        assert left >= 0
        assert right <= cells
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] < other[1] or other[3] < one[1]
    if lines >= 8 and cells >= 40:
        assert set(found.places) == {name for column in COLUMNS for name in column}
    elif cells > 12:
        assert "a7" in found.places


def test_pictures_are_as_large_as_fit() -> None:
    assert [plan(COLUMNS, lines, 72, 7).pitch for lines in (15, 16, 31, 32)] == [1, 2, 3, 4]
    assert plan(COLUMNS, 300, 48, 7).pitch == 4  # no room across for more


def test_a_wire_is_dashed_below_zero_and_double_if_strong() -> None:
    room = plan([["x"], ["a"]], 11, 60, 7)
    edges = [("x", "a"), ("a", "out")]

    def dots(weights: list[float]) -> int:
        characters, _ = Wires(room, edges, 5).draw(np.array(weights), np.array([False, False]))
        return sum(
            bin(ord(sign) - 0x2800).count("1") for sign in characters[:, : room.places["a"][1]].flat if sign != " "
        )

    strong, weak, below, nothing = dots([1.0, 0.0]), dots([0.2, 1.0]), dots([-0.2, 1.0]), dots([0.01, 1.0])
    assert strong > 1.5 * weak > 1.5 * below > 0 == nothing


def test_the_strongest_wire_is_on_top_but_for_a_chosen_one() -> None:
    room = plan([["x", "y"], ["a", "b"]], 11, 60, 7)
    wires = Wires(room, [("x", "b"), ("y", "a")], 5)  # they cross
    _, one = wires.draw(np.array([1.0, 0.0]), np.array([False, False]))
    _, other = wires.draw(np.array([0.0, 0.2]), np.array([False, False]))
    crossing = (one != 0) & (other != 0)
    assert crossing.any()
    _, roles = wires.draw(np.array([1.0, 0.2]), np.array([False, False]))
    assert 1 not in roles[crossing]
    _, roles = wires.draw(np.array([1.0, 0.2]), np.array([False, True]))
    assert 3 in roles[crossing]
    signs, _ = wires.draw(np.array([1.0, -0.5]), np.array([False, True]), ascii=True)
    assert set(signs.flat) == {" ", "-"}


def test_an_end_that_is_not_there_is_the_answer_at_the_right() -> None:
    room = plan([["x"]], 11, 40, 7)
    _, roles = Wires(room, [("x", "out"), ("gone", "out")], 9).draw(np.array([1.0, 1.0]), np.array([False, False]))
    assert roles[9, 39] == 2
    assert not roles[0].any()
