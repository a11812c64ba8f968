"""Keys and their words: a sentence in the help, a label in the bottom line, synonyms in the palette, a heading.

Notable: Textual copies a `Binding` field by field and drops what a subclass adds, so the sentence travels as its
`tooltip`, the heading and the synonyms as its `group`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from textual.actions import ActionError, ActionParseResult, parse
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from txlab.tui.panel import labels_of

TRIES = 5  # to parse an action
THIS_SCREEN, MOVING, EVERYWHERE = HEADINGS = "This screen", "Moving", "Everywhere"


@lru_cache(maxsize=1024)
def parse_action(action: str) -> ActionParseResult:
    """Parse an action as Textual does, but try again if CPython could not: it raises SystemError if another thread
    builds a syntax tree at the same time (gh-106905), as any import may.

    ActionError if the action has no valid syntax.
    """
    for _ in range(TRIES - 1):
        with suppress(ActionError):
            return parse(action)
        time.sleep(0.001)
    return parse(action)


@dataclass(frozen=True)
class Listing(Binding.Group):
    """Where a key is listed: `description` is the heading; the palette also finds it by the words in `synonyms`."""

    synonyms: str = ""


def bind(
    keys: str,
    action: str,
    sentence: str,
    label: str = "",
    *,
    id: str,
    heading: str = THIS_SCREEN,
    synonyms: str = "",
    key_display: str | None = None,
    priority: bool = False,
) -> Binding:
    """Return a binding with its words.

    keys      one key, or several separated by commas
    sentence  in the help and the palette
    label     in the bottom line; without one, the key is not shown there
    id        area and action, "train.set", by which config.toml changes the keys
    """
    group = Listing(heading, synonyms=synonyms)
    return Binding(keys, action, label or sentence, bool(label), key_display, priority, sentence, id, group=group)


WHY = bind("w", "why", "why is this number what it is?", "why", id="screen.why", synonyms="explain formula")
PICTURE = bind(
    "s",
    "picture",
    "save a picture of this screen (SVG)",
    id="screen.picture",
    heading=EVERYWHERE,
    synonyms="screenshot export svg",
)
PALETTE = bind("colon", "palette", "find a command by its name", "commands", id="screen.palette", heading=EVERYWHERE)


class ActiveKey(NamedTuple):
    """A key that does something now."""

    node: DOMNode
    binding: Binding
    display: str
    """How the key is written."""
    label: str
    """Its label now; "" hides it in the bottom line."""

    @property
    def sentence(self) -> str:
        """What the help and the palette say: the label, if it is not the usual one now."""
        if self.label and self.label != self.binding.description:
            return self.label
        return self.binding.tooltip or self.binding.description

    @property
    def heading(self) -> str:
        given = self.binding.group.description if self.binding.group else ""
        return given if given in HEADINGS else THIS_SCREEN

    @property
    def synonyms(self) -> str:
        return self.binding.group.synonyms if isinstance(self.binding.group, Listing) else ""


def active_keys(screen: Screen[Any]) -> list[ActiveKey]:
    """Return the keys that do something on a screen now: first its own, in the order of their declaration."""
    order = {binding.id: place for place, binding in enumerate(type(screen).__dict__.get("BINDINGS", []))}
    label = labels_of(screen)
    keys = [
        ActiveKey(node, binding, binding.key_display or screen.app.get_key_display(binding), label(binding))
        for node, binding, enabled, _ in screen.active_bindings.values()
        if enabled and binding.description
    ]
    return sorted(keys, key=lambda key: order.get(key.binding.id, len(order)))
