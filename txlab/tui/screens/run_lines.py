"""A run as two lines of the list in the Lab.

● gpt-docs         1 240/5 000
  loss 2.113 ▇▆▅▄▃▃▂▂▂▁  3m12s
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from txlab.drawing.formatting import count, number
from txlab.drawing.spark import spark
from txlab.drawing.text import cut, fit, visible, width
from txlab.runs.primary_metric import short
from txlab.tui.formatting import STATES, duration
from txlab.tui.run_summary import Glance
from txlab.tui.screens.lab.rows import Line, StyleName
from txlab.tui.theme import Glyphs, glyphs

CURVE_CELLS = 24  # the little curve at its widest
BESIDE_IT = 24  # cells for the number before it and the time after it
STYLES: dict[str, StyleName] = {
    "created": "accent",
    "running": "accent",
    "paused": "accent",
    "done": "good",
    "failed": "error",
    "lost": "error",
    "unreadable": "error",
}


def status_glyph(status: str, signs: Glyphs) -> str:
    """The sign of a state; its word stands beside it wherever it is not obvious."""
    return {
        "created": signs.waiting,
        "running": signs.live,
        "paused": signs.paused,
        "done": signs.done,
        "stopped": signs.stopped,
        "interrupted": signs.stopped,
        "failed": signs.failed,
    }.get(status, signs.lost)


def run_lines(path: Path, run: Glance | None, width: int, chosen: bool, focused: bool, ascii: bool) -> list[Line]:
    """The two lines; of a run that has not been looked at yet only its name is known."""
    signs = glyphs(ascii)
    cursor: tuple[str, StyleName] = (f"{signs.cursor if chosen else ' '} ", "accent" if focused else "quiet")
    if run is None:
        return [[cursor, (fit(visible(path.name), max(1, width - 2)), "quiet")], []]
    far = how_far(run)
    return [
        [
            cursor,
            (f"{status_glyph(run.status, signs)} ", STYLES.get(run.status, "quiet")),
            (
                fit(visible(run.scenario), max(1, width - 5 - len(far)), ellipsis=signs.ellipsis),
                "accent" if chosen and focused else "strong",
            ),
            (f" {far}", "quiet"),
        ],
        [("    ", "plain"), *second_line(run, max(1, width - 4), ascii)],
    ]


def how_far(run: Glance) -> str:
    """1 240/5 000, or the state in a word and the step it was reached at."""
    if run.status == "created":
        return STATES["created"]
    steps = f"{count(run.step)}/{count(run.steps)}" if run.going and run.steps else count(run.step) if run.step else ""
    if run.status in ("running", "done"):
        return steps
    return f"{STATES.get(run.status, visible(run.status))} {steps}".rstrip()


def second_line(run: Glance, room: int, ascii: bool) -> Line:
    """loss 2.113 ▇▆▅▄▃▃▂▂▂▁  3m12s, or why it ended."""
    ellipsis = glyphs(ascii).ellipsis
    if run.status in ("failed", "lost", "unreadable") and run.reason:
        return [(fit(visible(run.reason), room, ellipsis=ellipsis), "error")]
    if run.value is None:
        text = "waits for its first step" if run.going else run.reason
        return [(fit(visible(text), room, ellipsis=ellipsis), "quiet")]
    cells = max(0, min(CURVE_CELLS, room - BESIDE_IT))
    value, name = number(run.value), visible(run.metric)
    free = min(12, room - cells - 10 - width(value))  # the number is worth more than the end of its name
    said = f"{cut(name if width(name) <= free else short(name), max(1, free))} {value}"
    curve = spark(np.array(run.curve), cells, ascii) if len(run.curve) > 1 else " " * cells
    return [
        (fit(said, max(1, room - cells - 9), ellipsis=ellipsis), "plain"),
        (f" {curve}", "accent" if run.going else "quiet"),
        (f" {duration(run.seconds) if run.seconds else '':>7}", "quiet"),
    ]
