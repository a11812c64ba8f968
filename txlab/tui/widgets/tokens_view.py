"""A text as coloured tokens, of one tokenizer or of several one below the other, to be read, scrolled and edited.

Notable: only lines that are seen are laid out, so a text of five megabytes costs what a page does. Neighbours differ in
tint, and a border (a stroke, or every second token underlined) tells them apart without colour. Edits are made to the
bytes at once and posted; the tokens follow when the worker has them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.text import cut, fit
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink
from txlab.tui.widgets.tokens_layout import EDITABLE, Document, Lane, Row, Span, index, layout
from txlab.tui.widgets.tokens_signs import tints

KEPT = 256  # paragraphs whose lines are remembered
UNDO = 200

Place = tuple[int, int]  # a paragraph and a line in it


class TokensView(Painted, can_focus=True):
    """`show(document, lanes)`; `front` is the lane that the cursor moves in. Arrows move by tokens and lines; while
    `editing`, they move the caret by characters and what is typed goes into the text."""

    COMPONENT_CLASSES = {
        f"tokens--{part}" for part in ("cursor", "same", "border", "gutter", "front", "bar", "special")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "across(-1)", "token before", id="tokens.left", show=False),
        Binding("right", "across(1)", "next token", id="tokens.right", show=False),
        Binding("up", "lines(-1)", "line up", id="tokens.up", show=False),
        Binding("down", "lines(1)", "line down", id="tokens.down", show=False),
        Binding("pageup", "page(-1)", "page up", id="tokens.page-up", show=False),
        Binding("pagedown", "page(1)", "page down", id="tokens.page-down", show=False),
        Binding("home", "home", "beginning", id="tokens.home", show=False),
        Binding("end", "end", "end", id="tokens.end", show=False),
    ]
    DEFAULT_CSS = """
    TokensView { width: 1fr; height: 1fr; color: $foreground; }
    TokensView > .tokens--cursor { color: $background; background: $accent; text-style: bold; }
    TokensView > .tokens--same { color: $accent; text-style: bold; }
    TokensView > .tokens--border { color: $rule; }
    TokensView > .tokens--gutter { color: $quiet; }
    TokensView > .tokens--front { color: $accent; text-style: bold; }
    TokensView > .tokens--bar { color: $rule; }
    TokensView > .tokens--special { color: $success; text-style: bold italic; }
    """

    class Moved(Message):
        """The cursor is on another token."""

    class Edited(Message):
        """The text is another one now: `view.text`."""

    class Pasted(Message):
        """Something was pasted while nothing was being edited, or more than can be edited."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, waiting: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.waiting = waiting
        self.document: Document = index(b"")
        self.lanes: tuple[Lane, ...] = ()
        self.front = 0
        self.cursor = 0
        self.text = b""
        self.caret: int | None = None
        self.strokes: bool | None = None
        """Borders as strokes; None: where there is one lane, or no colours."""
        self.top: Place = (0, 0)
        self.undone: list[tuple[bytes, int]] = []
        self.known: OrderedDict[int, list[Row]] = OrderedDict()
        self.known_for: tuple[object, ...] = ()
        self.page: tuple[tuple[object, ...], list[Row]] = ((), [])
        self.laid_out = 0
        """Paragraphs laid out since the beginning: what the promise to draw only what is seen is held against."""

    # What is shown.

    def show(self, document: Document, lanes: Sequence[Lane], home: bool = False) -> None:
        """Show a text and its tokens; `home` starts at its first token."""
        byte = 0 if home else self.byte
        self.document, self.lanes = document, tuple(lanes)
        self.front = max(0, min(self.front, len(lanes) - 1))
        if home or self.caret is None:
            self.text = document.data
        if home:
            self.caret, self.undone, self.top = None, [], (0, 0)
        self.known.clear()
        self.go(byte)

    def say(self, sentence: str) -> None:
        """What stands there while there are no tokens; visible text."""
        self.waiting = sentence
        self.refresh()

    @property
    def lane(self) -> Lane | None:
        return self.lanes[self.front] if self.lanes else None

    @property
    def byte(self) -> int:
        """Where the cursor or the caret is."""
        if self.caret is not None:
            return self.caret
        lane = self.lane
        return lane.start(self.cursor) if lane is not None and self.cursor < len(lane) else 0

    @property
    def editing(self) -> bool:
        return self.caret is not None

    @property
    def with_strokes(self) -> bool:
        if self.strokes is not None:
            return self.strokes
        return len(self.lanes) < 2 or self.ascii or self.colours == "none"

    @property
    def gutter_cells(self) -> int:
        """Room for the byte that a line starts at, and the number of the lane."""
        several = 2 if len(self.lanes) > 1 else 0
        return max(4, len(str(len(self.document.data)))) + 1 + several if self.size.width >= 50 else several

    @property
    def cells(self) -> int:
        return max(4, self.size.width - self.gutter_cells - 2)

    @property
    def tall(self) -> int:
        """Lines of the screen that a line of text takes."""
        return len(self.lanes) + 1 if len(self.lanes) > 1 else 1

    def rows(self, paragraph: int) -> list[Row]:
        """The lines of a paragraph, laid out when they are first asked for."""
        now = (self.cells, self.with_strokes, self.ascii)
        if now != self.known_for:
            self.known.clear()
            self.known_for = now
        rows = self.known.get(paragraph)
        if rows is None:
            self.laid_out += 1
            rows = layout(self.document, self.lanes, paragraph, self.cells, self.with_strokes, self.ascii)
            self.known[paragraph] = rows
            if len(self.known) > KEPT:
                self.known.popitem(last=False)
        return rows

    def row(self, place: Place) -> Row:
        rows = self.rows(place[0])
        return rows[min(place[1], len(rows) - 1)]

    def place_of(self, byte: int) -> Place:
        paragraph = self.document.paragraph_of(byte)
        rows = self.rows(paragraph)
        return paragraph, max((at for at, row in enumerate(rows) if row.start <= byte), default=0)

    def after(self, place: Place) -> Place | None:
        paragraph, at = place
        if at + 1 < len(self.rows(paragraph)):
            return paragraph, at + 1
        return (paragraph + 1, 0) if paragraph + 1 < len(self.document.starts) else None

    def before(self, place: Place) -> Place | None:
        paragraph, at = place
        if at > 0:
            return paragraph, min(at, len(self.rows(paragraph))) - 1
        return (paragraph - 1, len(self.rows(paragraph - 1)) - 1) if paragraph > 0 else None

    def moved_by(self, place: Place, lines: int) -> Place:
        for _ in range(abs(lines)):
            beyond = self.after(place) if lines > 0 else self.before(place)
            if beyond is None:
                break
            place = beyond
        return place

    def seen(self) -> list[Row]:
        """The lines of text on the screen, from the top."""
        key = (self.top, self.size, self.document, self.lanes, self.with_strokes)
        if self.page[0] != key:
            rows, place = [], self.top
            for _ in range(max(1, -(-self.size.height // self.tall))):
                rows.append(self.row(place))
                following = self.after(place)
                if following is None:
                    break
                place = following
            self.page = (key, rows)
        return self.page[1]

    # Moving.

    def go(self, byte: int) -> None:
        """Put the cursor (while editing, the caret) at a byte and bring it into view."""
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

    def into_view(self, byte: int) -> None:
        place = self.place_of(byte)
        lines = max(1, self.size.height // self.tall)
        top = (min(self.top[0], len(self.document.starts) - 1), self.top[1])
        top = (top[0], min(top[1], len(self.rows(top[0])) - 1))
        if place < top:
            top = place
        elif place > self.moved_by(top, lines - 1):
            top = self.moved_by(place, 1 - lines)
        self.top = top

    def to_token(self, token: int) -> None:
        lane = self.lane
        if lane is None or not len(lane):
            return
        token = max(0, min(token, len(lane) - 1))
        self.go(lane.start(token))
        self.cursor = token  # several may start at one byte
        self.post_message(self.Moved())

    def action_across(self, by: int) -> None:
        if self.caret is None:
            self.to_token(self.cursor + by)
        elif by < 0:
            self.go(self.caret - self.size_before())
        else:
            self.go(self.caret + self.size_after())

    def size_before(self) -> int:
        """Bytes of the character before the caret."""
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
        target = self.moved_by(place, by)
        if target != place:
            self.go(self.byte_at(self.row(target), column))

    def action_page(self, by: int) -> None:
        if self.lanes:
            lines = max(1, self.size.height // self.tall - 1)
            self.top = self.moved_by(self.top, by * lines)
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

    def column_of(self, row: Row, byte: int) -> int:
        """The column of a byte in the lane in front."""
        units = [unit for span in row.lanes[self.front] for unit in span.units]
        return max((column for start, column, _ in units if start <= byte), default=0)

    def byte_at(self, row: Row, column: int, lane: int | None = None) -> int:
        units = [unit for span in row.lanes[self.front if lane is None else lane] for unit in span.units]
        return max((start for start, place, _ in units if place <= column), default=row.start)

    # Editing.

    def edit(self, on: bool = True) -> bool:
        """Begin or end editing; False where the text is too long for it."""
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
        """Text in at the caret; what UTF-8 cannot write (half a character) as the sign for it."""
        if self.caret is not None:
            self.replace_text(self.caret, self.caret, text.encode(errors="replace"))

    async def _on_key(self, event: events.Key) -> None:
        if self.caret is None:
            return
        if event.is_printable and event.character is not None:
            self.insert(event.character)
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
            self.insert(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        else:
            self.post_message(self.Pasted(event.text))

    # Mouse.

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.lanes:
            return
        line, lane = divmod(offset.y, self.tall)
        rows = self.seen()
        if line >= len(rows):
            return
        row = rows[line]
        if lane < len(self.lanes):
            self.front = lane
        self.go(self.byte_at(row, offset.x - self.gutter_cells))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def scroll_lines(self, by: int) -> None:
        if self.lanes:
            self.top = self.moved_by(self.top, by)
            self.refresh()

    def on_resize(self) -> None:
        if self.lanes:
            self.into_view(min(self.byte, len(self.document.data)))

    # Drawing.

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        if size <= 0:
            return Strip.blank(size, surface)
        if not self.lanes:
            words = fit(self.waiting, size, "center", "~" if self.ascii else "…") if y == self.size.height // 2 else ""
            return Strip([Segment(words, self.part("gutter"))]).adjust_cell_length(size, surface)
        line, lane = divmod(y, self.tall)
        rows = self.seen()
        segments: list[Segment] = []
        if line < len(rows) and lane < len(self.lanes):
            segments = [*self.gutter_of(rows[line], lane), *self.drawn(rows[line], lane)]
        strip = Strip(segments).adjust_cell_length(max(0, size - 1), surface)
        return Strip([*strip, self.bar(y)], size)

    def gutter_of(self, row: Row, lane: int) -> list[Segment]:
        cells = self.gutter_cells
        if not cells:
            return []
        several = len(self.lanes) > 1
        number = f"{lane + 1} " if several else ""
        offset = f"{row.start:>{cells - len(number) - 1}} " if cells > len(number) else ""
        front = several and lane == self.front
        return [
            Segment(offset if lane == 0 else " " * len(offset), self.part("gutter")),
            Segment(number, self.part("front" if front else "gutter")),
        ]

    def bar(self, y: int) -> Segment:
        """A piece of the bar at the right: which part of the text is seen, by bytes."""
        height, total = self.size.height, len(self.document.data)
        rows = self.seen()
        first, last = rows[0].start, rows[-1].stop
        if first == 0 and last >= total:
            return Segment(" ", self.surface)
        long = max(1, round(height * (last - first) / max(1, total)))
        begin = min(height - long, round(height * first / max(1, total)))
        inside = begin <= y < begin + long
        return Segment(("|" if self.ascii else "▐") if inside else " ", self.part("bar"))

    def style_of(self, lane: int, span: Span) -> Style:
        """A token's look: its tint, or that of the cursor, of what lies under the cursor in the other lanes."""
        surface = self.surface
        known = tints(self.colours, self.dark)
        tint = known[span.token % len(known)]
        style = ink(tint.ink, surface, tint.fill)
        tokens, here = self.lanes[lane], self.lane
        if int(tokens.ids[span.token]) in tokens.special:
            style = style + self.part("special").without_color + Style(color=self.part("special").color)
        if not self.with_strokes and span.token % 2:
            style = style + Style(underline=True)
        if lane == self.front and span.token == self.cursor and not self.editing:
            style = self.part("cursor")
            return style + Style(reverse=True) if self.colours == "none" else style
        if lane != self.front and here is not None and len(here):
            start, stop = here.start(self.cursor), here.stop(self.cursor)
            if tokens.start(span.token) < stop and tokens.stop(span.token) > start:
                same = self.part("same")
                style = style + Style(bold=True, color=None if self.colours == "none" else same.color)
        return style

    def drawn(self, row: Row, lane: int) -> list[Segment]:
        """One line of one lane."""
        segments: list[Segment] = []
        column, surface, strokes = 0, self.surface, self.with_strokes
        border = self.part("border")
        stroke = "|" if self.ascii else "│"
        for span in row.lanes[lane]:
            if span.column > column:
                gap = span.column - column
                begins = strokes and span.begins
                segments += [Segment(" " * (gap - int(begins)), surface), Segment(stroke * int(begins), border)]
            style = self.style_of(lane, span)
            segments += self.with_caret(span, style) if lane == self.front else [Segment(span.text, style)]
            column = span.column + span.width
        at_end = self.caret is not None and lane == self.front and self.caret == row.stop == len(self.document.data)
        if at_end and not self.document.data[row.start : row.stop].endswith(b"\n"):
            segments.append(Segment(" ", surface + Style(reverse=True)))
        return segments

    def with_caret(self, span: Span, style: Style) -> list[Segment]:
        """A span with the cell at the caret turned over."""
        for start, column, cells in span.units if self.caret is not None else ():
            if start == self.caret:
                low = text_until(span.text, column - span.column)
                high = text_until(span.text, column - span.column + cells)
                pieces = (span.text[:low], style), (span.text[low:high], style + Style(reverse=True))
                return [Segment(text, look) for text, look in (*pieces, (span.text[high:], style)) if text]
        return [Segment(span.text, style)]


def text_until(text: str, cells: int) -> int:
    """How many characters of a text stand before so many cells."""
    return len(cut(text, cells))
