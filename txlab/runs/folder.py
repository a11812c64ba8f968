"""A directory held open, and what is done in it without ever leaving it.

Notable: a run may come from somebody else, who may have put a link wherever a file or a folder of ours is expected. So
everything in a run is named by one part, looked up in the descriptor of its directory, and a link is never followed;
what lies behind one can be neither read nor written nor removed. The name of the run itself may be a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from txlab.files import kind_of, open_regular, read_regular
from txlab.runs.atomic import write_in


class Folder:
    """An open directory; closed by `with`, by close() or with the object. Raises OSError as the system calls do.

    `path` says where it was found, for messages; nothing is looked up by it again.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def at(cls, path: Path, *, follow: bool = False) -> Folder:
        """The directory of that path, of which only the last part may not be a link (unless `follow`)."""
        return cls(path, _open_directory(path, None, follow))

    def folder(self, name: str, *, make: bool = False) -> Folder:
        """A directory in this one, made if it is not there and `make` says so."""
        try:
            descriptor = _open_directory(name, self.descriptor, False)
        except FileNotFoundError:
            if not make:
                raise
            os.mkdir(name, dir_fd=self.descriptor)
            descriptor = _open_directory(name, self.descriptor, False)
        return Folder(self.path / name, descriptor)

    def again(self) -> Folder:
        """The same directory under a descriptor of its own."""
        return Folder(self.path, os.dup(self.descriptor))

    # Looking

    def names(self) -> list[str]:
        with os.scandir(self.descriptor) as entries:
            return [entry.name for entry in entries]

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def kind(self, name: str) -> str:
        """ "a file", "a folder", "a symbolic link" …; "" if there is nothing of that name."""
        try:
            return kind_of(self.stat(name).st_mode)
        except FileNotFoundError:
            return ""

    def read(self, name: str, largest: int) -> bytes:
        """All bytes of a regular file of at most `largest` bytes."""
        return read_regular(name, largest, follow=False, folder=self.descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """The descriptor of a regular file; one to be written to in place must not be a file elsewhere as well."""
        descriptor = open_regular(name, flags, follow=False, folder=self.descriptor)
        if flags & (os.O_WRONLY | os.O_RDWR) and os.fstat(descriptor).st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EMLINK, f"{name} has another name elsewhere as well (a hard link)", name)
        return descriptor

    # Changing

    def write(self, name: str, data: bytes | Iterable[bytes], durable: bool = False) -> None:
        """Put a file there, complete or not at all, in place of one of that name."""
        write_in(self.descriptor, name, data, durable)

    def mkdir(self, name: str) -> None:
        os.mkdir(name, dir_fd=self.descriptor)

    def rename(self, old: str, new: str, to: Folder | None = None) -> None:
        """Rename an entry, within this directory or into another; a link is moved, not what it points to."""
        os.rename(old, new, src_dir_fd=self.descriptor, dst_dir_fd=(to or self).descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file, or a link; never a directory."""
        os.unlink(name, dir_fd=self.descriptor)

    def rmdir(self, name: str) -> None:
        """Remove a directory that is empty."""
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make what was renamed in it survive a power cut."""
        os.fsync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    __del__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_directory(name: str | Path, folder: int | None, follow: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):  # a part before it
            raise
        raise OSError(errno.ENOTDIR, f"it is {kind_of(kind)}", str(name)) from None
