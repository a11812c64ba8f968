"""What would make the first switch to a screen, or the first dialog, slow: done in idle moments after the first paint.

Notable: modules are imported in a thread; style sheets are read all at once, since Textual parses every one of them
again, and matches every style, when another is added (20 ms each); screens are built one at a time with pauses in
which keys are answered. Who is faster than that waits once, as long as without all this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events

from txlab.tui.screen_registry import ROOMS

if TYPE_CHECKING:
    from textual.screen import Screen

    from txlab.tui.app import TxlabApp

BEGIN = 0.4  # seconds after the first paint
PAUSE = 0.1  # seconds between two pieces of work
DIALOGS = ("screens.dialogs", "screens.help", "screens.lab.overrides", "screens.lab.why", "widgets.why")


def import_all() -> None:
    for room in ROOMS:
        import_module(f"txlab.tui.screens.{room.where.partition(':')[0]}")
    for module in DIALOGS:
        import_module(f"txlab.tui.{module}")


def style_sheets() -> Iterator[Path]:
    """Those beside the screens."""
    yield from sorted((Path(__file__).parent / "screens").rglob("*.tcss"))


async def warm(app: TxlabApp) -> None:
    """Make ready what the next keys may ask for."""
    await asyncio.sleep(BEGIN)
    await asyncio.to_thread(import_all)
    unread = [path for path in style_sheets() if not app.stylesheet.has_source(str(path), "")]
    for path in unread:
        app.stylesheet.read(path)
    app.stylesheet.reparse()
    for stack in list(app._screen_stacks.values()):
        for screen in stack:
            match_styles(app, screen)
    for room in ROOMS:
        await asyncio.sleep(PAUSE)
        if app.is_running:
            build(app, room.name)


def match_styles(app: TxlabApp, screen: Screen[Any]) -> None:
    """Unless they are those of now; else the next switch to the screen would do it, and for every other screen too."""
    if screen._css_update_count != app._css_update_count:
        app.stylesheet.update(screen, animate=False)
        screen._css_update_count = app._css_update_count


def build(app: TxlabApp, name: str) -> None:
    """A screen that nobody has opened yet, ready behind the others; as `App.switch_mode` makes one, without showing it,
    and without matching the styles of all others again."""
    if name in app._screen_stacks:
        return
    screen, _ = app._get_screen(next(room for room in ROOMS if room.name == name).open())
    app._screen_stacks[name] = [screen]
    app._load_screen_css(screen)
    match_styles(app, screen)
    screen.post_message(events.ScreenResume())
    screen.post_message(events.ScreenSuspend())
