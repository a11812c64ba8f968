"""A text as tokens, to read, scroll and edit: the cursor, the keys, the mouse, typing and pasting.

Notable: edits change the bytes immediately and are posted; the tokens follow when the worker has them. A text too long
to edit is reported, not cut. The screen handles pastes, since they may be five megabytes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from txlab.tui.bindings import MOVING, bind
from txlab.tui.screens.tokens.encoded_text import EDITABLE, TextDocument, TokenLane
from txlab.tui.screens.tokens.token_lines import TokenLines

UNDO = 200
BEGIN = ("tokens.edit", "tokens.new")  # the keys after which letters are text


class TokensView(TokenLines, can_focus=True):
    """`show(document, lanes)`. Arrows move by tokens and lines; while `editing`, they move the caret by characters, and
    typed text is inserted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "across(-1)", "token before", id="tokens.left", heading=MOVING),
        bind("right", "across(1)", "next token", id="tokens.right", heading=MOVING),
        bind("up", "lines(-1)", "line up", id="tokens.up", heading=MOVING),
        bind("down", "lines(1)", "line down", id="tokens.down", heading=MOVING),
        bind("pageup", "page(-1)", "page up", id="tokens.page-up", heading=MOVING),
        bind("pagedown", "page(1)", "page down", id="tokens.page-down", heading=MOVING),
        bind("home", "home", "beginning", id="tokens.home", heading=MOVING),
        bind("end", "end", "end", id="tokens.end", heading=MOVING),
    ]

    class Moved(Message):
        """The cursor is on another token."""

    class Edited(Message):
        """The text has changed: `view.text`."""

    class Pasted(Message):
        """Something was pasted outside of editing, or more than can be edited."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, waiting: str = "", id: str | None = None) -> None:
        super().__init__(waiting, id)
        self.text = b""
        self.undone: list[tuple[bytes, int]] = []

    def show(self, document: TextDocument, lanes: Sequence[TokenLane], home: bool = False) -> None:
        """Show a text and its tokens; `home` starts at its first token."""
        byte = 0 if home else self.byte
        if home or self.caret is None:
            self.text = document.data
        if home:
            self.caret, self.undone, self.top = None, [], (0, 0)
        self.set_lanes(document, lanes)
        self.go(byte)

    @property
    def byte(self) -> int:
        """The byte of the cursor or the caret."""
        if self.caret is not None:
            return self.caret
        lane = self.lane
        return lane.start(self.cursor) if lane is not None and self.cursor < len(lane) else 0

    # Moving.

    def go(self, byte: int) -> None:
        """Move the cursor (while editing, the caret) to a byte and scroll it into view."""
        byte = max(0, min(byte, len(self.text)))
        if self.caret is not None:
            self.caret = byte
        lane = self.lane
        before = self.cursor
        self.cursor = lane.at(byte) if lane is not None and len(lane) else 0
        if self.size.height and self.lanes:
            self.into_view(min(byte, len(self.document.data)))
        self.refresh()
        if before != self.cursor or self.caret is None:
            self.post_message(self.Moved())

    def to_token(self, token: int) -> None:
        lane = self.lane
        if lane is None or not len(lane):
            return
        token = max(0, min(token, len(lane) - 1))
        self.go(lane.start(token))
        self.cursor = token  # several tokens may start at one byte
        self.post_message(self.Moved())

    def action_across(self, by: int) -> None:
        if self.caret is None:
            self.to_token(self.cursor + by)
        elif by < 0:
            self.go(self.caret - self.size_before())
        else:
            self.go(self.caret + self.size_after())

    def size_before(self) -> int:
        """Return the size in bytes of the character before the caret."""
        before = self.text[: self.caret].decode(errors="surrogateescape")[-1:]
        return len(before.encode(errors="surrogateescape"))

    def size_after(self) -> int:
        after = self.text[self.caret :].decode(errors="surrogateescape")[:1]
        return len(after.encode(errors="surrogateescape"))

    def action_lines(self, by: int) -> None:
        if not self.lanes:
            return
        place = self.place_of(min(self.byte, len(self.document.data)))
        column = self.column_of(self.row(place), self.byte)
        target = self.move_by(place, by)
        if target != place:
            self.go(self.byte_at(self.row(target), column))

    def action_page(self, by: int) -> None:
        if self.lanes:
            lines = max(1, len({row.start for row, _ in self.visible_lines()}) - 1)
            self.top = self.move_by(self.top, by * lines)
            self.action_lines(by * lines)

    def action_home(self) -> None:
        self.go(self.row(self.place_of(self.byte)).start if self.editing and self.lanes else 0)

    def action_end(self) -> None:
        if self.editing and self.lanes:
            row = self.row(self.place_of(min(self.byte, len(self.document.data))))
            last = row.stop - 1 if self.text[row.start : row.stop].endswith(b"\n") else row.stop
            self.go(max(row.start, last))
        else:
            self.go(len(self.text))

    # Editing.

    def edit(self, on: bool = True) -> bool:
        """Start or end editing; return False if the text is too long for it."""
        if on and len(self.text) > EDITABLE:
            return False
        self.caret = self.byte if on else None
        self.go(self.caret if self.caret is not None else self.byte)
        return True

    def replace_text(self, start: int, stop: int, by: bytes) -> None:
        self.undone = [*self.undone[-UNDO:], (self.text, self.caret or 0)]
        self.text = self.text[:start] + by + self.text[stop:]
        self.caret = start + len(by)
        self.refresh()
        self.post_message(self.Edited())

    def insert(self, text: str) -> None:
        """Insert text at the caret; text that UTF-8 cannot encode (half a character) becomes the replacement
        character."""
        if self.caret is not None:
            self.replace_text(self.caret, self.caret, text.encode(errors="replace"))

    async def _on_key(self, event: events.Key) -> None:
        if self.caret is None:
            # Here rather than in the screen, where the key arrives later: text typed right after it already counts.
            active = self.screen.active_bindings.get(event.key)
            if active is not None and active.enabled and active.binding.id in BEGIN:
                event.stop()
                event.prevent_default()
                await self.screen.run_action(active.binding.action)
            return
        character = event.character
        # Joiners and direction marks are text too, although not str.isprintable: 👩 U+200D 👧 is typed with one.
        if character is not None and (event.is_printable or unicodedata.category(character[0]) == "Cf"):
            self.insert(character)
        elif event.key in ("enter", "tab"):
            self.insert("\n" if event.key == "enter" else "\t")
        elif event.key == "backspace":
            if self.caret:
                self.replace_text(self.caret - self.size_before(), self.caret, b"")
        elif event.key == "delete":
            if self.caret < len(self.text):
                self.replace_text(self.caret, self.caret + self.size_after(), b"")
        elif event.key == "ctrl+z":
            if self.undone:
                self.text, self.caret = self.undone.pop()
                self.post_message(self.Edited())
        else:
            return
        event.stop()
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self.editing and len(event.text) + len(self.text) <= EDITABLE // 4:
            self.insert(event.text.replace("\r\n", "\n").replace("\r", "\n"))  # terminals send carriage returns
        else:
            self.post_message(self.Pasted(event.text))

    # Mouse.

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.lanes:
            return
        seen = self.visible_lines()
        if offset.y >= len(seen):
            return
        row, part = seen[offset.y]
        if 0 <= part // self.per_lane < len(self.lanes):
            self.front = part // self.per_lane
        self.go(self.byte_at(row, offset.x - self.gutter_cells))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def scroll_lines(self, by: int) -> None:
        if self.lanes:
            self.top = self.move_by(self.top, by)
            self.refresh()

    def on_resize(self) -> None:
        if self.lanes:
            self.into_view(min(self.byte, len(self.document.data)))
