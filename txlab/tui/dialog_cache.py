"""Dialogs that are opened often are built once and reused.

Notable: composing the help, matching its styles and laying it out took 40 of the 60 ms until it was painted. Styles
depend on the theme, so each dialog is cached once per theme.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from textual.app import App
from textual.screen import Screen

Made = TypeVar("Made", bound=Screen[Any])


def put_in_front(
    app: App[Any],
    name: str,
    make: Callable[[], Made],
    begin: Callable[[Made], None],
    answered: Callable[[Any], None] | None = None,
) -> None:
    """Open the dialog called `name`: `make()` builds it the first time, `begin(dialog)` prepares it each time."""
    name = f"{name}, {app.theme}"
    if not app.is_screen_installed(name):
        app.install_screen(make(), name)
    dialog = cast(Made, app.get_screen(name))
    if dialog in app.screen_stack:
        return
    begin(dialog)
    app.push_screen(dialog, answered)
