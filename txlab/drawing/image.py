"""An image and a histogram in cells: half blocks in colour, shades without colour, bars in eighths.

Notable: a cell is about twice as high as wide, so half blocks make square pixels; without them a pixel is a cell, and
the picture has half as many rows. A shade stands for light on a dark surface and for dark on a light one.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from txlab.drawing.palette import ASCII_SHADES, RGB, SHADES, Colours
from txlab.drawing.spark import ASCII_BARS, BARS

Array = np.ndarray[Any, Any]
Run = tuple[str, RGB | None, RGB | None]  # text, foreground, background
LUMINANCE = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def resize(image: Array, rows: int, columns: int) -> Array:
    """(H, W, …) → (rows, columns, …): the mean of the pixels under each, the nearest where there are fewer."""

    def along(values: Array, count: int, axis: int) -> Array:
        size = values.shape[axis]
        if count >= size:
            nearest: Array = values.take((np.arange(count) * size) // count, axis)
            return nearest
        edges = np.linspace(0, size, count + 1).astype(np.int64)
        sums = np.add.reduceat(values, edges[:-1], axis)
        shape = [1] * values.ndim
        shape[axis] = count
        means: Array = sums / np.diff(edges).reshape(shape)
        return means

    return along(along(image.astype(np.float64), rows, 0), columns, 1)


def image_size(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """The pixels (rows, columns) that an image gets in a space of square pixels; small ones grow by whole factors."""
    scale = min(rows / height, columns / width)
    if scale >= 1:
        scale = max(1, int(scale))
    return max(1, min(rows, round(height * scale))), max(1, min(columns, round(width * scale)))


def image_lines(image: Array, rows: int, columns: int, colours: Colours, dark: bool, ascii: bool) -> list[list[Run]]:
    """Draw bytes, (H, W) or (H, W, 3), into at most columns × rows cells; a list of runs for each line."""
    # With 16 colours a grey picture has four greys, and more shades; a coloured one would lose its hues.
    paired = not ascii and (colours in ("truecolor", "256") or (colours == "16" and image.ndim == 3))
    tall, wide = image_size(image.shape[0], image.shape[1], 2 * rows, columns)
    if not paired:
        light = image @ LUMINANCE if image.ndim == 3 else image
        shares = resize(light, max(1, tall // 2), wide) / 255
        signs = " " + (ASCII_SHADES if ascii else SHADES)
        levels = np.rint((shares if dark else 1 - shares) * (len(signs) - 1)).astype(np.int64)
        return [[("".join(signs[level] for level in line), None, None)] for line in levels.tolist()]
    pixels = np.rint(resize(image, tall + tall % 2 if tall < 2 * rows else tall, wide)).astype(np.int64)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, 2)
    lines: list[list[Run]] = []
    for y in range(0, len(pixels), 2):
        below = pixels[min(y + 1, len(pixels) - 1)]
        pairs = zip(map(tuple, pixels[y].tolist()), map(tuple, below.tolist()), strict=True)
        lines.append([("▀" * len(list(run)), pair[0], pair[1]) for pair, run in groupby(pairs)])
    return lines


def histogram_lines(counts: Array, rows: int, columns: int, ascii: bool) -> list[str]:
    """Draw counts as bars from the bottom up, in eighths of a cell (ASCII: whole cells); each bin equally wide."""
    if not counts.size or rows <= 0 or columns <= 0:
        return []
    heights = spread(counts, columns)
    bars, full = (ASCII_BARS, "#") if ascii else (BARS, "█")
    units = 1 if ascii else 8
    top = float(heights.max()) or 1.0
    eighths = np.ceil(heights / top * rows * units - 1e-9).astype(np.int64)  # a non-zero count is never empty
    lines = []
    for row in range(rows):
        rest = eighths - (rows - 1 - row) * units
        parts = [" " if each <= 0 else full if each >= units else bars[each - 1] for each in rest.tolist()]
        lines.append("".join(parts))
    return lines


def spread(counts: Array, columns: int) -> Array:
    """Counts in the given number of columns: bins of equal whole cells, or several bins per column."""
    bins = len(counts)
    if columns >= bins:
        return np.repeat(counts, columns // bins).astype(np.float64)
    return rebin(counts, 0, 1, 0, 1, columns)


def rebin(counts: Array, low: float, high: float, to_low: float, to_high: float, bins: int) -> Array:
    """The same counts in equal bins of another range, each spread evenly over its bin."""
    edges, wanted = np.linspace(low, high, len(counts) + 1), np.linspace(to_low, to_high, bins + 1)
    total = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    counts_between: Array = np.diff(np.interp(wanted, edges, total, 0.0, float(total[-1])))
    return counts_between
