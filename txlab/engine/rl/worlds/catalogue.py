"""The worlds of the literature by name, with what may be chosen about each and where its definition stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from txlab.engine.rl.world import World
from txlab.engine.rl.worlds.baird import baird
from txlab.engine.rl.worlds.bias import bias
from txlab.engine.rl.worlds.blackjack import blackjack
from txlab.engine.rl.worlds.car_rental import car_rental
from txlab.engine.rl.worlds.compiling import compile_map
from txlab.engine.rl.worlds.corridor import corridor
from txlab.engine.rl.worlds.gambler import gambler
from txlab.engine.rl.worlds.grids import cliff, corners, dyna_maze, four_by_three, gridworld, windy
from txlab.engine.rl.worlds.lakes import LARGEST, frozen_lake
from txlab.engine.rl.worlds.options import Option, complete
from txlab.engine.rl.worlds.shipped import shipped_maps
from txlab.engine.rl.worlds.taxi import taxi
from txlab.engine.rl.worlds.walks import walk
from txlab.errors import LabError, nearest


@dataclass(frozen=True)
class Entry:
    """`make` takes every option by name."""

    name: str
    title: str
    source: str
    make: Callable[..., World]
    options: dict[str, Option] = field(default_factory=dict)

    def world(self, **options: Any) -> World:
        return self.make(**complete(self.name, self.options, options))


SLIPPERY = "whether one slides to a side, one third of the time each"
SB = "Sutton and Barto 2018"

WORLDS: dict[str, Entry] = {
    entry.name: entry
    for entry in [
        Entry(
            "walk-5",
            "Random walk of 5 states",
            f"{SB}, example 6.2",
            lambda: walk(5, 0.0, "walk-5", f"{SB}, example 6.2"),
        ),
        Entry(
            "walk-19",
            "Random walk of 19 states",
            f"{SB}, example 7.1",
            lambda: walk(19, -1.0, "walk-19", f"{SB}, example 7.1, figures 12.3, 12.6 and 12.8"),
        ),
        Entry("gridworld", "Gridworld with two jumps", f"{SB}, example 3.5", gridworld),
        Entry("gridworld-corners", "Gridworld with two corners to end in", f"{SB}, example 4.1", corners),
        Entry(
            "four-by-three", "The world of four columns and three rows", "Russell and Norvig 2010, 17.1", four_by_three
        ),
        Entry(
            "windy",
            "Windy gridworld",
            f"{SB}, example 6.5",
            windy,
            {
                "moves": Option("4", "which moves there are", choices=("4", "king", "king-stay")),
                "stochastic": Option(False, "whether the wind is one stronger or weaker, a third of the time each"),
            },
        ),
        Entry("cliff", "Cliff walking", f"{SB}, example 6.6", cliff, {"slippery": Option(False, SLIPPERY)}),
        Entry(
            "frozen-lake",
            "Frozen lake",
            "Gymnasium FrozenLake-v1",
            frozen_lake,
            {
                "slippery": Option(True, SLIPPERY),
                "size": Option(4, "cells a side; 4 and 8 are the known maps unless a seed is given", 2, LARGEST),
                "seed": Option(
                    -1, "of a lake made by chance; −1 = the known map of 4 or 8, seed 0 otherwise", -1, 2**31
                ),
                "frozen": Option(0.8, "share of a lake made by chance that is frozen", 0.0, 1.0),
            },
        ),
        Entry(
            "frozen-lake-8",
            "Frozen lake of 8 × 8",
            "Gymnasium FrozenLake8x8-v1",
            lambda slippery: frozen_lake(slippery, 8, -1, 0.8, "frozen-lake-8"),
            {"slippery": Option(True, SLIPPERY)},
        ),
        Entry("taxi", "Taxi", "Dietterich 2000; Gymnasium Taxi-v4", taxi),
        Entry(
            "gambler",
            "The gambler's problem",
            f"{SB}, example 4.3",
            gambler,
            {
                "capital": Option(100, "what must be reached", 2, 200),
                "heads": Option(0.4, "probability that a stake is won", 0.0, 1.0),
            },
        ),
        Entry("car-rental", "Jack's car rental", f"{SB}, example 4.2", car_rental),
        Entry("dyna-maze", "Dyna maze", f"{SB}, example 8.1", dyna_maze),
        Entry(
            "blackjack",
            "Blackjack",
            f"{SB}, example 5.1; Gymnasium Blackjack-v1",
            blackjack,
            {"exploring": Option(False, "whether an episode begins in any of the 200 states, all alike")},
        ),
        Entry("baird", "Baird's counterexample", f"{SB}, example 11.1", baird),
        Entry(
            "bias",
            "Maximisation bias",
            f"{SB}, example 6.7",
            bias,
            {"choices": Option(10, "actions in B", 2, 1000)},
        ),
        Entry("corridor", "Short corridor with switched actions", f"{SB}, example 13.1", corridor),
    ]
}


def worlds() -> dict[str, Entry]:
    """The worlds of the literature, then the maps that come with txlab."""
    maps = {
        name: Entry(name, drawn.title, "a map of txlab's", partial(compile_map, drawn, name, source="a map of txlab's"))
        for name, drawn in shipped_maps().items()
    }
    return {**WORLDS, **maps}


def world_named(name: str, **options: Any) -> World:
    """The world of that name; a shipped map is "four-rooms" or "maps/four-rooms".

    LabError with the nearest name, or naming the option that is not possible.
    """
    known = worlds()
    meant = name.removeprefix("maps/") if name.removeprefix("maps/") in shipped_maps() else name
    if meant not in known:
        raise LabError(f"{name[:60]!a} is not a world{nearest(name[:60], known)}; there are {', '.join(known)}")
    return known[meant].world(**options)
