"""Connect Four's self-play killed with SIGKILL in the middle of games, and resumed: the same bits as never killed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from test_loop import metrics_of
from test_runs_exactness import equal, last_step, start
from waiting import wait_for

from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

pytest.importorskip("torch")

SMALL = """
kind = "connect-four"
seed = 3
network = {channels = 4, blocks = 1}
play = {games = 8, moves = 2, visits = 8, first_visits = 4}
train = {steps = 24, batch = 16, updates = 2, replay = 100}
judge = {positions = 20, searched = 4, visits = 4}
look = {positions = [""], visits = 4}
record = {evaluate_every = 8, frame_every = 6, sample_every = 0, checkpoint_every = 5}
compute = {device = "cpu", threads = 1}
"""
KILLS = int(os.environ.get("TXLAB_KILLS", "2"))


def made(root: Path) -> RunDirectory:
    root.mkdir()
    (root / "small.toml").write_text(SMALL)
    return RunDirectory(prepare(load_scenario(root / "small.toml", []), root=root))


def test_self_play_killed_at_random_moments_equals_one_never_killed(tmp_path: Path) -> None:
    run, plain = made(tmp_path / "killed"), made(tmp_path / "plain")
    chance = random.Random(11)
    for at in sorted(chance.choices(range(1, 16), k=KILLS)):
        life = start(run)
        wait_for(lambda at=at: last_step(run) >= at, life)  # type: ignore[misc]
        os.kill(life.pid, signal.SIGKILL)
        assert life.wait() == -signal.SIGKILL
    assert start(run).wait() == 0
    assert start(plain).wait() == 0
    assert metrics_of(run) == metrics_of(plain)
    assert equal(checkpoints.load(run, 24), checkpoints.load(plain, 24))
    state = checkpoints.load(run, 24)["play"]
    assert (state["length"] > 0).any()
    assert int(state["ended"]) > 0
