"""The Play screen as tests have it: opened without the Arena, and played on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import settle
from textual import events
from textual.pilot import Pilot

from txlab.tui.app import TxlabApp
from txlab.tui.screens.play.screen import PlayScreen
from txlab.tui.settings import Settings
from txlab.tui.widgets.board import Board


def app_on(root: Path, ascii: bool = False, **settings: Any) -> TxlabApp:
    return TxlabApp(root=root, ascii=ascii, settings=Settings(**settings), screen="play")


async def opened(pilot: Pilot[None]) -> PlayScreen:
    """The screen on an empty board, when the game is solved and the user may move."""
    app = pilot.app
    await pilot.pause()
    await app.switch_mode("play")
    screen = app.screen
    assert isinstance(screen, PlayScreen)
    await settle(pilot, lambda: screen.game.your_move)
    if screen.game.playing.moves:  # it opens where values differ
        await pilot.press("c")
        await settle(pilot, lambda: screen.game.your_move and not screen.game.playing.moves)
    return screen


async def put(pilot: Pilot[None], square: int) -> None:
    """Press enter on a square."""
    screen = pilot.app.screen
    assert isinstance(screen, PlayScreen)
    screen.query_one("#board", Board).go(square)
    await pilot.press("enter")


async def walk(pilot: Pilot[None], square: int) -> None:
    """Go to a square with the arrows."""
    board = pilot.app.screen.query_one("#board", Board)
    while board.cursor != square:
        (row, column), (to_row, to_column) = divmod(board.cursor, 3), divmod(square, 3)
        sideways = "right" if column < to_column else "left"
        await pilot.press("down" if row < to_row else "up" if row > to_row else sideways)


async def answered(pilot: Pilot[None]) -> None:
    """Wait until it is the user's move again, or the game has ended."""
    screen = pilot.app.screen
    assert isinstance(screen, PlayScreen)
    await settle(pilot, lambda: screen.game.your_move or screen.game.ended)


async def choose(pilot: Pilot[None], words: str) -> None:
    """Choose in the dialog in front the first line with these words."""
    await settle(pilot, lambda: len(pilot.app.screen_stack) > 1)
    await pilot.press(*("space" if letter == " " else letter for letter in words))
    await pilot.press("enter")
    await pilot.pause()


async def type_on(pilot: Pilot[None], *keys: str) -> None:
    """Keys while a thread works: the pilot's own wait until the process rests, which it does not."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.05)
