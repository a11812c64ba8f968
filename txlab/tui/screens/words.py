"""Text on the screen: data, never markup, and in ASCII mode without the signs that ASCII lacks."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from txlab.drawing.text import width
from txlab.tui.theme import plain_signs

Parts = list[tuple[str, str]]
"""Pieces of a line, each with its style."""


def fitting(parts: Sequence[Content], cells: int) -> Content:
    """Return the parts one after the other, the most important first, up to the first one that has no room."""
    said = Content()
    for part in parts:
        if said.cell_length + part.cell_length > cells:
            break
        said += part
    return said or parts[0]


def styled(parts: Parts) -> Content:
    return Content.assemble(*(Content.styled(text, style) if style else Content(text) for text, style in parts))


def spread(left: Parts, groups: Sequence[Parts], cells: int) -> Content:
    """Put `left` on the left, and as many groups as fit at the right edge; the first ones are dropped first."""
    used = sum(width(text) for text, _ in left)
    kept = list(groups)
    while kept and used + 1 + sum(width(text) for group in kept for text, _ in group) > cells:
        kept = kept[1:]
    right = [part for group in kept for part in group]
    gap = cells - used - sum(width(text) for text, _ in right)
    return styled([*left, (" " * max(0, gap), ""), *right])


class Words(Static):
    """A Static that shows Content or plain text."""

    def __init__(self, text: Content | str = "", id: str | None = None, classes: str | None = None) -> None:
        self.text = Content(text) if isinstance(text, str) else text
        super().__init__(self.text, id=id, classes=classes, markup=False)

    def on_mount(self) -> None:
        if getattr(self.app, "ascii", False):
            self.show(layout=True)

    def say(self, text: Content | str, layout: bool = True) -> None:
        """Show another text; an identical one sends nothing to the terminal."""
        content = Content(text) if isinstance(text, str) else text
        if content == self.text and content.spans == self.text.spans:
            return
        self.text = content
        self.show(layout)

    def show(self, layout: bool) -> None:
        shown = self.text
        if getattr(self.app, "ascii", False):
            shown = Content(plain_signs(shown.plain, True), spans=list(shown.spans))
        self.update(shown, layout=layout)
