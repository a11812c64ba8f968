"""Finding other programs' logs: under a folder, and in the places where these programs put them.

Notable: a search looks at names only, goes a few levels deep, and ends after so many entries, since a folder of runs
may stand next to a data set; run directories of our own are not entered, links to folders are not followed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from txlab.errors import Guess, LabError, refused
from txlab.runs.directory import RunInfo
from txlab.runs.folder import created, date_in, list_runs
from txlab.runs.foreign.log import EVENTS, METRICS, WANDB, ForeignLog
from txlab.runs.foreign.mirror import Mirror, mirror_path
from txlab.runs.label import read_label

DEEPEST = 6  # levels below a usual place
NAMED_DEEPEST = 2  # levels below a folder that somebody names: its runs, and not another project's
MOST_ENTRIES = 20_000
MOST_LOGS = 1000
OURS = ("run.json", "events.jsonl")
NEVER = ("node_modules", "__pycache__", "site-packages", "checkpoints")


def logs_under(folder: Path, deepest: int = DEEPEST) -> list[ForeignLog]:
    """The logs in a folder and below it, the one written last first; an absent folder has none."""
    found: list[ForeignLog] = []
    waiting = [(folder, 0)]
    entries = 0
    while waiting and entries < MOST_ENTRIES and len(found) < MOST_LOGS:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as listed:
                inside = [entry for entry, _ in zip(listed, range(MOST_ENTRIES - entries), strict=False)]
        except OSError:
            continue
        entries += len(inside)
        if any(entry.name in OURS for entry in inside):
            continue
        found += logs_among(place, inside)
        for entry in inside:
            if depth < deepest and not entry.name.startswith(".") and entry.name not in NEVER:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((Path(entry.path), depth + 1))
    return sorted(found, key=lambda log: (-log.changed, str(log.path), log.part))[:MOST_LOGS]


def logs_among(folder: Path, entries: Iterable[os.DirEntry[str]]) -> Iterator[ForeignLog]:
    """The logs that consist of these entries of a folder."""
    newest = 0.0
    for entry in entries:
        name = entry.name
        try:
            if EVENTS in name:
                if entry.is_file():
                    newest = max(newest, entry.stat().st_mtime)
            elif name == METRICS and entry.is_file():
                yield ForeignLog("lightning", Path(entry.path).resolve(), changed=entry.stat().st_mtime)
            elif name.endswith(WANDB) and entry.is_file():
                yield ForeignLog("wandb", Path(entry.path).resolve(), changed=entry.stat().st_mtime)
            elif name.endswith(".db") and entry.is_file():
                from txlab.runs.foreign.trackio import logs_in

                yield from logs_in(Path(entry.path))
        except OSError:  # deleted meanwhile, or a database of another program
            continue
    if newest:
        yield ForeignLog("tensorboard", folder.resolve(), changed=newest)


def logs_at(path: Path) -> list[ForeignLog]:
    """The logs that a path means: those in a folder and not far below it, or the one that a file belongs to. LabError
    if it is a database that cannot be read."""
    if path.is_dir():
        whole_disk = path.resolve().parent == path.resolve()
        return logs_under(path, 0 if whole_disk else NAMED_DEEPEST)
    if not path.is_file():
        return []
    if path.suffix == ".db":
        from txlab.runs.foreign.trackio import logs_in

        with refused(f"{path} cannot be read"):
            return logs_in(path)
    with os.scandir(path.parent) as listed:
        return list(logs_among(path.parent, [entry for entry in listed if entry.name == path.name]))


def usual_places(root: Path) -> list[Path]:
    """The folder of runs, and where other programs log when they run in the current folder."""
    from txlab.runs.foreign.trackio import home

    here = Path.cwd()
    return [root, *(here / name for name in ("runs", "lightning_logs", "wandb")), home()]


def found_logs(root: Path) -> list[ForeignLog]:
    """All logs in the usual places, the one written last first."""
    found: dict[tuple[str, Path, str], ForeignLog] = {}
    for place in dict.fromkeys(place.absolute() for place in usual_places(root)):
        for log in logs_under(place):
            found.setdefault((log.program, log.path, log.part), log)
    return sorted(found.values(), key=lambda log: -log.changed)[:MOST_LOGS]


def with_logs(root: Path, logs: Iterable[ForeignLog], known: Container[Path] = ()) -> list[Path]:
    """The runs under `root`, and where the mirrors of these logs lie: by the time when a run was created, or a log was
    last written, the newest first."""
    ours = [(created(path) if (date := date_in(path.name)) is None else date, path) for path in list_runs(root, known)]
    theirs = [(log.changed, mirror_path(log)) for log in logs]
    return [path for _, path in sorted([*ours, *theirs], key=lambda each: each[0], reverse=True)]


def at_path(given: str, seconds: float) -> Path | None:
    """The mirror of the log at a path; of several the one that was written last. None if there is none.

    Raises LabError if it cannot be read.
    """
    found: list[ForeignLog] = []
    with suppress(OSError, ValueError, RuntimeError):  # a name that is too long, has a NUL, or a home of nobody
        found = logs_at(Path(given).expanduser())
    if not found:
        return None
    if len(found) > 1:
        last = f"{found[0].path}{', ' if found[0].part else ''}{found[0].part}"
        warnings.warn(f"{given} has {len(found)} runs; this is the one written last, {last}", Guess, stacklevel=2)
    return opened(found[0], seconds)


def by_name(given: str, root: Path, seconds: float) -> Path | None:
    """The mirror of a log in the usual places by its name, the last part of it, or the name that it was given."""
    for log in found_logs(root):
        path = mirror_path(log)
        known = [log.name, path.name, read_label(path).name]
        with suppress(LabError):
            known.append(RunInfo.load(path).name)
        if given in (*known, *(name.rpartition("/")[2] for name in known)):
            return opened(log, seconds)
    return None


def opened(log: ForeignLog, seconds: float) -> Path:
    """The mirror of a log, brought up to date for so many seconds."""
    mirror = Mirror(log)
    mirror.update(seconds)
    if not (mirror.path / "run.json").exists():
        raise LabError(f"{log.path} cannot be read now: another process is about to mirror it")
    return mirror.path
