"""A run in a list: its state, its progress, its settings, its primary metric as a small curve.

Notable: no run is read in full (a light reader takes the tail and some samples of the log, .8 ms); one that has ended
is read once, and of the running ones only those on the screen are. Runs are read several at once, because on a network
disk a call of the file system takes tens of milliseconds and most of the time is waiting.
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
from txlab.runs.directory import RunDirectory
from txlab.runs.folder import each_at_once
from txlab.runs.foreign.finding import found_logs, with_logs
from txlab.runs.foreign.mirror import TITLES, Mirror, mirror_path
from txlab.runs.label import Label, handle_of, read_label, told_changes
from txlab.runs.reader import RunReader

SEARCH_EVERY = 10.0  # seconds between searches for other programs' logs
POINTS = 64  # of the small curve
FIRST_LOOK = 24  # runs read before the list has said which ones are on the screen
FURTHER = 250  # runs read in one look when all are asked for: a fifth of a second
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
    """Why what is shown may be old: the line to its machine is lost."""
    handle: str = ""
    """What the run is called: its given name, or its scenario and what was changed."""
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
        """The program whose log this is, as people write it; "" = a run of our own."""
        told = self.facts.get("source")
        return TITLES.get(str(told.get("program")), "") if isinstance(told, dict) else ""

    @property
    def going(self) -> bool:
        return self.status in GOING


def summary_of(reader: RunReader) -> RunSummary:
    """Summarize what a reader knows after a poll."""
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
        resampled(series.steps, series.values) if series is not None else (),
        int(series.steps[0]) if series is not None and len(series) else 0,
        info.created,
        int(info.seconds(until=time.time())),
        left if left is not None and math.isfinite(left) else None,
        info.facts,
        info.kind,
        told_changes(info.changes),
        label := read_label(path),
        state.far.host if state.far is not None else "",
        state.far.sentence if state.far is not None else "",
        handle_of(info, label, scenario_name(path, info.scenario)),
        {**info.config, **info.changes},
        {name: value for name in names if (value := reader.latest(name)) is not None and math.isfinite(value)},
        tuple(str(tag) for tag in info.tags),
        info.group,
        info.takes,
        info.alerts,
    )


def unreadable(path: Path, reason: str) -> RunSummary:
    """Return what can be said of a run that cannot be read."""
    name = scenario_name(path, "")
    return RunSummary(path, path.name, name, status="unreadable", reason=reason, handle=name)


def resampled(steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any], points: int = POINTS) -> tuple[float, ...]:
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

        With `everything`, some of the runs that were never read are read as well; look again until there are none.
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
                logs = {mirror_path(log): log for log in found_logs(self.root)}
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
        """Return the summary of a run if anything is new; a run that cannot be read gets a summary that says so."""
        known = self.known.get(path)
        if (mirror := self.mirrors.get(path)) is not None:
            mirror.look()
            if not (path / "run.json").exists():
                return None  # it is being made
        if known is not None and path not in self.readers and not self.restarted(path, known):
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

    def restarted(self, path: Path, known: RunSummary) -> bool:
        """Return whether one of the files was replaced by which a run that had ended goes on or is labelled."""
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
