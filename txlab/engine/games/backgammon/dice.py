"""The dice of a game as a function of its seed and the ply, for players and learners."""

from __future__ import annotations

from txlab.engine.games.backgammon.rules import Dice
from txlab.engine.rl.draws import uniforms


def roll(seed: int, ply: int) -> Dice:
    """The dice of ply 0, 1, …: independent and uniform, except that the opening roll (ply 0) has two different dice."""
    first, second = uniforms(seed, ply, 1)[0, 0, :2].tolist()
    die = 1 + int(6 * first)
    if ply:
        return die, 1 + int(6 * second)
    other = 1 + int(5 * second)  # one of the five others
    return die, other + (other >= die)
