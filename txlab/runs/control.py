"""Requests from the user to a run: files written atomically to its inbox and answered by rows of its log.

Notable: anybody with write access to the directory can use the inbox, so its files are bounded in size, never read
through a link, and validated; an invalid one is moved to inbox/rejected and answered with applied = false. A request is
removed before it is carried out: after a kill in between it is lost, not applied twice, and the sender sees no answer.
A file that can be neither removed nor moved is ignored from then on.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

import orjson

from txlab.errors import LabError, convert_os_errors, nearest, one_line
from txlab.experiments.protocol import Adjustable
from txlab.files import OpenFolder
from txlab.runs.directory import RunDirectory, user_name

REQUESTS = ("pause", "resume", "step", "stop", "checkpoint", "set", "scale", "sample")
BYTES = 64 * 1024  # largest size of a request
TAKEN_AT_ONCE = 64
LISTED_AT_ONCE = 10_000  # names; the remaining ones are listed once some of these were taken


@dataclass(frozen=True)
class Request:
    """One request; `error` says why it cannot be carried out.

    set    `key` becomes `value`        scale  `key` is multiplied by `value` when the run reads this: two people who
    step   `count` updates              press + at the same time both count, without knowing the old value
    """

    request: str
    key: str | None = None
    value: float | None = None
    count: int = 1
    by: str = ""
    id: str = ""
    asked: float = 0.0
    error: str | None = None


def asker() -> str:
    """The sender as written to the log: ann@box."""
    return f"{user_name()}@{socket.gethostname()}"


def send(run: RunDirectory | str | Path, request: Request) -> str:
    """Put a request into the run's inbox and return the id that its control row will carry.

    Raises LabError if the request is invalid or the inbox cannot be written to.
    """
    run = RunDirectory.of(run)
    row = asdict(request)
    row["id"], row["by"] = request.id or secrets.token_hex(8), request.by or asker()
    row["asked"] = request.asked or time.time()
    del row["error"]
    checked = check(row)
    if checked.error:
        raise LabError(checked.error)
    run.require_own()
    with convert_os_errors(f"the inbox of {run.path} cannot be written to"), run.folder("inbox") as inbox:
        inbox.write(f"{time.time_ns()}-{checked.id}.json", orjson.dumps(row))
    return checked.id


def check(row: Any) -> Request:
    """The Request for a parsed JSON value; if the value is not a valid request, its `error` is one sentence."""
    if not isinstance(row, dict):
        return Request("unreadable", error="the request is not a JSON object")
    name, key, value, count = row.get("request"), row.get("key"), row.get("value"), row.get("count", 1)
    asked, identity, by = row.get("asked"), row.get("id"), row.get("by")
    error = None
    if name not in REQUESTS:
        near = nearest(name, REQUESTS) if isinstance(name, str) and len(name) < 100 else ""
        error = f"request {str(name)[:40]!r} is unknown{near}; allowed: {', '.join(REQUESTS)}"
    elif name in ("set", "scale") and not (isinstance(key, str) and 0 < len(key) <= 200):
        error = f"{name} needs the name of a parameter as its key, not {str(key)[:40]!r}"
    elif name in ("set", "scale") and not _is_number(value):
        error = f"{name} {key} needs a finite number, not {str(value)[:40]!r}"
    elif name == "step" and not (isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 10**9):
        error = f"step needs a count from 1 to 1000000000, not {str(count)[:40]!r}"
    return Request(
        request=name[:40] if isinstance(name, str) else "unreadable",
        key=key[:200] if isinstance(key, str) else None,
        value=float(value) if _is_number(value) else None,
        count=count if name == "step" and error is None else 1,
        by=by[:200] if isinstance(by, str) else "",
        id=identity if isinstance(identity, str) and re.fullmatch(r"[\w.-]{1,64}", identity, re.ASCII) else "",
        asked=float(asked) if _is_number(asked) else 0.0,
        error=error,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


@dataclass(frozen=True)
class Change:
    """The result of a request to change a parameter: the old value, the requested one, and why it was refused ("" =
    done)."""

    before: float | None
    to: float | None
    error: str = ""


def change(adjustable: Mapping[str, Adjustable], adjust: Callable[[str, float], object], request: Request) -> Change:
    """Carry out a `set` or `scale` by calling `adjust(key, value)`; a factor is applied to the value that the parameter
    has now. Never raises: a request must not end a run."""
    key, value = request.key or "", request.value
    known = adjustable.get(key)
    if request.request == "scale":
        value = None if known is None or value is None else known.scale(value)
    if known is None:
        allowed = ", ".join(adjustable)
        return Change(None, value, f"set {key!r}: no such parameter{nearest(key, adjustable)}; adjustable: {allowed}")
    if value is None or not known.low <= value <= known.high:
        return Change(known.value, value, f"set {key} = {value}: allowed: {known.low:g} to {known.high:g}")
    try:
        adjust(key, value)
    except Exception as refused:
        return Change(known.value, value, f"set {key} = {value}: {one_line(refused)}")
    return Change(known.value, value)


class Inbox:
    """The reading end of a run's inbox. take() costs a directory listing (about 20 µs) when the inbox is empty."""

    polled = True  # whether looking at it costs something, so that it is done 20 times a second and not at every step

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.stuck: set[str] = set()  # names of files that could be neither removed nor moved

    def take(self) -> list[Request]:
        """Return the requests since the last call, in the order they were sent; invalid ones carry an `error`."""
        requests = []
        with contextlib.suppress(OSError), self.run.folder("inbox") as inbox:
            for name in names_in(inbox, self.stuck)[:TAKEN_AT_ONCE]:
                row, error = _read(inbox, name)
                request = check(row) if error is None else Request("unreadable", error=error)
                self._put_away(inbox, name, junk=request.request == "unreadable")
                requests.append(request)
        return requests

    def asks_to_stop(self) -> bool:
        """Whether a stop is among the requests that wait; they stay where they are."""
        with contextlib.suppress(OSError), self.run.folder("inbox") as inbox:
            read = (_read(inbox, name)[0] for name in names_in(inbox, self.stuck)[:TAKEN_AT_ONCE])
            return any(row is not None and check(row).request == "stop" for row in read)
        return False

    def late(self) -> list[Request]:
        """Return the requests that came too late to be carried out."""
        return self.take()

    def clear(self) -> int:
        """Move requests meant for an earlier process out of the way and return how many there were."""
        count = 0
        with contextlib.suppress(OSError), self.run.folder("inbox") as inbox:
            while names := names_in(inbox, self.stuck):
                for name in names:
                    self._put_away(inbox, name, junk=True)
                count += len(names)
        return count

    def _put_away(self, inbox: OpenFolder, name: str, junk: bool) -> None:
        try:
            if not junk:
                inbox.unlink(name)
                return
            reject(inbox, name)
        except OSError:
            self.stuck.add(name)


def names_in(inbox: OpenFolder, but: Container[str] = ()) -> list[str]:
    """The names of the requests in an inbox, oldest first, at most LISTED_AT_ONCE of them. Raises OSError."""
    with os.scandir(inbox.descriptor) as entries:
        names = (entry.name for entry in entries if entry.name[0] != "." and entry.name != "rejected")
        return sorted(islice((name for name in names if name not in but), LISTED_AT_ONCE))


def reject(inbox: OpenFolder, name: str) -> None:
    """Move aside a request that is not carried out. Raises OSError."""
    with inbox.folder("rejected", make=True) as rejected:
        inbox.rename(name, f"{time.time_ns()}-{name}"[:250], to=rejected)


def _read(inbox: OpenFolder, name: str) -> tuple[Any, str | None]:
    """The JSON value of a file in the inbox, or the reason why it has none."""
    shown = repr(name[:60])
    if not name.endswith(".json"):
        return None, f"the inbox takes .json files, not {shown}"
    try:
        return orjson.loads(inbox.read(name, BYTES)), None
    except OSError as error:
        return None, f"the request {shown} cannot be read: {error.strerror}"
    except orjson.JSONDecodeError:
        return None, f"the request {shown} is not valid JSON"
