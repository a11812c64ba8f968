"""`txlab stop` and `txlab control`: send a request to a running run, and wait for its answer.

The answer is the control row that the run writes into its log.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from txlab.cli import options
from txlab.cli.output import print_json
from txlab.cli.terminal import group_digits, sanitize
from txlab.errors import LabError, RunFailed
from txlab.files import open_regular

if TYPE_CHECKING:
    from txlab.runs.control import Request

LOOK_EVERY = 0.1
LATER = "it is sent if the line comes back within 5 minutes, and dropped after that"


Asked = Literal["pause", "resume", "step", "checkpoint", "sample", "set", "scale", "stop"]


def stop(name: options.Run, timeout: options.Timeout = 60.0, json: options.JsonAnswer = False) -> None:
    """Let a run write a checkpoint and end, and wait for it."""
    from txlab.runs.control import Request
    from txlab.runs.directory import state_of
    from txlab.runs.finding import find_run

    directory = find_run(name, seconds=LOOK_EVERY, to_change=True)
    deadline = time.monotonic() + timeout
    ask(directory, Request("stop"), timeout, json)
    while state_of(directory).status in ("running", "paused"):
        if time.monotonic() > deadline:
            raise RunFailed(f"{directory.name} was asked to stop and has not ended within {timeout:g} s")
        time.sleep(LOOK_EVERY)
    if not json:
        state = state_of(directory)
        at = f"step {group_digits(state.step)} of {group_digits(state.steps)}"
        print(sanitize(f"{directory.name} {state.status} at {at}"))


def control(
    name: options.Run,
    request: Annotated[
        Asked, typer.Argument(metavar="REQUEST", help="pause, resume, step, checkpoint, sample, set, scale, stop")
    ],
    argument: Annotated[
        str | None,
        typer.Argument(metavar="ARGUMENT", help="step: how many; set: key=value, e.g. lr=1e-4; scale: key=factor"),
    ] = None,
    timeout: options.Timeout = 60.0,
    json: options.JsonAnswer = False,
) -> None:
    """Pause, resume, step or change a run, and print its answer."""
    from txlab.runs.finding import find_run

    made = request_of(request, argument)
    ask(find_run(name, seconds=LOOK_EVERY, to_change=True), made, timeout, json)


def request_of(request: Asked, argument: str | None) -> Request:
    """Parse the command line into a Request. Raises LabError."""
    from txlab.runs.control import Request

    if request == "step":
        count = argument or "1"
        if not count.isascii() or not count.isdigit() or len(count) > 9 or int(count) < 1:
            raise LabError(f"step takes a number of steps from 1 on, not {count!r}")
        return Request("step", count=int(count))
    if request in ("set", "scale"):
        key, _, value = (argument or "").partition("=")
        try:
            return Request(request, key=key.strip(), value=float(value))
        except ValueError:
            raise LabError(
                f"{request} takes key=number, e.g. {request} lr=0.5, not {argument or 'nothing'!r}"
            ) from None
    if argument is not None:
        raise LabError(f"{request} takes no argument, but {argument!r} was given")
    return Request(request)


def ask(directory: Path, request: Request, timeout: float, json: bool) -> dict[str, Any]:
    """Send, wait, print. Raises LabError if the run has ended or refuses, RunFailed if it does not answer."""
    from txlab.cli.progress import answer
    from txlab.runs.control import send
    from txlab.runs.directory import state_of

    state = state_of(directory)
    if state.status not in ("running", "paused", "created"):
        why = f": {state.reason}" if state.reason else ""
        raise LabError(f"{directory.name} is not running (it is {state.status}{why}), so it cannot answer")
    offset = end_of(directory / "events.jsonl")
    identity = send(directory, request)
    row = wait_for_answer(directory, identity, offset, timeout)
    if json:
        print_json(row)
    if not row.get("applied"):
        raise LabError(f"{directory.name} refused at step {row['step']}: {row.get('error') or 'it gave no reason'}")
    if not json:
        print(sanitize(f"{directory.name}, step {group_digits(row['step'])}: {answer(row)}"))
    return row


def wait_for_answer(directory: Path, identity: str, offset: int, timeout: float) -> dict[str, Any]:
    """Return the control row with that id, written after `offset`."""
    from txlab.runs.directory import state_of
    from txlab.runs.events import each_row
    from txlab.runs.remote.state import remote_state

    deadline = time.monotonic() + timeout
    while True:
        ended = state_of(directory).status not in ("running", "paused", "created")  # first, so that no row is missed
        for row, behind in each_row(directory / "events.jsonl", offset):
            offset = behind
            if row["event"] == "control" and row.get("id") == identity:
                return row
        if ended:
            raise RunFailed(f"{directory.name} ended before it answered ({state_of(directory).status})")
        where = place_of_request(directory, identity)
        if where == "rejected" and (far := remote_state(directory)) is not None:
            raise RunFailed(f"{far.host} does not take {far.refused or 'the request'}; it is not sent again")
        if time.monotonic() > deadline:
            what = "the request waits in its inbox"
            if (far := remote_state(directory)) is not None:
                lost = "" if far.connected else f" ({far.sentence}{': ' if far.why else ''}{far.why})"
                what = "it has the request" if not where else f"whether it is there is not known{lost}; {LATER}"
            raise RunFailed(f"{directory.name} did not answer within {timeout:g} s; {what}")
        time.sleep(LOOK_EVERY)


def place_of_request(directory: Path, identity: str) -> str:
    """ "inbox" or "rejected", where the file of a request is; "" if it was taken."""
    for place in ("inbox", "inbox/rejected"):
        with contextlib.suppress(OSError):
            if any(file.name.endswith(f"-{identity}.json") for file in (directory / place).iterdir()):
                return place.rpartition("/")[2]
    return ""


def end_of(path: Path) -> int:
    """Return the offset after the last complete row, where the next row will begin."""
    try:
        with os.fdopen(open_regular(path, follow=False), "rb") as file:
            size = file.seek(0, 2)
            back = min(size, 1 << 16)
            file.seek(size - back)
            return size - back + file.read(back).rfind(b"\n") + 1
    except OSError:
        return 0
