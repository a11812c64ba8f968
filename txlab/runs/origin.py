"""Where a run came from: the command line of the program that started it, and the commit of its code.

Notable: a repository may be untrusted, and git runs programs named in its configuration (file monitors, filters,
hooks). So the commit is read from the repository's files, and the tree is compared with it by git in an empty
repository, which uses the same objects and index but no configuration.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from txlab.files import read_regular

PATIENCE = 2.0  # seconds that git may take to compare the tree; beyond that "dirty" is left out
MOST_REFS = 16 << 20  # bytes of packed-refs
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def command_line() -> list[str]:
    """The command line of this process, the interpreter first, each word at most 1 000 characters long."""
    return [os.fsencode(word).decode("utf-8", "replace")[:1000] for word in sys.orig_argv[:200]]


def program_folder() -> Path:
    """The folder of the program running in this process; the current folder if it is installed, or is a prompt."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(file, str) or Path(file).resolve().is_relative_to(Path(sys.prefix).resolve()):
        return Path.cwd()
    return Path(file).resolve().parent


def commit_of(folder: Path) -> dict[str, Any]:
    """{"commit": hexadecimal digits, "dirty": whether a tracked file differs} of the repository around a folder.

    {} if there is no repository or no commit yet; without "dirty" if git is missing or takes too long.
    """
    try:
        top = next(place for place in (folder, *folder.parents) if (place / ".git").exists())
        own = top / ".git"
        if own.is_file():  # in a worktree or a submodule, a file that names the folder
            own = top / _line(own).removeprefix("gitdir: ")
        shared = own / _line(own / "commondir") if (own / "commondir").is_file() else own
        commit = _commit(own, shared)
    except (OSError, ValueError, StopIteration):
        return {}
    dirty = _differs(top, own, shared, commit)
    return {"commit": commit} | ({} if dirty is None else {"dirty": dirty})


def _line(path: Path) -> str:
    return read_regular(path, 4096).decode("utf-8").strip()


def _commit(own: Path, shared: Path) -> str:
    """Resolve HEAD to its commit. Raises OSError or ValueError."""
    head = _line(own / "HEAD")
    for _ in range(5):
        if _COMMIT.fullmatch(head):
            return head
        name = head.removeprefix("ref: ")
        if name == head or not name.startswith("refs/") or ".." in name:
            break
        loose = next((place / name for place in (own, shared) if (place / name).is_file()), None)
        if loose:
            head = _line(loose)
        else:
            packed = read_regular(shared / "packed-refs", MOST_REFS).decode("utf-8")
            match = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", packed, re.MULTILINE)
            head = match[1] if match else ""
    raise ValueError("no commit")


def _differs(top: Path, own: Path, shared: Path, commit: str) -> bool | None:
    """Whether a tracked file of the tree differs from the commit; None if that cannot be determined."""
    git = shutil.which("git")
    if git is None:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as empty:
        for name in ("objects", "refs"):
            (Path(empty) / name).mkdir()
        (Path(empty) / "HEAD").write_text(commit)
        version, extension = ("1", "[extensions]\nobjectFormat = sha256\n") if len(commit) > 40 else ("0", "")
        (Path(empty) / "config").write_text(f"[core]\nrepositoryFormatVersion = {version}\n{extension}")
        status = subprocess.run(
            [git, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"],
            cwd=top,
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": empty,
                "LC_ALL": "C",
                "GIT_DIR": empty,
                "GIT_WORK_TREE": str(top),
                "GIT_INDEX_FILE": str(own.resolve() / "index"),
                "GIT_OBJECT_DIRECTORY": str(shared.resolve() / "objects"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_OPTIONAL_LOCKS": "0",
                "GIT_NO_LAZY_FETCH": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        return bool(status.stdout.strip())
    return None
