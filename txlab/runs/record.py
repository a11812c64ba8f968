"""Starting a recording: a new run, or one that continues after its program was killed.

Notable: a run with an id is the folder of that name, so that the same line finds it again. The loop does not pass the
step at which it continues: the first logged step tells, and if it was logged before, a rewind to the step before it is
recorded. In a training of several processes, only one records; the others are silent.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from txlab.errors import LabError
from txlab.runs import agreement
from txlab.runs.as_json import table_of, text_of
from txlab.runs.control import Inbox
from txlab.runs.directory import RunDirectory, info_of, new_info, tables_of
from txlab.runs.events import LineCursor
from txlab.runs.folder import create_run_directory, is_run
from txlab.runs.label import write_label
from txlab.runs.loop_values import flatten_config, format_scenario, whole
from txlab.runs.origin import command_line, commit_of, program_folder
from txlab.runs.recorder import begin_recording
from txlab.runs.recording import Recording
from txlab.runs.root import default_root
from txlab.runs.writing import writing

MOST_TAGS, LONGEST_TAG = 32, 60


def record(
    name: str,
    config: Any = None,
    root: str | Path | None = None,
    *,
    title: str = "",
    steps: int = 0,
    tags: Iterable[str] = (),
    group: str = "",
    notes: str = "",
    id: str = "",
    resume: bool = False,
    frames_mb: float = 64.0,
) -> Recording:
    """Start a run named `name` under `root` ($TXLAB_RUNS or ./runs) and return its Recording.

    config  anything that describes the run, a mapping, a Namespace or a dataclass; stored as the table [config] of
            scenario.toml, as JSON or as its text
    steps   the total number of steps, if known, so that a screen can show the progress
    tags, group, notes  by which people find and sort runs
    id      the name of its folder, so that `resume=True` continues the run of that id, if there is one already

    Raises LabError if the directory cannot be created, if there is a run of that id and it is not to be resumed, and if
    another process still writes it.
    """
    name, title, notes = text_of(name), text_of(title), text_of(notes)
    tags, group = _check(tags, group)
    given: Any = steps  # programs may compute it as a float
    steps = max(0, whole(int(given) if isinstance(given, float) and given.is_integer() else given or 0, -1))
    if id and not (isinstance(id, str) and re.fullmatch(r"\w[\w.-]{0,79}", id, re.ASCII)):
        raise LabError(f"id {text_of(id, 60)!r}: an id is 1 to 80 letters, digits, dots, dashes and underscores")
    config = config if isinstance(config, Mapping) else table_of(config)
    folder = (Path(root) if root is not None else default_root()).resolve()
    if agreement.rank() > 0:
        return Recording(RunDirectory(folder / (id or name)), None, contextlib.ExitStack(), config)
    known = bool(id) and is_run(folder / id)
    if known and not resume:
        raise LabError(f"there is a run {id!r} in {folder} already; record(…, resume=True) continues it")
    out = folder / id if id else None
    run = (RunDirectory(folder / id) if known else create_run_directory(folder, name, out)).hold_open()
    recording: Recording | None = None
    try:
        with contextlib.ExitStack() as lock:
            lock.enter_context(writing(run))
            info = info_of(run) if known else new_info(run, name, "recorded", title, steps)
            if not info.recorded:
                raise LabError(f"{run.path} was not recorded by a loop; txlab resume continues it")
            info.command, info.git = command_line(), commit_of(program_folder())
            info.title, info.steps = title or info.title, steps or info.steps
            info.tags, info.group = tags or info.tags, group or info.group
            info.facts = {key: value for key, value in info.facts.items() if key not in ("takes", "adjustable")}
            if known:
                earlier = tables_of(run).get("config")
                config = {**(earlier if isinstance(earlier, dict) else {}), **config}
                Inbox(run).clear()
            info.config = flatten_config(config)
            run.write("scenario.toml", format_scenario(name, config))
            recorder = begin_recording(run, info, frames_mb)
            recording = Recording(run, recorder, lock.pop_all(), config)
        if known:
            recording.goes_on(*_left(run))
        recorder.row(
            "start", recorder.step, pid=info.pid, host=info.host, resumed_from=recorder.step if known else None
        )
        if notes:
            write_label(run, note=notes)
    except BaseException as error:
        if recording is not None:
            recording.abandon()
        if not known:  # a failed start leaves nothing behind
            shutil.rmtree(run.path, ignore_errors=True)
        if isinstance(error, OSError):
            raise LabError(f"{run.path} cannot be recorded: {error.strerror or error}") from None
        raise
    return recording


def continue_run(before: Recording) -> Recording:
    """Continue a run of this process that has ended, at its last step.

    Raises LabError if another process writes it, or its directory cannot be written.
    """
    run = RunDirectory(before.path).hold_open()
    try:
        with contextlib.ExitStack() as lock:
            lock.enter_context(writing(run))
            info = info_of(run)
            Inbox(run).clear()
            recorder = begin_recording(run, info, before.recorder.frames.budget_bytes / 1e6)
            recording = Recording(run, recorder, lock.pop_all(), before.config)
        recorder.row("start", recorder.step, pid=info.pid, host=info.host, resumed_from=recorder.step)
    except OSError as error:
        raise LabError(f"{run.path} cannot be recorded: {error.strerror or error}") from None
    return recording


def _check(tags: Iterable[str], group: str) -> tuple[list[str], str]:
    given = list(tags) if isinstance(tags, Iterable) and not isinstance(tags, (str, bytes)) else [None]
    if not all(isinstance(tag, str) and 0 < len(tag) <= LONGEST_TAG for tag in given):
        raise LabError(f"tags are a list of texts of 1 to {LONGEST_TAG} characters, not {text_of(tags, 60)!r}")
    if len(given) > MOST_TAGS or len(text_of(group)) > LONGEST_TAG:
        raise LabError(f"a run has at most {MOST_TAGS} tags, and a group of at most {LONGEST_TAG} characters")
    return [text_of(tag) for tag in given], text_of(group)


def _left(run: RunDirectory) -> tuple[dict[str, int], int]:
    """Where an earlier process left the run: the last step of each metric that counts the run's steps, and of all."""
    from txlab.runs.live_rows import Branch  # needs NumPy

    reached: dict[str, int] = {}
    own: set[str] = set()
    branch, cursor = Branch(), LineCursor(run.events)
    while lines := cursor.read():
        branch.add_lines(lines)
    furthest = max((row["step"] for row in branch.rows), default=0)
    for table in branch.tables.values():
        if len(table):
            furthest = max(furthest, int(table.steps.view().max()))
            if table.event == "metrics":
                own.update(table.names if table.places is not table.steps else ())
                for name in table.names:
                    reached[name] = max(reached.get(name, 0), int(table.steps.view()[-1]))
    return {name: step for name, step in reached.items() if name not in own}, furthest
