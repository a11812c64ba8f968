"""The Tokens screen for tests: opened, idle, and showing a text."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from recorded import settle
from textual.pilot import Pilot

from txlab.tui.app import TxlabApp
from txlab.tui.screens.tokens.screen import TokensScreen
from txlab.tui.screens.tokens.token_view import TokensView
from txlab.tui.settings import Settings

MAIN = threading.main_thread()


def app_on(root: Path, ascii: bool = False, **settings: Any) -> TxlabApp:
    return TxlabApp(root=root, ascii=ascii, settings=Settings(**settings), screen="tokens")


def quiet(screen: TokensScreen) -> bool:
    """Whether nothing is being computed and the result is on the screen."""
    text = screen.text
    busy = text.encoding or not screen.training.quiet or text.source is not None
    return not busy and text.document is not None and text.choices == text.shown and bool(text.lanes)


def document_of(screen: TokensScreen) -> bytes | None:
    """The text on the screen."""
    return screen.text.document.data if screen.text.document is not None else None


async def opened(pilot: Pilot[None]) -> tuple[TokensScreen, TokensView]:
    """The Tokens screen, once it has learnt its first encoding and shows the sample."""
    await pilot.pause()
    await pilot.press("2")
    screen = pilot.app.screen
    assert isinstance(screen, TokensScreen)
    await settle(pilot, lambda: quiet(screen))
    return screen, screen.query_one("#view", TokensView)


async def show(pilot: Pilot[None], data: bytes, name: str = "test") -> None:
    screen = pilot.app.screen
    assert isinstance(screen, TokensScreen)
    screen.text.look_at_text(name, data)
    await settle(pilot, lambda: quiet(screen) and document_of(screen) == data)


def notices(app: TxlabApp) -> str:
    return "\n".join(str(notice.message) for notice in app._notifications)
