"""`txlab runs`: the runs, their progress and status."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import ascii_only, columns, group_digits, numeral, sanitize, status_word
from txlab.drawing.formatting import duration
from txlab.errors import LabError, RunFailed

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader
    from txlab.runs.summary import RunSummary

SPARK = 16
ENOUGH = 5.0  # seconds for reading another program's log
METRIC = 20  # cells for its name


def runs(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORDS]…", help="only runs with these words, #tags and comparisons, as in 'loss<2'; or latest"
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="show the first N; 0 = all", min=0)] = 20,
    sort: Annotated[str, typer.Option("--sort", metavar="COLUMN", help="a metric, a setting, step or time")] = "",
    descending: Annotated[bool, typer.Option("--descending", help="with --sort: the largest first")] = False,
    group: Annotated[str, typer.Option("--group", metavar="COLUMN", help="scenario, group, tags or status")] = "",
    settings: Annotated[bool, typer.Option("--settings", help="with columns of the settings that differ")] = False,
    json: options.JsonLines = False,
    csv: options.Csv = False,
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="A,B", help="runs of these machines, over ssh: NAME or NAME:/FOLDER each")
    ] = "",
) -> None:
    """List runs, newest first: status, step, main metric, curve. Includes logs of other programs.

    txlab runs gpt "val_loss<2" --sort val_loss --settings
    """
    from txlab.runs.external_logs.finding import find_logs, with_logs
    from txlab.runs.external_logs.mirror import Mirror, mirror_path
    from txlab.runs.finding import find_run
    from txlab.runs.folder import each_at_once
    from txlab.runs.overview import (
        compared_columns,
        group_runs,
        is_meant,
        require_column,
        settings_in,
        sort_runs,
        value_of,
    )
    from txlab.runs.root import default_root

    logs = {mirror_path(log): log for log in find_logs(default_root())}
    paths = runs_of_hosts(hosts) if hosts else with_logs(default_root(), logs.values())
    where = hosts or str(default_root().absolute())

    def read_one(path: Path) -> tuple[dict[str, Any], RunSummary]:
        if path in logs:
            with contextlib.suppress(LabError):  # reported below
                Mirror(logs[path]).update(seconds=ENOUGH)
        return facts_and_summary(path)

    if words == ["latest"] and not hosts and paths:
        paths, words = [find_run("latest", seconds=ENOUGH)], []
    everything = bool(words or sort or group) or not limit
    read = dict(each_at_once(read_one, paths if everything else paths[:limit]))
    chosen = [summary for _, summary in read.values() if is_meant(summary, words or [])]
    if sort and chosen:
        require_column(sort, chosen)
    if sort:
        chosen = sort_runs(chosen, sort, descending)
    if group and chosen:
        require_column(group, chosen)
    meant = len(chosen) if everything else len(paths)
    chosen = chosen[:limit] if limit else chosen
    if print_rows((read[run.path][0] for run in chosen), json, csv):
        return
    if not paths:
        print(sanitize(f"no runs on {hosts}" if hosts else f"no runs in {where}; txlab run gpt-tiny makes one"))
        return
    if not chosen:
        print(sanitize(f"none of the {len(paths)} runs {'on' if hosts else 'in'} {where} matches"))
        return
    known = {"name", "status", "step", "metric", *({run.metric for run in chosen} if sort else ())}
    shown = {run.metric for run in chosen}
    known |= shown if len(shown) == 1 else set()  # the value of the metric has a column
    asked = [
        sort,
        *(name for name in compared_columns(words or []) if any(value_of(run, name) is not None for run in chosen)),
    ]
    extra = [
        name for name in dict.fromkeys([*asked, *(settings_in(chosen) if settings else ())]) if name not in {"", *known}
    ]
    for name, members in group_runs(chosen, group) if group else [("", chosen)]:
        if group:
            print(sanitize(f"{group}: {name or 'none'}"))
        print_table(
            [read[run.path][0] for run in members], [[cell(run, name) for name in extra] for run in members], extra
        )
    if len(chosen) < meant:
        more = meant - len(chosen)
        what = "older" if not sort else "more"
        print(f"and {more} {what} {'one' if more == 1 else 'ones'}; --limit 0 shows all")


def runs_of_hosts(hosts: str) -> list[Path]:
    """The runs of other machines, newest first, queried in parallel; a machine that does not answer is reported, and
    its copies are listed. Raises RunFailed if there is nothing to list."""
    from txlab.runs.directory import RunInfo
    from txlab.runs.folder import list_runs
    from txlab.runs.remote.address import host_and_folder
    from txlab.runs.remote.mirroring import host_at, list_mirrors

    addresses = [host_and_folder(name.strip()) for name in hosts.split(",") if name.strip()]
    for address in addresses:
        host_at(address).want_list()
    paths, silent = [], []
    for address in addresses:
        try:
            paths += list_runs(list_mirrors(address))
        except LabError as error:
            silent.append(str(error))
            paths += list_runs(address.mirrors)
    for sentence in silent:
        print(f"txlab: {sanitize(sentence)}", file=sys.stderr)
    if silent and not paths:
        raise RunFailed(f"no runs of {hosts} can be listed")

    def created_time_of(path: Path) -> float:
        try:
            return RunInfo.load(path).created
        except LabError:
            return 0.0

    return sorted(paths, key=created_time_of, reverse=True)


def cell(run: RunSummary, column: str) -> str:
    from txlab.runs.overview import value_of

    value = value_of(run, column)
    if isinstance(value, float):
        return numeral(value)
    return "" if value is None else sanitize(str(value))


def facts_and_summary(path: Path) -> tuple[dict[str, Any], RunSummary]:
    """Read a run once for both; lists are searched and ordered by the RunSummary."""
    from txlab.runs.reader import RunReader
    from txlab.runs.summary import summary_of, unreadable

    try:
        reader = RunReader(path, light=True)
        reader.poll()
    except (LabError, OSError) as error:
        known = {"name": path.name, "path": str(path), "status": "unreadable", "reason": str(error)}
        return known | {"values": {}, "curve": []}, unreadable(path, str(error))
    summary = summary_of(reader)
    return facts(reader, summary), summary


def facts(reader: RunReader, summary: RunSummary) -> dict[str, Any]:
    """Return the list entry of one run."""
    from txlab.runs.as_json import name_of
    from txlab.runs.directory import ALIVE

    info, state, value = reader.info, reader.state, summary.value
    series = reader.series(summary.metric)
    # The heartbeat reports the step only every two seconds; the log is more recent.
    step = max([state.step, *series.steps[-1:].tolist()]) if state.status in ALIVE else state.step
    curve = [float(v) for v in series.values[-4096:] if math.isfinite(v)]
    return {
        "name": summary.name,
        "path": info.source.get("path", str(summary.path)),
        "source": info.source.get("program", ""),
        "scenario": info.scenario,
        "title": info.title,
        "label": summary.label.name,
        "note": summary.label.note,
        "tags": list(summary.tags),
        "group": summary.group,
        "changes": info.changes,
        "config": info.config,
        "status": summary.status,
        "reason": summary.reason,
        "step": step,
        "steps": state.steps,
        "heartbeat_age": state.heartbeat_age,
        **({"machine": state.remote.host, "stale": state.remote.sentence} if state.remote is not None else {}),
        "pid": state.pid,
        "host": state.host,
        "created": info.created,
        "started": info.started,
        "ended": info.ended,
        "metric": summary.metric,
        "value": value if value is None or math.isfinite(value) else name_of(value),
        "values": summary.values,
        "curve": curve[:: max(1, len(curve) // 256)],
    }


def print_table(rows: list[dict[str, Any]], further: Sequence[Sequence[str]], titles: Sequence[str]) -> None:
    """Print the runs; `further` has the cells of each under the `titles` of more columns."""
    import numpy as np

    from txlab.drawing.spark import spark
    from txlab.drawing.text import cut
    from txlab.runs.label import format_changes

    far = any(row.get("machine") for row in rows)
    head = [
        *([Column("machine")] if far else []),
        Column("name", loose=True),
        Column("status"),
        Column("step", "right"),
        Column("metric"),
        Column("value", "right"),
        *(Column(sanitize(title.rpartition(".")[2]), "right") for title in titles),
        Column("curve"),
    ]
    cells, paint, beneath = [], {}, []
    for i, row in enumerate(rows):
        word, colour = status_word(row["status"])
        if row["status"] == "lost" and row.get("heartbeat_age") is not None:
            word += f" {duration(row['heartbeat_age'])}"
        paint[i, 1 + far] = colour
        value = None if row.get("value") is None else float(row["value"])  # "NaN" as in the log
        step = group_digits(row["step"]) if row.get("step") is not None else ""
        step += f"/{group_digits(row['steps'])}" if row.get("steps") else ""
        curve = spark(np.array(row["curve"]), SPARK, ascii_only())
        metric = "" if value is None else cut(sanitize(row["metric"]), METRIC)
        where = [sanitize(row.get("machine") or "")] if far else []
        cells.append([*where, sanitize(row["name"]), word, step, metric, "" if value is None else numeral(value)])
        cells[-1] += [*further[i], curve]
        reason = row["reason"] if row["status"] in ("failed", "lost", "unreadable") else ""
        reason = row.get("stale") or reason
        origin = f"{row['source']}: {row['path']}" if row.get("source") else ""
        named = [row.get("label"), origin, format_changes(row.get("changes") or {}), row.get("note")]
        beneath.append([line for line in ("  ".join(word for word in named if word), reason) if line])
    title, *lines = table(head, cells, paint).splitlines()
    print(title)
    for line, sentences in zip(lines, beneath, strict=True):
        print(line)
        for sentence in sentences:  # on a separate line: it would make the table too wide
            print("    " + (cut(sanitize(sentence), columns() - 5) if sys.stdout.isatty() else sanitize(sentence)))


def name(
    run: options.Run,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help='the name to give it; "" removes it')] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help='a note to keep; "" removes it')] = None,
) -> None:
    """Give a run a name and a note, or print them."""
    from txlab.runs.directory import RunDirectory, info_of
    from txlab.runs.finding import find_run
    from txlab.runs.label import read_label, write_label
    from txlab.runs.remote.state import remote_state

    changes = name is not None or note is not None
    path = find_run(run, to_change=changes)
    info_of(RunDirectory(path))  # raises LabError for a run that cannot be read
    label = write_label(path, name, note) if changes else read_label(path)
    if changes and remote_state(path) is not None:
        from txlab.runs.remote.mirroring import wait_for_delivery

        if why := wait_for_delivery(path):
            raise RunFailed(f"{path.name}: {why}")
    print(sanitize(f"{path.name}: {label.name or 'no name'}" + (f"  {label.note}" if label.note else "")))
