"""The folder of runs. Every command sets it before it imports anything else."""

from __future__ import annotations

import os
from pathlib import Path

_chosen: Path | None = None


def choose_root(folder: Path | None) -> None:
    """Set the folder of runs of this process and of its children; None = `default_root`."""
    global _chosen
    _chosen = None if folder is None else folder.absolute()


def default_root() -> Path:
    """The folder that was chosen, else $TXLAB_RUNS, else ./runs."""
    return _chosen or Path(os.environ.get("TXLAB_RUNS") or "runs")


def environment_of_child() -> dict[str, str]:
    """The environment of a child process with the same folder of runs."""
    return {**os.environ, **({} if _chosen is None else {"TXLAB_RUNS": str(_chosen)})}
