"""Opening and reading files that somebody else may have put there: regular ones only, and of a bounded size.

Notable: a FIFO would keep a reader waiting for ever and a device may never end, so a file is opened without waiting
and looked at through its descriptor before a byte is read. What is refused is an OSError whose `strerror` reads as
"… cannot be read: it is a FIFO", so that whoever reports a missing file reports this as well.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True, folder: int | None = None, mode: int = 0o666
) -> int:
    """The descriptor of a regular file; never waits.

    follow  whether `path` may be a symbolic link (only its last part is meant)
    folder  the descriptor of the directory that a relative `path` is in, else the current one

    Raises OSError, also where it is not a regular file.
    """
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:  # a FIFO without a reader, or a socket
            raise OSError(errno.ENXIO, "it is not a regular file", str(path)) from None
        raise
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(number, f"it is {kind_of(kind)}", str(path))
    return descriptor


def kind_of(mode: int) -> str:
    """What a mode of os.stat says that something is: "a file", "a folder", "a symbolic link", "a FIFO" …"""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "not a regular file")


def read_regular(path: str | Path, largest: int, *, follow: bool = True, folder: int | None = None) -> bytes:
    """All bytes of a regular file of at most `largest` bytes; raises OSError, also where it is larger or no such file.

    The size is checked before memory is taken, and again while reading, since a file may grow.
    """
    descriptor = open_regular(path, follow=follow, folder=folder)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        pieces, size = [], os.fstat(descriptor).st_size
        if size <= largest:
            size = 0
            while size <= largest and (piece := file.read(min(1 << 22, largest + 1 - size))):
                pieces.append(piece)
                size += len(piece)
    if size > largest:
        raise OSError(errno.EFBIG, f"it is larger than {_readable(largest)}", str(path))
    return b"".join(pieces)


def _readable(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} bytes"
