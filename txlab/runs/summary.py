"""A run in a list: its state, its progress, its settings, its primary metric as a small curve.

Notable: runs are not read in full (a light reader takes the tail and some samples of the log, .8 ms); an ended run is
read once, and running ones only while they are on the screen. Several runs are read in parallel, because on a network
disk a file system call takes tens of milliseconds, mostly waiting.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.experiments.metric import primary_metrics
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.external_logs.finding import find_logs, with_logs
from txlab.runs.external_logs.mirror import TITLES, Mirror, mirror_path
from txlab.runs.folder import each_at_once
from txlab.runs.label import Label, format_changes, handle_of, read_label
from txlab.runs.reader import RunReader

SEARCH_EVERY = 10.0  # seconds between searches for other programs' logs
POINTS = 64  # of the small curve
FIRST_LOOK = 24  # runs read before the list knows which ones are on the screen
FURTHER = 250  # runs read per scan when all are requested: a fifth of a second
ENDED = ("done", "stopped", "interrupted", "failed", "unreadable")
GOING = ("created", "running", "paused")


@dataclass(frozen=True)
class RunSummary:
    """A run as the list shows it. `metric` is the name of `value` and `curve` (the headline metric)."""

    path: Path
    name: str
    scenario: str
    title: str = ""
    status: str = "created"
    reason: str = ""
    step: int = 0
    steps: int = 0
    metric: str = ""
    value: float | None = None
    curve: tuple[float, ...] = ()
    first: int = 0
    """The step of the first point of the curve; the points are evenly spaced from there to `step`."""
    created: float = 0.0
    seconds: int = 0
    seconds_left: float | None = None
    facts: dict[str, Any] = field(default_factory=dict, compare=False)
    kind: str = ""
    changes: str = ""
    """The settings that differ from the scenario, in short."""
    label: Label = field(default_factory=Label)
    machine: str = ""
    """The other machine that the run is on."""
    stale: str = ""
    """Why what is shown may be old: the connection to its machine is lost."""
    handle: str = ""
    """The name of the run: its label, or its scenario and the changed settings."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Dotted key → value: what was changed against the scenario, or the configuration of a recorded run."""
    values: dict[str, float] = field(default_factory=dict)
    """The latest finite value of each metric."""
    tags: tuple[str, ...] = ()
    group: str = ""
    takes: tuple[str, ...] = ()
    """The requests that the loop of another program takes."""
    alerts: dict[str, Any] = field(default_factory=dict)
    """RunInfo.alerts"""

    @property
    def recorded(self) -> bool:
        """Whether another program recorded it."""
        return self.kind == "recorded"

    @property
    def source(self) -> str:
        """The display name of the program whose log this is; "" = a run of txlab."""
        source = self.facts.get("source")
        return TITLES.get(str(source.get("program")), "") if isinstance(source, dict) else ""

    @property
    def going(self) -> bool:
        return self.status in GOING


def summary_of(reader: RunReader) -> RunSummary:
    """Summarise the state of a reader after a poll."""
    path, info, state = reader.directory.path, reader.info, reader.state
    names = reader.names("metrics")
    metric = next(iter(primary_metrics(names, kind_of_run(info.kind).METRICS, info.facts.get("headline"))), "")
    series = reader.series(metric) if metric else None
    left = reader.latest("seconds_left")
    return RunSummary(
        path,
        info.name if info.source else path.name,
        scenario_name(path, info.scenario),
        info.title,
        "unreadable" if reader.problem else state.status,
        reader.problem or state.reason,
        max(state.step, int(series.steps[-1]) if series is not None and len(series) else 0),
        state.steps,
        metric,
        float(series.values[-1]) if series is not None and len(series) else None,
        resample(series.steps, series.values) if series is not None else (),
        int(series.steps[0]) if series is not None and len(series) else 0,
        info.created,
        int(info.seconds(until=time.time())),
        left if left is not None and math.isfinite(left) else None,
        info.facts,
        info.kind,
        format_changes(info.changes),
        label := read_label(path),
        state.remote.host if state.remote is not None else "",
        state.remote.sentence if state.remote is not None else "",
        handle_of(info, label, scenario_name(path, info.scenario)),
        {**info.config, **info.changes},
        {name: value for name in names if (value := reader.latest(name)) is not None and math.isfinite(value)},
        tuple(str(tag) for tag in info.tags),
        info.group,
        info.takes,
        info.alerts,
    )


def unreadable(path: Path, reason: str) -> RunSummary:
    """Return the summary of an unreadable run."""
    name = scenario_name(path, "")
    return RunSummary(path, path.name, name, status="unreadable", reason=reason, handle=name)


def resample(steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any], points: int = POINTS) -> tuple[float, ...]:
    """Return the curve at evenly spaced steps: a light reader's values are dense at the end and sparse before."""
    keep = np.isfinite(values)
    steps, values = steps[keep], values[keep]
    if len(steps) < 2:
        return tuple(float(value) for value in values)
    at = np.linspace(steps[0], steps[-1], min(points, len(steps)))
    return tuple(float(value) for value in np.interp(at, steps, values))


def scenario_name(path: Path, scenario: str) -> str:
    """Return the name of a run in the list: its scenario, or its folder without the date."""
    if scenario:
        return scenario
    head, _, rest = path.name.partition("_")
    return rest.partition("_")[2] or rest if head[:2] == "20" and rest else path.name


def handle_in(path: Path, info: RunInfo) -> str:
    """Return what a run is called on screens; see `label.handle_of`."""
    return handle_of(info, read_label(path), scenario_name(path, info.scenario))


class RunsUnder:
    """The runs under a folder, polled from one worker thread at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[Path] = []
        self.known: dict[Path, RunSummary] = {}
        self.readers: dict[Path, RunReader] = {}  # of running runs
        self.stamps: dict[Path, int] = {}  # when run.json or heartbeat were last replaced, for runs that have ended
        self.scanned = self.changed = 0.0
        self.stamp = -1
        self.mirrors: dict[Path, Mirror] = {}  # of other programs' logs
        self.searched = 0.0

    def look(
        self, seen: set[str], force: bool = False, everything: bool = False
    ) -> tuple[list[Path], dict[Path, RunSummary]]:
        """Return (runs, newest first; new or changed summaries); `seen` names the runs on the screen.

        With `everything`, some of the runs not read before are read as well; repeat until there are none.
        """
        now = time.monotonic()
        try:
            stamp = self.root.stat().st_mtime_ns
        except OSError:
            stamp = 0
        if stamp != self.stamp:
            self.stamp, self.changed = stamp, now
        # A folder appears before its run.json, and network disks report times late: poll again a while after a change.
        due = now - self.scanned > 10 or (now - self.changed < 3 and now - self.scanned > 0.5)
        if force or due or not self.scanned:
            if self.scanned and now - self.searched > SEARCH_EVERY:  # our own runs are shown first
                logs = {mirror_path(log): log for log in find_logs(self.root)}
                self.mirrors = {path: self.mirrors.get(path) or Mirror(log) for path, log in logs.items()}
                self.searched = time.monotonic()
            logs_now = [mirror.log for mirror in self.mirrors.values()]
            self.paths, self.scanned = with_logs(self.root, logs_now, known=self.known), now
            for gone in self.known.keys() - set(self.paths):
                self.known.pop(gone)
                self.readers.pop(gone, None)
        seen = seen or {path.name for path in self.paths[:FIRST_LOOK]}
        wanted = [path for path in self.paths if path.name in seen]
        if everything:
            unread = (path for path in self.paths if path not in self.known and path.name not in seen)
            wanted += islice(unread, FURTHER)
        news = {path: fresh for path, fresh in each_at_once(self.fresh, wanted) if fresh is not None}
        self.known.update(news)
        return list(self.paths), news

    def fresh(self, path: Path) -> RunSummary | None:
        """Return the summary of a run if anything is new; an unreadable run gets a summary that says so."""
        known = self.known.get(path)
        if (mirror := self.mirrors.get(path)) is not None:
            mirror.look()
            if not (path / "run.json").exists():
                return None  # it is being made
        if known is not None and path not in self.readers and not self.was_restarted(path, known):
            return None
        try:
            reader = self.readers.get(path) or RunReader(path, light=True)
            reader.poll()
            now = summary_of(reader)
        except LabError as error:
            return unreadable(path, str(error))
        if now.going:
            self.readers[path] = reader
        else:
            self.readers.pop(path, None)
        return now if now != known else None

    def was_restarted(self, path: Path, known: RunSummary) -> bool:
        """Return whether a file was replaced that shows that an ended run was continued or labelled."""
        run = RunDirectory(path)
        newest = 0
        for file in (run.run_file, run.heartbeat, run.path / "label.json"):
            try:
                newest = max(newest, file.stat(follow_symlinks=False).st_mtime_ns)
            except OSError:
                continue
        before = self.stamps.get(path)
        self.stamps[path] = newest
        return before is not None and newest != before
