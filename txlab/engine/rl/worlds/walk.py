"""Random walks of 5 and of 19 states in a row, for prediction: from the middle, to either end.

They have two actions, left and right; the random walk of the textbook is the uniform policy.
"""

from __future__ import annotations

from txlab.engine.rl.maps.drawn import Map, parse_map
from txlab.engine.rl.world import NamedWorld


def walk(size: int, left: float) -> Map:
    """`size` states between two ends; the left one pays `left`, the right one 1, every other move nothing.

    Under the uniform policy state i of 1 … n has the value left + (1 − left) · i / (n + 1).
    """
    half = "." * ((size - 1) // 2)
    row = f"L{half}S{'.' * (size - 1 - len(half))}R"
    head = f"title: Random walk of {size} states\nmoves: sideways\nL: goal, pays {left:g}\nR: goal, pays 1\n"
    return parse_map(f"{head}\n{row}\n")


WORLD = (
    NamedWorld("walk-5", "Random walk of 5 states", "Sutton and Barto 2018, example 6.2", lambda: walk(5, 0.0)),
    NamedWorld(
        "walk-19",
        "Random walk of 19 states",
        "Sutton and Barto 2018, example 7.1, figures 12.3, 12.6 and 12.8",
        lambda: walk(19, -1.0),
    ),
)
