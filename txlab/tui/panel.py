"""Panels: the parts that a screen is composed of, each with its own keys and responsibility.

Notable: Textual looks for a key's binding from the focused widget upwards, so the keys of a panel beside the focus
would not be found. A screen therefore takes over the bindings of the panels in PANELS, with the same ids, and routes
the actions back to them: keys work wherever the focus is, and remapping, help and the palette see ordinary bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.worker import Worker

from txlab.drawing.text import visible

ROUTED = "panel"  # the action by which a screen routes another one to a panel


class Panel(Widget, can_focus=False):
    """A part of a screen. Its actions are its own `action_…` methods; `check_action` says which are possible now.

    A panel with nothing to show has `display: none` in its DEFAULT_CSS; its keys still work.
    """

    KEYS: ClassVar[Sequence[Binding]] = ()
    """Its bindings, each with an id."""

    def word_for(self, binding: Binding) -> str:
        """Return the current label of a key on the bottom line; "" hides the key."""
        return binding.description

    def seen(self) -> None:
        """Called when its screen comes to the front."""

    def unseen(self) -> None:
        """Called when its screen is covered or left."""

    @on(Worker.StateChanged)
    def pass_on_failed_worker(self, event: Worker.StateChanged) -> None:
        """Pass a worker's message on to the screen, which reports failures: these messages do not bubble."""
        report = getattr(self.screen, "report_failed_worker", None)
        if report is not None:
            report(event)

    def tell(self, sentence: str, severity: SeverityLevel = "information") -> None:
        """One line on the screen; `sentence` is data, never markup."""
        self.app.notify(visible(sentence), severity=severity, markup=False)


def with_keys_of(panels: Iterable[type[Panel]], own: Sequence[BindingType], order: Sequence[str]) -> list[BindingType]:
    """Return a screen's own bindings and those of its panels: first the ids in `order`, then the rest as they come.

    If two bindings share a key, the first whose action is allowed wins, so the order decides there as well.
    """
    found: list[BindingType] = [*own]
    for panel in panels:
        found += [replace(key, action=f"{ROUTED}({panel.__name__!r}, {key.action!r})") for key in panel.KEYS]
    places = {ident: place for place, ident in enumerate(order)}

    def place(key: BindingType) -> int:
        return places.get((key.id if isinstance(key, Binding) else None) or "", len(places))

    return sorted(found, key=place)
