"""An attention pattern as lines of text: queries down, keys across, as large as the terminal allows.

A cell shows its weight twice, by its shade and by a sign or number, so it can be read without colour; masked cells are
blank, near-zero weights are a dot. A pattern that is too wide is max-pooled over tiles, whose size is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.color import Color
from rich.style import Style
from rich.text import Text

from txlab.drawing.formatting import share
from txlab.drawing.palette import Colours, Ramp, heat
from txlab.drawing.picture import COLOURS, GROUNDS, Theme, check_path, drawing, save
from txlab.drawing.text import cut, fit, label, visible, width

Weights = npt.NDArray[np.floating]
CELLS = (4, 2, 1)  # cell widths to try, the largest first; the first can hold ".62"
DEEPEST = 8  # lines that vertical labels may take
LONGEST = 14  # cells that row labels may take


@dataclass(frozen=True)
class Drawn:
    """`lines` to print; `tile`: rows and columns of the pattern per cell, (1, 1) if not pooled."""

    lines: list[Text]
    tile: tuple[int, int]


def max_pool(weights: Weights, tile: tuple[int, int]) -> Weights:
    """Max-pool over tiles, NaN only where a whole tile is NaN: (T, S) → (⌈T/t⌉, ⌈S/s⌉).

    >>> max_pool(np.array([[0.1, 0.9], [0.2, 0.3], [0.4, 0.5]]), (2, 2)).tolist()
    [[0.9], [0.5]]
    """
    (rows, columns), (tall, wide) = weights.shape, tile
    padded = np.full((-(-rows // tall) * tall, -(-columns // wide) * wide), -np.inf)
    padded[:rows, :columns] = np.where(np.isnan(weights), -np.inf, weights)
    tiles = padded.reshape(padded.shape[0] // tall, tall, padded.shape[1] // wide, wide).max((1, 3))
    return np.where(np.isinf(tiles), np.nan, tiles)


def pattern_lines(
    weights: Weights,
    queries: Sequence[str],
    keys: Sequence[str],
    cells: int,
    *,
    colours: Colours = "none",
    ascii: bool = False,
    sums: bool = False,
    largest: float = 1.0,
    first_row: int = 0,
) -> Drawn:
    """Draw weights (T, S), NaN where masked, with the labels of both axes, in at most `cells` columns.

    `sums` writes each row's sum at its right; `largest` is the weight that gets the strongest shade. Each row label is
    preceded by its position, counted from `first_row`.
    """
    digits = len(str(first_row + len(queries) - 1))
    left = digits + 1 + min(LONGEST, max((width(label(text, ascii)) for text in queries), default=1))
    room = cells - left - 1 - (6 if sums else 0)
    wide = next((size for size in CELLS if size * len(keys) <= room), 1)
    many = max(1, -(-len(keys) // max(1, room)))
    tile = (many, many) if wide == 1 and many > 1 else (1, 1)
    shown = max_pool(weights, tile) if tile != (1, 1) else weights
    rows, columns = queries[:: tile[0]], keys[:: tile[1]]
    ramp = heat(colours, ascii=ascii)
    levels = ramp.level(shown / largest if largest > 0 else shown)
    indent = " " * (left + 1)
    lines = [Text(indent + line) for line in header(columns, wide, ascii)]
    if sums:
        for line in lines[-1:]:
            line.append(" " * max(1, left + 1 + wide * len(columns) + 2 - width(line.plain)) + "sum")
    with np.errstate(invalid="ignore", over="ignore"):  # a row with both infinities has no sum
        summed = np.nansum(weights, -1)
    totals = [summed[top : top + tile[0]].max(initial=0.0) for top in range(0, len(weights), tile[0])]
    for row, text in enumerate(rows):
        line = Text().append(f"{first_row + row * tile[0]:>{digits}} ", "dim")
        line.append(fit(label(text, ascii), left - digits - 1, "right", "~" if ascii else "…") + " ")
        for column in range(len(columns)):
            weight = float(shown[row, column])
            if np.isnan(weight):
                line.append(" " * wide)
                continue
            level = int(levels[row, column])
            line.append(sign(weight, level, wide, ramp), shade(ramp, level, wide))
        if sums:
            line.append(f"  {share(totals[row])}")
        lines.append(line)
    return Drawn(lines, tile)


def sign(weight: float, level: int, wide: int, ramp: Ramp) -> str:
    """Return the text of a cell: a number where it fits, else a glyph."""
    if wide >= 4:
        # Four cells hold a number and a gap; a weight that rounds to 1.00 loses a digit to it.
        number = ramp.glyphs[0] if weight < 0.005 else "1.0" if weight >= 0.995 else share(weight)
        return f"{number:>3} "
    return ramp.glyphs[level] * wide


def shade(ramp: Ramp, level: int, wide: int) -> Style:
    """Return the colours of a cell; a number is written in a colour that is readable on the fill."""
    fill, ink = ramp.fill[level], ramp.ink[level]
    if fill is not None and wide >= 4:
        ink = (0, 0, 0) if sum(fill) > 330 else (235, 235, 235)
    return Style(
        color=None if ink is None else Color.from_rgb(*ink), bgcolor=None if fill is None else Color.from_rgb(*fill)
    )


def header(keys: Sequence[str], wide: int, ascii: bool) -> list[str]:
    """Return the column labels: horizontal where each fits its cell, else vertical, aligned to the pattern."""
    labels = [label(text, ascii) for text in keys]
    if wide >= 4 and all(width(text) < wide for text in labels):
        return ["".join(fit(text, wide - 1, "right") + " " for text in labels).rstrip()]
    deep = min(DEEPEST, max((len(text) for text in labels), default=0))
    shown = [text if len(text) <= deep else cut(text, deep - 1) + ("~" if ascii else "…") for text in labels]
    lines = []
    for line in range(deep):
        signs = [text.rjust(deep)[line] for text in shown]
        place = "right" if wide >= 4 else "left"
        lines.append("".join(fit(one, max(1, wide - (wide >= 4)), place) + " " * (wide >= 4) for one in signs).rstrip())
    return lines


def draw_heads(
    pictures: Sequence[Weights], out: str | Path, *, title: str = "", theme: Theme = "light", first: int = 1
) -> Path:
    """Draw every head of a model in a grid, layers down and heads across: L of (H, t, s) → PNG or SVG.

    Raises LabError for a suffix other than .png and .svg, or an unwritable path.
    """
    out = check_path(out)
    stacked = np.stack([np.asarray(layer, np.float64) for layer in pictures])  # (L, H, t, s)
    layers, heads, tall, wide = stacked.shape
    gap = max(1, round(max(tall, wide) / 12))
    canvas = np.full((layers * (tall + gap) - gap, heads * (wide + gap) - gap), np.nan)
    for layer, head in np.ndindex(layers, heads):
        top, left = layer * (tall + gap), head * (wide + gap)
        canvas[top : top + tall, left : left + wide] = stacked[layer, head]
    ground, ink, _ = GROUNDS[theme]
    cell = min(1.4, 12 / max(layers, heads))
    with drawing(theme, (heads * cell + 1.6, layers * cell * tall / max(wide, 1) + 1.2)) as (figure, axes):
        from matplotlib.colors import LinearSegmentedColormap

        ramp = LinearSegmentedColormap.from_list("weights", [lighter(ground, ink), COLOURS[theme][0], ink])
        image = axes.imshow(canvas, cmap=ramp.with_extremes(bad=ground), vmin=0, vmax=1, interpolation="nearest")
        for axis, count, size, name in ((axes.yaxis, layers, tall, "layer"), (axes.xaxis, heads, wide, "head")):
            middles = [place * (size + gap) + (size - 1) / 2 for place in range(count)]
            axis.set_ticks(middles, [str(first + place) for place in range(count)])
            axis.set_label_text(name)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(visible(title), loc="left")
        figure.colorbar(image, ax=axes, shrink=0.7, label="largest weight of each tile")
        save(figure, out)
    return out


def lighter(ground: str, ink: str) -> str:
    """Mix a little ink into the background, so that a head without any attention is still visible as a square."""
    mixed = (round(0.94 * int(ground[i : i + 2], 16) + 0.06 * int(ink[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in mixed)
