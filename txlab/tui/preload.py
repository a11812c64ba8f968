"""Work that would slow down the first switch to a screen or the first dialog, done in idle moments after start-up.

Notable: modules are imported in a thread. Style sheets are read in one batch, since Textual parses all of them again,
and matches every style, whenever one is added (20 ms each). Screens are built one at a time, with pauses in which keys
are answered. A key that comes before its screen is ready waits once, as it would without preloading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.app import App

from txlab.errors import LabError
from txlab.plugins import import_in_turn
from txlab.tui.screen_registry import SCREENS, ScreenEntry, installed_screens
from txlab.tui.textual_internals import make_ready, read_style_sheets

BEGIN = 0.4  # seconds after the first paint
PAUSE = 0.1  # seconds between two steps
DIALOGS = ("screens.dialogs", "screens.help", "screens.lab.overrides", "screens.lab.why", "widgets.why")


def import_all() -> None:
    for screen in SCREENS:
        screen.load()
    for module in DIALOGS:
        import_in_turn(f"txlab.tui.{module}")


async def prepare_screens(
    app: App[None], add: Callable[[Sequence[ScreenEntry]], None], report: Callable[[LabError], None]
) -> None:
    """Prepare screens and dialogs for the next keys; `add` takes the screens of other packages."""
    await asyncio.sleep(BEGIN)
    try:
        add(await asyncio.to_thread(lambda: list(installed_screens())))
    except LabError as error:
        report(error)
    await asyncio.to_thread(import_all)
    read_style_sheets(app, sorted((Path(__file__).parent / "screens").rglob("*.tcss")))
    for screen in SCREENS:
        await asyncio.sleep(PAUSE)
        if app.is_running:
            make_ready(app, screen.name, screen.open)
