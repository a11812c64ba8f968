"""The board in characters: what is on it can be read without colour, at every size and in ASCII, and nothing is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.drawing.palette import rgb_to_oklab
from txlab.drawing.text import width
from txlab.drawing.tictactoe import Square, board_size, cell_size, lines_of_board, tint

MIXED = [
    Square("X", order="1", won=True), Square("O", order="2"), Square(number="−.31", note="loses in 4", merit=-0.31),
    Square(number="+.62", merit=0.62), Square("X", won=True), Square("O", last=True),
    Square(), Square(number=".00", note="draws", hinted=True), Square("X", won=True, order="5"),
]  # fmt: skip


def drawn(squares: list[Square], cell: tuple[int, int], ascii: bool = False) -> list[str]:
    return ["".join(piece.text for piece in line) for line in lines_of_board(squares, cell, ascii)]


@given(st.integers(1, 230), st.integers(1, 70), st.booleans(), st.integers(0, 8))
def test_every_size_gives_a_board_of_just_that_size(columns: int, rows: int, ascii: bool, here: int) -> None:
    cell = cell_size(columns, rows)
    size = board_size(cell)
    if columns >= 5 and rows >= 5:
        assert size[0] <= columns
        assert size[1] <= rows
    squares = [replace(square, here=place == here) for place, square in enumerate(MIXED)]
    lines = drawn(squares, cell, ascii)
    assert len(lines) == size[1]
    assert {width(line) for line in lines} == {size[0]}
    assert not ascii or "".join(lines).isascii()


@pytest.mark.parametrize("cell", [(5, 1), (7, 3), (11, 5), (15, 7), (19, 9), (23, 11)])
def test_numbers_are_whole_and_x_and_o_look_different(cell: tuple[int, int]) -> None:
    text = "\n".join(drawn(MIXED, cell))
    assert "−.31" in text
    assert "+.62" in text
    marks = [drawn([Square(sign)] * 9, cell) for sign in ("X", "O", "")]
    assert marks[0] != marks[1] != marks[2] != marks[0]


def test_what_won_is_underlined_and_nothing_else_is() -> None:
    for cell in ((7, 3), (11, 5), (23, 11)):
        pieces = [piece for line in lines_of_board(MIXED, cell) for piece in line if piece.kind == "under"]
        assert {piece.square for piece in pieces} == {0, 4, 8}


def test_the_cursor_and_the_hint_are_seen_without_colour() -> None:
    for ascii in (False, True):
        for cell in ((5, 1), (7, 3), (11, 5)):
            empty = [Square()] * 9
            here = [replace(square, here=place == 4) for place, square in enumerate(empty)]
            hinted = [replace(square, hinted=place == 4) for place, square in enumerate(empty)]
            assert len({tuple(drawn(squares, cell, ascii)) for squares in (empty, here, hinted)}) == 3


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_good_and_bad_are_different_hues_and_grow_stronger(colours: str, dark: bool) -> None:
    for sign in (1, -1):
        fills = [tint(sign * size, colours, dark)[0] for size in (0.25, 0.5, 0.75, 1.0)]  # type: ignore[arg-type]
        lightness = [rgb_to_oklab(fill)[0] for fill in fills if fill is not None]
        assert len(lightness) == 4
        assert lightness == sorted(lightness, reverse=not dark)
    good, bad = (rgb_to_oklab(tint(value, colours, dark)[0]) for value in (1.0, -1.0))  # type: ignore
    assert good[2] > 0 > bad[2]  # yellow against blue: told apart by the colour-blind too
    assert tint(0.0, colours, dark) == (None, None)  # type: ignore[arg-type]


def test_numbers_can_be_read_on_every_colour() -> None:
    for colours in ("truecolor", "256"):
        for dark in (True, False):
            for step in range(-20, 21):
                fill, front = tint(step / 20, colours, dark)  # type: ignore[arg-type]
                if fill is not None and front is not None:
                    assert abs(rgb_to_oklab(fill)[0] - rgb_to_oklab(front)[0]) > 0.3
