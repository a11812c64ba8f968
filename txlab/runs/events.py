"""events.jsonl: how a row is written and parsed, and how to read lines while another process is writing them.

Notable: each row is one `os.write` on an O_APPEND descriptor, with no user-space buffer, so SIGKILL loses nothing that
was written (0 rows in 12 kills; a buffered file lost up to 52). Non-finite numbers are strings, because orjson would
silently write null. To readers a bad tail means *later*, never *never*, and only the next writer cuts it off: a line
without its newline has not arrived yet; a tail of NUL bytes (a network file system that grew the size before the data,
or a machine that lost power) is waited for, and skipped once it has been there for `PATIENCE` seconds with data after
it. Sizes are polled, because inotify does not see what another machine writes.
"""

from __future__ import annotations

import errno
import gc
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError
from txlab.files import OpenFolder, closing, open_regular
from txlab.runs.as_json import encode_json

Row = dict[str, Any]

_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NUMBERS = ("values", "from", "to")  # where decode_row restores numbers; the text of a sample may well be "NaN"
LARGEST_STEP = 2**62
LONGEST = 8 << 20  # bytes of a row; a longer one is garbage (parsing may take 25 times as much memory)
LONG = 1 << 14  # bytes of an unusually long row
SLICE = 256 * 1024  # bytes handed out at a time: about 1 700 rows, 6 ms of parsing
SEAM = 64  # bytes before the cursor that must still be the same
PATIENCE = 3.0  # seconds


def json_object(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object; {} if the text is not one."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def encode_row(row: Row) -> bytes:
    """Encode a row as one line of JSON with its newline; non-finite numbers become "NaN", "Infinity", "-Infinity".

    >>> encode_row({"event": "metrics", "time": 1.0, "step": 3, "values": {"loss": float("nan")}})
    b'{"event":"metrics","time":1.0,"step":3,"values":{"loss":"NaN"}}\\n'
    """
    return encode_json(row, orjson.OPT_APPEND_NEWLINE)


def decode_row(line: bytes) -> Row | None:
    """Decode one line, restoring numbers; None if it is not a row (torn, NULs, not an object, no event)."""
    try:
        return restore_row(parse_line(line), line)
    except orjson.JSONDecodeError:
        return None


def parse_line(line: bytes) -> Any:
    """Parse a line. The garbage collector is off while a long one is parsed: on nested lists it takes six times as long
    as the parsing, and finds nothing, because the parser keeps every object it creates."""
    if len(line) < LONG or not gc.isenabled():
        return orjson.loads(line)
    gc.disable()
    try:
        return orjson.loads(line)
    finally:
        gc.enable()


def restore_row(row: Any, line: bytes) -> Row | None:
    """A decoded line with its non-finite numbers restored; None if it is not a row."""
    if not isinstance(row, dict) or not isinstance(row.get("event"), str):
        return None
    step, when = row.get("step"), row.get("time")
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(when, (int, float)):
        return None
    if b'"NaN"' in line or b'Infinity"' in line:
        for name in _NUMBERS:
            if name in row:
                row[name] = _numbers(row[name])
    return row


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    return _NAMED.get(value, value) if isinstance(value, str) else value


def behind_hole(descriptor: int, offset: int) -> int:
    """The offset of the next data of a file, so that the zeros of a sparse file are not read."""
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:  # there is no more data, or the system does not know
        return os.fstat(descriptor).st_size if error.errno == errno.ENXIO else offset


def each_row(path: Path, offset: int = 0) -> Iterator[tuple[Row, int]]:
    """Yield the rows from a byte offset on, each with the offset after it; an absent file has none.

    Raises LabError if the file cannot be read or is not a regular file.
    """
    try:
        file = os.fdopen(open_regular(path, follow=False), "rb", buffering=0)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        begun: list[bytes] = []  # the blocks of a line that has not ended
        size = 0  # bytes of them
        while block := os.pread(file.fileno(), 1 << 20, offset + size):
            if not block.strip(b"\0"):
                offset, begun, size = behind_hole(file.fileno(), offset + size + len(block)), [], 0
                continue
            begun.append(block)
            size += len(block)
            if b"\n" in block:
                *lines, rest = b"".join(begun).split(b"\n")
                begun, size = [rest], len(rest)
                for line in lines:
                    offset += len(line) + 1
                    if (row := decode_row(line)) is not None:
                        yield row, offset
            if size > LONGEST:  # skip it; the remainder of the line will not be a row either
                offset, begun, size = offset + size, [], 0


def read_rows(path: Path, offset: int = 0) -> tuple[list[Row], int]:
    """Return the rows from a byte offset on, and the offset to continue from; an absent file has none.

    Whatever follows the last valid row is not consumed: a torn row or a block of NULs is a tail that has not arrived
    yet and is read again later. Garbage *between* rows is skipped.
    """
    rows = []
    for row, behind in each_row(path, offset):
        rows.append(row)
        offset = behind
    return rows, offset


def place_of(row: Row) -> int:
    """The step that the run had reached when a row was written; rewinds go by it.

    It is the row's own step, except for a metric that counts other steps, such as epochs: there it is "at".
    """
    at = row.get("at")
    return at if type(at) is int and -1 <= at <= LARGEST_STEP else row["step"]


def live_branch(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that still count: a rewind to step s drops every earlier row whose place is after s."""
    kept: list[Row] = []
    for row in rows:
        if row["event"] == "rewind":
            kept = [earlier for earlier in kept if place_of(earlier) <= row["step"]]
        kept.append(row)
    return kept


class EventWriter:
    """The one writer of events.jsonl, in the run's open `folder`; opened by the process that holds the run's lock.

    `mended` is the number of bytes of a torn tail that were cut off on opening. A last row that only lacks its newline
    is completed instead. Raises OSError as the system calls do; after a failed write the file ends with a complete row.
    """

    def __init__(self, path: Path, folder: OpenFolder | None = None) -> None:
        with folder or OpenFolder.at(path.parent, follow=True) as top:
            self.descriptor = top.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._turn = threading.Lock()  # the heartbeat's thread may write too, if the loop is silent
        try:
            self.mended = self._mend()
        except BaseException:
            os.close(self.descriptor)
            raise

    def _mend(self) -> int:
        self.size = os.fstat(self.descriptor).st_size
        end = self._last_line_end()
        tail = os.pread(self.descriptor, self.size - end, end)
        if tail and decode_row(tail) is not None:
            self.write_bytes(b"\n")
            return 0
        torn = self.size - end
        if torn:
            os.ftruncate(self.descriptor, end)
            self.size = end
        return torn

    def _last_line_end(self) -> int:
        """The offset after the last newline; 0 if there is none. OSError if more than a row would be cut off."""
        end = self.size
        while end > 0:
            if self.size - end > LONGEST:
                raise OSError(errno.EFBIG, f"the last {LONGEST >> 20} MiB of events.jsonl contain no rows")
            start = max(0, end - (1 << 16))
            newline = os.pread(self.descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    def write(self, row: Row) -> None:
        """Append one row with one os.write. LabError if it is longer than readers accept."""
        line = encode_row(row)
        if len(line) > LONGEST:
            raise LabError(f"a row of the log has at most {LONGEST >> 20} MiB; this one has {len(line) >> 20} MiB")
        self.write_bytes(line)

    def write_bytes(self, line: bytes) -> None:
        written = 0
        with self._turn:
            try:
                # A second iteration happens only after a partial write: it then raises, or there is room again.
                while written < len(line):
                    written += os.write(self.descriptor, line[written:])
            except OSError:
                if written:
                    os.ftruncate(self.descriptor, self.size)
                raise
            self.size += len(line)

    def sync(self) -> None:
        """Wait until all rows are on disk (0.19 ms on a local one).

        macOS has no fdatasync. Its fsync hands the rows to the drive, which may keep them in its cache for a while:
        they survive a crash of the system, not a loss of power, as with every fsync there.
        """
        getattr(os, "fdatasync", os.fsync)(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Replaced(Exception):
    """The file is not the one that was being read: another inode, shorter, or other bytes before the cursor."""


class LineCursor:
    """A position in a growing file: every line before `offset` has been returned."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path, self.offset = path, offset
        self.size = 0  # as last seen
        self.reachable = True  # whether the file could be read when it was last tried
        self.waiting = 0  # bytes at the end that are not a complete line yet
        self.identity: tuple[int, int] | None = None  # device and inode
        self._seam = b""
        self._seen: tuple[int, int] | None = None  # size and mtime when everything complete had been taken
        self._hole, self._hole_since = -1, 0.0

    @property
    def behind(self) -> int:
        """The number of bytes after the cursor when the file was last examined."""
        return max(self.size - self.offset, 0)

    def look(self) -> None:
        """Record the current state of the file, for a cursor that begins in the middle of it. Never raises."""
        try:
            with closing(open_regular(self.path, follow=False)) as descriptor:
                about = os.fstat(descriptor)
                seam = min(SEAM, self.offset)
                self._seam = os.pread(descriptor, seam, self.offset - seam)
        except OSError:
            return
        self.identity, self.size = (about.st_dev, about.st_ino), about.st_size

    def read(self, limit: int = SLICE) -> list[bytes]:
        """Return the next complete lines without newlines, at most about `limit` bytes; [] = nothing more for now.

        Raises Replaced. A file that is missing or cannot be read yields nothing for now.
        """
        try:
            about = self.path.stat(follow_symlinks=False)
        except OSError:
            self.reachable = False
            return []
        self.reachable = True
        if self._seen == (about.st_size, about.st_mtime_ns) and self.identity == (about.st_dev, about.st_ino):
            return []
        lines: list[bytes] = []
        try:
            with closing(open_regular(self.path, follow=False)) as descriptor:
                while not lines and self._advance(descriptor, limit, lines):
                    pass  # only blank lines so far
        except OSError:  # deleted, a stale handle of a network file system, or not a regular file
            self.reachable = False
        return lines

    def _advance(self, descriptor: int, limit: int, lines: list[bytes]) -> bool:
        """Take the next complete lines; False if there are none yet."""
        about = os.fstat(descriptor)
        if self.identity not in (None, (about.st_dev, about.st_ino)) or about.st_size < self.offset:
            raise Replaced(self.path)
        self.identity, self.size = (about.st_dev, about.st_ino), about.st_size
        seam = min(SEAM, self.offset)
        while True:
            block = os.pread(descriptor, seam + limit, self.offset - seam)
            if self._seam and block[:seam] != self._seam:
                raise Replaced(self.path)
            chunk = block[seam:]
            end, hole = self._usable(chunk, about)
            if end or hole or len(chunk) < limit:
                break
            if limit >= LONGEST:
                end = len(chunk)
                if not chunk.strip(b"\0"):
                    end = behind_hole(descriptor, self.offset + end) - self.offset
                break
            limit = min(4 * limit, LONGEST)
        self.waiting = len(chunk) - end if self.offset + len(chunk) >= about.st_size else 0
        if end:
            lines += [stripped for line in chunk[:end].split(b"\n") if (stripped := line.strip(b"\0\r "))]
            self.offset += end
            self._seam = block[: seam + end][-SEAM:]
        elif not hole and self.offset + len(chunk) >= about.st_size:
            self._seen = (about.st_size, about.st_mtime_ns)
        return end > 0

    def _usable(self, chunk: bytes, about: os.stat_result) -> tuple[int, bool]:
        """How many bytes of a chunk are complete lines, and whether NUL bytes at the cursor are being waited for."""
        nul = chunk.find(0)
        end = (chunk.rfind(b"\n") if nul < 0 else chunk.rfind(b"\n", 0, nul)) + 1
        if end or nul < 0:
            return end, False
        if self._hole != self.offset:
            self._hole, self._hole_since = self.offset, time.monotonic()
        if time.monotonic() - self._hole_since < PATIENCE and time.time() - about.st_mtime < PATIENCE:
            return 0, True
        return chunk.rfind(b"\n") + 1, False
