"""A text drawn as coloured tokens: the visible lines, a lane for each tokenizer, borders that need no colour.

Only visible lines are laid out, so a text of five megabytes costs as much as a page. Neighbours differ in tint, and a
border (a stroke, or every second token underlined) tells them apart without colour.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from txlab.drawing.text import fit, prefix, width
from txlab.tui.screens.tokens.encoded_text import TextDocument, TokenLane, index
from txlab.tui.screens.tokens.token_layout import LayoutLine, Span, layout, tints
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

KEPT = 256  # paragraphs whose lines are cached

Place = tuple[int, int]  # a paragraph and a line in it


class TokenLines(Painted):
    """`set_lanes(document, lanes)`; `front` is the lane of the cursor (a token), `caret` a byte while editing."""

    COMPONENT_CLASSES = {
        f"tokens--{part}" for part in ("cursor", "same", "border", "gutter", "front", "bar", "special")
    }
    DEFAULT_CSS = """
    TokenLines { width: 1fr; height: 1fr; color: $foreground; }
    TokenLines > .tokens--cursor { color: $background; background: $accent; text-style: bold; }
    TokenLines > .tokens--same { color: $accent; text-style: bold; }
    TokenLines > .tokens--border { color: $rule; }
    TokenLines > .tokens--gutter { color: $quiet; }
    TokenLines > .tokens--front { color: $accent; text-style: bold; }
    TokenLines > .tokens--bar { color: $rule; }
    TokenLines > .tokens--special { color: $success; text-style: bold italic; }
    """

    def __init__(self, waiting: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.waiting = waiting  # the message while there are no tokens
        self.document: TextDocument = index(b"")
        self.lanes: tuple[TokenLane, ...] = ()
        self.front = 0
        self.cursor = 0
        self.caret: int | None = None
        self.strokes: bool | None = None
        """Borders as strokes; None = if there is one lane, or no colours."""
        self.with_ids = False
        """Whether the id of each token is shown below it."""
        self.top: Place = (0, 0)
        self.known: OrderedDict[int, list[LayoutLine]] = OrderedDict()
        self.known_for: tuple[object, ...] = ()
        self.page: tuple[tuple[object, ...], list[tuple[LayoutLine, int]]] = ((), [])
        self.laid_out = 0
        """Paragraphs laid out so far, to test that only visible ones are."""

    def set_lanes(self, document: TextDocument, lanes: Sequence[TokenLane]) -> None:
        """Show another text, or other tokens of it; the scroll position stays."""
        self.document, self.lanes = document, tuple(lanes)
        self.front = max(0, min(self.front, len(lanes) - 1))
        self.known.clear()

    @property
    def lane(self) -> TokenLane | None:
        return self.lanes[self.front] if self.lanes else None

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
        """Width of the gutter for the line's first byte and the lane's number."""
        several = 2 if len(self.lanes) > 1 else 0
        return max(4, len(str(len(self.document.data)))) + 1 + several if self.size.width >= 50 else several

    @property
    def cells(self) -> int:
        return max(4, self.size.width - self.gutter_cells - 2)

    def parts_of(self, row: LayoutLine) -> range:
        """Return the lines of the screen for a line of text: −1 for the characters above its bytes, then its lanes, and
        a blank one, or the marks below differing cuts, if there are several."""
        lines = len(self.lanes) * self.per_lane
        return range(-1 if row.above else 0, lines + 1 if lines > 1 else 1)

    @property
    def per_lane(self) -> int:
        return 2 if self.with_ids else 1

    def rows(self, paragraph: int) -> list[LayoutLine]:
        """Return the lines of a paragraph, laid out on first use."""
        now = (self.cells, self.with_strokes, self.with_ids, self.ascii)
        if now != self.known_for:
            self.known.clear()
            self.known_for = now
        rows = self.known.get(paragraph)
        if rows is None:
            self.laid_out += 1
            rows = layout(self.document, self.lanes, paragraph, *now)
            self.known[paragraph] = rows
            if len(self.known) > KEPT:
                self.known.popitem(last=False)
        return rows

    def row(self, place: Place) -> LayoutLine:
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

    def move_by(self, place: Place, lines: int) -> Place:
        for _ in range(abs(lines)):
            beyond = self.after(place) if lines > 0 else self.before(place)
            if beyond is None:
                break
            place = beyond
        return place

    def visible_lines(self) -> list[tuple[LayoutLine, int]]:
        """Return (line of text, part of it) for each line of the screen, from the top."""
        key = (self.top, self.size, self.document, self.lanes, self.with_strokes, self.with_ids, self.editing)
        if self.page[0] != key:
            # A final line feed is followed by an empty line, in which text can be typed.
            empty = len(self.document.starts) > 1 and self.document.starts[-1] == len(self.document.data)
            last = len(self.document.starts) - 1 if empty else -1
            rows: list[tuple[LayoutLine, int]] = []
            place = self.top
            while len(rows) < max(1, self.size.height):
                row = self.row(place)
                rows += [(row, part) for part in self.parts_of(row)]
                following = self.after(place)
                if following is None or (following[0] == last and not self.editing):
                    break
                place = following
            self.page = (key, rows)
        return self.page[1]

    def lines_of_text(self, most: int) -> int:
        """Return how many lines of the screen the whole text takes; above `most`, that it takes more."""
        lines, place = 0, None if not self.lanes else (0, 0)
        while place is not None and lines <= most:
            lines += len(self.parts_of(self.row(place)))
            place = self.after(place)
        return lines

    def into_view(self, byte: int) -> None:
        place = self.place_of(byte)
        top = (min(self.top[0], len(self.document.starts) - 1), self.top[1])
        top = (top[0], min(top[1], len(self.rows(top[0])) - 1))
        self.top = min(place, max(top, self.page_before(place)))

    def page_before(self, place: Place) -> Place:
        """Return the first line of text of the screen on which this one is the last."""
        room = self.size.height - len(self.parts_of(self.row(place)))
        while (before := self.before(place)) is not None:
            room -= len(self.parts_of(self.row(before)))
            if room < 0:
                break
            place = before
        return place

    def column_of(self, row: LayoutLine, byte: int) -> int:
        """Return the column of a byte in the front lane."""
        units = [unit for span in row.lanes[self.front] for unit in span.units]
        return max((column for start, column, _ in units if start <= byte), default=0)

    def byte_at(self, row: LayoutLine, column: int, lane: int | None = None) -> int:
        units = [unit for span in row.lanes[self.front if lane is None else lane] for unit in span.units]
        return max((start for start, place, _ in units if place <= column), default=row.start)

    # Drawing.

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        if size <= 0:
            return Strip.blank(size, surface)
        if not self.lanes:
            words = fit(self.waiting, size, "center", "~" if self.ascii else "…") if y == self.size.height // 2 else ""
            return Strip([Segment(words, self.part("gutter"))]).adjust_cell_length(size, surface)
        seen = self.visible_lines()
        segments: list[Segment] = []
        if y < len(seen):
            row, part = seen[y]
            lane, below = divmod(part, self.per_lane)
            blank = [Segment(" " * self.gutter_cells, surface)]
            if part < 0:
                segments = [*blank, *self.signs_above(row)]
            elif lane >= len(self.lanes):
                segments = [*blank, *self.marks_below(row)]
            else:
                line = self.ids_of(row, lane) if below else self.draw_line(row, lane)
                segments = [*(blank if below else self.gutter_of(row, lane)), *line]
        strip = Strip(segments).adjust_cell_length(max(0, size - 1), surface)
        return Strip([*strip, self.bar(y)], size)

    def gutter_of(self, row: LayoutLine, lane: int) -> list[Segment]:
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
        """Return a piece of the scrollbar at the right, for the visible part of the text by bytes."""
        height, total = self.size.height, len(self.document.data)
        seen = self.visible_lines()
        first, last = seen[0][0].start, seen[min(height, len(seen)) - 1][0].stop
        if first == 0 and last >= total:
            return Segment(" ", self.surface)
        long = max(1, round(height * (last - first) / max(1, total)))
        begin = min(height - long, round(height * first / max(1, total)))
        inside = begin <= y < begin + long
        return Segment(("|" if self.ascii else "▐") if inside else " ", self.part("bar"))

    def style_of(self, lane: int, span: Span) -> Style:
        """Return the style of a token: its tint, or the cursor's, or that of the cursor's bytes in other lanes."""
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

    def draw_line(self, row: LayoutLine, lane: int) -> list[Segment]:
        """Return one line of one lane."""
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

    def signs_above(self, row: LayoutLine) -> list[Segment]:
        """Return the characters whose bytes are shown separately, each over its cells."""
        segments: list[Segment] = []
        at = 0
        for column, shown, cells in row.above:
            before = max(0, (cells - width(shown)) // 2)
            rule = "-" if self.ascii else "─"
            behind = cells - before - width(shown)
            after = (rule * (behind - 1)).ljust(behind)  # with a gap to the next one
            segments += [Segment(" " * (column - at), self.surface), Segment(rule * before, self.part("bar"))]
            segments += [Segment(shown, self.surface), Segment(after, self.part("bar"))]
            at = column + cells
        return segments

    def marks_below(self, row: LayoutLine) -> list[Segment]:
        """Return the line that marks where the tokenizers cut differently."""
        segments: list[Segment] = []
        at = 0
        for begin, end in row.differing:
            mark = ("^" if self.ascii else "▔") * (end - begin)
            segments += [Segment(" " * (begin - at), self.surface), Segment(mark, self.part("front"))]
            at = end
        return segments

    def ids_of(self, row: LayoutLine, lane: int) -> list[Segment]:
        """Return the line below: the id of each token that begins in this line."""
        segments: list[Segment] = []
        column = 0
        for span in row.lanes[lane]:
            here = lane == self.front and span.token == self.cursor and not self.editing
            ident = fit(str(int(self.lanes[lane].ids[span.token])) if span.begins else "", span.width, ellipsis="")
            segments.append(Segment(" " * (span.column - column) + ident, self.part("front" if here else "gutter")))
            column = span.column + span.width
        return segments

    def with_caret(self, span: Span, style: Style) -> list[Segment]:
        """Return a span with the cell at the caret reversed."""
        for start, column, cells in span.units if self.caret is not None else ():
            if start == self.caret:
                low = text_until(span.text, column - span.column)
                high = text_until(span.text, column - span.column + cells)
                pieces = (span.text[:low], style), (span.text[low:high], style + Style(reverse=True))
                return [Segment(text, look) for text, look in (*pieces, (span.text[high:], style)) if text]
        return [Segment(span.text, style)]


def text_until(text: str, cells: int) -> int:
    """Return how many characters of a text fit into the given cells."""
    return len(prefix(text, cells))
