"""Text on the screen: data, never markup."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from txlab.drawing.text import width

Parts = list[tuple[str, str]]
"""Pieces of a line, each with its style."""


def fitting(parts: Sequence[Content], cells: int) -> Content:
    """Return the parts one after the other, the most important first, up to the first that does not fit."""
    content = Content()
    for part in parts:
        if content.cell_length + part.cell_length > cells:
            break
        content += part
    return content or parts[0]


def style_parts(parts: Parts) -> Content:
    return Content.assemble(*(Content.styled(text, style) if style else Content(text) for text, style in parts))


def spread(left: Parts, groups: Sequence[Parts], cells: int) -> Content:
    """Put `left` on the left, and as many groups as fit at the right edge; the first ones are dropped first."""
    used = sum(width(text) for text, _ in left)
    kept = list(groups)
    while kept and used + 1 + sum(width(text) for group in kept for text, _ in group) > cells:
        kept = kept[1:]
    right = [part for group in kept for part in group]
    gap = cells - used - sum(width(text) for text, _ in right)
    return style_parts([*left, (" " * max(0, gap), ""), *right])


class Words(Static):
    """A Static that shows Content or plain text."""

    def __init__(self, text: Content | str = "", id: str | None = None, classes: str | None = None) -> None:
        self.text = Content(text) if isinstance(text, str) else text
        super().__init__(self.text, id=id, classes=classes, markup=False)

    def say(self, text: Content | str) -> None:
        """Show another text. An identical one sends nothing to the terminal, and one that needs as much room as before
        does not arrange the screen anew, which takes 10 ms."""
        content = Content(text) if isinstance(text, str) else text
        if content == self.text and content.spans == self.text.spans:
            return
        before = self.room_needed()
        self.text = content
        self.update(content, layout=False)
        after = self.room_needed()
        if self.display and (after is None or after != before):
            self.refresh(layout=True)

    def room_needed(self) -> tuple[int, int] | None:
        """The width and the height that the layout gives to the text because of its length; None = never arranged."""
        self.clear_cached_dimensions()
        size, styles = self.content_size, self.styles
        if not size.width:
            return None
        wide = self.get_content_width(size, size) if styles.is_auto_width else 0
        return wide, self.get_content_height(size, size, size.width) if styles.is_auto_height else 0
