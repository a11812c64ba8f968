"""What the parts of the console that are not screens use of the app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual import events
from textual.filter import LineFilter

from txlab.tui.key_order import KeyOrder
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.textual_internals import QuietApp

if TYPE_CHECKING:
    from textual.reactive import reactive


class Lecturing(Protocol):
    """A lecture that is being played or recorded. Its methods without arguments are its keys."""

    def admits(self, event: events.InputEvent) -> bool:
        """Whether a key or the mouse is handled now."""

    def settings_of(self, scenario: str) -> list[str]:
        """Return the settings with which a run of a scenario is started by hand."""

    def forward(self) -> None: ...
    def back(self) -> None: ...
    def toggle_notes(self) -> None: ...
    def leave(self) -> None: ...


class Console(QuietApp):
    """entries  all screens                  key_order  the keys that wait
    lecture  that is played or recorded    pointed    draws the words that it points at
    hall     whether screens are drawn for the back row of a hall; begins_in_hall: the setting
    """

    entries: list[ScreenEntry]
    key_order: KeyOrder
    current_run: reactive[Path | None]
    current_formula: reactive[str]
    hall: reactive[bool]
    begins_in_hall: bool = False
    lecture: Lecturing | None = None
    pointed: LineFilter | None = None

    @property
    def root(self) -> Path:
        """The folder of runs."""
        raise NotImplementedError

    def report(self, error: BaseException) -> None:
        """Show an error in one line."""
        raise NotImplementedError
