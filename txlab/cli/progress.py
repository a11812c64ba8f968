"""Progress of a running experiment for a terminal or a script: one redrawn line, plain lines, or rows of JSON.

Notable: these observers are called for every row by the computing thread, so they check the clock and usually return. A
closed pipe (`| head`) ends the output, never the run. rich is not used: a line that is cut to the width of the terminal
each time needs no thread and leaves no hidden cursor behind when it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from txlab.cli.terminal import ascii_only, can_redraw, columns, group_digits, meter, sanitize
from txlab.drawing.formatting import count, duration, number, plain
from txlab.drawing.text import cut, width
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.experiments.metric import primary_metrics
from txlab.runs.directory import RunInfo
from txlab.runs.events import Row, encode_row

Observer = Callable[[Row], None]

REDRAWN = 0.12  # seconds between redraws of the line: as fast as numbers can be read
SHORT_NAMES = {
    "val_loss": "val",
    "val_bits_per_byte": "bits/byte",
    "exact_match": "exact",
    "tokens_per_second": "tokens/s",
}


def observer_for(run: Path, json: bool) -> Progress:
    """Return the observer that suits the output: JSON rows, a redrawn line, or plain lines."""
    if json:
        return JsonRows(run)
    return RedrawnLine(run) if can_redraw() else PlainLines(run)


class Progress:
    """Collects the content of the rows; the classes below differ in when and how they show it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.step, self.steps, self.unit, self.kind = 0, 0, "", ""
        self.facts: Mapping[str, Any] = {}
        self.values: dict[str, float] = {}
        self.muted = False

    def __call__(self, row: Row) -> None:
        if self.muted:
            return
        try:
            self.take(row)
            self.show(row)
        except OSError:  # the output is closed; the run continues
            self.muted = True

    def take(self, row: Row) -> None:
        if row["event"] in ("metrics", "machine"):
            values = row.get("values")
            if isinstance(values, dict):
                self.values.update({name: v for name, v in values.items() if isinstance(v, (int, float))})
            self.step = max(self.step, row["step"])  # a metric may have its own steps
        elif row["event"] == "rewind":
            self.step = row["step"]
        if not self.steps and row["event"] == "metrics":
            self.learn()

    def learn(self) -> None:
        """Read the number of steps and their unit from run.json, which has them once the experiment is built."""
        try:
            info = RunInfo.load(self.run)
        except LabError:
            return
        self.steps, self.facts, self.kind, self.unit = (
            info.steps,
            info.facts,
            info.kind,
            str(info.facts.get("unit", "")),
        )

    def show(self, row: Row) -> None: ...

    def close(self) -> None: ...

    def parts(self) -> list[tuple[int, str]]:
        """Return (how dispensable, text) of each part of the line, in order."""
        parts = [(i, f"{SHORT_NAMES.get(n, n)} {number(self.values[n])}") for i, n in enumerate(self.shown_metrics())]
        parts = [(3 * place, text) for place, text in parts]
        if (speed := self.values.get("tokens_per_second")) is not None:
            parts.append((5, f"{count(speed)} {self.unit or 'tokens'}/s"))
        if (left := self.values.get("seconds_left")) is not None and self.step < self.steps:
            parts.append((1, f"{duration(left)} left"))
        return parts

    def shown_metrics(self) -> list[str]:
        """Return the metrics to show on the line."""
        kind = kind_of_run(self.kind)
        known = [name for name in self.values if kind.metric(name).group == "result"]
        names = primary_metrics(known, kind.METRICS, self.facts.get("headline"))
        return names if len(names) > 1 else [*names, *(n for n in known if n not in names)][:3]

    def line(self, room: int = 1000) -> str:
        """Format `step 120/300  loss 2.113, val 2.204, 54 312 tokens/s, 12s left`; what does not fit is left out."""
        parts = self.parts()
        while True:
            of = f"/{group_digits(self.steps)}" if self.steps else ""
            text = f"step {group_digits(self.step)}{of}  {', '.join(text for _, text in parts)}"
            text = sanitize(plain(text) if ascii_only() else text)
            if width(text) <= room or not parts:
                return text
            parts.remove(max(parts))


def quiet(line: str) -> str:
    r"""Escape characters of JSON text that a terminal could act upon; controls below a space are escaped already.

    >>> quiet('"a\u202e\u009b"') == '"a\\u202e\\u009b"'
    True
    """
    if line.isascii():
        return line
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in line)


class JsonRows(Progress):
    """Prints the rows of events.jsonl as they are written."""

    def show(self, row: Row) -> None:
        sys.stdout.write(quiet(encode_row(row).decode()))
        sys.stdout.flush()


class PlainLines(Progress):
    """Prints lines less often the longer the run takes: at most one a minute in a week's nohup.out."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.begun = self.said = time.monotonic()
        self.said_step = -1

    def show(self, row: Row) -> None:
        now = time.monotonic()
        pause = min(60.0, max(2.0, 0.05 * (now - self.begun)))
        if row["event"] == "metrics" and now - self.said >= pause:
            self.say(now)
        elif row["event"] in ("note", "control", "rewind", "alert"):
            print(format_row(row), flush=True)

    def say(self, now: float) -> None:
        if self.values and self.step != self.said_step:
            self.said, self.said_step = now, self.step
            print(self.line(), flush=True)

    def close(self) -> None:
        try:
            self.say(time.monotonic())
        except OSError:
            self.muted = True


class RedrawnLine(Progress):
    """Redraws one line at the bottom, which is removed when the run ends."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.drawn = 0.0
        self.draw("getting ready")

    def show(self, row: Row) -> None:
        if row["event"] in ("note", "control", "rewind", "alert"):
            sys.stdout.write("\r\x1b[K" + format_row(row) + "\n")
        now = time.monotonic()
        if now - self.drawn >= REDRAWN:
            self.drawn = now
            self.draw(self.line_with_bar())

    def line_with_bar(self) -> str:
        text = self.line(columns() - 1)
        room = min(30, columns() - 3 - width(text))
        if self.steps <= 0 or room < 6:
            return text
        return f"{meter(min(1.0, self.step / self.steps), room)}  {text}"

    def draw(self, text: str) -> None:
        try:
            sys.stdout.write("\r" + cut(text, columns() - 1) + "\x1b[K")
            sys.stdout.flush()
        except OSError:
            self.muted = True

    def close(self) -> None:
        if not self.muted:
            self.draw("")
            sys.stdout.write("\r")


def format_row(row: dict[str, Any]) -> str:
    """Format a note, an alert, a control or a rewind as a line."""
    where = f"step {group_digits(row['step'])}"
    if row["event"] == "note":
        return sanitize(f"{where}: {row.get('text', '')}")
    if row["event"] == "alert":
        return sanitize(f"{where}: {row.get('level')}: {row.get('title')}: {row.get('text')}".rstrip(": "))
    if row["event"] == "rewind":
        return sanitize(f"back to {where}: {row.get('reason', '')}")
    return sanitize(f"{where}: {answer(row)}")


def answer(row: dict[str, Any]) -> str:
    """Describe the outcome of a request: "lr 0.0003 → 0.0001 by ann@box", "pause by ann@box", "set refused: …"."""
    request, by = row.get("request", "?"), f" by {row['by']}" if row.get("by") else ""
    if not row.get("applied"):
        return f"{request}{by} refused: {row.get('error') or 'no reason given'}"
    arrow = "->" if ascii_only() else "→"
    what = f"{row.get('key')} {row.get('from')} {arrow} {row.get('to')}" if request == "set" else request
    if request == "step":
        what = f"step {group_digits(row.get('count', 1))}"
    return f"{what}{by}{' (again, as before the interruption)' if row.get('replayed') else ''}"
