"""The explanations of the Lab: the size of a scenario, or the state of a run. Called in a thread.

A run that is running or done is explained by its last loss, all others by their state with the values before it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.drawing.formatting import STATES, calendar, count, duration, number
from txlab.experiments.kind import explain_metric, explain_scenario, kind_of_run
from txlab.experiments.metric import in_order, is_validation
from txlab.runs.reader import RunReader
from txlab.runs.summary import summary_of
from txlab.tui.screens.lab.describe import what_to_do

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.runs.scenario import CatalogueEntry

LAST = 4  # steps before the end whose values are shown
NAMES = 6  # metrics that are listed


def why_scenario(entry: CatalogueEntry) -> Explanation | str:
    """Explain parameters and FLOPs from the model's shape."""
    answer = explain_scenario(entry.scenario, 60 * entry.scenario.about.minutes)
    return answer or f"{entry.name}: its size is unknown until it has run."


def why_run(path: Path) -> Explanation | str:
    """Explain the last loss of a run that is running or done; for any other, its history."""
    reader = RunReader(path, light=True)
    reader.poll()
    run = summary_of(reader)
    if run.status in ("done", "running") and run.value is not None and math.isfinite(run.value):
        values = {name: value for name in reader.names() if (value := reader.latest(name)) is not None}
        answer = explain_metric(dict(reader.scenario), run.metric, run.step, values, dict(run.facts))
        if answer is not None:
            return answer
    return in_words(reader)


def in_words(reader: RunReader) -> str:
    """Return the state, its reason, the last values, the checkpoints to go back to, and advice."""
    run = summary_of(reader)
    far = f"step {count(run.step)}" + (f" of {count(run.steps)}" if run.steps else "")
    lines = [f"{run.name}: {STATES.get(run.status, run.status)} at {far}."]
    if run.created:
        took = f" and took {duration(run.seconds)}" if run.seconds else ""
        lines.append(f"It was started {calendar(run.created)}{took}.")
    if run.reason:
        lines += ["", f"Why: {run.reason}"]
    if rows := last_values(reader):
        lines += ["", *rows]
    if reader.omission:
        lines += ["", f"{reader.omission}."]
    saved = [int(row["step"]) for row in reader.rows("checkpoint")]
    if saved and run.status != "done":
        lines += ["", f"Its last checkpoint is that of step {count(saved[-1])}."]
    if advice := what_to_do(run):
        lines += ["", advice]
    return "\n".join(lines)


def last_values(reader: RunReader) -> list[str]:
    """Return a small table of the last steps, one column a metric."""
    known = [name for name in reader.names("metrics") if not is_validation(name)]
    names = in_order(known, kind_of_run(reader.info.kind).METRICS, reader.info.facts)[:NAMES]
    if not names:
        return []
    series = [reader.series(name) for name in names]
    steps = sorted({int(step) for each in series for step in each.steps[-LAST:]})[-LAST:]
    rows = [["step", *names]]
    for step in steps:
        columns = [dict(zip(each.steps[-LAST:].tolist(), each.values[-LAST:].tolist(), strict=True)) for each in series]
        rows.append([count(step), *(number(each[step]) if step in each else "" for each in columns)])
    sizes = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True)) for row in rows]
