"""Times, sizes and states as people read them: 3m12s, 61 MB, "starting…". Numbers are in txlab.drawing.formatting."""

from __future__ import annotations

import math
import time

from txlab.drawing.formatting import number


def duration(seconds: float) -> str:
    """Two units at most: "4s", "3m12s", "2h05m", "3d04h".

    >>> duration(4.2), duration(192), duration(7500), duration(273600)
    ('4s', '3m12s', '2h05m', '3d04h')
    """
    if not math.isfinite(seconds):
        return "?"
    s = max(0, int(seconds))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m{s % 60:02}s"
    if s < 86400:
        return f"{s // 3600}h{s % 3600 // 60:02}m"
    return f"{s // 86400}d{s % 86400 // 3600:02}h"


def about(minutes: float) -> str:
    """How long a scenario takes: "5 s", "4 min", "2 h"; "" if unknown.

    >>> about(4), about(0.08), about(0), about(150)
    ('4 min', '5 s', '', '2.5 h')
    """
    if minutes <= 0:
        return ""
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.2g} h"


def megabytes(size: float) -> str:
    """Bytes: "412 kB", "61 MB", "1.2 GB"."""
    if size < 1e6:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def significant(value: float) -> str:
    """A number of which three digits matter however small it is, as learning rates are: "3.2e-3", "0.05", "2.113".

    >>> significant(0.0032), significant(0.0003), significant(0.05), significant(2.113)
    ('3.2e-3', '3e-4', '0.050', '2.113')
    """
    if not 0 < abs(value) < 0.01:
        return number(value)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−", value < 0)


STATES = {
    "created": "starting…",
    "running": "running",
    "paused": "paused",
    "done": "done",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
    "lost": "lost",
    "unreadable": "cannot be read",
}


def clock(seconds: float) -> str:
    """A Unix time as the wall shows it here: "14:33:02"."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def calendar(seconds: float) -> str:
    """A Unix time with its day: "2026-11-20 14:33"."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"
