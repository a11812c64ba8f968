"""Removing a run for ever, and everything that keeps this from happening to anything else.

Notable: a link in it is removed, never followed; `rmtree` walks by descriptors where it is given one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from txlab.errors import LabError
from txlab.files import OpenFolder
from txlab.runs.directory import state_of
from txlab.runs.finding import is_run
from txlab.tui.run_summary import ENDED


def delete_run(path: Path, root: Path) -> None:
    """Remove a run for ever. Raises LabError unless it is a run, directly inside `root`, not a link, and not alive."""
    if path.is_symlink() or path.resolve().parent != root.resolve() or not is_run(path):
        raise LabError(f"{path} is not deleted: it is not a run directly inside {root}")
    try:
        status = state_of(path).status
    except LabError:
        status = "unreadable"
    if status not in (*ENDED, "lost", "created"):
        raise LabError(f"{path.name} is {status}: stop it first")
    try:
        with OpenFolder.at(root, follow=True) as runs:
            shutil.rmtree(path.resolve().name, dir_fd=runs.descriptor)
    except OSError as error:
        raise LabError(f"{error.filename} cannot be deleted: {error.strerror}") from error
