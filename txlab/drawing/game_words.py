"""A game in words, for every game: the value of a move, and the result."""

from __future__ import annotations

from txlab.drawing.boards import value_text
from txlab.drawing.formatting import plain, share
from txlab.engine.games.game import Game, NumbersPlaces, Position, ShowsWin


def points_text(value: float) -> str:
    """Expected points with their sign.

    >>> points_text(0.3118), points_text(-1.2), points_text(-0.0001)
    ('+.312', '−1.200', '.000')
    """
    text = share(value, 3)
    if float(plain(text)) == 0:
        return ".000"
    return f"+{text}" if value > 0 else text


def value_words(game: Game, value: float) -> str:
    """A value as shown: "+.62" in a game that is won or lost, "+.318" in a game for points."""
    return points_text(value) if game.MOST_POINTS > 1 else value_text(value)


def describe_end(game: Game, position: Position, you: int | None) -> str:
    """How a game ended for the player on side `you`, or for a spectator (None): "you have lost: O has the top row"."""
    result = game.outcome(position)
    if result is None:
        return ""
    if result == 0:
        return f"drawn: no {game.PLACE} is free" if isinstance(game, NumbersPlaces) else "drawn"
    sign = game.SIGNS[0 if result > 0 else 1]
    how = game.how_won(position) if isinstance(game, ShowsWin) else ""
    if you is None or not you:
        words = f"{sign} has won"
    elif result * you > 0:
        words = "you have won"
    else:
        words, how = "you have lost", f"{sign} has {how}" if how and isinstance(game, NumbersPlaces) else how
    return f"{words}: {how}" if how else words
