"""Reading files from untrusted directories (only regular files, of bounded size, never through a link), and writing
files that are either complete or absent.

Notable: a FIFO would block a reader for ever and a device may never end, so a file is opened without blocking and
examined through its descriptor before a byte is read. A refusal is an OSError whose `strerror` completes the sentence
"… cannot be read: it is a FIFO". A run may come from another user and have a link instead of any file, so every entry
of a run is a single name, looked up through the descriptor of its directory. Every file but the log is written under a
temporary name and renamed, so a reader on another machine sees the old or the new file, never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def shipped_path(name: str) -> Path:
    """Return the path of `maps`, `texts/…`, `scenarios` or `docs`: in the installed package, or at the top of the
    repository."""
    package = Path(__file__).parent
    installed = package / "_shipped" / name
    at_the_top = name in ("scenarios", "docs")
    return installed if installed.exists() else package.parent / ("." if at_the_top else "assets") / name


def expand_path(path: str | Path) -> Path:
    """`path` with ~ and ~name replaced. Raises OSError if there is no such user, and for a path with a NUL."""
    try:
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "a path cannot contain a NUL", str(path))
        return Path(path).expanduser()
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "there is no such user", str(path)) from None


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True, folder: int | None = None) -> int:
    """Open a regular file without blocking and return its descriptor.

    follow  whether the last part of `path` may be a symbolic link
    folder  the descriptor of the directory that a relative `path` starts from; None = the current directory

    Raises OSError, also if it is not a regular file.
    """
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, 0o666, dir_fd=folder)
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


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of `with`."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def kind_of(mode: int) -> str:
    """The kind of file that a mode of os.stat stands for: "a file", "a folder", "a symbolic link", "a FIFO" …"""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "not a regular file")


def read_regular(path: str | Path, largest: int, *, follow: bool = True, folder: int | None = None) -> bytes:
    """Return all bytes of a regular file; raises OSError, also if it is larger than `largest` bytes or not regular.

    The size is checked before memory is allocated, and again while reading, since the file may grow.
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
        shift, unit = (20, "MiB") if largest >= 1 << 20 else (10, "KiB") if largest >= 1 << 10 else (0, "bytes")
        raise OSError(errno.EFBIG, f"it is larger than {largest >> shift} {unit}", str(path))
    return b"".join(pieces)


def lock(descriptor: int, wait: bool = False) -> bool:
    """Lock a file or a folder against other processes, for as long as it is open here.

    Returns False on a file system without locks, such as some network mounts and the Windows disks of WSL: no process
    can hold one there. Raises BlockingIOError if another process holds it, unless `wait`; OSError.
    """
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def write_whole(descriptor: int, data: bytes | memoryview) -> None:
    """Call os.write until all data is written; one call is enough except for huge data or a disk that fills up."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def atomic_write(path: Path, data: bytes | Iterable[bytes], durable: bool = False) -> None:
    """Write the data to a temporary file and rename it to `path`; after an OSError the old file is unchanged.

    `durable` also waits until the file and its directory are on disk.
    """
    with OpenFolder.at(path.parent, follow=True) as folder:
        folder.write(path.name, data, durable)


@contextlib.contextmanager
def folder_made_whole(path: Path) -> Iterator[Path]:
    """A hidden directory next to `path`, which becomes `path` when the block ends, and is removed if the block raises.
    `path` may be an empty directory.

    After a kill the hidden directory remains, and is removed when `path` is next made. Raises OSError;
    BlockingIOError if another process is making it.
    """
    aside = path.with_name(f".{path.name[:200]}.being-made")
    with contextlib.suppress(FileExistsError):
        aside.mkdir()
    with OpenFolder.at(aside) as held:
        lock(held.descriptor)
        for name in held.names():
            with contextlib.suppress(NotADirectoryError):
                shutil.rmtree(name, dir_fd=held.descriptor)
                continue
            held.unlink(name)
        try:
            yield aside
            aside.replace(path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


class OpenFolder:
    """A directory held open: every name is looked up through its descriptor, and no link is followed out of it.

    It is closed by `with`, by close() or when the object is deleted. Raises OSError as the system calls do. `path` is
    only for messages; it is never looked up again.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def at(cls, path: Path, *, follow: bool = False) -> OpenFolder:
        """Open the directory at `path`; its last part must not be a link unless `follow`."""
        return cls(path, _open_directory(path, None, follow))

    def folder(self, name: str, *, make: bool = False) -> OpenFolder:
        """Open a directory inside this one; `make` creates it if it is missing."""
        if make:
            with contextlib.suppress(FileExistsError):
                self.mkdir(name)
        return OpenFolder(self.path / name, _open_directory(name, self.descriptor, False))

    def again(self) -> OpenFolder:
        """The same directory with its own descriptor."""
        return OpenFolder(self.path, os.dup(self.descriptor))

    # Reading

    def names(self) -> list[str]:
        with os.scandir(self.descriptor) as entries:
            return [entry.name for entry in entries]

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def kind(self, name: str) -> str:
        """ "a file", "a folder", "a symbolic link" …; "" if there is no entry of that name."""
        try:
            return kind_of(self.stat(name).st_mode)
        except FileNotFoundError:
            return ""

    def read(self, name: str, largest: int) -> bytes:
        """Return all bytes of a regular file of at most `largest` bytes."""
        return read_regular(name, largest, follow=False, folder=self.descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file and return its descriptor; a file opened for writing must not have other hard links."""
        descriptor = open_regular(name, flags, follow=False, folder=self.descriptor)
        if flags & (os.O_WRONLY | os.O_RDWR) and os.fstat(descriptor).st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EMLINK, f"{name} has another hard link elsewhere", name)
        return descriptor

    # Writing

    def write(self, name: str, data: bytes | Iterable[bytes], durable: bool = False) -> None:
        """Write a file atomically, replacing any file or link of that name."""
        aside = f".{name}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with closing(os.open(aside, flags, 0o666, dir_fd=self.descriptor)) as descriptor:
                for piece in [data] if isinstance(data, bytes) else data:
                    write_whole(descriptor, piece)
                if durable:
                    os.fsync(descriptor)
            os.replace(aside, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                self.unlink(aside)
            raise
        if durable:
            self.sync()

    def mkdir(self, name: str) -> None:
        os.mkdir(name, dir_fd=self.descriptor)

    def rename(self, old: str, new: str, to: OpenFolder | None = None) -> None:
        """Rename an entry, within this directory or into another; a link is moved, not its target."""
        os.rename(old, new, src_dir_fd=self.descriptor, dst_dir_fd=(to or self).descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file or a link, never a directory."""
        os.unlink(name, dir_fd=self.descriptor)

    def rmdir(self, name: str) -> None:
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make renames in this directory survive a power cut."""
        os.fsync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    __del__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_directory(name: str | Path, folder: int | None, follow: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):  # the error is about an earlier part of the path
            raise
        raise OSError(errno.ENOTDIR, f"it is {kind_of(kind)}", str(name)) from None
