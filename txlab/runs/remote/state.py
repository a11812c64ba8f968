"""far.json: what a mirrored run is a copy of, and whether its machine is connected.

Notable: whether it is connected is a reader's conclusion, as for the run itself: the process that keeps the mirror
refreshes the file, and a stale file describes only a past state. A far.json may be forged, so it is read only in this
user's cache of mirrors, and its machine and run follow from the mirror's path there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import orjson

from txlab.files import atomic_write, read_regular

FILE = "far.json"  # in a mirrored run
GONE = "gone"  # the state of a run that its machine no longer has
OF_LIST = ".line.json"  # next to the runs that are only listed
LARGEST = 16 << 10
REFRESH_EVERY = 2.0  # seconds
STALE_AFTER = 8.0  # seconds after which the process that kept the mirror is considered gone
SILENT_AFTER = 6.0  # seconds of silence; the other side sends every two


@dataclass(frozen=True)
class RemoteState:
    """Times are Unix seconds by this machine's clock.

    host, root, run  the machine as ssh knows it, the folder of runs there, the run's name in it
    line             "connecting", "connected", "lost", "closed" or "gone"
    why              the error of ssh, or of the other side, when the connection was lost
    seen             when the other side was last heard of
    written          when the file was last refreshed
    retry            when the next attempt is made
    offset           seconds by which this machine's clock is ahead of the other's
    complete         when the mirror was first complete; 0 = not yet
    refused          the requests sent from here that were refused, and why
    left             the requests left here for the run that are not known to have arrived
    """

    host: str = ""
    root: str = ""
    run: str = ""
    line: str = "closed"
    why: str = ""
    seen: float = 0.0
    written: float = 0.0
    retry: float = 0.0
    offset: float = 0.0
    complete: float = 0.0
    refused: str = ""
    left: str = ""

    @property
    def connected(self) -> bool:
        return self.line == "connected" and -STALE_AFTER < time.time() - self.written < STALE_AFTER

    @property
    def sentence(self) -> str:
        """Why what is shown may be old; "" while connected."""
        now = time.time()
        if self.line == GONE:
            return f"gone from {self.host}; this is from {ago(now - self.seen)}"
        if self.connected:
            if (silent := now - self.seen) > SILENT_AFTER:
                return f"{self.host} has been silent for {silent:.0f} s"
            return f"{self.host} does not take {self.refused}" if self.refused else ""
        if now - self.written > STALE_AFTER:
            return f"a copy from {self.host}, {ago(now - self.seen)}"
        if self.line == "connecting":
            return f"connecting to {self.host}…" + (f" this is from {ago(now - self.seen)}" if self.seen else "")
        if self.line == "closed":
            return f"not connected to {self.host}; this is from {ago(now - self.seen)}"
        again = f"again in {self.retry - now:.0f} s" if self.retry > now + 0.5 else "trying again"
        return f"connection to {self.host} lost {ago(now - self.seen)}, {again}"

    def to_json(self) -> bytes:
        return orjson.dumps(asdict(self))


def ago(seconds: float) -> str:
    """
    >>> ago(12.4), ago(300), ago(7300), ago(200000)
    ('12 s ago', '5 min ago', '2 h ago', '2 d ago')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def remote_state(run: Path) -> RemoteState | None:
    """The state of a mirrored run: of its own connection, or of the one that lists it; None for a local run."""
    own = _read(run, FILE)
    if own is None or own.connected or own.line == GONE:
        return own
    listed = _read(run, f"../{OF_LIST}")
    return listed if listed is not None and listed.connected else own


def mark_gone(run: Path, gone: bool) -> None:
    """Write into a mirror whether its machine no longer has the run, if that has changed."""
    state = _read(run, FILE)
    if state is not None and (state.line == GONE) != gone:
        with suppress(OSError):
            atomic_write(run / FILE, replace(state, line=GONE if gone else "closed").to_json())


def _read(run: Path, name: str) -> RemoteState | None:
    try:
        data = read_regular(run / name, LARGEST, follow=False)
    except FileNotFoundError:
        return None
    except OSError:
        data = b""
    from txlab.runs.remote.address import mirror_of  # only mirrors need it

    about = mirror_of(run)
    if about is None:
        return None
    state = RemoteState(host=about.host, run=about.run)
    try:
        content = orjson.loads(data)
        known = [each.name for each in fields(RemoteState) if each.name in content and each.name not in ("host", "run")]
        return replace(state, **{name: type(getattr(state, name))(content[name]) for name in known})
    except (ValueError, TypeError, KeyError, OverflowError):
        return state
