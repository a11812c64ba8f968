"""The complete lines of a file that somebody else is still writing.

Notable: a bad tail means *later*, never *never*. A line without its newline is not there yet; a tail of NUL bytes (a
network file system that grew the size before the data, or a machine that lost power) is waited for, and stepped over
only once it has been there for `PATIENCE` seconds with something behind it. Sizes are polled: inotify does not see
what another machine writes.
"""

import os
import time
from pathlib import Path

SLICE = 256 * 1024  # bytes handed out at a time: about 1 700 rows, 6 ms of parsing
LONGEST = 64 * 1024 * 1024  # a "row" longer than this is garbage, and is stepped over
SEAM = 64  # bytes before the cursor that must still be the same
PATIENCE = 3.0  # seconds


class Replaced(Exception):
    """The file is not the one that was being read: another inode, shorter, or other bytes before the cursor."""


class LineCursor:
    """Where the reading of a growing file has got to: everything before `offset` has been handed out."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path, self.offset = path, offset
        self.size = 0  # as last seen
        self.waiting = 0  # bytes at the end that are no complete line yet
        self.identity: tuple[int, int] | None = None  # device and inode
        self._seam = b""
        self._seen: tuple[int, int] | None = None  # size and mtime when everything complete had been taken
        self._hole, self._hole_since = -1, 0.0

    @property
    def behind(self) -> int:
        """Bytes that the file was longer than the cursor, when it was last looked at."""
        return max(self.size - self.offset, 0)

    def look(self) -> None:
        """Take note of the file as it is, for a cursor that begins in its middle. Raises nothing."""
        try:
            with self.path.open("rb", buffering=0) as file:
                about = os.fstat(file.fileno())
                seam = min(SEAM, self.offset)
                self._seam = os.pread(file.fileno(), seam, self.offset - seam)
        except OSError:
            return
        self.identity, self.size = (about.st_dev, about.st_ino), about.st_size

    def read(self, limit: int = SLICE) -> list[bytes]:
        """The next complete lines without their newlines, at most about `limit` bytes; [] = nothing more for now.

        Raises Replaced. A file that is missing or cannot be read has nothing to say for now.
        """
        try:
            about = self.path.stat()
        except OSError:
            return []
        if self._seen == (about.st_size, about.st_mtime_ns) and self.identity == (about.st_dev, about.st_ino):
            return []
        try:
            with self.path.open("rb", buffering=0) as file:
                return self._read(file.fileno(), limit)
        except OSError:  # vanished, or a stale handle of a network file system
            return []

    def _read(self, descriptor: int, limit: int) -> list[bytes]:
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
            nul = chunk.find(0)
            end = (chunk.rfind(b"\n") if nul < 0 else chunk.rfind(b"\n", 0, nul)) + 1
            if end == 0 and nul >= 0:
                end = self._after_the_hole(chunk, about)
            if end > 0 or len(chunk) < limit:
                break
            if limit >= LONGEST:
                end = len(chunk)
                break
            limit *= 4
        taken = chunk[:end]
        self.waiting = len(chunk) - end if self.offset + len(chunk) >= about.st_size else 0
        if end:
            self.offset += end
            self._seam = block[: seam + end][-SEAM:]
        elif nul < 0 and self.offset + len(chunk) >= about.st_size:
            self._seen = (about.st_size, about.st_mtime_ns)
        lines = taken.split(b"\n")
        return [stripped for line in lines if (stripped := line.strip(b"\0\r "))]

    def _after_the_hole(self, chunk: bytes, about: os.stat_result) -> int:
        """Where to go on behind NUL bytes at the cursor; 0 = wait, they may yet be filled in."""
        if self._hole != self.offset:
            self._hole, self._hole_since = self.offset, time.monotonic()
        waited = time.monotonic() - self._hole_since > PATIENCE or time.time() - about.st_mtime > PATIENCE
        if not waited:
            return 0
        if not chunk.strip(b"\0"):  # nothing but the hole so far; it is only stepped over if something is behind it
            return len(chunk) if self.offset + len(chunk) < about.st_size else 0
        return (
            chunk.find(b"\n", len(chunk) - len(chunk.lstrip(b"\0"))) + 1
            if chunk[:1] == b"\0"
            else chunk.find(b"\n") + 1
        )
