"""Panels: the parts that a screen is composed of, each with its keys and its duty.

Notable: Textual looks for a key's binding from the focused widget upwards, so the keys of a panel beside the focus
would not be found. A screen that names its panels in PANELS therefore takes their bindings over, with the same ids, and
hands the action back to the panel: keys work wherever the focus is, and remapping, help and palette see ordinary
bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.worker import Worker

from txlab.drawing.text import visible

ROUTED = "panel"  # the action of a screen that hands another one to a panel


class Panel(Widget, can_focus=False):
    """A part of a screen. Its actions are its own methods `action_…`; `check_action` says which can be done now.

    A panel without anything to show has `display: none` in its DEFAULT_CSS; its keys work all the same.
    """

    KEYS: ClassVar[Sequence[Binding]] = ()
    """Its bindings, each with an id."""

    def word_for(self, binding: Binding) -> str:
        """What the bottom line says that a key of this panel does now; "" leaves the key out of it."""
        return binding.description

    def seen(self) -> None:
        """Its screen has come to the front."""

    def unseen(self) -> None:
        """Its screen has gone behind another one."""

    @on(Worker.StateChanged)
    def pass_on_failed_worker(self, event: Worker.StateChanged) -> None:
        """Messages of workers do not bubble, and it is the screen that reports what one has failed with."""
        report = getattr(self.screen, "report_failed_worker", None)
        if report is not None:
            report(event)

    def tell(self, sentence: str, severity: SeverityLevel = "information") -> None:
        """One line on the screen; `sentence` is data, never markup."""
        self.app.notify(visible(sentence), severity=severity, markup=False)


def with_keys_of(panels: Iterable[type[Panel]], own: Sequence[BindingType], order: Sequence[str]) -> list[BindingType]:
    """A screen's own bindings and those of its panels, first the ids named in `order`, then as they come.

    Of two bindings of one key the first whose action is allowed is taken, so the order decides there as well.
    """
    found: list[BindingType] = [*own]
    for panel in panels:
        found += [replace(key, action=f"{ROUTED}({panel.__name__!r}, {key.action!r})") for key in panel.KEYS]
    places = {ident: place for place, ident in enumerate(order)}

    def place(key: BindingType) -> int:
        return places.get((key.id if isinstance(key, Binding) else None) or "", len(places))

    return sorted(found, key=place)


class Panels:
    """The panels of one screen by the names of their classes, found when they are first asked for."""

    def __init__(self, screen: DOMNode) -> None:
        self.screen = screen
        self.found: dict[str, Panel] = {}

    def named(self, name: str) -> Panel | None:
        if name not in self.found and self.screen.is_attached:
            self.found = {type(panel).__name__: panel for panel in self.screen.query(Panel)}
        return self.found.get(name)

    def allows(self, name: str, action: str) -> bool | None:
        """Whether a panel can do this now; see DOMNode.check_action."""
        panel = self.named(name)
        if panel is None:
            return False
        _, method, parameters = parse(action)
        return panel.check_action(method, parameters)

    def of_binding(self, binding: Binding) -> Panel | None:
        """The panel that a screen's binding was taken over from."""
        _, action, parameters = parse(binding.action)
        return self.named(str(parameters[0])) if action == ROUTED else None
