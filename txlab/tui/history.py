"""The history of a run in words: changes and their authors, checkpoints, rewinds, and the reason of its end.

14:33:02  lr 3.0e-4 → 2.9e-4 by you, at step 1 180
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from txlab.drawing.formatting import count, megabytes, number, significant
from txlab.drawing.text import visible
from txlab.runs.control import asker
from txlab.runs.events import Row
from txlab.runs.external_logs.mirror import TITLES
from txlab.runs.reader import RunReader

Level = Literal["plain", "quiet", "warning", "bad", "accent"]
BEST_KEPT = 40  # evaluations in the log; the curve has all of them


@dataclass(frozen=True)
class Entry:
    """One line: time (Unix seconds), step, text, emphasis.

    ident    the id of the request it answers
    regular  the kind of event, if it recurs
    """

    time: float
    step: int
    text: str
    level: Level = "plain"
    ident: str = ""
    regular: str = ""


def text_of(row: Row, key: str) -> str:
    value = row.get(key)
    return visible(value) if isinstance(value, str) else ""


def of_number(value: Any) -> str:
    return significant(float(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else "?"


def control_entry(row: Row, me: str) -> Entry:
    """Return the entry for a request and its outcome."""
    what, key = text_of(row, "request"), text_of(row, "key")
    by = text_of(row, "by")
    who = "" if not by else " by you" if by == me else f" by {by}"
    if row.get("replayed"):
        who += ", repeated after the restart"
    ident = row["id"] if isinstance(row.get("id"), str) else ""
    if row.get("applied") is False:
        reason = text_of(row, "error") or "it cannot be done"
        return Entry(row["time"], row["step"], f"{what} {key}".rstrip() + f" refused{who}: {reason}", "bad", ident)
    words = {
        "set": f"{key} {of_number(row.get('from'))} → {of_number(row.get('to'))}",
        "pause": "paused",
        "resume": "goes on",
        "step": "single step",
        "stop": "asked to stop",
        "checkpoint": "checkpoint asked for",
        "sample": "sample asked for",
    }.get(what, what)
    return Entry(row["time"], row["step"], f"{words}{who}, at step {count(row['step'])}", "accent", ident)


def alert_entry(row: Row) -> Entry:
    """Return the entry for an alert: `! loss jumped: 4.1, and 2.0 ± .1 before`."""
    title, text, level = text_of(row, "title"), text_of(row, "text"), text_of(row, "level")
    words = f"! {title}: {text}" if text else f"! {title}"
    loud: Level = "bad" if level == "error" else "plain" if level == "info" else "warning"
    return Entry(row["time"], row["step"], words, loud)


def history(reader: RunReader) -> tuple[Entry, ...]:
    """Return the entries of the live branch in order of time."""
    me = asker()
    entries = [control_entry(row, me) for row in reader.rows("control")]
    if source := reader.info.source:
        words = f"{TITLES.get(source['program'], '')}'s log, only read here: {visible(source['path'])}"
        entries.append(Entry(reader.info.created, 0, words, "quiet"))
    for row in reader.rows("checkpoint"):
        size = row.get("bytes")
        size_words = f" ({megabytes(size)})" if isinstance(size, (int, float)) else ""
        entries.append(
            Entry(
                row["time"], row["step"], f"checkpoint {count(row['step'])}{size_words}", "quiet", regular="checkpoint"
            )
        )
    entries += [Entry(row["time"], row["step"], text_of(row, "text")) for row in reader.rows("note")]
    entries += [alert_entry(row) for row in reader.rows("alert")]
    entries += evaluations(reader)
    for row in reader.rows("rewind"):
        back = f"went back to step {count(max(0, row['step']))}"
        entries.append(Entry(row["time"], row["step"], f"{back}: {text_of(row, 'reason')}".rstrip(": ")))
    for row in reader.rows("end"):
        status, reason = text_of(row, "status"), text_of(row, "reason")
        level: Level = "bad" if status == "failed" else "plain"
        entries.append(Entry(row["time"], row["step"], f"{status}: {reason}".strip(": ") or "ended", level))
    return tuple(sorted(entries, key=lambda entry: entry.time))


def evaluations(reader: RunReader) -> list[Entry]:
    """Return the validations that were the best so far, and the last one."""
    series = reader.series("val_loss")
    if not len(series):
        return []
    values = np.where(np.isfinite(series.values), series.values, np.inf)
    best = np.flatnonzero(values <= np.minimum.accumulate(values))[-BEST_KEPT:]
    entries = [
        Entry(
            float(series.times[i]),
            int(series.steps[i]),
            f"val {number(float(series.values[i]))} (best so far)",
            "quiet",
            regular="best",
        )
        for i in best
    ]
    last = len(series) - 1
    if last not in best and math.isfinite(float(series.values[last])):
        words = f"val {number(float(series.values[last]))}"
        entries.append(Entry(float(series.times[last]), int(series.steps[last]), words, "quiet", regular="val"))
    return entries


def answered_requests(entries: Sequence[Entry]) -> set[str]:
    """Return the ids of the requests that the run has answered."""
    return {entry.ident for entry in entries if entry.ident}
