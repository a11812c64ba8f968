"""Walks along a row, for predicting: from the middle, to either end.

Notable: they have two actions, left and right; the random walk of the textbook is the policy that chooses evenly.
"""

from __future__ import annotations

from txlab.engine.rl.world import World
from txlab.engine.rl.worlds.compiling import compile_map
from txlab.engine.rl.worlds.parsing import parse_map


def walk(size: int, left: float, name: str, source: str) -> World:
    """`size` states between two ends; the left one pays `left`, the right one 1, every other move nothing.

    The even policy's values: state i of 1 … n has left + (1 − left) · i / (n + 1).
    """
    half = "." * ((size - 1) // 2)
    row = f"L{half}S{'.' * (size - 1 - len(half))}R"
    head = f"title: Random walk of {size} states\nmoves: sideways\nL: goal, pays {left:g}\nR: goal, pays 1\n"
    return compile_map(parse_map(f"{head}\n{row}\n"), name, "", source)
