"""The taxi that picks up a passenger at one of four places and takes them to another.

States and actions are numbered as in Gymnasium's Taxi-v4: ((row · 5 + column) · 5 + passenger) · 4 + goal;
down, up, right, left, pick up, drop off. States in which the passenger waits at their goal are reached only at the
end, so they are the terminal ones.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.world import Layout, NamedWorld, World

SIDE = 5
PLACES = {"R": (0, 0), "G": (0, 4), "Y": (4, 0), "B": (4, 3)}
FENCES = (((0, 1), (0, 2)), ((1, 1), (1, 2)), ((3, 0), (3, 1)), ((4, 0), (4, 1)), ((3, 2), (3, 3)), ((4, 2), (4, 3)))
RIDES = 4  # the passenger's number while in the taxi
ACTIONS = ("down", "up", "right", "left", "pick up", "drop off")


def number(row: int, column: int, passenger: int, goal: int) -> int:
    return ((row * SIDE + column) * 5 + passenger) * 4 + goal


def after(row: int, column: int, passenger: int, goal: int, action: str) -> Outcome:
    """−1 a move; −10 for picking up or dropping off where that is not possible; 20 and the end for arriving."""
    places = list(PLACES.values())
    here = (row, column)
    reward, done = -1.0, False
    if action == "pick up":
        if passenger < RIDES and places[passenger] == here:
            passenger = RIDES
        else:
            reward = -10.0
    elif action == "drop off":
        if passenger == RIDES and here in places:
            passenger = places.index(here)
            done = passenger == goal
            reward = 20.0 if done else -1.0
        else:
            reward = -10.0
    else:
        down, right = {"down": (1, 0), "up": (-1, 0), "right": (0, 1), "left": (0, -1)}[action]
        there = (min(max(row + down, 0), SIDE - 1), min(max(column + right, 0), SIDE - 1))
        if (here, there) not in FENCES and (there, here) not in FENCES:
            row, column = there
    return Outcome(1.0, number(row, column, passenger, goal), reward, done)


def taxi() -> World:
    """5 × 5 with six thin walls, four places; 500 states in 20 layers of where the passenger is and wants to go.

    An episode begins in any cell, with the passenger at one place and bound for another, all equally likely; γ = 1; it
    is cut off after 200 steps.
    """
    names, places, layers = [], [], []
    signs = list(PLACES)
    for passenger in range(5):
        for goal in range(4):
            where = "in the taxi" if passenger == RIDES else f"at {signs[passenger]}"
            layers.append(f"passenger {where}, to {signs[goal]}")
    outcomes = {}
    start = np.zeros(number(SIDE - 1, SIDE - 1, RIDES, 3) + 1)
    for s in range(len(start)):
        cell, within = divmod(s, 20)
        (row, column), (passenger, goal) = divmod(cell, SIDE), divmod(within, 4)
        names.append(f"({row},{column}), {layers[within]}")
        places.append((within, row, column))
        if passenger != goal:
            for a, action in enumerate(ACTIONS):
                outcomes[s, a] = [after(row, column, passenger, goal, action)]
            start[s] = passenger != RIDES
    process: Process = compile_process(ACTIONS, names, outcomes, start / start.sum(), limit=200)
    marks = {place: sign for sign, place in PLACES.items()}
    layout = Layout(SIDE, SIDE, np.array(places), tuple(layers), marks, frozenset(FENCES))
    return World("taxi", "", process, layout)


WORLD = NamedWorld("taxi", "Taxi", "Dietterich 2000, section 3.1; Gymnasium Taxi-v4", taxi)
