"""Connect Four's self-play killed with SIGKILL in the middle of games, and resumed: the same bits as never killed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from independent.puct import searched
from test_loop import metrics_of
from test_runs_exactness import equal, last_step, start
from waiting import wait_for

from txlab.engine.games.connect_four import rules
from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

pytest.importorskip("torch")
from txlab.engine.games.connect_four.network import Remembered, evaluate
from txlab.experiments.kinds.connect_four.experiment import network_of

SMALL = """
kind = "connect-four"
seed = 3
network = {channels = 4, blocks = 1}
play = {games = 8, moves = 2, visits = 8, first_visits = 4}
train = {steps = 24, batch = 16, updates = 2, replay = 100}
judge = {positions = 20, searched = 4, visits = 4}
probe = {positions = [""], visits = 4}
record = {evaluate_every = 8, frame_every = 6, sample_every = 0, checkpoint_every = 5}
compute = {device = "cpu", threads = 1}
"""
KILLS = int(os.environ.get("TXLAB_KILLS", "2"))


def made(root: Path, *changes: str) -> RunDirectory:
    root.mkdir()
    (root / "small.toml").write_text(SMALL)
    return RunDirectory(prepare(load_scenario(root / "small.toml", list(changes)), root=root))


@pytest.mark.evidence
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


def test_the_searches_of_a_frame_on_disk_are_recomputed_from_the_checkpoint_on_disk(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 'probe.positions=["", "44", "55667", "4444441"]', "probe.visits=40", "train.steps=6")
    assert start(run).wait() == 0
    frame, scenario = FrameIndex(run.frames).read(6), load_scenario(run.scenario_file).scenario
    net = network_of(scenario, checkpoints.load(run, 6))
    ask = Remembered(lambda own, both: evaluate(net, own, both))
    assert len(frame.tokens["shown"]) == 5
    for row, text in enumerate(frame.tokens["shown"]):
        root = searched(rules.read(text), ask, 40, frame.facts["c"], tactics=True)
        shown = {name: frame.tensors[f"shown/{name}"][row] for name in ("N", "W", "P", "Q", "U", "score", "V")}
        assert shown["N"].tolist() == root.N
        assert shown["V"] == pytest.approx(root.V, abs=1e-6)
        for move in range(7):
            if root.P[move] == 0:
                assert np.isnan(shown["U"][move])
                continue
            Q, U = root.Q(move), root.U(move, frame.facts["c"])
            found = [float(shown[name][move]) for name in ("W", "P", "Q", "U", "score")]
            assert found == pytest.approx([root.W[move], root.P[move], Q, U, Q + U], abs=1e-5)
        after = searched(rules.read(text), ask, 41, frame.facts["c"], tactics=True)
        chosen = next(move for move in range(7) if after.N[move] > root.N[move])
        assert chosen == int(np.nanargmax(shown["score"]))


@pytest.mark.evidence
def test_two_processes_play_the_games_and_learn_what_one_does(tmp_path: Path) -> None:
    two, one = made(tmp_path / "two", "compute.processes=2", "train.steps=6"), made(tmp_path / "one", "train.steps=6")
    assert start(two).wait() == 0
    assert start(one).wait() == 0
    mine, theirs = (checkpoints.load(run, 6) for run in (two, one))
    assert equal(mine["play"]["moves"], theirs["play"]["moves"])
    assert equal(mine["play"]["replay"]["policy"], theirs["play"]["replay"]["policy"])
    for name, weights in theirs["model"].items():
        assert mine["model"][name].numpy() == pytest.approx(weights.numpy(), abs=1e-5), name
    games, alone = ([values["games"] for _, values in metrics_of(run) if "games" in values] for run in (two, one))
    assert games == alone
    assert len(games) == 6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [(["compute.parallel=fsdp"], "allowed: ddp"), (["train.batch=1"], "a batch of 1 .train.batch. cannot be split")],
)
def test_what_several_processes_cannot_do_is_refused(tmp_path: Path, changes: list[str], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        made(tmp_path / "run", "compute.processes=2", *changes)
