"""A gambler stakes whole amounts on a coin until nothing is left, or the goal is reached."""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, Option, World


def gambler(capital: int, heads: float) -> World:
    """State s is the capital, 1 … `capital` − 1; a stake of 1 … min(s, capital − s) is won with probability `heads`.

    1 for reaching `capital`, 0 otherwise; γ = 1. The states 0 and `capital` are ends. An episode begins with half.
    """
    stakes = max(1, capital // 2)
    outcomes = {
        (s, stake - 1): [
            Outcome(heads, s + stake, float(s + stake == capital), s + stake == capital),
            Outcome(1 - heads, s - stake, 0.0, s == stake),
        ]
        for s in range(1, capital)
        for stake in range(1, min(s, capital - s) + 1)
    }
    actions = [f"stake {stake}" for stake in range(1, stakes + 1)]
    process = compile_process(actions, [str(s) for s in range(capital + 1)], outcomes, start=capital // 2)
    width = min(20, capital + 1)
    places = [[0, s // width, s % width] for s in range(capital + 1)]
    marks = {(0, 0): "H", (places[-1][1], places[-1][2]): "G"}
    layout = Layout(places[-1][1] + 1, width, np.array(places), marks=marks)
    title = f"Gambler, {capital} to reach, heads {heads:g}"
    return World("gambler", title, process, layout)


WORLD = NamedWorld(
    "gambler",
    "The gambler's problem",
    "Sutton and Barto 2018, example 4.3, figure 4.3",
    gambler,
    {
        "capital": Option(100, "the capital to reach", 2, 200),
        "heads": Option(0.4, "probability that a stake is won", 0.0, 1.0),
    },
)
