"""Which folder runs are in. Every command knows it before it imports anything else."""

from __future__ import annotations

import os
from pathlib import Path

_chosen: Path | None = None


def choose_root(folder: Path | None) -> None:
    """Let the runs of this process, and of those that it starts, be in a folder; None = where `default_root` says."""
    global _chosen
    _chosen = None if folder is None else folder.absolute()


def default_root() -> Path:
    """The folder that was chosen, else $TXLAB_RUNS, else ./runs."""
    return _chosen or Path(os.environ.get("TXLAB_RUNS") or "runs")


def environment_of_child() -> dict[str, str]:
    """The environment of a process that is started from here, which then has the same folder of runs."""
    return {**os.environ, **({} if _chosen is None else {"TXLAB_RUNS": str(_chosen)})}
