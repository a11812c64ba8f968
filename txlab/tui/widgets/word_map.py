"""A map of words: the scatter of their vectors with a cursor that goes from label to label, and a zoom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.palette import RGB, heat, lines
from txlab.drawing.scatter import Camera, Ground, Label, Scatter, Shows, ground, scatter, whole
from txlab.tui.bindings import MOVING, bind
from txlab.tui.widgets.painted import Painted

Made = TypeVar("Made")

PARTS = {
    Shows.PATH: "path",
    Shows.ARROW: "arrow",
    Shows.LABEL: "label",
    Shows.NEAR: "near",
    Shows.MARKED: "marked",
    Shows.HERE: "here",
}
A_LABEL = 80  # cells of the map for each label
CLOSER = 1.5
HIGHEST = 5  # of ordered groups


@dataclass(frozen=True)
class WordsPicture:
    """The drawn picture: words with their points (V, 2), the most important first.

    classes       (V) the group of each word, or None: brightness shows how many points a cell has
    ordered       groups are powers of ten, 0 … HIGHEST, and not names
    near, marked  rows whose labels come first; `named` the others that may have one, None = all
    path          (m, 2) earlier positions of the cursor's word, `ends` the steps of the first and the last; arrows
                  (from, to), each (2)
    """

    words: Sequence[str] = ()
    points: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    classes: np.ndarray | None = None
    ordered: bool = False
    near: Sequence[int] = ()
    marked: Sequence[int] = ()
    named: np.ndarray | None = None
    path: np.ndarray | None = None
    ends: tuple[str, str] = ("", "")
    arrows: Sequence[tuple[np.ndarray, np.ndarray]] = ()


class WordMap(Painted, can_focus=True):
    """`show(picture)` draws it; arrows move the cursor to the next label in their direction."""

    COMPONENT_CLASSES = {f"wordmap--{part}" for part in ("dots", "dense", *PARTS.values())}
    BINDINGS = [
        bind("up", "move(0, 1)", "word above", id="words.up", heading=MOVING),
        bind("down", "move(0, -1)", "word below", id="words.down", heading=MOVING),
        bind("left", "move(-1, 0)", "word to the left", id="words.left", heading=MOVING),
        bind("right", "move(1, 0)", "word to the right", id="words.right", heading=MOVING),
    ]
    DEFAULT_CSS = """
    WordMap { width: 1fr; height: 1fr; color: $foreground; }
    WordMap > .wordmap--dots { color: $rule; }
    WordMap > .wordmap--dense { color: $text-muted; }
    WordMap > .wordmap--label { color: $foreground; }
    WordMap > .wordmap--near { color: $foreground; text-style: bold; }
    WordMap > .wordmap--marked { color: $success; text-style: bold underline; }
    WordMap > .wordmap--here { color: $accent; text-style: bold; }
    WordMap > .wordmap--path { color: $success; }
    WordMap > .wordmap--arrow { color: $accent; }
    """

    class Moved(Message):
        """The cursor is on another word."""

        def __init__(self, map: WordMap, row: int) -> None:
            super().__init__()
            self.map, self.row = map, row

        @property
        def control(self) -> WordMap:
            return self.map

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture = WordsPicture()
        self.cursor = 0
        self.camera: Camera | None = None  # None = all words
        self.made: dict[str, tuple[tuple[object, ...], Any, WordsPicture]] = {}
        self.painted: tuple[list[list[tuple[str, int]]], tuple[bool, bool]] = [], (True, False)

    def show(self, picture: WordsPicture) -> None:
        self.picture = picture
        self.cursor = max(0, min(self.cursor, len(picture.words) - 1))
        self.redraw()

    def go_to(self, row: int) -> None:
        """Put the cursor on a word; a zoomed map follows it if it is outside."""
        if not 0 <= row < len(self.picture.words):
            return
        self.cursor = row
        if self.camera is not None and self.drawing.places.get(row) is None:
            x, y = self.picture.points[row]
            self.camera = self.camera.zoom_at(1.0, float(x), float(y))
        self.post_message(self.Moved(self, row))  # the owner draws the map again, with other labels

    def zoom(self, factor: float) -> None:
        """Zoom in on the word under the cursor, or out, until everything is visible."""
        if not len(self.picture.points):
            return
        everything = self.everything
        camera = self.camera or everything
        x, y = self.picture.points[self.cursor]
        camera = camera.zoom_at(factor, float(x), float(y))
        self.camera = None if camera.up >= everything.up else camera
        self.redraw()

    def action_move(self, across: int, up: int) -> None:
        """Go to the nearest label in this direction, with sideways distances weighted double."""
        places, here = self.drawing.places, self.drawing.places.get(self.cursor)
        if here is None:
            if places:
                self.go_to(next(iter(places)))
            return
        best: tuple[float, int] | None = None
        for row, (line, column) in places.items():
            right, above = (column - here[1]) / 2, here[0] - line  # a cell is twice as high as wide
            ahead, aside = (right * across, above) if across else (above * up, right)
            if ahead > 0 and abs(aside) <= 2 * ahead:
                best = min(filter(None, [best, (ahead + 2 * abs(aside), row)]))
        if best is not None:
            self.go_to(best[1])

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.drawing.places:
            places = self.drawing.places
            self.go_to(min(places, key=lambda row: abs(places[row][0] - offset.y) * 2 + abs(places[row][1] - offset.x)))

    # Drawing.

    def redraw(self) -> None:
        """Draw again, and paint the lines that differ from the screen."""
        before, kind = self.painted
        if not self.size or not len(self.picture.words):
            self.refresh()
            return
        now = self.lines, (self.picture.classes is None, self.picture.ordered)
        self.painted = now
        if kind == now[1]:
            self.refresh_changed(before, now[0])
        else:
            self.refresh()

    @property
    def everything(self) -> Camera:
        """The camera that shows all words."""
        return self.once("everything", (id(self.picture.points),), lambda: whole(self.picture.points))

    @property
    def drawing(self) -> Scatter:
        picture, columns, rows = self.picture, max(1, self.size.width), max(1, self.size.height)
        camera = self.camera or self.everything
        under = (
            id(picture.points),
            None if picture.classes is None else picture.classes.tobytes(),
            camera,
            rows,
            columns,
        )
        base = self.once("ground", under, lambda: ground(picture.points, camera, rows, columns, picture.classes))
        return self.once(
            "scatter",
            (id(base), id(picture), self.cursor, self.ascii, self.legibility),
            lambda: scatter(
                base,
                labels=self.labels(self.legibility.labels(columns * rows // A_LABEL)),
                path=picture.path,
                origin=picture.ends[0],
                arrows=picture.arrows,
                ascii=self.ascii,
                legibility=self.legibility,
            ),
        )

    def once(self, name: str, wanted: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """Return the cached result for the same `wanted`, or compute it. Objects compared by id are kept alive."""
        known = self.made.get(name)
        if known is None or known[0] != wanted:
            known = self.made[name] = (wanted, make(), self.picture)
        made: Made = known[1]
        return made

    def labels(self, most: int) -> list[Label]:
        picture = self.picture
        wanted = {self.cursor: Shows.HERE} if len(picture.words) else {}
        for rows, shows in ((picture.marked, Shows.MARKED), (picture.near, Shows.NEAR)):
            for row in rows:
                wanted.setdefault(row, shows)
        visible = range(len(picture.words)) if self.camera is None else self.visible_rows()
        if picture.named is not None:
            visible = picture.named if self.camera is None else np.intersect1d(visible, picture.named)
        for row in visible:
            if len(wanted) >= 4 * most:  # many of them will not fit
                break
            wanted.setdefault(int(row), Shows.LABEL)
        texts = {self.cursor: f"{picture.words[self.cursor]} {picture.ends[1]}".rstrip()} if wanted else {}
        return [Label(row, texts.get(row, picture.words[row]), shows) for row, shows in wanted.items()]

    def visible_rows(self) -> np.ndarray:
        """The rows in the picture of a zoomed map."""
        base: Ground = self.made["ground"][1]
        rows: np.ndarray = np.flatnonzero(base.inside)
        return rows

    @property
    def lines(self) -> list[list[tuple[str, int]]]:
        """The pieces of each line: their text, and the looks of their cells, see `looks_of`."""
        drawing = self.drawing
        return self.once("lines", (id(drawing),), lambda: pieces_of(drawing))

    def style_of(self, look: int) -> Style:
        shows, rest = look % LOOKS, look // LOOKS
        return self.style(shows, rest // 2 - 1, bool(rest % 2))

    def style(self, shows: int, group: int, dense: bool) -> Style:
        """The style of a cell."""
        if shows == Shows.NOTHING:
            return self.surface
        if shows in (Shows.LABEL, Shows.MARKED) and self.picture.classes is not None and not self.picture.ordered:
            part, colour = self.part(PARTS[Shows(shows)]), self.colour_of(group) if group >= 0 else None
            return part if colour is None else part + Style(color=Color.from_rgb(*colour))
        if shows != Shows.POINTS:
            return self.part(PARTS[Shows(shows)])
        if self.picture.classes is not None and group >= 0 and (colour := self.colour_of(group)) is not None:
            return self.get_cached(f"group {colour}", lambda: self.surface + Style(color=Color.from_rgb(*colour)))
        return self.part("dense" if dense else "dots")

    def colour_of(self, group: int) -> RGB | None:
        """The colour of a group; None without colours."""
        if not self.picture.ordered:
            known = lines(self.colours, self.dark)[1:]  # the first is the accent's
            return known[group % len(known)]
        return self.get_cached(f"level {group}", lambda: self.colour_of_level(group))

    def colour_of_level(self, group: int) -> RGB | None:
        ramp = heat(self.colours, self.dark)
        level = int(ramp.level(np.array(0.25 + 0.75 * group / HIGHEST)))
        return ramp.fill[level] or ramp.ink[level]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if not len(self.picture.words) or y >= len(self.lines):
            return Strip.blank(self.size.width, self.surface)
        segments = [Segment(text, self.style_of(look)) for text, look in self.lines[y]]
        return Strip(segments).adjust_cell_length(self.size.width, self.surface)


LOOKS = 16  # more than there are of Shows


def looks_of(drawing: Scatter) -> np.ndarray:
    """The look of each cell as one number (rows, columns): the group counts for points and labels, the density for
    points only."""
    points = drawing.shows == Shows.POINTS
    grouped = points | (drawing.shows == Shows.LABEL) | (drawing.shows == Shows.MARKED)
    rest = 2 * (drawing.classes.astype(np.int64) + 1) + (drawing.dense & points)
    looks: np.ndarray = drawing.shows + LOOKS * np.where(grouped, rest, 0)
    return looks


def pieces_of(drawing: Scatter) -> list[list[tuple[str, int]]]:
    """Each line in pieces of cells that look alike."""
    rows = []
    for cells, looks in zip(drawing.characters, looks_of(drawing), strict=True):
        starts = [0, *(np.flatnonzero(np.diff(looks)) + 1).tolist()]
        ends = [*starts[1:], len(cells)]
        rows.append([("".join(cells[a:b]), int(looks[a])) for a, b in zip(starts, ends, strict=True)])
    return rows
