"""Dialogs that are opened often are made once and put in front again.

Notable: composing the help, matching its styles and laying it out took 40 of the 60 ms until it was painted. Styles
are those of a theme, so there is one of each for every theme in which it was asked for.
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
    """Open the dialog of that name: `make()` the first time, and `begin(dialog)` each time before it comes."""
    name = f"{name}, {app.theme}"
    if not app.is_screen_installed(name):
        app.install_screen(make(), name)
    dialog = cast(Made, app.get_screen(name))
    if dialog in app.screen_stack:
        return
    begin(dialog)
    app.push_screen(dialog, answered)
