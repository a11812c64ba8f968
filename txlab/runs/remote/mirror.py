"""One mirrored run: an ordinary run directory, written from the other side's messages, with its inbox forwarded there.

Notable: the other side is not trusted. Only the names written here are ever created, through the descriptor of the
mirror's own directory, sizes and numbers are bounded, each and in sum, and a message inconsistent with the local state
ends the connection. A request counts as delivered only once the other side has acknowledged it: the remote label is
kept alongside the local one, which is sent again as long as the two differ. A long log is first mirrored as a sample of
its rows; the whole log grows in `.events.whole` and replaces the sample when it is complete (readers see a replaced
file, and start over). Times in run.json and heartbeat are converted to this machine's clock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from txlab.engine.rlhf.preferences import MOST_BYTES
from txlab.errors import convert_os_errors
from txlab.files import OpenFolder, closing, lock, write_whole
from txlab.runs.control import BYTES, names_in, reject
from txlab.runs.directory import LARGEST_HEARTBEAT, LARGEST_INFO
from txlab.runs.frames import FrameWriter
from txlab.runs.remote.coarse import RemoteFrames, is_exact
from txlab.runs.remote.line import MOST_PARTS, NONSENSE, LineLost, parse_json
from txlab.runs.remote.state import FILE, REFRESH_EVERY, RemoteState

WHOLE, LOCK, LABEL = ".events.whole", ".mirror.lock", ".label.there"
SMALL = {"run.json": LARGEST_INFO, "heartbeat": LARGEST_HEARTBEAT, "label.json": 64 << 10, "scenario.toml": 1 << 20}
SMALL["log.txt"] = 64 << 10
SHARED = ("preferences.jsonl", "comparisons.jsonl")  # also appended to locally
LOGS = ("events.jsonl", "questions.jsonl", *SHARED)
LARGEST_LOG = {"events.jsonl": 4 << 30, **dict.fromkeys(("questions.jsonl", *SHARED), MOST_BYTES)}  # bytes
BEFORE_SETTLED = 96 << 20  # bytes of logs accepted before the initial contents are complete
MOST_LINES = 200_000  # of a shared file; the id of each is kept
LONGEST_LINE, LONGEST_ID = 1 << 20, 64  # of such a file
SENT_AT_ONCE = 256 << 10  # bytes of such a file
FRAMES_MB = 512.0
MOST_FRAMES = 100_000  # in a list
FIRST = 128 << 10  # bytes of a log that is sent whole; a longer one is sampled first
AT_ONCE = 1 << 20  # bytes of a frame that is fetched without being shown
SETTLED = 2.0  # seconds after connecting within which earlier messages have arrived
TOO_LATE = 300.0  # seconds after which an undelivered request is dropped
SENT_AGAIN = 30.0  # seconds after which a refused request is sent again


class RunMirror:
    """The mirror of `run` in `folder`, held by one process at a time; used from its connection's thread.

    at         bytes of the remote log that are known here, with or without gaps
    whole      bytes of it that are here without a gap
    """

    def __init__(self, folder: Path, state: RemoteState) -> None:
        """Raises LabError if the directory cannot be made; OSError (BlockingIOError) if another process holds it."""
        self.path, self.state = folder / state.run, state
        with convert_os_errors(f"the mirror {self.path} cannot be made"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with OpenFolder.at(folder, follow=True) as there:
                self.top = there.folder(state.run, make=True)
            for name in ("frames", "inbox", "checkpoints"):
                self.top.folder(name, make=True).close()
            self.lock = self.top.open(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            lock(self.lock)
        except BlockingIOError:
            os.close(self.lock)
            raise
        self.frames = FrameWriter(self.top.folder("frames"), FRAMES_MB * 1e6)
        self.decoder = RemoteFrames()
        self.there: dict[int, tuple[Any, int]] = {}  # frames on the other side: their marks and sizes
        self.marks: dict[int, Any] = {}  # of the frames that are here
        self.exactly: set[int] = set()  # frames that are here exactly
        self.partial = self._size(WHOLE) >= 0
        self.whole = max(0, self._size(WHOLE if self.partial else "events.jsonl"))
        self.at = self.whole
        # Bytes of the other remote logs that are known here. Those also appended to locally are compared by ids.
        self.known = dict.fromkeys(SHARED, 0) | {"questions.jsonl": max(0, self._size("questions.jsonl"))}
        self.followed = False  # whether the beginning of the log has arrived on this connection
        self.settled = False  # whether all initial contents have arrived
        self.came = 0  # bytes of logs on this connection before that
        self.known_marks: dict[str, Any] = {}
        self.outstanding = 0  # sent and not yet acknowledged
        self.label = read_small(self.top, LABEL)  # label.json as the other side has it
        self.label_sent = False  # whether one is in transit
        self.looking = threading.Lock()
        self.refused: dict[str, str] = {}  # refused requests, and why
        self.not_before = 0.0  # when it may be sent again
        self.asked: set[str] = set()  # ids of requests that were sent
        self.answered: set[str] = set()  # of those, answered in the log
        self.unsure: dict[str, float] = {}  # requests sent over a connection that was lost before the answer
        self.waiting: set[str] = set()  # names of requests in transit
        self.theirs: dict[str, set[str]] = {name: set() for name in SHARED}  # ids of lines that the other side has
        self.ours: dict[str, set[str]] = {name: set() for name in SHARED}  # ids of all lines that are here
        self.unsent: dict[str, list[bytes]] = {name: [] for name in SHARED}  # local lines not compared yet
        self.read: dict[str, int] = dict.fromkeys(SHARED, 0)  # bytes of the local shared files that were read
        self.seen_label: tuple[tuple[int, int] | None, bytes | None] = (None, None)  # label.json here, and its mark
        self.heard_to, self.row_begun = 0, b""  # bytes of the log that were searched, and an incomplete row at the end
        self.stands_since = 0.0
        self.written = 0.0
        self._find_unsure()

    def _find_unsure(self) -> None:
        """Requests already here may have been sent by an earlier process, which cannot tell."""
        with contextlib.suppress(OSError), self.top.folder("inbox") as inbox:
            self.unsure = dict.fromkeys(names_in(inbox), float("inf"))
            self.asked = {id_of(inbox.read(name, BYTES)) for name in self.unsure}
        if self.unsure:
            with contextlib.suppress(OSError), os.fdopen(self.top.open("events.jsonl"), "rb") as log:
                while piece := log.read(1 << 20):
                    self._hear_answers(piece, self.heard_to)

    def close(self, why: str = "") -> None:
        if self.lock >= 0:
            self.say(line="closed", why=why)
            os.close(self.lock)
            self.lock = -1
            self.top.close()

    def _size(self, name: str) -> int:
        try:
            return self.top.stat(name).st_size
        except OSError:
            return -1

    def _mark(self, name: str) -> tuple[int, int] | None:
        try:
            about = self.top.stat(name)
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    # The state of the connection

    def say(self, **changes: Any) -> None:
        """Write far.json."""
        now = time.time()  # before the check: later requests may be missing
        self.state = replace(self.state, left=", ".join(self.undelivered), written=now, **changes)
        self.written = time.monotonic()
        with contextlib.suppress(OSError):
            self.top.write(FILE, self.state.to_json())

    def refresh(self, seen: float, offset: float) -> None:
        """Write far.json again if it is due."""
        if time.monotonic() - self.written >= REFRESH_EVERY:
            self.say(seen=seen, offset=offset)

    # Requests to the other side

    def request(self) -> dict[str, Any]:
        """The request to follow the run from where this mirror is."""
        self.followed = False
        self.waiting.clear()
        sizes = {**self.known, "events.jsonl": self.at}
        seams = {name: self._seam(name) for name in LOGS if sizes[name] and name not in SHARED}
        return {"run": self.state.run, "at": sizes, "seams": seams, "first": FIRST, "marks": self.known_marks}

    def _seam(self, name: str) -> int:
        """The checksum of the last 64 bytes of a log, which tells whether the other side still has the same one."""
        held = WHOLE if name == "events.jsonl" and self.partial and self.at == self.whole else name
        with contextlib.suppress(OSError), closing(self.top.open(held)) as descriptor:
            size = os.fstat(descriptor).st_size
            return zlib.crc32(os.pread(descriptor, min(64, size), max(0, size - 64)))
        return 0

    # Messages from the other side

    def take(self, head: dict[str, Any], body: bytes, offset: float) -> None:
        """Apply a message about this run. Raises LineLost for one that makes no sense."""
        try:
            if "settled" in head:
                self.settled = True
                self.say(complete=time.time())
            elif "frames" in head:
                self.list_frames(head["frames"])
            elif head["file"] in SMALL and head.get("whole"):
                self.replace(head["file"], head.get("mark"), body, offset)
            elif head["file"] in LOGS:
                self.append(head["file"], head["at"], head["end"], body, bool(head.get("thin")))
        except NONSENSE as error:
            raise LineLost(
                f"{self.state.host} says something about {self.state.run} that makes no sense ({error})"
            ) from None
        except OSError as error:
            raise LineLost(f"the mirror {self.path} cannot be written: {error.strerror}") from None

    def append(self, name: str, at: int, end: int, body: bytes, thin: bool) -> None:
        events = name == "events.jsonl"
        if type(at) is not int or type(end) is not int or not 0 <= at <= end <= LARGEST_LOG[name]:
            raise ValueError("a log of an impossible size")
        self.came += 0 if self.settled else len(body)
        if self.came > BEFORE_SETTLED:
            raise ValueError("its rows have no end")
        known = self.at if events else self.known[name]
        if thin and events and at in (0, self.whole):
            self._begin_partial(at, end, body)
        elif at == end == 0 and known:  # another file than the one that is mirrored here
            self._forget(name)
        elif at != known or (not thin and end - at != len(body)) or thin:
            raise ValueError(f"{name} continues at byte {at} where {known} bytes of it are known")
        elif body:
            self._write_on(name, self._new_lines(name, body) if name in SHARED else body)
            if not events:
                self.known[name] = end
            else:
                self.at = end
                self.whole = self.whole if self.partial else end
        if events:
            self.followed = True
            self._hear_answers(body, -1 if thin else at)

    def _write_on(self, name: str, body: bytes) -> None:
        with closing(self.top.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)) as descriptor:
            if name in SHARED:
                lock(descriptor, wait=True)
            write_whole(descriptor, body)

    def _new_lines(self, name: str, body: bytes) -> bytes:
        """The lines that are not here yet."""
        self._look_at_ours(name)
        lines = [(key, line) for line in body.split(b"\n") if (key := key_of(line))]
        self.theirs[name].update(key for key, _ in lines)
        if len(self.theirs[name]) > MOST_LINES:
            raise ValueError(f"{name} has more than {MOST_LINES} rows")
        return b"".join(line + b"\n" for key, line in lines if key not in self.ours[name])

    def _forget(self, name: str) -> None:
        self.top.write(name, b"")  # another file, which tells the readers
        if name == "events.jsonl":
            with contextlib.suppress(FileNotFoundError):
                self.top.unlink(WHOLE)
            self.partial, self.at, self.whole = False, 0, 0
            self.frames.drop(set(self.frames.steps))
            self.marks.clear()
            self.exactly.clear()
        else:
            self.known[name] = 0
        if name in SHARED:
            for each in (self.theirs[name], self.ours[name], self.unsent[name]):
                each.clear()
            self.read[name] = 0

    def _begin_partial(self, at: int, end: int, body: bytes) -> None:
        """Replace the log by its known part without gaps, and a sample of the rows after that."""
        if not self.partial:
            if self._size("events.jsonl") < 0:
                self.top.write(WHOLE, b"")
            else:
                self.top.rename("events.jsonl", WHOLE)
        if at == 0:
            self.top.write(WHOLE, b"")
        self.partial, self.whole, self.at = True, at, end
        self.top.write("events.jsonl", self._pieces(body))

    def begin_listed(self, rows: bytes) -> None:
        """Keep a sample of a log of which nothing is here yet."""
        if not self.whole:
            self._begin_partial(0, 0, rows)

    def _pieces(self, body: bytes) -> Iterator[bytes]:
        with os.fdopen(self.top.open(WHOLE), "rb") as file:
            while piece := file.read(1 << 20):
                yield piece
        yield body

    @property
    def gap(self) -> int:
        """Bytes of the log that are not here."""
        return self.at - self.whole if self.partial else 0

    def fill(self, at: int, body: bytes) -> None:
        """Append a piece to the whole log; the last piece makes it replace the partial log."""
        if not self.partial or at != self.whole:
            return
        body = body[: self.at - at]
        if not body:
            raise LineLost(f"the log of {self.state.run} became shorter")
        self._write_on(WHOLE, body)
        self._hear_answers(body, at)
        self.whole += len(body)
        if self.whole == self.at:
            self.top.rename(WHOLE, "events.jsonl")
            self.partial = False

    def replace(self, name: str, mark: Any, body: bytes, offset: float) -> None:
        """Write one of the small files."""
        if len(body) > SMALL[name]:
            raise ValueError(f"{name} is too large")
        mark = mark_of(mark)
        if name == "label.json" and (self.label_sent or self.label_unsent):
            self.known_marks[name] = mark  # the local one is newer, as it is not known to have arrived
            return
        body = shift_times(name, body, offset)
        self.top.write(name, body)
        if name == "heartbeat" and mark is not None:  # the reader uses the file's time too
            written = float(mark[2]) / 1e9 + offset
            if 0 < written < 2**33:
                os.utime(name, (written, written), dir_fd=self.top.descriptor, follow_symlinks=False)
        if name == "label.json":
            self._keep_label(body)
        self.known_marks[name] = mark

    def _hear_answers(self, body: bytes, at: int) -> None:
        """Look for answers in bytes of the log from `at` on, which need not begin or end with a row."""
        begun, self.heard_to = (self.row_begun if self.heard_to == at else b""), at + len(body)
        body = begun + body
        self.row_begun = body[body.rfind(b"\n") + 1 :][-LONGEST_LINE:]
        if self.asked and b'"control"' in body:
            rows = (id_of(line) for line in body.split(b"\n") if b'"control"' in line)
            self.answered |= self.asked.intersection(rows)

    # Frames

    def list_frames(self, listed: Any) -> None:
        if not isinstance(listed, list) or len(listed) > MOST_FRAMES:
            raise ValueError("too many frames")
        frames: dict[int, tuple[Any, int]] = {}
        for step, mark, size in listed:
            if type(step) is not int or not 0 <= step < 10**18 or type(size) is not int:
                raise ValueError("a frame of no step")
            frames[step] = mark_of(mark), size
        self.there = frames
        changed = {
            step for step, mark in self.marks.items() if (new := frames.get(step)) and new[0] not in (None, mark)
        }
        gone = set(self.frames.steps) - frames.keys() | changed
        if gone:
            self.frames.drop(gone)
            self.exactly -= gone
            for step in gone:
                self.marks.pop(step, None)

    def keep_frame(self, blob: bytes | bytearray, exact: bool) -> int:
        """Decode and write a frame; returns its step. KeyError if it refers to one that is not known here."""
        frame = self.decoder.decode(blob, remember=not exact)
        if exact or frame.step not in self.exactly:
            self.frames.write(frame)
        if is_exact(frame):
            self.exactly.add(frame.step)
        if frame.step in self.there and (mark := self.there[frame.step][0]) is not None:
            self.marks[frame.step] = mark
        return frame.step

    def missing_frames(self) -> list[int]:
        """Steps of small frames that are not here, the newest first."""
        here = set(self.frames.steps)
        return sorted((s for s, (_, size) in self.there.items() if s not in here and size <= AT_ONCE), reverse=True)

    # Local requests

    def outgoing(self) -> Iterator[tuple[dict[str, Any], bytes, Callable[[str], None]]]:
        """(request, body, callback) for each local request to the run; the callback takes the reason of a refusal, "" =
        accepted."""
        with contextlib.suppress(OSError), self.top.folder("inbox") as inbox:
            for name in names_in(inbox)[:64]:
                if name in self.waiting:
                    continue
                try:
                    body = inbox.read(name, BYTES)
                except OSError:
                    continue
                if self._needs_no_delivery(inbox, name, body):
                    continue
                self.waiting.add(name)
                self.asked.add(id_of(body))
                self.outstanding += 1
                yield {"run": self.state.run, "file": "inbox", "name": name}, body, self._after(name)
        if time.monotonic() < self.not_before:
            return
        if not self.label_sent and (label := self.label_unsent) is not None:
            self.outstanding += 1
            self.label_sent = True
            yield {"run": self.state.run, "file": "label.json"}, label, self._after_label(label)
        if self.settled:
            for name in SHARED:
                self._look_at_ours(name)
                if lines := self._next_lines(name):
                    self.outstanding += 1
                    body = b"".join(line + b"\n" for line in lines)
                    yield {"run": self.state.run, "file": name}, body, self._after_lines(name, lines)

    def _next_lines(self, name: str) -> list[bytes]:
        """The next lines that exist only here; the rest wait for their turn."""
        unsent = [line for line in self.unsent[name] if key_of(line) not in self.theirs[name]]
        count = size = 0
        while count < len(unsent) and (not count or size + len(unsent[count]) < SENT_AT_ONCE):
            size += len(unsent[count])
            count += 1
        self.unsent[name] = unsent[count:]
        return unsent[:count]

    @property
    def label_unsent(self) -> bytes | None:
        """The label that was written here and that the other side does not have."""
        mark = self._mark("label.json")
        if mark != self.seen_label[0]:
            self.seen_label = mark, read_small(self.top, "label.json")
        label = self.seen_label[1]
        return label if label != self.label else None

    @property
    def undelivered(self) -> list[str]:
        """Local requests to the run that are not known to have arrived."""
        with contextlib.suppress(OSError), self.top.folder("inbox") as inbox:
            undelivered = ["the request"] * bool(names_in(inbox))
        undelivered += ["the label"] * (self.label_unsent is not None)
        for name in SHARED:
            self._look_at_ours(name)
            here = self.ours[name] - self.theirs[name] if self.settled else self.ours[name]
            undelivered += [f"{len(here)} lines of {name}"] * bool(here)
        return undelivered

    def _report_refusal(self, what: str, error: str) -> None:
        """Report what the other side refuses, as long as it does."""
        self.outstanding -= 1
        before = dict(self.refused)
        if error:
            self.refused[what] = error[:200]
            self.not_before = time.monotonic() + SENT_AGAIN
        else:
            self.refused.pop(what, None)
        if before != self.refused:
            self.say(refused="; ".join(f"{what}: {why}" for what, why in self.refused.items()))

    def _after_lines(self, name: str, lines: list[bytes]) -> Callable[[str], None]:
        def finish(error: str) -> None:
            if error:
                self.unsent[name] = [*lines, *self.unsent[name]]
            else:
                self.theirs[name].update(map(key_of, lines))
            self._report_refusal(name, error)

        return finish

    def _after_label(self, label: bytes) -> Callable[[str], None]:
        def finish(error: str) -> None:
            self.label_sent = False
            self._report_refusal("the label", error)
            if not error:
                self._keep_label(label)

        return finish

    def _keep_label(self, label: bytes) -> None:
        """Remember the remote label, so that one written here meanwhile is passed on. If it cannot be stored, the local
        copy is deleted, as it would otherwise be taken for one written here."""
        self.label = label
        try:
            self.top.write(LABEL, label)
        except OSError:
            if read_small(self.top, "label.json") == label:
                self.top.unlink("label.json")
            raise

    def _needs_no_delivery(self, inbox: OpenFolder, name: str, body: bytes) -> bool:
        """Whether a request needs no delivery: the log answers it, or it is too late, or both."""
        try:
            late = time.time() - inbox.stat(name).st_mtime > TOO_LATE
        except OSError:
            return True
        if name in self.unsure:
            if id_of(body) in self.answered:
                del self.unsure[name]
                inbox.unlink(name)
                return True
            if not late and (not self.settled or self.gap or time.monotonic() < self.unsure[name]):
                return True  # its answer may still come
            del self.unsure[name]
        if late:
            reject(inbox, name)
            self.say(refused=f"a request that is more than {TOO_LATE / 60:.0f} minutes old, and is dropped")
        return late

    def _after(self, name: str) -> Callable[[str], None]:
        def finish(error: str) -> None:
            self._report_refusal("the request", error)
            with contextlib.suppress(OSError), self.top.folder("inbox") as inbox:  # or it stays among those waiting
                if error:
                    reject(inbox, name)
                else:
                    inbox.unlink(name)
                self.waiting.discard(name)

        return finish

    def line_lost(self) -> None:
        """Requests in transit may have arrived; two seconds after the next connection that is known."""
        self.unsure |= dict.fromkeys(self.waiting, float("inf"))
        self.waiting.clear()
        self.outstanding, self.label_sent, self.followed, self.settled = 0, False, False, False
        self.came, self.not_before = 0, 0.0
        for name in SHARED:  # lines in transit may be lost: compare all again
            self.known[name] = self.read[name] = 0
            for each in (self.theirs[name], self.ours[name], self.unsent[name]):
                each.clear()

    def line_stands(self) -> None:
        self.stands_since = time.monotonic()
        self.unsure = dict.fromkeys(self.unsure, time.monotonic() + SETTLED)

    def _look_at_ours(self, name: str) -> None:
        """Note the lines of a shared file here that came since the last look; from any thread."""
        with self.looking:
            self._look_at_lines(name)

    def _look_at_lines(self, name: str) -> None:
        try:
            with closing(self.top.open(name)) as descriptor:
                data = os.pread(descriptor, 4 * LONGEST_LINE, self.read[name])
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        self.read[name] += end or (len(data) if len(data) == 4 * LONGEST_LINE else 0)
        lines = [line for line in data[:end].split(b"\n") if key_of(line)]
        self.ours[name].update(map(key_of, lines))
        self.unsent[name] += lines


def id_of(line: bytes) -> str:
    """The id of a row of JSON, "" if it has none."""
    try:
        identity = parse_json(line)["id"] if len(line) <= LONGEST_LINE else ""
    except NONSENSE:
        return ""
    return identity if isinstance(identity, str) and len(identity) <= LONGEST_ID else ""


def key_of(line: bytes) -> str:
    """The key of a line of a shared file: its id, or a digest; "" for an invalid line."""
    if not line.startswith(b"{") or len(line) > LONGEST_LINE:
        return ""
    return id_of(line) or hashlib.blake2b(line, digest_size=12).hexdigest()


def mark_of(mark: Any) -> list[int] | None:
    """Check the mark of a remote file, its inode, size and time, which changes whenever the file does. Raises
    ValueError."""
    if mark is not None and not (isinstance(mark, list) and len(mark) == 3 and all(type(n) is int for n in mark)):
        raise ValueError("a mark of a file that is not one")
    return mark


def read_small(folder: OpenFolder, name: str) -> bytes | None:
    """The bytes of a label; None if there is no readable one."""
    try:
        return folder.read(name, SMALL["label.json"])
    except OSError:
        return None


def shift_times(name: str, body: bytes, offset: float) -> bytes:
    """run.json or a heartbeat with its times by this machine's clock; other files, and garbage, as they are."""
    keys = {"run.json": ("created", "started", "ended"), "heartbeat": ("time",)}.get(name, ())
    if not keys:
        return body
    try:
        content = parse_json(body)
    except ValueError as error:
        if body.count(b"{") + body.count(b"[") > MOST_PARTS:
            raise ValueError(f"{name} {error}") from None
        return body
    if not isinstance(content, dict):
        return body
    offset = offset if name == "heartbeat" else round(offset)  # of two runs the later stays the later one
    for key in keys:
        if isinstance(content.get(key), float | int) and not isinstance(content[key], bool):
            content[key] += offset
    return orjson.dumps(content)
