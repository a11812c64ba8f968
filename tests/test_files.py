"""Only regular files of a bounded size are read, and nothing waits."""

import errno
import os
import socket
from pathlib import Path

import pytest

from txlab.files import open_regular, read_regular


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    assert read_regular(tmp_path / "file", 5000) == b"x" * 5000
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert len(read_regular("file", 5000, folder=folder)) == 5000
    finally:
        os.close(folder)


def test_a_larger_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(OSError, match="larger than 1 MiB") as caught:
        read_regular(tmp_path / "sparse", 1 << 20)
    assert caught.value.errno == errno.EFBIG


def test_a_file_without_a_size_is_bounded_too() -> None:
    with pytest.raises(OSError, match="larger than 16 bytes"):
        read_regular("/proc/self/status", 16)  # claims 0 bytes, as everything in /proc does


@pytest.mark.parametrize("kind", ["FIFO", "folder", "socket", "device"])
def test_a_non_regular_file_is_refused_immediately(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path = Path("/dev/zero")
    with pytest.raises(OSError, match=r"it is (a|not)"):
        read_regular(path, 1000)


def test_a_link_is_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 100) == b"text"
    with pytest.raises(OSError, match="it is a symbolic link"):
        read_regular(tmp_path / "link", 100, follow=False)


def test_a_FIFO_is_not_written_to_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe", os.O_WRONLY | os.O_APPEND)
