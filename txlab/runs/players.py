"""The player that a run of self-play has come to: of its newest frame (MATH G1).

Notable: a frame is enough, so one may play against a run that still learns, or one whose checkpoints are gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.frames import FrameIndex

if TYPE_CHECKING:
    from txlab.engine.games.players import MaskPlayer

KIND = "self-play"


def player_of_run(path: Path) -> MaskPlayer:
    """Who plays as the run would by now. LabError for a run of another kind, and for one that has no frame yet."""
    info = RunInfo.load(path)
    if info.kind != KIND:
        raise LabError(f"{path.name} is a run of the kind {info.kind or 'unknown'}; one that plays is of kind {KIND}")
    frames = FrameIndex(RunDirectory(path).frames)
    frames.refresh()
    if not len(frames.steps):
        raise LabError(f"{path.name} has no frame yet: it has not played")
    from txlab.experiments.kinds.self_play import player_of

    return player_of(frames.read(int(frames.steps[-1])))
