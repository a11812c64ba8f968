"""`txlab attach`: the console on one run; without a terminal, its progress as lines until it ends.

Following only reads the log, so leaving (ctrl-c) does not affect the run.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from txlab.cli import options
from txlab.cli.terminal import ascii_only, group_digits, has_screen, sanitize
from txlab.errors import RunFailed

LOOK_EVERY = 0.25
BEGINS_WITHIN = 60.0  # seconds from the creation of a run's directory to its first heartbeat, on a slow disk


def attach(
    name: options.Run = "latest",
    lines: Annotated[bool, typer.Option("--lines", help="plain lines also on a terminal")] = False,
    json: Annotated[bool, typer.Option("--json", help="all rows of its log, one per line")] = False,
    x: options.StepColumn = None,
) -> None:
    """View a run; it continues when you leave."""
    from txlab.runs.finding import find_run

    on_screen = has_screen() and not lines and not json
    directory = find_run(name, seconds=LOOK_EVERY if on_screen else math.inf, x=x)
    if on_screen:
        from txlab.tui.launch import launch

        raise typer.Exit(launch(run=directory, ascii=ascii_only()))
    raise typer.Exit(follow(directory, json))


def follow(directory: Path, json: bool) -> int:
    """Report progress until the run ends; return 0, or 130 if interrupted. Raises RunFailed if it failed or is lost."""
    from txlab.cli.control import end_of
    from txlab.cli.progress import JsonRows, PlainLines
    from txlab.runs.directory import RunDirectory, info_of, state_of
    from txlab.runs.events import each_row
    from txlab.runs.external_logs.mirror import mirror_at
    from txlab.runs.remote.state import remote_state

    events = directory / "events.jsonl"
    observer = JsonRows(directory) if json else PlainLines(directory)
    observer.learn()
    mirror = mirror_at(directory)
    # Plain lines begin at the end of the log, so that the first one comes immediately; JSON is the whole log.
    offset = 0 if json else max(0, end_of(events) - 4096)
    begun, line = time.monotonic(), True
    while True:
        if (far := remote_state(directory)) is not None and far.connected != line:
            line = far.connected
            news = f"connected to {far.host} again" if line else far.sentence + (f" ({far.why})" if far.why else "")
            print(f"txlab: {sanitize(news)}", file=sys.stderr, flush=True)
        if mirror is not None:
            mirror.update(seconds=LOOK_EVERY)
        # Before reading rows, so that everything written before the end is read as well.
        state = state_of(directory, info_of(RunDirectory(directory)))
        for row, behind in each_row(events, offset):  # one at a time: the whole log may not fit into memory
            observer(row)
            offset = behind
            if observer.muted:
                break
        if observer.muted:
            return 0
        if state.status not in ("created", "running", "paused"):
            break
        if state.status == "created" and time.monotonic() - begun > BEGINS_WITHIN:
            raise RunFailed(f"{directory.name} has not begun; txlab resume {directory.name} begins it")
        time.sleep(LOOK_EVERY)
    observer.close()
    if state.status in ("failed", "lost"):
        raise RunFailed(f"{directory.name} {'failed' if state.status == 'failed' else 'is lost'}: {state.reason}")
    if not json:
        reason = f" ({state.reason})" if state.reason else ""
        at = f"step {group_digits(state.step)} of {group_digits(state.steps)}"
        print(sanitize(f"{directory.name} {state.status} at {at}{reason}"))
    return 130 if state.status == "interrupted" else 0
