"""One-row drawings: a curve ▂▃▅▇ from the smallest value to the largest, and a bar ██▌ whose length is a fraction.

Notable: a curve is binned first and the bins' means are drawn, since at this size minima or maxima would be only noise.
"""

import math

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
RISING = ".:-=+*#@"  # in ASCII, where none of them is a zero
NOISE = 1e-6  # a series that varies by less than this share of its size is constant up to rounding
EIGHTHS = " ▏▎▍▌▋▊▉"


def spark(values: np.ndarray, cells: int, ascii: bool = False, low: float | None = None) -> str:
    """Draw a series with the last value at the right; NaN and ±∞ are blank; `low` fixes the baseline (0 for a rate).

    A series that is constant up to rounding is drawn at the baseline. Fewer values than cells are aligned to the right.

    >>> spark(np.arange(8.0), 8)
    '▁▂▃▄▅▆▇█'
    >>> spark(np.array([0.1 + 0.2, 0.3, 0.1 + 0.2]), 3)
    '▁▁▁'
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    if cells <= 0:
        return ""
    if len(values) > cells:
        edges = np.linspace(0, len(values), cells + 1).astype(np.int64)
        finite = np.isfinite(values)
        sums = np.add.reduceat(np.where(finite, values, 0.0), edges[:-1])
        counts = np.add.reduceat(finite.astype(np.int64), edges[:-1])
        values = np.divide(sums, counts, out=np.full(cells, np.nan), where=counts > 0)
    bars = ASCII_BARS if ascii else BARS
    finite = np.isfinite(values)
    if not finite.any():
        return " " * cells
    foot = values[finite].min() if low is None else low
    with np.errstate(over="ignore"):
        span = values[finite].max() - foot
    if not np.isfinite(span) or span <= NOISE * np.abs(values[finite]).max():
        levels = np.zeros(len(values), dtype=np.int64)
    else:
        share = (np.where(finite, values, foot) - foot) / span
        levels = np.rint(share.clip(0, 1) * (len(bars) - 1)).astype(np.int64)
    text = "".join(bars[level] if shown else " " for level, shown in zip(levels, finite, strict=True))
    return text.rjust(cells)


def bar(share: float, cells: int, ascii: bool = False) -> str:
    """Draw a bar of share · cells, in eighths of a cell (ASCII: whole cells); a positive share is never empty.

    >>> bar(0.5, 5), bar(0.5, 5, ascii=True), bar(1e-9, 5)
    ('██▌', '###', '▏')
    """
    if not math.isfinite(share) or share <= 0:
        return ""
    eighths = max(1, round(min(1.0, share) * cells * 8))
    if ascii:
        return "#" * max(1, (eighths + 4) // 8)
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
