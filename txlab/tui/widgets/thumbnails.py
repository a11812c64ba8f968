"""All attention patterns: layers down, heads across, each pooled to a few half-block pixels.

Notable: patterns are max-pooled, so that a single sharp column (what a head attends to) is never averaged away. One
character shows two pixels where the terminal has colours for both, else one, as a glyph.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.palette import heat
from txlab.drawing.text import fit
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.pixels import Pixels

HEIGHTS = range(12, 0, -1)  # lines a thumbnail may have; it has twice as many columns, so that it looks square
LEFT = 3  # cells for the layer numbers


def max_pool(patterns: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Max-pool over blocks: (..., T, S) → (..., rows, columns); a small pattern is repeated, not stretched unevenly.

    >>> max_pool(np.eye(4)[None], 2, 2).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    for axis, size in ((-2, rows), (-1, columns)):
        length = patterns.shape[axis]
        if length > size:
            edges = np.linspace(0, length, size + 1).astype(np.int64)[:-1]
            patterns = np.maximum.reduceat(patterns, edges, axis=axis)
        elif length < size:
            patterns = np.take(patterns, np.arange(size) * length // size, axis=axis)
    return patterns


class Thumbnails(Painted, can_focus=True):
    """Shows patterns (L, H, T, T); `chosen` is (layer, head), from 0, changed with keys or a click."""

    COMPONENT_CLASSES = {"thumbnails--label", "thumbnails--here"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up", "move(-1, 0)", "layer up", id="thumbnails.up", heading=MOVING),
        bind("down", "move(1, 0)", "layer down", id="thumbnails.down", heading=MOVING),
        bind("left", "move(0, -1)", "head left", id="thumbnails.left", heading=MOVING),
        bind("right", "move(0, 1)", "head right", id="thumbnails.right", heading=MOVING),
    ]
    DEFAULT_CSS = """
    Thumbnails { width: auto; height: 1fr; }
    Thumbnails > .thumbnails--label { color: $text-muted; }
    Thumbnails > .thumbnails--here { color: $accent; text-style: bold; }
    """

    class HeadChosen(Message):
        """Another head was chosen."""

        def __init__(self, thumbnails: Thumbnails, layer: int, head: int) -> None:
            super().__init__()
            self.thumbnails, self.layer, self.head = thumbnails, layer, head

        @property
        def control(self) -> Thumbnails:
            return self.thumbnails

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.patterns = np.zeros((0, 0, 1, 1), dtype=np.float32)
        self.notes: tuple[tuple[str, ...], ...] = ()
        self.off: frozenset[tuple[int, int]] = frozenset()
        self.chosen = (0, 0)
        self.origin = (0, 0)
        self.levels = np.zeros((0, 0, 1, 1), dtype=np.uint8)
        self.levels_for: tuple[object, ...] = ()
        self.painter = Pixels(heat(), Style(), True)
        self.strips: dict[int, Strip] = {}  # up-to-date lines of the widget

    def set_patterns(
        self,
        patterns: np.ndarray,
        notes: Sequence[Sequence[str]] = (),
        off: Collection[tuple[int, int]] = (),
    ) -> None:
        """Show patterns (L, H, T, T); `notes` (L, H) are a few characters under each, e.g. its strongest score; the
        heads (layer, head) that are `off` are drawn in greys."""
        resized = patterns.shape[:2] != self.patterns.shape[:2] or frozenset(off) != self.off
        self.off = frozenset(off)
        old_levels, old_for, old_notes = self.levels, self.levels_for, self.notes
        self.patterns = np.asarray(patterns)
        self.notes = tuple(tuple(row) for row in notes)
        self.levels_for = ()
        layers, heads = self.patterns.shape[:2]
        self.chosen = (min(self.chosen[0], max(0, layers - 1)), min(self.chosen[1], max(0, heads - 1)))
        if resized or not old_for or not self.size.height:
            self.redraw(None)
            self.refresh(layout=resized)
            return
        tall = self.tall()
        self.prepare(tall)
        if old_for != self.levels_for or old_levels.shape != self.levels.shape:
            self.redraw(None)
            return
        # Lines in which a pixel or a note has changed.
        pitch, top = self.pitch(tall), self.origin[0]
        a_line = self.levels.shape[2] // tall
        differ = (old_levels != self.levels).any(axis=(1, 3)).reshape(layers, tall, a_line).any(axis=2)  # (L, lines)
        lines = [1 + (layer - top) * pitch + line for layer, line in np.argwhere(differ).tolist()]
        if pitch > tall:
            changed = [
                layer for layer in range(layers) if old_notes[layer : layer + 1] != self.notes[layer : layer + 1]
            ]
            lines += [1 + (layer - top) * pitch + tall for layer in changed]
        self.redraw([line for line in lines if 0 < line < self.size.height])

    def redraw(self, lines: Sequence[int] | None) -> None:
        """Redraw these lines of the widget, or all of them for None."""
        if lines is None:
            self.strips.clear()
            self.refresh()
            return
        for line in lines:
            self.strips.pop(line, None)
            self.refresh(Region(self.gutter.left, self.gutter.top + line, self.size.width, 1))

    # Layout.

    def tall(self) -> int:
        """Return the lines of a thumbnail: as many as fit with all thumbnails visible, at least one."""
        layers, heads = self.patterns.shape[:2]
        for tall in HEIGHTS:
            if heads * (2 * tall + 1) + 1 + LEFT <= self.size.width and layers * self.pitch(tall) <= self.size.height:
                return tall
        return HEIGHTS[-1]

    def pitch(self, tall: int) -> int:
        """Return the lines from one layer to the next: notes take a line, and the smallest thumbnails have no gap."""
        return tall + (1 if tall > 1 else 0)

    def visible_size(self, tall: int) -> tuple[int, int]:
        """Return the layers and the heads that there is room for, with thumbnails of so many lines."""
        layers, heads = self.patterns.shape[:2]
        across = (self.size.width - LEFT - 1) // (2 * tall + 1)
        down = (self.size.height - 1) // self.pitch(tall)
        return max(1, min(layers, down)), max(1, min(heads, across))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Return the width of the largest thumbnails that leave most of the space to the pattern."""
        layers, heads = self.patterns.shape[:2]
        for tall in HEIGHTS:
            wanted = LEFT + 1 + heads * (2 * tall + 1)
            if wanted <= max(24, container.width * 3 // 10) and layers * self.pitch(tall) < max(8, container.height):
                return wanted
        return min(LEFT + 1 + heads * 3, max(24, container.width * 3 // 10))

    def follow(self, tall: int) -> None:
        """Scroll to the chosen head."""
        down, across = self.visible_size(tall)
        top, left = self.origin
        top = max(0, min(max(min(top, self.chosen[0]), self.chosen[0] - down + 1), self.patterns.shape[0] - down))
        left = max(0, min(max(min(left, self.chosen[1]), self.chosen[1] - across + 1), self.patterns.shape[1] - across))
        self.origin = (top, left)

    # Choosing.

    def action_move(self, down: int, right: int) -> None:
        self.choose(self.chosen[0] + down, self.chosen[1] + right)

    def choose(self, layer: int, head: int) -> None:
        layers, heads = self.patterns.shape[:2]
        if not layers or not heads:
            return
        layer, head = max(0, min(layer, layers - 1)), max(0, min(head, heads - 1))
        if (layer, head) != self.chosen:
            self.chosen = (layer, head)
            self.redraw(None)
            self.post_message(self.HeadChosen(self, layer, head))

    def next_head(self, by: int) -> None:
        """Choose the next head in reading order, across layers and wrapping around."""
        layers, heads = self.patterns.shape[:2]
        if layers and heads:
            self.choose(*divmod((self.chosen[0] * heads + self.chosen[1] + by) % (layers * heads), heads))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is None or place.x < LEFT or place.y < 1:
            return
        tall = self.tall()
        down, across = self.visible_size(tall)
        row, column = (place.y - 1) // self.pitch(tall), (place.x - LEFT) // (2 * tall + 1)
        if row < down and column < across:
            self.choose(self.origin[0] + row, self.origin[1] + column)

    # Drawing.

    def prepare(self, tall: int) -> None:
        """Compute the levels of the pixels for the current size and colours."""
        wanted = (tall, self.colours, self.dark, self.ascii, self.surface)
        if wanted != self.levels_for:
            pixels = max_pool(self.patterns, tall * 2 if self.paired else tall, tall * 2)
            self.painter = Pixels(heat(self.colours, self.dark, self.ascii), self.surface, self.paired)
            self.levels = self.painter.ramp.level(pixels)
            self.levels_for = wanted
            self.follow(tall)

    @property
    def paired(self) -> bool:
        """Whether a character shows two pixels, one above the other."""
        return self.colours != "none" and not self.ascii

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.strips.clear()

    def on_resize(self) -> None:
        self.strips.clear()

    def render_line(self, y: int) -> Strip:
        strip = self.strips.get(y)
        if strip is None:
            strip = self.strips[y] = self.draw_line(y)
        return strip

    def draw_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        layers, heads = self.patterns.shape[:2]
        if not layers or not heads or size <= LEFT:
            return Strip.blank(size, surface)
        tall = self.tall()
        self.prepare(tall)
        self.follow(tall)
        down, across = self.visible_size(tall)
        plain = self.part("label")
        here = self.part("here")
        top, left = self.origin
        shown = range(left, left + across)
        if y == 0:
            segments = [Segment(" " * (LEFT + 1), plain)]
            segments += [
                Segment(fit(str(head + 1), 2 * tall, "center", "") + " ", here if head == self.chosen[1] else plain)
                for head in shown
            ]
            return Strip(segments).adjust_cell_length(size, surface)
        row, line = divmod(y - 1, self.pitch(tall))
        layer = top + row
        if row >= down or layer >= layers:
            return Strip.blank(size, surface)
        chosen = layer == self.chosen[0]
        number = fit(str(layer + 1), LEFT - 1, "right", "") if line == (tall - 1) // 2 else " " * (LEFT - 1)
        segments = [Segment(number + " ", here if chosen else plain)]
        if line == tall:
            segments.append(Segment(" ", surface))
            for head in shown:
                note = self.notes[layer][head] if layer < len(self.notes) and head < len(self.notes[layer]) else ""
                style = here if chosen and head == self.chosen[1] else plain
                segments.append(Segment(fit(note, 2 * tall, "center", "") + " ", style))
            return Strip(segments).adjust_cell_length(size, surface)
        opening, closing = "[]" if self.ascii else "▐▌"
        for head in shown:
            mark = " "
            if chosen and head == self.chosen[1]:
                mark = opening
            elif chosen and head - 1 == self.chosen[1]:
                mark = closing
            segments.append(Segment(mark, here))
            segments += self.pixels(layer, head, line)
        if chosen and self.chosen[1] == left + across - 1:
            segments.append(Segment(closing, here))
        return Strip(segments).adjust_cell_length(size, surface)

    def pixels(self, layer: int, head: int, line: int) -> list[Segment]:
        """Return one line of a thumbnail."""
        return self.painter.line(self.levels[layer, head], line, (layer, head) in self.off)
