"""run.json, or where that is lost, what the rest of the directory says of the run.

Notable: run.json is a summary. A crash of the machine or a slip of the hand may garble it, and nothing that a run needs
to go on is in it alone: scenario.toml says what runs, the log how far it came and how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from txlab.errors import LabError
from txlab.runs.directory import STATUSES, RunDirectory, RunInfo, Unreadable
from txlab.runs.events import Row, each_row


def info_of(run: RunDirectory) -> RunInfo:
    """run.json as it stands, or put together again; nothing is written.

    Raises LabError if there is nothing to put it together from, or its format is newer than this program's.
    """
    try:
        return RunInfo.load(run)
    except Unreadable as error:
        try:
            scenario = tables_of(run)
            return put_together(run, scenario, (row for row, _ in each_row(run.events)))
        except (OSError, LabError):
            raise error from None


def put_together(run: RunDirectory, scenario: dict[str, Any], rows: Iterable[Row]) -> RunInfo:
    """What scenario and log say of a run."""
    info = RunInfo(name=run.name, scenario=run.name, status="interrupted", reason="run.json was lost")
    info.kind, info.title = said(scenario, "kind"), said(scenario.get("about"), "title")
    train = scenario.get("train")
    if isinstance(train, dict) and isinstance(train.get("steps"), int):
        info.steps = train["steps"]
    for row in rows:
        info.step = row["step"] if row["event"] == "rewind" else max(info.step, row["step"])
        if row["event"] == "start":
            info.started = float(row["time"])
            info.created = info.created or info.started
            info.status, info.reason, info.ended = "interrupted", "run.json was lost", None
        elif row["event"] == "end" and row.get("status") in STATUSES:
            info.status, info.reason, info.ended = row["status"], said(row, "reason"), float(row["time"])
    return info


def tables_of(run: RunDirectory) -> dict[str, Any]:
    """scenario.toml as plain tables. Raises LabError where there is none, or it is no TOML."""
    from txlab.runs.scenario import parse, read_text

    return parse(read_text(run.scenario_file, follow=False), run.scenario_file)


def said(table: Any, key: str) -> str:
    """A text in a table that anybody may have written, or ""."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""
