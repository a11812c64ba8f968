"""The table [world]: what it means, what it refuses with the key, and that a run can be repeated from what it wrote."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from pydantic import ValidationError

from txlab.engine.rl.worlds import load_worlds, worlds
from txlab.errors import LabError
from txlab.experiments.tabular.world import ENDLESS, MOST_BYTES, WorldSection, with_its_map, world_of
from txlab.runs.scenario import dump_scenario, load_scenario

MAP = "title: Mine\nslip: 0.1\n\nS..\n.#G\n"


def section(**keys: Any) -> WorldSection:
    return WorldSection(**keys)


@pytest.mark.parametrize("name", [*worlds(), "maps/four-rooms", "gymnasium:Taxi-v4"])
def test_a_world_is_meant_by_its_name(name: str) -> None:
    assert world_of(section(name=name)).process.size > 1


def test_a_map_and_a_file_with_it_are_the_same_world(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(MAP)
    one, two = world_of(section(map=MAP)), world_of(section(file=str(tmp_path / "mine.txt")))
    assert one.map == two.map
    assert one.title == "Mine"


def test_a_file_is_written_down_as_what_was_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(MAP)
    kept = with_its_map(section(file=str(file), discount=0.9))
    file.unlink()
    assert kept == section(map=MAP, discount=0.9)
    assert world_of(kept).process.discount == 0.9
    assert with_its_map(kept) is kept


def test_what_is_otherwise_than_in_the_world() -> None:
    world = world_of(section(name="cliff", slippery=True, discount=0.5, limit=9, slip=0.3))
    assert (world.process.discount, world.process.limit) == (0.5, 9)
    assert world.map is not None
    assert world.map.slip == 0.3
    assert world_of(section(name="car-rental", discount=0.0)).process.discount == 0.0
    assert world_of(section(name="windy", moves="king", stochastic=True)).process.choices == 8
    assert world_of(section(name="frozen-lake", size=6, seed=2, frozen=0.5)).process.size == 36
    assert world_of(section(name="gambler", capital=10, heads=0.5)).process.size == 11
    assert world_of(section(name="bias", choices=3)).process.choices == 3
    assert world_of(section(name="gymnasium:CliffWalking-v1", limit=10)).process.limit == 10


def test_every_option_of_the_catalogue_is_a_key_of_the_table() -> None:
    for entry in load_worlds().values():
        for key, option in entry.options.items():
            assert key in WorldSection.model_fields, f"{entry.name} has {key}"
            world_of(section(name=entry.name, **{key: option.default}))


@pytest.mark.parametrize(
    "keys",
    [
        {"name": "cliff"},
        {"name": "frozen-lake", "size": 5, "slippery": False, "frozen": 0.25},
        {"map": MAP, "discount": 0.0, "limit": 0},
        {"name": "windy", "moves": "king-stay"},
    ],
)
def test_what_is_written_down_is_read_as_the_same_table(keys: dict[str, Any]) -> None:
    written = tomli_w.dumps({"world": section(**keys).model_dump()})
    assert WorldSection(**tomllib.loads(written)["world"]) == section(**keys)
    assert set(section(**keys).model_dump()) == set(keys)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"name": "clif"}, "world.name = 'clif' is not a world (nearest: cliff)"),
        ({"name": "maps/rooms"}, "nearest: four-rooms"),
        ({"name": "cliff", "size": 3}, "world.cliff has no option size"),
        ({"name": "frozen-lake", "size": 1}, "world.size = 1 is not possible"),
        ({"name": "four-rooms", "slippery": True}, "four-rooms has no option slippery"),
        ({"name": "taxi", "slip": 0.1}, "world: slip = 0.1 is for worlds that are maps"),
        ({"name": "gymnasium:Nothing-v0"}, "world.name: gymnasium has no environment"),
        ({"name": "gymnasium:os:path"}, "world.name: gymnasium has no environment"),
        ({"name": "gymnasium:Taxi-v4", "size": 3}, "world.size is for worlds that are not Gymnasium's"),
        ({"name": "gymnasium:Taxi-v4", "slip": 0.3}, "world: slip"),
        ({"name": "gymnasium:Blackjack-v1"}, "learnt in by stepping"),
        ({"map": MAP, "size": 3}, "world.size is for worlds that have a name"),
        ({"map": "S.\n.x"}, "world.map: line 2: column 2: x has no meaning"),
        ({"map": "S#G"}, "world.map: the goal at (0,2) cannot be reached"),
        ({"map": "P: pays 3\n\nS.P", "limit": 0}, ""),
        ({"file": "/nowhere/at all"}, "world.file = '/nowhere/at all' is not there"),
        ({"file": "/"}, "is not a regular file"),
        ({"file": "/dev/zero"}, "is not a regular file"),
        ({"file": "a\0b"}, r"world.file = 'a\x00b'"),
        ({"file": "~nobody-of-that-name/x"}, "world.file"),
        ({"file": "x" * 4000}, "world.file"),
    ],
)
def test_a_mistake_is_reported_with_its_key(keys: dict[str, Any], said: str) -> None:
    if not said:
        assert world_of(section(**keys)).process.limit > 0
        return
    with pytest.raises(LabError) as caught:
        world_of(section(**keys))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"name": "cliff", "map": MAP},
        {"map": MAP, "file": "x"},
        {"name": "cliff", "slipery": True},
        {"name": "cliff", "slippery": 1},
        {"name": "cliff", "discount": 1.5},
        {"name": "cliff", "limit": -1},
        {"name": "cliff", "discount": float("nan")},
        {"name": "windy", "moves": "queen"},
        {"map": "." * 200_000},
    ],
)
def test_the_table_is_strict(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section(**keys)


def test_a_file_that_is_not_text_or_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"S.\xff\xfeG")
    (tmp_path / "large").write_bytes(b"." * (MOST_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("binary", "not UTF-8: byte 2"), ("large", "bytes; a map has"), ("pipe", "not a regular file")):
        with pytest.raises(LabError) as caught:
            world_of(section(file=str(tmp_path / name)))
        assert said in str(caught.value)


def test_an_environment_without_tables_is_stepped() -> None:
    world = world_of(section(name="gymnasium:Blackjack-v1", discount=0.9), by_stepping=True)
    assert (world.process.size, world.process.discount, world.process.limit) == (704, 0.9, ENDLESS)
    assert world.environment is not None
    cards = world.environment()
    assert (cards.size, cards.discount, cards.actions) == (704, 0.9, ("stick", "hit"))
    assert world.environment() is not cards
    assert world.process.states[(14 * 11 + 10) * 2 + 1] == "(14,10,1)"
    assert world.layout.state_at(14, 10, 1) == (14 * 11 + 10) * 2 + 1
    for keys, said in (
        ({"name": "gymnasium:Blackjack-v1", "slip": 0.1}, r"world\.slip"),
        ({"name": "gymnasium:CartPole-v1"}, r"world\.name: CartPole-v1: its observation space is Box, which is not"),
    ):
        with pytest.raises(LabError, match=said):
            world_of(section(**keys), by_stepping=True)
    with pytest.raises(LabError, match=r"world\.name: Blackjack-v1 does not tell P.*kind = 'mdp-control'"):
        world_of(section(name="gymnasium:Blackjack-v1"))


def test_a_scenario_names_its_file_relative_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "mine.txt").write_text(MAP)
    scenario = tmp_path / "mine.toml"
    scenario.write_text('kind = "planning"\n[world]\nfile = "maps/mine.txt"\n')
    monkeypatch.chdir("/")
    loaded: Any = load_scenario(scenario).scenario
    assert world_of(loaded.world).process.size == 5
    (tmp_path / "again.toml").write_text(dump_scenario(loaded))
    again: Any = load_scenario(tmp_path / "again.toml").scenario
    assert again == loaded
    assert np.array_equal(world_of(again.world).process.next, world_of(loaded.world).process.next)


def test_a_table_that_names_two_worlds_is_reported_with_its_file(tmp_path: Path) -> None:
    scenario = tmp_path / "two.toml"
    scenario.write_text('kind = "planning"\n[world]\nname = "cliff"\nfile = "maps/mine.txt"\n')
    with pytest.raises(LabError) as caught:
        load_scenario(scenario)
    assert "two.toml" in str(caught.value)
    assert "exactly one of name, map and file is needed; given: name and file" in str(caught.value)
