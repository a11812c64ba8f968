"""The board widget with the boards of all games: it shows them whole, finds the place of a click, and tells colours'
meanings by shape where there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from picture import strips_of, text_of

from txlab.drawing.boards import BoardView, next_places, place_at
from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import FIRST
from txlab.tui.widgets.board import Board

BACKGAMMON = BoardView(backgammon, (FIRST, (3, 1), *backgammon.start()[2:]), cursor=5, chosen=(7,))  # type: ignore[arg-type]
CONNECT_FOUR = BoardView(
    connect_four,  # type: ignore[arg-type]
    connect_four.play((3, 3, 2)),
    cursor=3,
    values={column: column / 3 - 1 for column in range(7)},
    shares=dict.fromkeys(range(7), 1 / 7),
    before=connect_four.play((3, 3)),
    last=2,
)
TICTACTOE = BoardView(tictactoe, tictactoe.start(), cursor=4, values={0: 0.5, 8: -1.0}, hinted=[0])  # type: ignore[arg-type]
VIEWS = {"backgammon": BACKGAMMON, "connect-four": CONNECT_FOUR, "tictactoe": TICTACTOE}


class Listening(Board):
    """Keeps what it reports."""

    def __init__(self, view: BoardView) -> None:
        super().__init__()
        self.view, self.chosen = view, []  # type: ignore[var-annotated]

    def on_board_place_chosen(self, event: Board.PlaceChosen) -> None:
        self.chosen.append(event.place)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_a_click_on_a_place_chooses_it(name: str, size: tuple[int, int], host: Callable[..., object]) -> None:
    board = Listening(VIEWS[name])
    app = host(board)
    async with app.run_test(size=size) as pilot:  # type: ignore[attr-defined]
        await pilot.pause()
        wanted = list(next_places(VIEWS[name]))
        for place in wanted:
            left, top = board.corner
            spots = [
                (x, y)
                for y in range(size[1])
                for x in range(size[0])
                if place_at(board.pieces, x - left, y - top) == place
            ]
            await pilot.click(Board, offset=spots[len(spots) // 2])
            assert board.cursor == place
        assert board.chosen == wanted
        board.choose()
        await pilot.pause()
        assert board.chosen[-1] == wanted[-1]


@pytest.mark.parametrize("name", VIEWS)
async def test_a_board_is_centred_and_whole_and_follows_the_size(name: str, host: Callable[..., object]) -> None:
    board = Board()
    board.show(VIEWS[name])
    async with host(board).run_test(size=(100, 30)) as pilot:  # type: ignore[attr-defined]
        for size in ((100, 30), (70, 20), (140, 45)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            lines = ["".join(piece.text for piece in line) for line in board.pieces]
            shown = text_of(pilot.app).splitlines()
            left, top = board.corner
            for y, line in enumerate(lines):
                assert shown[top + y] == (" " * left + line).rstrip()
            assert abs((size[0] - len(lines[0])) - 2 * left) <= 1


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", ["truecolor", "256", "16", "none"])
async def test_signs_of_both_players_are_seen_on_every_ground(
    colours: str, dark: bool, host: Callable[..., object]
) -> None:
    """No cell with a sign has the ink of its own ground."""
    for view in VIEWS.values():
        board = Board()
        board.show(replace(view, chosen=()))
        async with host(board, colours=colours, dark=dark).run_test(size=(120, 40)) as pilot:  # type: ignore[attr-defined]
            await pilot.pause()
            for strip in strips_of(pilot.app):
                for segment in strip:
                    style = segment.style
                    if segment.text.strip(" ·█") and style is not None and colours != "none":
                        assert style.color != style.bgcolor, segment


async def test_few_colours_leave_texture_where_tones_would_be(host: Callable[..., object]) -> None:
    board = Board()
    board.show(BoardView(backgammon, (FIRST, (), (0,) * 25, (0,) * 25)))  # type: ignore[arg-type]
    async with host(board, colours="16").run_test(size=(80, 24)) as pilot:  # type: ignore[attr-defined]
        await pilot.pause()
        text = text_of(pilot.app)
        assert "░" in text
        assert "█" not in text.replace("▌", "")
