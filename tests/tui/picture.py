"""Pictures of a running Textual app, for looking at screens and for the images of README.md and docs/.

The cells are taken from the compositor (what would be sent to the terminal) and rasterised with Pillow and DejaVu Sans
Mono. Box drawing, blocks, shades and braille are drawn geometrically, so that there are no seams between cells; reduced
colour depths quantise every cell's colours as rich does when it writes to such a terminal.

    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        save_png(app, "screen.png", colours="256")
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.strip import Strip

Colours = Literal["truecolor", "256", "16", "none"]
RGB = tuple[int, int, int]

SYSTEMS = {"256": ColorSystem.EIGHT_BIT, "16": ColorSystem.STANDARD}

# xterm's own sixteen colours, as on a plain terminal.
XTERM = TerminalTheme(
    (0, 0, 0),
    (229, 229, 229),
    [(0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)],
    [(127,) * 3, (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255), (255,) * 3],
)


@dataclass(frozen=True)
class Cell:
    """One grapheme at a column of a row: `width` is 1 or 2 cells."""

    text: str
    width: int
    style: Style


def strips_of(app: App[object]) -> list[Strip]:
    """The rows that the compositor would write now, including the screens behind a modal one."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return [strip if isinstance(strip, Strip) else Strip.join(strip) for strip in update.strips]


def text_of(app: App[object]) -> str:
    """The screen as plain text, one line per row, for assertions and logs."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(app))


def cells(strip: Strip) -> Iterator[Cell]:
    """The graphemes of a row; combining characters stay with their base characters."""
    for text, style, control in strip:
        if control:
            continue
        grapheme = ""
        for character in text:
            if grapheme and cell_len(character) == 0:
                grapheme += character
                continue
            if grapheme:
                yield Cell(grapheme, max(1, cell_len(grapheme)), style or Style.null())
            grapheme = character
        if grapheme:
            yield Cell(grapheme, max(1, cell_len(grapheme)), style or Style.null())


def rgb(colour: Color | None, colours: Colours, foreground: bool) -> RGB:
    """A colour as a terminal of that depth would show it."""
    default = XTERM.foreground_color if foreground else XTERM.background_color
    if colour is None or colour.is_default or colours == "none":
        return tuple(default)
    if colours in SYSTEMS:
        colour = colour.downgrade(SYSTEMS[colours])
    return tuple(colour.get_truecolor(XTERM, foreground))


def ink(style: Style, colours: Colours) -> tuple[RGB, RGB]:
    """The foreground and background of a cell, with reverse and dim applied."""
    front, back = rgb(style.color, colours, True), rgb(style.bgcolor, colours, False)
    if style.reverse:
        front, back = back, front
    if style.dim:
        front = mix(back, front, 0.6)
    return front, back


def mix(back: RGB, front: RGB, share: float) -> RGB:
    return tuple(round(b + (f - b) * share) for b, f in zip(back, front, strict=True))


@cache
def font_file(bold: bool, italic: bool) -> str:
    """The system's DejaVu Sans Mono (which has the oblique styles), or else the copy that comes with matplotlib."""
    name = "DejaVuSansMono" + {(0, 0): "", (1, 0): "-Bold", (0, 1): "-Oblique", (1, 1): "-BoldOblique"}[bold, italic]
    system = Path("/usr/share/fonts/truetype/dejavu") / f"{name}.ttf"
    if system.exists():
        return str(system)
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")


@cache
def font(size: int, bold: bool, italic: bool) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(font_file(bold, italic), size)


@cache
def has_glyph(character: str) -> bool:
    """Whether the font has the character; if not, it is drawn as a hollow frame of the right width."""
    missing = font(32, False, False).getmask("\U0010fffe")
    mask = font(32, False, False).getmask(character)
    return bytes(mask) != bytes(missing) or mask.size != missing.size


WEIGHT = {"LIGHT": 1, "SINGLE": 1, "HEAVY": 2, "DOUBLE": 3}
ARMS = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R", "VERTICAL": "UD", "HORIZONTAL": "LR"}
DASHES = {"DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}


@cache
def box_arms(character: str) -> tuple[dict[str, int], int]:
    """The arms of a box drawing character, from its Unicode name: ({'U': weight, …}, dashes).

    >>> box_arms("├")
    ({'U': 1, 'D': 1, 'R': 1}, 0)
    """
    words = unicodedata.name(character).removeprefix("BOX DRAWINGS ").split()
    dashes = 0
    if "DASH" in words:
        place = words.index("DASH")
        dashes = DASHES[words[place - 1]]
        words = words[: place - 1] + words[place + 1 :]
    arms: dict[str, int] = {}
    # Two grammars: "LIGHT VERTICAL AND RIGHT" (one weight before) and "DOWN LIGHT AND RIGHT UP HEAVY" (weights after).
    weight_first = words[0] in WEIGHT
    weight, pending = 1, ""
    for word in words:
        if word in WEIGHT:
            weight = WEIGHT[word]
            if not weight_first:
                arms |= dict.fromkeys(pending, weight)
                pending = ""
        elif word in ARMS:
            if weight_first:
                arms |= dict.fromkeys(ARMS[word], weight)
            else:
                pending += ARMS[word]
    return arms | dict.fromkeys(pending, weight), dashes


def draw_box(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], character: str, front: RGB) -> None:
    """Lines from the centre to the edges; arcs are drawn as corners with the corner's pixel left out."""
    left, top, right, bottom = box
    if character in "╱╲╳":
        if character in "╱╳":
            draw.line((left, bottom, right, top), fill=front, width=2)
        if character in "╲╳":
            draw.line((left, top, right, bottom), fill=front, width=2)
        return
    arms, dashes = box_arms(character)
    thin = max(1, (right - left) // 8)
    x, y = (left + right) // 2, (top + bottom) // 2
    half_thin = thin // 2
    for arm, weight in arms.items():
        offsets = (-thin, thin) if weight == 3 else (0,)
        size = thin * 2 if weight == 2 else thin
        for offset in offsets:
            if arm in "LR":
                x1, x2 = (left, x + half_thin) if arm == "L" else (x - half_thin, right)
                y1 = y + offset - size // 2
                parts = dash(x1, x2, left, right, dashes)
                for start, end in parts:
                    draw.rectangle((start, y1, end - 1, y1 + size - 1), fill=front)
            else:
                y1, y2 = (top, y + half_thin) if arm == "U" else (y - half_thin, bottom)
                x1 = x + offset - size // 2
                for start, end in dash(y1, y2, top, bottom, dashes):
                    draw.rectangle((x1, start, x1 + size - 1, end - 1), fill=front)


def dash(start: int, end: int, low: int, high: int, dashes: int) -> list[tuple[int, int]]:
    """The parts of low…high (cut into dashes) that lie between start and end."""
    if not dashes:
        return [(start, end)]
    period = (high - low) / dashes
    marks = [(round(low + i * period), round(low + (i + 0.6) * period)) for i in range(dashes)]
    return [(max(start, a), min(end, b)) for a, b in marks if min(end, b) > max(start, a)]


QUADRANTS = dict(zip("▖▗▘▙▚▛▜▝▞▟", ("c", "d", "a", "acd", "ad", "abc", "abd", "b", "bc", "bcd"), strict=True))
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}


def draw_block(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], character: str, ink: tuple[RGB, RGB]) -> None:
    """Draw block elements U+2580–259F to the exact pixel, so that neighbours meet."""
    left, top, right, bottom = box
    front, back = ink
    width, height = right - left, bottom - top

    def fill(x1: float, y1: float, x2: float, y2: float, colour: RGB = front) -> None:
        a, b = left + round(x1 * width), top + round(y1 * height)
        c, d = left + round(x2 * width), top + round(y2 * height)
        draw.rectangle((a, b, max(a, c - 1), max(b, d - 1)), fill=colour)

    code = ord(character)
    if character == "▀":
        fill(0, 0, 1, 0.5)
    elif 0x2581 <= code <= 0x2588:
        fill(0, 1 - (code - 0x2580) / 8, 1, 1)
    elif 0x2589 <= code <= 0x258F:
        fill(0, 0, (0x2590 - code) / 8, 1)
    elif character == "▐":
        fill(0.5, 0, 1, 1)
    elif character == "▔":
        fill(0, 0, 1, 1 / 8)
    elif character == "▕":
        fill(7 / 8, 0, 1, 1)
    elif character in SHADES:
        fill(0, 0, 1, 1, mix(back, front, SHADES[character]))
    else:
        for name, (x, y) in {"a": (0, 0), "b": (0.5, 0), "c": (0, 0.5), "d": (0.5, 0.5)}.items():
            if name in QUADRANTS[character]:
                fill(x, y, x + 0.5, y + 0.5)


# Bit of U+2800 + mask → (column, row) of the dot.
BRAILLE = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))


def draw_braille(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], character: str, front: RGB) -> None:
    left, top, right, bottom = box
    mask = ord(character) - 0x2800
    step_x, step_y = (right - left) / 2, (bottom - top) / 4
    radius = min(step_x, step_y) * 0.36
    for bit, (column, row) in enumerate(BRAILLE):
        if mask >> bit & 1:
            x, y = left + (column + 0.5) * step_x, top + (row + 0.5) * step_y
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=front)


def picture(app: App[object], colours: Colours = "truecolor", size: int = 18) -> Image.Image:
    """The screen of a running app as an image; `size` is the font size in pixels."""
    strips = strips_of(app)
    face = font(size, False, False)
    ascent, descent = face.getmetrics()
    cell_width, cell_height = round(face.getlength("M")), ascent + descent
    columns = max((strip.cell_length for strip in strips), default=1)
    image = Image.new("RGB", (max(1, columns * cell_width), max(1, len(strips) * cell_height)), XTERM.background_color)
    draw = ImageDraw.Draw(image)
    for row, strip in enumerate(strips):
        column = 0
        for cell in cells(strip):
            box = (
                column * cell_width,
                row * cell_height,
                (column + cell.width) * cell_width,
                (row + 1) * cell_height,
            )
            draw_cell(draw, box, cell, ink(cell.style, colours), size)
            column += cell.width
    return image


def draw_cell(
    draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], cell: Cell, ink: tuple[RGB, RGB], size: int
) -> None:
    left, top, right, bottom = box
    front, back = ink
    draw.rectangle((left, top, right - 1, bottom - 1), fill=back)
    code = ord(cell.text[0])
    if 0x2500 <= code <= 0x257F:
        draw_box(draw, box, cell.text[0], front)
    elif 0x2580 <= code <= 0x259F:
        draw_block(draw, box, cell.text[0], ink)
    elif 0x2800 <= code <= 0x28FF:
        draw_braille(draw, box, cell.text[0], front)
    elif cell.text.strip():
        if has_glyph(cell.text[0]):
            face = font(size, bool(cell.style.bold), bool(cell.style.italic))
            draw.text((left, top), cell.text, fill=front, font=face)
        else:
            draw.rectangle((left + 2, top + 3, right - 3, bottom - 5), outline=front)
    line = bottom - max(2, size // 8)
    if cell.style.underline or cell.style.underline2:
        draw.rectangle((left, line, right - 1, line), fill=front)
    if cell.style.strike:
        draw.rectangle((left, (top + bottom) // 2, right - 1, (top + bottom) // 2), fill=front)


def save_png(app: App[object], path: str | Path, colours: Colours = "truecolor", size: int = 18) -> Path:
    """Write the screen of a running app as PNG and return the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    picture(app, colours, size).save(target)
    return target
