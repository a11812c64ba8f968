"""A run's player is found by its kind: as it is now, and as it was at a step; of every game."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_connect_four_runs import SMALL

from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.catalogue import games
from txlab.engine.games.connect_four.players import SearchPlayer, network_player
from txlab.engine.games.players import MaskPlayer
from txlab.engine.games.playing import Playing
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.connect_four.experiment import network_of
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex
from txlab.runs.models import player_named, player_of_run, scenario_of, steps_that_play
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

TABLE = 'kind = "self-play"\nlearn = {alpha = 0.5, games = 3000, games_per_step = 1000}\nrecord = {frame_every = 1}\n'
NETWORK = """
kind = "td-gammon"
learn = {units = 8, games = 60, games_per_step = 20}
match = {games = 2, copies = [0]}
record = {evaluate_every = 0, frame_every = 1, checkpoint_every = 2}
"""
SEARCH = SMALL.replace("steps = 24", "steps = 4").replace("checkpoint_every = 5", "checkpoint_every = 2")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind that plays: "table", "network", "search"."""
    root = tmp_path_factory.mktemp("runs")
    for name, text in (("table", TABLE), ("network", NETWORK), ("search", SEARCH)):
        (root / f"{name}.toml").write_text(text)
        run = prepare(load_scenario(root / f"{name}.toml", []), root=root)
        execute(run)
        run.rename(root / name)
    return root


@pytest.mark.parametrize(
    ("name", "form", "steps"),
    [("table", MaskPlayer, (1, 2, 3)), ("network", NetworkPlayer, (1, 2, 3)), ("search", SearchPlayer, (2, 4))],
)
def test_a_run_plays_as_it_is_and_as_it_was(root: Path, name: str, form: type, steps: tuple[int, ...]) -> None:
    assert tuple(step for step in steps_that_play(root / name) if step) == steps
    now, before = player_named(name, root), player_named(f"{name}@{steps[0]}", root)
    assert isinstance(now, form)
    assert isinstance(before, form)
    assert now.name != before.name
    again, playing, differ = player_of_run(root / name, steps[0]), Playing(now.game, 5), False
    for _ in range(4):
        playing.throw_all()
        position = playing.position
        assert set(now.values(position)) <= set(now.game.legal(position))
        assert again.values(position) == before.values(position)
        differ |= now.values(position) != before.values(position)
        playing.make(now.move(position, playing.draw))
    assert differ


def test_before_its_first_step_a_run_plays_as_it_was_drawn(root: Path) -> None:
    """Of checkpoints none is of step 0: the network is drawn again from the seed."""
    assert steps_that_play(root / "search")[0] == 0
    first, before = player_named("search@0", root), kind_named("connect-four")
    scenario = scenario_of(RunDirectory(root / "search"))
    start = first.game.start()
    assert "step 0" in first.name
    assert first.values(start) == before.player(scenario, None).values(start)
    untrained = before.build(scenario)
    drawn = network_player("drawn", untrained.model.eval(), scenario.judge.visits, scenario.play.c)
    assert first.values(start) == drawn.values(start)
    assert first.values(start) != player_named("search", root).values(start)


def test_the_networks_are_those_that_were_recorded(root: Path) -> None:
    frames = FrameIndex(RunDirectory(root / "network").frames)
    frames.refresh()
    player = player_named("network@2", root)
    assert isinstance(player, NetworkPlayer)
    assert np.array_equal(player.net.into, frames.read(2).tensors["into"])
    run = RunDirectory(root / "search")
    net = network_of(scenario_of(run), checkpoints.load(run, 2))  # type: ignore[arg-type]
    own, both = np.array([0]), np.array([0])
    from txlab.engine.games.connect_four.network import evaluate

    found = player_named("search@2", root)
    assert isinstance(found, SearchPlayer)
    for mine, theirs in zip(found.ask(own, both), evaluate(net.eval(), own, both), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_search_depth_of_a_player_is_reported_and_bounded(root: Path) -> None:
    assert player_named("network", root, looking=2).plies == 2  # type: ignore[attr-defined]
    assert player_named("search", root, looking=7).visits == 7  # type: ignore[attr-defined]
    for name, looking in (("network", 3), ("network", 0), ("search", 0), ("search", 10**9)):
        with pytest.raises(LabError, match="allowed: 1"):
            player_named(name, root, looking=looking)


def test_a_run_without_a_player_says_which_kinds_have_one(tiny_run: Path) -> None:
    with pytest.raises(LabError, match=r"no player; those that have: connect-four, self-play, td-gammon"):
        player_of_run(tiny_run)


def test_every_kind_that_a_game_names_plays_it() -> None:
    for game in games().values():
        for kind in game.kinds:
            assert kind_named(kind).plays_from
