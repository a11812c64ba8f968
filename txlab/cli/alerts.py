"""`txlab alerts`: the alerts of a run, or of all runs, newest last; JSON for monitoring programs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import print_rows
from txlab.cli.terminal import group_digits, sanitize
from txlab.drawing.formatting import calendar
from txlab.errors import LabError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def alerts(
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="a run's name or directory, or latest; else all runs")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="10m, 2h, 1d ago; a date, 2026-11-20T14:30; or Unix seconds"),
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """Alerts of a run, or of all runs."""
    from txlab.runs.directory import RunDirectory, info_of
    from txlab.runs.finding import find_run
    from txlab.runs.folder import list_runs

    after = moment(since, time.time()) if since is not None else 0.0
    if name is not None:
        path = find_run(name)
        info_of(RunDirectory(path))  # raises LabError for a run that cannot be read
        rows = list(alerts_of(path, after))
    else:
        rows = [row for path in list_runs() if has_alerts(path, after) for row in alerts_of(path, after)]
    rows.sort(key=lambda row: row["time"])
    if print_rows(rows, json, csv):
        return
    for row in rows:
        text = f": {row['text']}" if row["text"] else ""
        when = calendar(row["time"])
        print(sanitize(f"{when}  {row['run']}  step {group_digits(row['step'])}  {row['level']}  {row['title']}{text}"))
    if not rows:
        print("no alerts" + (f" since {since}" if since is not None else ""))


def alerts_of(path: Path, after: float) -> Iterator[dict[str, Any]]:
    """The alerts of a run that were not rewound, after a moment. LabError if its log cannot be read."""
    from txlab.runs.events import each_row
    from txlab.runs.live_rows import Branch

    branch = Branch()
    branch.add(row for row, _ in each_row(path / "events.jsonl") if row["event"] in ("alert", "rewind"))
    for row in branch.rows:
        if row["event"] == "alert" and row["time"] >= after:
            texts = {key: str(row.get(key) or "") for key in ("level", "title", "text", "kind")}
            yield {"run": path.name, "time": row["time"], "step": row["step"], **texts}


def has_alerts(path: Path, after: float) -> bool:
    """Whether run.json has an alert after a moment; the logs of all other runs are not read."""
    from txlab.runs.directory import RunInfo

    try:
        alert = RunInfo.load(path).alerts
        return bool(alert) and float(alert.get("time", 0)) >= after and (path / "events.jsonl").is_file()
    except (LabError, TypeError, ValueError):
        return False


def moment(text: str, now: float) -> float:
    """Unix seconds of `10m` (ago), a date in ISO's form, or Unix seconds. Raises LabError.

    >>> moment("10m", 1000.0), moment("990.5", 1000.0)
    (400.0, 990.5)
    """
    if ago := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", text.strip(), re.ASCII):
        return now - float(ago[1]) * UNITS[ago[2]]
    try:
        return float(text) if re.fullmatch(r"[\d.]{1,20}", text, re.ASCII) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise LabError(f"--since takes 10m, 2h, 1d, a date such as 2026-11-20T14:30, not {text[:40]!r}") from None
