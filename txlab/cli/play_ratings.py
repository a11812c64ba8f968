"""An opponent that learns first, and ratings of it at several ages, for `txlab play`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.engine.games.players import Player


def learnt(games: int, seed: int) -> tuple[Player, Callable[[Sequence[int], int], Explanation | None]]:
    """TD(0) after so many games against itself, and why it values a move as it does."""
    from txlab.drawing.tictactoe_words import position_of
    from txlab.engine.games import tictactoe
    from txlab.engine.games.graph import compiled
    from txlab.engine.games.self_play import explain, make_learner
    from txlab.engine.games.settings import Settings

    learner = make_learner(compiled(tictactoe), Settings(), seed)
    learner.run(games)

    return learner.player(), lambda moves, square: explain(learner, position_of(moves), square)
