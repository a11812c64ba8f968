"""Text on the screen: data, never markup, and in ASCII mode without the signs that ASCII lacks."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from txlab.tui.theme import plain_signs


def fitting(parts: Sequence[Content], cells: int) -> Content:
    """Return the parts one after the other, the most important first, up to the first one that has no room."""
    said = Content()
    for part in parts:
        if said.cell_length + part.cell_length > cells:
            break
        said += part
    return said or parts[0]


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
