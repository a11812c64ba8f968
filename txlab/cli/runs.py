"""`txlab runs`: the runs, how far each has got, and whether it is still running."""

from __future__ import annotations

import json as json_
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from txlab.cli.terminal import Column, ascii_only, columns, numeral, shown, status_word, table
from txlab.errors import LabError, RunFailed

SPARK = 16
METRIC = 20  # cells for its name


def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="show the newest N; 0 = all", min=0)] = 20,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="A,B", help="of these machines, over ssh: NAME or NAME:/FOLDER each")
    ] = "",
) -> None:
    """The runs, newest first: status, step, main metric, curve."""
    from txlab.runs.finding import default_root, list_runs

    if hosts:
        runs_of_hosts(hosts, limit, json)
        return
    found = list_runs()
    chosen = found[:limit] if limit else found
    if json:
        for path in chosen:
            print(json_.dumps(facts(path)))
        return
    if not found:
        print(shown(f"no runs in {default_root().absolute()}; txlab run gpt-tiny makes one"))
        return
    print_table([facts(path) for path in chosen])
    if len(chosen) < len(found):
        older = len(found) - len(chosen)
        print(f"and {older} older {'one' if older == 1 else 'ones'}; --limit 0 shows all")


def runs_of_hosts(hosts: str, limit: int, json: bool) -> None:
    """List the runs of other machines together, asking all of them at once. Raises LabError if none answers."""
    from txlab.runs.far.address import host_and_folder
    from txlab.runs.far.mirroring import host_at, listed
    from txlab.runs.finding import list_runs

    addresses = [host_and_folder(name.strip()) for name in hosts.split(",") if name.strip()]
    for address in addresses:
        host_at(address).want_list()
    rows, silent = [], []
    for address in addresses:
        try:
            found = list_runs(listed(address))
        except LabError as error:
            silent.append(str(error))
            found = list_runs(address.mirrors)
        rows += [facts(path) | {"machine": address.host} for path in found[: limit or None]]
    rows.sort(key=lambda row: row.get("created") or 0.0, reverse=True)
    for sentence in silent:
        print(f"txlab: {shown(sentence)}", file=sys.stderr)
    if silent and not rows:
        raise RunFailed(f"no runs of {shown(hosts)} can be listed")
    if json:
        for row in rows:
            print(json_.dumps(row))
    elif rows:
        print_table(rows[: limit or None])
    else:
        print(shown(f"no runs on {hosts}"))


def facts(path: Path) -> dict[str, Any]:
    """Return the list entry of one run; for a directory that cannot be read, the reason."""
    from txlab.runs.directory import ALIVE
    from txlab.runs.label import read_label
    from txlab.runs.primary_metric import primary_metrics
    from txlab.runs.reader import RunReader

    try:
        reader = RunReader(path, light=True)
        reader.poll()
    except (LabError, OSError) as error:
        known = {"name": path.name, "path": str(path), "status": "unreadable", "reason": str(error)}
        return known | {"values": {}, "curve": []}
    info, state = reader.info, reader.state
    names = reader.names("metrics")
    metric = next(iter(primary_metrics(info.facts, names, info.kind)), "")
    series = reader.series(metric)
    values = {n: v for n in names if (v := reader.latest(n)) is not None and math.isfinite(v)}
    # The heartbeat reports the step only every two seconds; the log is more recent.
    step = max([state.step, *series.steps[-1:].tolist()]) if state.status in ALIVE else state.step
    curve = [float(v) for v in series.values[-4096:] if math.isfinite(v)]
    return {
        "name": path.name,
        "path": str(path),
        "scenario": info.scenario,
        "title": info.title,
        "label": (label := read_label(path)).name,
        "note": label.note,
        "changes": info.changes,
        "status": "unreadable" if reader.problem else state.status,
        "reason": reader.problem or state.reason,
        "step": step,
        "steps": state.steps,
        "heartbeat_age": state.heartbeat_age,
        **({"machine": state.far.host, "stale": state.far.sentence} if state.far is not None else {}),
        "pid": state.pid,
        "host": state.host,
        "created": info.created,
        "started": info.started,
        "ended": info.ended,
        "metric": metric,
        "value": values.get(metric),
        "values": values,
        "curve": curve[:: max(1, len(curve) // 256)],
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    import numpy as np

    from txlab.drawing.formatting import duration
    from txlab.drawing.spark import spark
    from txlab.drawing.text import cut
    from txlab.runs.label import told_changes

    far = any(row.get("machine") for row in rows)
    head = [
        *([Column("machine")] if far else []),
        Column("name", loose=True),
        Column("status"),
        Column("step", "right"),
        Column("metric"),
        Column("value", "right"),
        Column("curve"),
    ]
    cells, paint, beneath = [], {}, []
    for i, row in enumerate(rows):
        word, colour = status_word(row["status"])
        if row["status"] == "lost" and row.get("heartbeat_age") is not None:
            word += f" {duration(row['heartbeat_age'])}"
        paint[i, 1 + far] = colour
        value = row.get("value")
        step = f"{row['step']}/{row['steps']}" if row.get("steps") else str(row.get("step", ""))
        curve = spark(np.array(row["curve"]), SPARK, ascii_only())
        metric = "" if value is None else cut(shown(row["metric"]), METRIC)
        where = [shown(row.get("machine") or "")] if far else []
        cells.append([*where, shown(row["name"]), word, step, metric, "" if value is None else numeral(value), curve])
        reason = row["reason"] if row["status"] in ("failed", "lost", "unreadable") else ""
        reason = row.get("stale") or reason
        named = [row.get("label"), told_changes(row.get("changes") or {}), row.get("note")]
        beneath.append([line for line in ("  ".join(word for word in named if word), reason) if line])
    title, *lines = table(head, cells, paint).splitlines()
    print(title)
    for line, said in zip(lines, beneath, strict=True):
        print(line)
        for sentence in said:  # on a line of its own: it would make the table too wide
            print("    " + (cut(shown(sentence), columns() - 5) if sys.stdout.isatty() else shown(sentence)))


def name(
    run: Annotated[str, typer.Argument(metavar="RUN", help="a run's name or directory, or latest")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help='the name to give it; "" removes it')] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help='a note to keep; "" removes it')] = None,
) -> None:
    """Give a run a name and a note, or print those that it has."""
    from txlab.runs.directory import RunDirectory, info_of
    from txlab.runs.finding import find_run
    from txlab.runs.label import read_label, write_label

    path = find_run(run)
    info_of(RunDirectory(path))  # or LabError: what cannot be read is no run to be named
    label = read_label(path) if name is None and note is None else write_label(path, name, note)
    print(shown(f"{path.name}: {label.name or 'no name'}" + (f"  {label.note}" if label.note else "")))
