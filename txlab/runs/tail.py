"""The complete lines of a file that somebody else is still writing.

Notable: a bad tail means *later*, never *never*. A line without its newline is not there yet; a tail of NUL bytes (a
network file system that grew the size before the data, or a machine that lost power) is waited for, and stepped over
only once it has been there for `PATIENCE` seconds with something behind it. Sizes are polled: inotify does not see
what another machine writes.
"""

import os
import time
from pathlib import Path

from txlab.files import open_regular
from txlab.runs.events import LONGEST, behind_hole

SLICE = 256 * 1024  # bytes handed out at a time: about 1 700 rows, 6 ms of parsing
SEAM = 64  # bytes before the cursor that must still be the same
PATIENCE = 3.0  # seconds


class Replaced(Exception):
    """The file is not the one that was being read: another inode, shorter, or other bytes before the cursor."""


class LineCursor:
    """Where the reading of a growing file has got to: everything before `offset` has been handed out."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path, self.offset = path, offset
        self.size = 0  # as last seen
        self.reachable = True  # whether the file could be read when it was last tried
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
            descriptor = open_regular(self.path, follow=False)
        except OSError:
            return
        try:
            about = os.fstat(descriptor)
            seam = min(SEAM, self.offset)
            self._seam = os.pread(descriptor, seam, self.offset - seam)
        except OSError:
            return
        finally:
            os.close(descriptor)
        self.identity, self.size = (about.st_dev, about.st_ino), about.st_size

    def read(self, limit: int = SLICE) -> list[bytes]:
        """The next complete lines without their newlines, at most about `limit` bytes; [] = nothing more for now.

        Raises Replaced. A file that is missing or cannot be read has nothing to say for now.
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
            descriptor = open_regular(self.path, follow=False)
            try:
                while not lines and self._advance(descriptor, limit, lines):
                    pass  # only blank lines so far
            finally:
                os.close(descriptor)
        except OSError:  # vanished, a stale handle of a network file system, or no regular file
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
                end = (
                    len(chunk)
                    if chunk.strip(b"\0")
                    else behind_hole(descriptor, self.offset + len(chunk)) - self.offset
                )
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
