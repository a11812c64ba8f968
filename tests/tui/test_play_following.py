"""A run at the board is followed: what is new of it, that it was rewound, that it is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txlab.engine.games import tictactoe
from txlab.errors import LabError
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.play.following import Progress, RunFollower

SCENARIO = """
kind = "self-play"
learn = {games = 600, games_per_step = 100}
record = {evaluate_every = 2, sample_every = 0, frame_every = 1, checkpoint_every = 0}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "short.toml").write_text(SCENARIO)
    path = prepare(load_scenario(tmp_path / "short.toml", []), root=tmp_path / "runs")
    execute(path)
    return path


def follower() -> RunFollower:
    found = RunFollower(cast(Any, SimpleNamespace()), lambda progress: None, tictactoe.start)
    found.follow(None)
    return found


def look(at: RunFollower, path: Path) -> Progress | None:
    return at.read(path, at.known, RunReader(path), tictactoe.start(), cast(Any, SimpleNamespace(late=False)))


def ages(at: RunFollower, path: Path) -> list[int]:
    """The ages of all rungs, until nothing more is new: a look stops after a while."""
    found: list[int] = []
    for _ in range(20):
        progress = look(at, path)
        found += [] if progress is None else [age for age, _ in progress.rungs]
        if at.known.all_read:
            return found
    raise AssertionError("it reads for ever")


def test_every_snapshot_comes_once_and_the_curve_is_what_was_recorded(run: Path) -> None:
    at = follower()
    assert ages(at, run) == [0, 100, 200, 300, 400, 500, 600]
    assert ages(at, run) == []
    again = follower()
    progress = look(again, run)
    assert progress is not None
    assert not progress.learning
    assert (progress.age, progress.most, progress.unit) == (600, 600, "games")
    assert progress.newest is not None
    reader = RunReader(run)
    reader.poll()
    lost = {name: reader.series(name).values for name in ("won_first", "lost_first", "won_second", "lost_second")}
    points = (lost["won_first"] - lost["lost_first"] + lost["won_second"] - lost["lost_second"]) / 2
    assert progress.curve[1].tolist() == pytest.approx(points.tolist(), abs=1e-15)
    assert (progress.curve[2] == progress.curve[3]).all()  # computed exactly


def test_the_ladder_restarts_when_the_run_was_rewound(run: Path) -> None:
    at = follower()
    ages(at, run)
    for frame in (run / "frames").iterdir():
        if int(frame.name[:8]) > 3:
            frame.unlink()
    at.known.version = None  # a rewind is written down, by which the reader's version changes
    progress = look(at, run)
    assert progress is not None
    assert progress.rewound
    assert progress.rungs[0][0] == 0
    assert progress.newest is not None


def test_a_run_that_is_gone_is_a_sentence(run: Path) -> None:
    at = follower()
    ages(at, run)
    reader = RunReader(run)
    shutil.rmtree(run)
    at.known.version = None
    with pytest.raises(LabError, match=run.name):
        at.read(run, at.known, reader, tictactoe.start(), cast(Any, SimpleNamespace(late=False)))
