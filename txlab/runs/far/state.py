"""far.json: what a mirrored run is a copy of, and whether the line to it stands.

Notable: whether it stands is a reader's conclusion, as for the run itself: the process that keeps the mirror refreshes
the file, and one that has not been refreshed says only what was known then. Anybody can put a far.json into a directory
and send it: it is read only in this user's cache of mirrors, and which machine and run it is about is known from the
place of the mirror there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import orjson

from txlab.files import atomic_write, read_regular

FILE = "far.json"  # in a mirrored run
GONE = "gone"  # what the line is called of a run that its machine no longer has
OF_LIST = ".line.json"  # beside the runs that are only listed
LARGEST = 16 << 10
REFRESH_EVERY = 2.0  # seconds
STALE_AFTER = 8.0  # seconds after which the process that kept the mirror is believed to be gone
SILENT_AFTER = 6.0  # seconds without a word, while the other side speaks every two


@dataclass(frozen=True)
class FarState:
    """Times are Unix seconds by this machine's clock.

    host, root, run  the machine as ssh knows it, the folder of runs there, the run's name in it
    line             "connecting", "connected", "lost", "closed" or "gone"
    why              what ssh, or the other side, said when the line was lost
    seen             when the other side was last heard of
    written          when the file was last refreshed
    retry            when the next attempt is made
    offset           seconds by which this machine's clock is ahead of the other's
    complete         when all that the run had there was here; 0 = not yet
    refused          what was sent from here and was not taken, and why
    left             what was left here for the run and is not known to be there
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
        """Why what is shown may be old; "" while the line stands."""
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
        return f"line to {self.host} lost {ago(now - self.seen)}, {again}"

    def encoded(self) -> bytes:
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


def far_state(run: Path) -> FarState | None:
    """The state of a mirrored run: that of its own line, or of the line over which it is listed; None for a run of
    this machine."""
    own = _read(run, FILE)
    if own is None or own.connected or own.line == GONE:
        return own
    listed = _read(run, f"../{OF_LIST}")
    return listed if listed is not None and listed.connected else own


def mark_gone(run: Path, gone: bool) -> None:
    """Write into a mirror whether its machine no longer has the run, if that is another state than it was in."""
    state = _read(run, FILE)
    if state is not None and (state.line == GONE) != gone:
        with suppress(OSError):
            atomic_write(run / FILE, replace(state, line=GONE if gone else "closed").encoded())


def _read(run: Path, name: str) -> FarState | None:
    try:
        data = read_regular(run / name, LARGEST, follow=False)
    except FileNotFoundError:
        return None
    except OSError:
        data = b""
    from txlab.runs.far.address import mirror_of  # only mirrors need it

    about = mirror_of(run)
    if about is None:
        return None
    state = FarState(host=about.host, run=about.run)
    try:
        found = orjson.loads(data)
        known = [each.name for each in fields(FarState) if each.name in found and each.name not in ("host", "run")]
        return replace(state, **{name: type(getattr(state, name))(found[name]) for name in known})
    except (ValueError, TypeError, KeyError, OverflowError):
        return state
