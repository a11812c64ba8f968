"""Panels: the parts that a screen is composed of, each with its own keys and responsibility.

Notable: Textual looks for a key's binding from the focused widget upwards, so the keys of a panel without the focus
would not be found. A screen therefore takes over the bindings of the panels in PANELS, with the same ids, and routes
the actions back to them: keys work independently of the focus, and remapping, help and the palette see ordinary
bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import ClassVar, Protocol, runtime_checkable

from textual import on
from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.worker import Worker

from txlab.drawing.text import visible

ROUTED = "panel"  # the action by which a screen routes another one to a panel


@runtime_checkable
class NamesKeys(Protocol):
    def word_for(self, binding: Binding) -> str:
        """Return the current label of a key on the bottom line; "" hides the key."""


@runtime_checkable
class ReportsFailures(Protocol):
    def report_failed_worker(self, event: Worker.StateChanged) -> None: ...


def labels_of(screen: object) -> Callable[[Binding], str]:
    """Return how a screen calls its keys now; of a dialog, their descriptions."""
    return screen.word_for if isinstance(screen, NamesKeys) else attrgetter("description")


class Panel(Widget, can_focus=False):
    """A part of a screen. Its actions are its own `action_…` methods; `check_action` says which are possible now.

    A panel with nothing to show has `display: none` in its DEFAULT_CSS; its keys still work.
    """

    KEYS: ClassVar[Sequence[Binding]] = ()
    """Its bindings, each with an id."""

    def word_for(self, binding: Binding) -> str:
        """Return the current label of a key on the bottom line; "" hides the key."""
        return binding.description

    def come_to_front(self) -> None:
        """Called when its screen comes to the front."""

    def unseen(self) -> None:
        """Called when its screen is covered or left."""

    @on(Worker.StateChanged)
    def pass_on_failed_worker(self, event: Worker.StateChanged) -> None:
        """Pass a worker's message on to the screen, which reports failures: these messages do not bubble."""
        if isinstance(self.screen, ReportsFailures):
            self.screen.report_failed_worker(event)

    def tell(self, sentence: str, severity: SeverityLevel = "information") -> None:
        """One line on the screen; `sentence` is data, never markup."""
        self.app.notify(visible(sentence), severity=severity, markup=False)


def with_keys_of(panels: Iterable[type[Panel]], own: Sequence[BindingType], order: Sequence[str]) -> list[BindingType]:
    """Return the bindings of a screen and its panels: first the ids in `order`, then the rest in their order.

    If two bindings share a key, the first whose action is allowed wins, so the order decides there as well.
    """
    bindings: list[BindingType] = [*own]
    for panel in panels:
        bindings += [replace(key, action=f"{ROUTED}({panel.__name__!r}, {key.action!r})") for key in panel.KEYS]
    places = {ident: place for place, ident in enumerate(order)}

    def place(key: BindingType) -> int:
        return places.get((key.id if isinstance(key, Binding) else None) or "", len(places))

    return sorted(bindings, key=place)
