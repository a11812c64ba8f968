"""An image or a histogram of a run in as many cells as there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from txlab.drawing.formatting import count, significant
from txlab.drawing.image import histogram_lines, image_lines, rebin
from txlab.drawing.spark import spark
from txlab.drawing.text import fit, visible
from txlab.tui.run_pictures import HISTOGRAM, IMAGE, Counted, Pictures
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

EARLIER_FROM = 12  # lines from which on earlier histograms have room


class PictureView(Painted):
    """A title, then the picture; of a histogram its bars, the axis, and below a line for each earlier one."""

    COMPONENT_CLASSES = {"pictureview--title", "pictureview--quiet", "pictureview--bar"}
    DEFAULT_CSS = """
    PictureView { width: 1fr; height: 1fr; padding: 0 1; }
    PictureView > .pictureview--title { color: $foreground; text-style: bold; }
    PictureView > .pictureview--quiet { color: $text-muted; }
    PictureView > .pictureview--bar { color: $secondary; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.pictures = Pictures()
        self.lines: list[list[Segment]] | None = None

    def show(self, pictures: Pictures) -> None:
        def identity_of(pictures: Pictures) -> tuple[object, ...]:
            return pictures.name, pictures.step, pictures.span, [each.step for each in pictures.histograms]

        if identity_of(pictures) != identity_of(self.pictures):
            self.pictures, self.lines = pictures, None
            self.refresh()

    def on_resize(self) -> None:
        self.lines = None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.lines = None

    def render_line(self, y: int) -> Strip:
        if self.lines is None:
            self.lines = self.draw_lines()
        return self.strip(self.lines[y]) if y < len(self.lines) else Strip.blank(self.size.width, self.surface)

    def draw_lines(self) -> list[list[Segment]]:
        pictures, size = self.pictures, self.size
        if not pictures.name or size.width < 4 or size.height < 2:
            return []
        quiet = self.part("quiet")
        title = visible(pictures.name.removeprefix(IMAGE).removeprefix(HISTOGRAM))
        rows, columns = size.height - 1, size.width
        if pictures.image is not None:
            high, wide = pictures.image.shape[:2]
            note = f"  at {count(pictures.step)}, {wide} × {high}"
            if pictures.span not in ((0.0, 1.0), (0.0, 255.0)):
                note += f", {significant(pictures.span[0])} to {significant(pictures.span[1])}"
            body = self.image(pictures.image, rows, columns)
        elif pictures.histograms:
            now = pictures.histograms[0]
            note = f"  at {count(now.step)}, {count(int(now.counts.sum()))} values"
            note += f", {count(now.bad)} not finite" if now.bad else ""
            body = self.histogram(pictures.histograms, rows, columns)
        else:
            return [[Segment(fit(f"{title} cannot be drawn", columns), quiet)]]
        if self.ascii:
            note = note.replace("×", "x")
        return [[Segment(title, self.part("title")), Segment(note, quiet)], *body]

    def image(self, image: Any, rows: int, columns: int) -> list[list[Segment]]:
        lines = image_lines(image, rows, columns, self.colours, self.dark, self.ascii)
        surface = self.surface
        return [[Segment(text, ink(upper, surface, lower)) for text, upper, lower in line] for line in lines]

    def histogram(self, histograms: tuple[Counted, ...], rows: int, columns: int) -> list[list[Segment]]:
        now, bar, quiet = histograms[0], self.part("bar"), self.part("quiet")
        earlier = histograms[1 : 1 + max(0, rows // 2 - 2)] if rows >= EARLIER_FROM else ()
        high = min(rows - 1 - (len(earlier) + 1 if earlier else 0), 16)
        drawn = histogram_lines(now.counts, high, columns, self.ascii)
        wide = len(drawn[0]) if drawn else columns
        lines = [[Segment(line, bar)] for line in drawn]
        low, top = significant(now.low), significant(now.high)
        middle = significant((now.low + now.high) / 2)
        gap = max(1, (wide - len(low) - len(middle) - len(top)) // 2)
        lines.append(
            [Segment(f"{low}{' ' * gap}{middle}{' ' * max(1, wide - len(low + middle + top) - gap)}{top}", quiet)]
        )
        if earlier:
            bottom = min(each.low for each in (now, *earlier)), max(each.high for each in (now, *earlier))
            label = max(len(count(each.step)) for each in (now, *earlier))
            cells = max(1, columns - label - 1)
            lines.append(
                [Segment(fit(f"before, from {significant(bottom[0])} to {significant(bottom[1])}", columns), quiet)]
            )
            for each in earlier:
                again = rebin(each.counts, each.low, each.high, *bottom, min(cells, 256))
                sparkline = spark(np.asarray(again), min(cells, 256), self.ascii, low=0.0)
                lines.append([Segment(f"{count(each.step):>{label}} ", quiet), Segment(sparkline, bar)])
        return lines
