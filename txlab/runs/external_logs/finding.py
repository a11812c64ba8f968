"""Finding other programs' logs: under a folder, and in the places where these programs put them.

Notable: a search looks at names only, goes a few levels deep, and ends after a fixed number of entries, since a folder
of runs may be next to a data set; our own run directories are not entered, links to folders are not followed.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from txlab.errors import Guess, LabError, convert_os_errors
from txlab.files import closing, open_regular
from txlab.runs.directory import RunInfo
from txlab.runs.external_logs.databases import SUFFIXES, open_database, tables
from txlab.runs.external_logs.log import EVENTS, STATE, TABLES, WANDB, ExternalLog
from txlab.runs.external_logs.mirror import Mirror, mirror_path
from txlab.runs.external_logs.mlflow import runs_of_mlflow
from txlab.runs.external_logs.tables import TableLog, newest_state
from txlab.runs.external_logs.trackio import home, runs_of_trackio
from txlab.runs.folder import created_time, date_in, list_runs
from txlab.runs.label import read_label

DEEPEST = 6  # levels below a usual place
NAMED_DEEPEST = 2  # levels below a given folder: its runs, and not another project's
MOST_ENTRIES = 20_000
MOST_LOGS = 1000
OURS = ("run.json", "events.jsonl")
MLFLOW = ("metrics", "params", "tags", "artifacts")  # folders of a run
NEVER = ("node_modules", "__pycache__", "site-packages", "checkpoints")


def logs_under(folder: Path, deepest: int = DEEPEST) -> list[ExternalLog]:
    """The logs in a folder and below it, most recently written first; an absent folder has none."""
    logs: list[ExternalLog] = []
    waiting = [(folder, 0)]
    entries = 0
    while waiting and entries < MOST_ENTRIES and len(logs) < MOST_LOGS:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as listed:
                inside = [entry for entry, _ in zip(listed, range(MOST_ENTRIES - entries), strict=False)]
        except OSError:
            continue
        entries += len(inside)
        if any(entry.name in OURS for entry in inside):
            continue
        logs += logs_among(place, inside)
        for entry in inside:
            if re.fullmatch(r"checkpoint-\d+", entry.name) or (
                entry.name in MLFLOW and any(each.name == "meta.yaml" for each in inside)
            ):
                continue  # of the Trainer's run that is this folder, and parts of one of MLflow's
            if depth < deepest and not entry.name.startswith(".") and entry.name not in NEVER:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((Path(entry.path), depth + 1))
    return sorted(logs, key=lambda log: (-log.changed, str(log.path), log.part))[:MOST_LOGS]


def logs_among(folder: Path, entries: Iterable[os.DirEntry[str]]) -> Iterator[ExternalLog]:
    """The logs that consist of these entries of a folder."""
    newest, is_trainers = 0.0, False
    names: set[str] = set()
    for entry in entries:
        name = entry.name
        names.add(name)
        try:
            if EVENTS in name:
                if entry.is_file():
                    newest = max(newest, entry.stat().st_mtime)
            elif name == STATE or (name.startswith("checkpoint-") and (Path(entry.path) / STATE).is_file()):
                is_trainers = True
            elif name in TABLES and entry.is_file() and (not name.endswith(".json") or is_table(Path(entry.path))):
                program = "lightning" if name == "metrics.csv" else "table"
                yield ExternalLog(program, Path(entry.path).resolve(), changed=entry.stat().st_mtime)
            elif name.endswith(WANDB) and entry.is_file():
                yield ExternalLog("wandb", Path(entry.path).resolve(), changed=entry.stat().st_mtime)
            elif name.endswith(SUFFIXES) and entry.is_file():
                yield from logs_in(Path(entry.path))
        except OSError:  # deleted meanwhile, or a database of another program
            continue
    if newest:
        yield ExternalLog("tensorboard", folder.resolve(), changed=newest)
    if is_trainers and (state := newest_state(folder)) is not None:
        yield ExternalLog("trainer", folder.resolve(), changed=state.stat().st_mtime)
    if {"meta.yaml", "metrics", "params"} <= names:
        with suppress(OSError):
            changed = max((folder / name).stat().st_mtime for name in ("meta.yaml", "metrics"))
            yield ExternalLog("mlflow", folder.resolve(), changed=changed)


def logs_at(path: Path) -> list[ExternalLog]:
    """The logs at a path: in a folder and not far below it, or the one that a file belongs to. LabError if it is a
    database that cannot be read."""
    if path.is_dir():
        whole_disk = path.resolve().parent == path.resolve()
        return logs_under(path, 0 if whole_disk else NAMED_DEEPEST)
    if not path.is_file():
        return []
    if path.name.endswith(SUFFIXES):
        with convert_os_errors(f"{path} cannot be read"):
            return logs_in(path)
    if path.name == STATE:
        return [ExternalLog("trainer", path.parent.resolve(), changed=path.stat().st_mtime)]
    with os.scandir(path.parent) as listed:
        known = list(logs_among(path.parent, [entry for entry in listed if entry.name == path.name]))
    if not known and is_table(path):
        known = [ExternalLog("table", path.resolve(), changed=path.stat().st_mtime)]
    return known


def logs_in(path: Path) -> list[ExternalLog]:
    """The runs of a database, most recently written first; runs of the same name are distinguished by their ids.

    Raises OSError.
    """
    with open_database(path) as database:
        is_mlflow = {"runs", "params"} <= tables(database)
        runs = runs_of_mlflow(database) if is_mlflow else runs_of_trackio(database)
    names = [name for name, _, _ in runs]
    program = "mlflow" if is_mlflow else "trackio"
    return [
        ExternalLog(program, path.resolve(), name if names.count(name) == 1 else f"{name} {key[:8]}", changed)
        for name, key, changed in runs
    ]


def is_table(path: Path) -> bool:
    """Whether a file that the user names is a table: by its suffix, or lines of JSON."""
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson"):
        return True
    with suppress(OSError), closing(open_regular(path)) as descriptor:
        return os.pread(descriptor, 64, 0).lstrip().startswith(b'{"')
    return False


def usual_places(root: Path) -> list[Path]:
    """The folder of runs, and where other programs log when they run in the current folder."""
    here = Path.cwd()
    return [root, *(here / name for name in ("runs", "lightning_logs", "wandb", "mlruns")), home()]


def find_logs(root: Path) -> list[ExternalLog]:
    """All logs in the usual places, most recently written first."""
    logs: dict[tuple[str, Path, str], ExternalLog] = {}
    with suppress(OSError, LabError):
        for log in logs_at(Path("mlflow.db")):
            logs[log.program, log.path, log.part] = log
    for place in dict.fromkeys(place.absolute() for place in usual_places(root)):
        for log in logs_under(place):
            logs.setdefault((log.program, log.path, log.part), log)
    return sorted(logs.values(), key=lambda log: -log.changed)[:MOST_LOGS]


def with_logs(root: Path, logs: Iterable[ExternalLog], known: Container[Path] = ()) -> list[Path]:
    """The runs under `root` and the mirrors of these logs, newest first: by the time a run was created, or a log was
    last written."""
    ours = [
        (created_time(path) if (date := date_in(path.name)) is None else date, path) for path in list_runs(root, known)
    ]
    theirs = [(log.changed, mirror_path(log)) for log in logs]
    return [path for _, path in sorted([*ours, *theirs], key=lambda each: each[0], reverse=True)]


def at_path(given: str, seconds: float, x: str | None = None) -> Path | None:
    """The mirror of the log at a path; of several, that of the folder itself, else the most recently written one. None
    if there is none. `x` is the column of a table that is the step.

    Raises LabError if it cannot be read.
    """
    logs: list[ExternalLog] = []
    with suppress(OSError, ValueError, RuntimeError):  # a name too long or with a NUL, the home of an unknown user
        logs = logs_at(Path(given).expanduser())
    if not logs:
        return None
    place = Path(given).expanduser().resolve()
    logs = [log for log in logs if place == log.path or (place == log.path.parent and log.path.is_file())] or logs
    if len(logs) > 1:
        last = f"{logs[0].path}{', ' if logs[0].part else ''}{logs[0].part}"
        warnings.warn(f"{given} has {len(logs)} runs; this is the one written last, {last}", Guess, stacklevel=2)
    return open_mirror(logs[0], seconds, x)


def by_name(given: str, root: Path, seconds: float) -> Path | None:
    """The mirror of a log in the usual places, by its name, the last part of its name, or its label."""
    for log in find_logs(root):
        path = mirror_path(log)
        known = [log.name, path.name, read_label(path).name]
        with suppress(LabError):
            known.append(RunInfo.load(path).name)
        if given in (*known, *(name.rpartition("/")[2] for name in known)):
            return open_mirror(log, seconds)
    return None


def open_mirror(log: ExternalLog, seconds: float, x: str | None = None) -> Path:
    """The mirror of a log, updated for at most `seconds`."""
    if x and log.program not in ("table", "lightning"):
        raise LabError(f"--x is for tables, and {log.path} is a log of {log.program}")
    if x:
        table = TableLog(log.path, None, x)
        table.read()
        table.require()
    mirror = Mirror(log, x)
    mirror.update(seconds)
    if not (mirror.path / "run.json").exists():
        raise LabError(f"{log.path} cannot be read now: another process is about to mirror it")
    return mirror.path
