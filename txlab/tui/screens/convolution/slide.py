"""A filter slid over a picture: the picture with the patch, the filter's output, and the numbers in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer

from txlab.drawing import palette
from txlab.drawing.captions import functions as captions
from txlab.drawing.diverging import Scale, ramp_for
from txlab.drawing.formatting import number, share
from txlab.drawing.palette import Ramp
from txlab.drawing.pixels import Part, Piece, pixel_lines
from txlab.drawing.text import formula, visible
from txlab.engine.explain import digits_needed
from txlab.experiments.protocol import Frame
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import CaptionLine
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.terminal import colours, is_ascii, is_dark, legibility
from txlab.tui.widgets.why import ask_why

TABLES = (("products", "W a, the products"), ("patch", "a, the patch"), ("filter", "W, the filter"))
A_SECOND = 12.0  # places while it slides
CELL = 6  # cells of a number in a table
NUMBERS = 33  # cells of the tables, which hall mode leaves out
ZOOMS = ((2, 2), (2, 1), (2, 0), (1, 1), (1, 0), (0, 0))  # of the picture, of the output: the largest that fit
GREEN = 2  # of the colours of curves
FILTER_GAP = 4  # cells of the number of a filter


@dataclass(frozen=True)
class Room:
    """Cells and lines of the panel, cells next to each picture, and whether the numbers are left out."""

    width: int
    height: int
    gap: int
    hall: bool = False


@dataclass(frozen=True)
class Sizes:
    """picture, answer   zoom as in `pixel_lines`      tables    how many are shown: all, one in turn, or none
    filters           their zoom; None = there is no room for them      spaced   a line is left free above them"""

    picture: int
    answer: int
    tables: int
    filters: int | None
    spaced: bool = False


def cells(shape: tuple[int, ...], zoom: int) -> int:
    """The width of a picture (Y, X)."""
    return shape[1] * max(1, 2 * zoom)


def height_of(shape: tuple[int, ...], zoom: int) -> int:
    """The lines of a picture (Y, X)."""
    return shape[0] * zoom if zoom else (shape[0] + 1) // 2


def sizes_in(room: Room, picture: tuple[int, ...], answer: tuple[int, ...], k: int, filters: int) -> Sizes:
    """The largest sizes at which everything is in view, pictures first, then tables, then the filters (C, k, k)."""
    small = cells(picture, 0) + cells(answer, 0) + 2 * room.gap
    table = 0 if room.hall else CELL * k + 1
    tables_fit = small + table <= room.width
    free = room.width - 2 * room.gap - (max(NUMBERS, table) * tables_fit if not room.hall else 0)
    below = height_of((k, k), 0)
    fits = [
        zooms
        for zooms in ZOOMS
        if height_of(picture, zooms[0]) + 1 + below <= room.height
        and cells(picture, zooms[0]) + cells(answer, zooms[1]) <= free
    ]
    first, second = fits[0] if fits else ZOOMS[-1]
    left = room.height - 1 - max(height_of(picture, first), height_of(answer, second))
    enlarged = left > k and filters * (cells((k, k), 1) + FILTER_GAP) <= room.width
    many = 3 if room.height >= 3 * (k + 2) + 3 + (k if enlarged else below) + 1 else 1
    spaced = left > (k if enlarged else below)
    return Sizes(
        first, second, many if tables_fit and not room.hall else 0, int(enlarged) if left >= below else None, spaced
    )


def first_place(picture: np.ndarray, answers: np.ndarray, k: int) -> tuple[int, int]:
    """Where a filter answers most (Y, X) among the patches that have at least half the contrast of the richest: a place
    where there is something, and where relu passes the answer on."""
    patches = np.lib.stride_tricks.sliding_window_view(picture, (k, k))[: answers.shape[0], : answers.shape[1]]
    contrast = np.nan_to_num(patches.std((2, 3)))
    there = np.where(
        contrast >= contrast.max() / 2, np.nan_to_num(answers[: len(patches), : patches.shape[1]]), -np.inf
    )
    row, column = np.unravel_index(there.argmax(), there.shape)
    return int(row), int(column)


class SlidePanel(Panel):
    """`channel` is the filter, (`y`, `x`) the place of its upper left pixel: the requested position; `here` is the
    shown one, as a frame may have fewer. While it slides, the output is shown only for the places passed."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "up",
            "move(-1, 0)",
            "move the filter up",
            "move",
            id="conv.up",
            heading=MOVING,
            key_display="arrows",
        ),
        bind("down", "move(1, 0)", "move the filter down", id="conv.down", heading=MOVING),
        bind("left", "move(0, -1)", "move the filter to the left", id="conv.left", heading=MOVING),
        bind("right", "move(0, 1)", "move the filter to the right", id="conv.right", heading=MOVING),
        bind("enter", "slide", "slide the filter over the picture, or stop it", "slide it", id="conv.slide"),
        bind("tab", "filter(1)", "go to the next filter", "filter", id="conv.filter"),
        bind("shift+tab", "filter(-1)", "go to the filter before", id="conv.filter-before"),
        bind("v", "table", "show the products, the patch or the filter", "another table", id="conv.table"),
    )

    def __init__(self, caption: CaptionLine) -> None:
        super().__init__(id="slide")
        self.caption = caption
        self.picture, self.answer, self.numbers = Words(id="picture"), Words(id="answer"), Words(id="numbers")
        self.filters = Words(id="filters")
        self.timer: Timer | None = None
        self.sizes = Sizes(0, 0, 0, None)
        self.forget()

    def compose(self) -> ComposeResult:
        with Horizontal(id="over"):
            yield self.picture
            yield self.answer
            with Vertical(id="numbers-box"):
                yield self.numbers
        yield self.filters

    def on_mount(self) -> None:
        self.timer = self.set_interval(1 / A_SECOND, self.slide_on, pause=True)

    def forget(self) -> None:
        self.frame: Frame | None = None
        self.channel = self.y = self.x = self.table = 0
        self.sliding = False
        self.caption.say(())
        if self.is_mounted:
            for words in (self.picture, self.answer, self.numbers, self.filters):
                words.say("")

    def show(self, frame: Frame) -> None:
        begins, self.frame = self.frame is None, frame
        if begins and (arrays := self.arrays) is not None:
            picture, weights, _, answers = arrays
            self.y, self.x = first_place(picture, answers[self.here(answers)[0]], weights.shape[-1])
        self.draw()

    # Drawing.

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """(picture (Y, X), filters (C, k, k), biases (C), answers (C, Y′, X′)) of the first layer, or None."""
        frame = self.frame
        names = ("picture", "filter/0", "bias/0", "map/0")
        if frame is None or any(name not in frame.tensors for name in names):
            return None
        picture, weights, bias, answers = (np.asarray(frame.tensors[name], np.float64) for name in names)
        fits = (
            bool(picture.size and weights.size and answers.size)
            and picture.ndim == 2
            and weights.ndim == 4
            and weights.shape[1] == 1
            and answers.ndim == 3
        )
        return (picture, weights[:, 0], bias, answers) if fits and len(weights) == len(bias) == len(answers) else None

    def here(self, answers: np.ndarray) -> tuple[int, int, int]:
        """The shown filter and place of answers (C, Y′, X′)."""
        channels, rows, columns = answers.shape
        return min(self.channel, channels - 1), min(self.y, rows - 1), min(self.x, columns - 1)

    def draw(self) -> None:
        arrays = self.arrays
        if arrays is None or not self.is_mounted or not self.size.width:
            return
        picture, weights, bias, answers = arrays
        k = weights.shape[-1]
        channel, y, x = self.here(answers)
        if self.frame is not None:
            self.caption.say(captions.convolution(self.frame, channel, y, x))
        z = answers[channel]
        hall = legibility(self).thick
        room = Room(self.size.width, self.size.height, 1 + self.roomy, hall)
        before, sizes = self.sizes, sizes_in(room, picture.shape, z.shape, k, len(weights))
        self.sizes = sizes
        if before.tables != sizes.tables:  # with one table there is a key for the next
            self.screen.refresh_bindings()
        shown = z.copy()
        if self.sliding:
            shown.reshape(-1)[y * z.shape[1] + x + 1 :] = np.nan
        dark, light = float(picture.min()), float(picture.max())
        size = float(np.abs(z[np.isfinite(z)]).max(initial=0.0)) or 1.0
        self.picture.say(
            self.draw_picture(
                f"a, from {number(dark, 2)} to {number(light, 2)}",
                picture - dark if is_dark(self) else light - picture,
                Scale(0.0, light - dark),
                Part(y, x, k),
                sizes.picture,
            )
        )
        title = f"z of filter {channel + 1}, ±{number(size, 2)}"
        self.answer.say(self.draw_picture(title, shown, Scale(-size, size), Part(y, x, 1), sizes.answer))
        self.picture.styles.width = cells(picture.shape, sizes.picture) + room.gap
        self.answer.styles.width = cells(z.shape, sizes.answer) + room.gap
        tables = TABLES[self.table : self.table + 1] if sizes.tables == 1 else TABLES[: sizes.tables]
        patch = picture[y : y + k, x : x + k]
        self.numbers.say(self.describe_sum(patch, weights[channel], float(bias[channel]), tables))
        self.filters.display = sizes.filters is not None
        self.filters.styles.margin = (int(sizes.spaced), 0, 0, 0)
        self.filters.say(self.all_filters(weights, channel, sizes.filters or 0))

    @property
    def roomy(self) -> int:
        """Cells next to each picture, if the terminal is wide enough."""
        return 2 if self.size.width >= 100 else 0

    def draw_picture(self, title: str, values: np.ndarray, scale: Scale, part: Part, zoom: int) -> Content:
        lines = [Content.styled(formula(title, is_ascii(self)), "$quiet")]
        green = palette.lines(colours(self), is_dark(self))[GREEN]  # in no ramp
        for line in pixel_lines(values, scale, self.ramp(scale), self.surface_colour, part, green, zoom):
            lines.append(Content.assemble(*(style_piece(piece, not self.fills) for piece in line)))
        return Content("\n").join(lines)

    def ramp(self, scale: Scale) -> Ramp:
        return ramp_for(scale, colours(self), is_dark(self), is_ascii(self))

    @property
    def fills(self) -> bool:
        return any(self.ramp(Scale(-1, 1)).fill) and not is_ascii(self)

    @property
    def surface_colour(self) -> tuple[int, int, int]:
        return self.background_colors[1].rgb

    def describe_sum(
        self, patch: np.ndarray, weights: np.ndarray, bias: float, tables: Sequence[tuple[str, str]]
    ) -> Content:
        """The tables of the patch, the filter and their products, and the sum; without tables, only its numbers."""
        ascii = is_ascii(self)
        values = {"patch": patch, "filter": weights, "products": patch * weights}
        total = float(values["products"].sum())
        z, (best, chance) = total + bias, self.guess
        if not tables:
            numbers = (("sum", total), ("+ b", bias), ("z", z), ("relu", max(0.0, z)))
            brief = [*(f"{name:<4}{round(value, 2) + 0.0:7.2f}" for name, value in numbers), "", best, chance]
            styles = ["$quiet", "$quiet", "bold $accent", "$quiet", "", "", "$quiet"]
            return Content("\n").join(
                Content.styled(formula(text.replace("-", "−"), ascii), style)
                for text, style in zip(brief, styles, strict=True)
            )
        lines: list[Content] = []
        for name, title in (tables[1], tables[2], tables[0]) if len(tables) == 3 else tables:
            lines.append(Content.styled(formula(title, ascii), "$quiet"))
            for row in values[name]:
                lines.append(
                    Content("".join(f"{value:{CELL}.2f}".replace("-", "-" if ascii else "−") for value in row))
                )
            lines.append(Content(""))
        digits = digits_needed(z, [total])
        words = f"z = {number(total, digits)} + b = {number(z, digits)}"
        lines.append(Content.styled(formula(words, ascii), "bold $accent"))
        lines.append(
            Content.styled(formula(f"b = {number(bias, 3)}   relu z = {number(max(0.0, z), 3)}", ascii), "$quiet")
        )
        if best:
            lines.append(Content.styled(f"the network says {best}, {chance}", "$quiet"))
        return Content("\n").join(lines)

    @property
    def guess(self) -> tuple[str, str]:
        """The likeliest class and its probability; "" = not recorded."""
        frame = self.frame
        classes = frame.tokens.get("class", []) if frame is not None else []
        shares = np.asarray(frame.tensors.get("class/probability", [])) if frame is not None else np.zeros(0)
        if len(classes) != len(shares) or not len(shares):
            return "", ""
        best = int(np.argmax(shares))
        return visible(classes[best]), share(shares[best])

    def all_filters(self, weights: np.ndarray, channel: int, zoom: int) -> Content:
        """The filters side by side, each with its number; that of the chosen one is marked."""
        k = weights.shape[-1]
        size = float(np.abs(weights).max()) or 1.0
        most = max(1, (self.size.width - 2) // (cells((k, k), zoom) + FILTER_GAP))
        first = max(0, min(channel - most // 2, len(weights) - most))
        shown = range(first, min(len(weights), first + most))
        scale = Scale(-size, size)
        drawn = [pixel_lines(weights[each], scale, self.ramp(scale), self.surface_colour, zoom=zoom) for each in shown]
        lines = []
        for y in range(len(drawn[0])):
            parts = []
            for each, pieces in zip(shown, drawn, strict=True):
                head = f"{each + 1}" if y == 0 else ""
                parts.append(Content.styled(f"{head:>3} ", "bold $accent" if each == channel else "$quiet"))
                parts += [style_piece(piece, False) for piece in pieces[y]]
            lines.append(Content.assemble(*parts))
        return Content("\n").join(lines)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.display and self.arrays is not None and (action != "table" or self.sizes.tables == 1)

    def word_for(self, binding: Binding) -> str:
        if binding.id == "conv.slide":
            return "stop" if self.sliding else "slide it"
        return binding.description

    def action_move(self, down: int, right: int) -> None:
        arrays = self.arrays
        if arrays is not None:
            rows, columns = arrays[3].shape[1:]
            self.channel, y, x = self.here(arrays[3])
            self.y, self.x = (y + down) % rows, (x + right) % columns
            self.draw()

    def action_filter(self, by: int) -> None:
        """Go to the next filter."""
        arrays = self.arrays
        if arrays is not None:
            self.channel = (self.here(arrays[3])[0] + by) % len(arrays[3])
            self.draw()

    def action_table(self) -> None:
        """Show the products, the patch or the filter, where there is room for one of them."""
        self.table = (self.table + 1) % len(TABLES)
        self.draw()

    def action_slide(self) -> None:
        """Slide the filter over the picture from the first place on, or stop it."""
        self.sliding = not self.sliding
        if self.sliding:
            self.y = self.x = 0
        assert self.timer is not None
        (self.timer.resume if self.sliding else self.timer.pause)()
        self.draw()
        self.screen.refresh_bindings()

    def slide_on(self) -> None:
        arrays = self.arrays
        if arrays is None or not self.sliding or self.app.screen is not self.screen:
            return
        rows, columns = arrays[3].shape[1:]
        _, y, x = self.here(arrays[3])
        place = y * columns + x + 1
        if place == rows * columns:
            self.action_slide()
            return
        self.y, self.x = divmod(place, columns)
        self.draw()

    def action_why(self) -> None:
        """Explain the filter's output at this place."""
        frame, arrays = self.frame, self.arrays
        if frame is None or arrays is None:
            return
        index = self.here(arrays[3])

        def ask() -> object:
            from txlab.experiments.kinds.convolution import KIND

            return KIND.explain_frame(frame, "map/0", index)

        ask_why(self.app, ask, again=self.action_why)  # type: ignore[arg-type]


def style_piece(piece: Piece, marks: bool) -> Content:
    """A piece as content; `marks`: the selected part is reversed, where there are no fills to dim."""
    parts = []
    if piece.ink is not None:
        parts.append("rgb({},{},{})".format(*piece.ink))
    if piece.fill is not None:
        parts.append("on rgb({},{},{})".format(*piece.fill))
    if marks and piece.inside:
        parts.append("reverse")
    return Content.styled(piece.text, " ".join(parts))
