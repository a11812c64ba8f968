"""Requests from a person to a run: files in its inbox, written aside and renamed, answered by rows of its log.

Notable: an inbox is open to whoever may write to the directory, so what lies in it is bounded in size, never followed
through a link, and checked; what is no request is moved to inbox/rejected and answered with applied = false. A request
is removed before it is done: after a kill in between it is lost, not applied twice, and the asker sees no answer. One
that can be neither removed nor moved is passed over from then on.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

import orjson

from txlab.errors import LabError, nearest
from txlab.files import OpenFolder
from txlab.runs.directory import RunDirectory, user_name

REQUESTS = ("pause", "resume", "step", "stop", "checkpoint", "set", "scale", "sample")
BYTES = 64 * 1024  # of one request
TAKEN_AT_ONCE = 64


@dataclass(frozen=True)
class Request:
    """What is asked for; `error` says why it cannot be done.

    set    `key` becomes `value`        scale  `key` becomes `value` times what it is when the run reads this: two
    step   `count` updates              people who press + at once both count, and nobody needs to know the old value
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
    """Who asks, as it will stand in the log: ann@box."""
    return f"{user_name()}@{socket.gethostname()}"


def send(run: RunDirectory | str | Path, request: Request) -> str:
    """Leave a request in the run's inbox; returns the id that its control row will carry.

    Raises LabError if it is no valid request, or the inbox cannot be written to.
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
    try:
        with run.folder("inbox") as inbox:
            inbox.write(f"{time.time_ns()}-{checked.id}.json", orjson.dumps(row))
    except OSError as error:
        raise LabError(f"the inbox of {run.path} cannot be written to: {error.strerror}") from None
    return checked.id


def check(row: Any) -> Request:
    """The Request that a parsed JSON value means; where it means none, its `error` is one sentence."""
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
    except OverflowError:  # an integer beyond every float
        return False


class Inbox:
    """The reading end of a run's inbox. take() is a directory listing (about 20 µs) when it is empty."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.stuck: set[str] = set()  # names of files that could be neither removed nor moved

    def take(self) -> list[Request]:
        """Requests since the last call, in the order in which they were asked; invalid ones carry an `error`."""
        requests = []
        with contextlib.suppress(OSError), self.run.folder("inbox") as inbox:
            for name in self._names(inbox)[:TAKEN_AT_ONCE]:
                row, error = _read(inbox, name)
                request = check(row) if error is None else Request("unreadable", error=error)
                self._put_away(inbox, name, junk=request.request == "unreadable")
                requests.append(request)
        return requests

    def clear(self) -> int:
        """Move away requests meant for an earlier process; returns how many there were."""
        count = 0
        with contextlib.suppress(OSError), self.run.folder("inbox") as inbox:
            for name in self._names(inbox):
                self._put_away(inbox, name, junk=True)
                count += 1
        return count

    def _names(self, inbox: OpenFolder) -> list[str]:
        names = (name for name in inbox.names() if name[0] != "." and name != "rejected")
        return sorted(name for name in names if name not in self.stuck)

    def _put_away(self, inbox: OpenFolder, name: str, junk: bool) -> None:
        try:
            if not junk:
                inbox.unlink(name)
                return
            with inbox.folder("rejected", make=True) as rejected:
                inbox.rename(name, f"{time.time_ns()}-{name}"[:250], to=rejected)
        except OSError:
            self.stuck.add(name)


def _read(inbox: OpenFolder, name: str) -> tuple[Any, str | None]:
    """The JSON in a file of the inbox, or why there is none."""
    shown = repr(name[:60])
    if not name.endswith(".json"):
        return None, f"the inbox takes .json files, not {shown}"
    try:
        return orjson.loads(inbox.read(name, BYTES)), None
    except OSError as error:
        return None, f"the request {shown} cannot be read: {error.strerror}"
    except orjson.JSONDecodeError:
        return None, f"the request {shown} is not valid JSON"
