"""The rules of backgammon: legal moves, after-states, the end and its points (MATH G2).

A side's checkers are 25 counts from its own view: index 0 is its ace point, 5 its six point, 23 its far corner, 24 the
bar; the rest of the fifteen have been borne off. A `Board` is (the player to roll, the opponent), so the opponent's
checker on index i is on the player's index 23 − i, and `swap_sides` gives the other's view. Nothing here depends on
players, values or networks.

>>> len(after_states(START, (3, 1)))
16
>>> play(START, (3, 1), ((7, 3), (5, 1)))[0][4]  # 8/5 6/5 makes the five point
2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from txlab.errors import LabError

NAME, TITLE = "backgammon", "Backgammon"
CHECKERS = 15
BAR, OFF = 24, -1

Side: TypeAlias = tuple[int, ...]
Board: TypeAlias = tuple[Side, Side]
Dice: TypeAlias = tuple[int, int]
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""A move: for each die that was played (from, die); `from` is 0 … 23 or BAR."""

OPENING_SIDE: Side = tuple({5: 5, 7: 3, 12: 5, 23: 2}.get(point, 0) for point in range(25))
START: Board = (OPENING_SIDE, OPENING_SIDE)

ROLLS: tuple[tuple[Dice, int], ...] = tuple(((a, b), 1 if a == b else 2) for a in range(1, 7) for b in range(1, a + 1))
"""The 21 different rolls, the higher die first, each with how many of the 36 throws give it."""


def swap_sides(board: Board) -> Board:
    """The same position from the view of the other player."""
    return board[1], board[0]


def borne_off(side: Side) -> int:
    return CHECKERS - sum(side)


def pips(side: Side) -> int:
    """Σ of the distances of all checkers to the end; 25 from the bar."""
    return sum(count * (point + 1) for point, count in enumerate(side))


def step(board: Board, point: int, die: int) -> Board | None:
    """The board after one checker goes from `point` by one die, or None if that is not allowed.

    A checker on the bar enters first. A point with two opposing checkers or more is closed; a single one is hit and
    goes to its bar. Bearing off needs all checkers in the home board (0 … 5), and a die higher than needed only takes
    a checker from the rearmost point.
    """
    own, other = board
    if not own[point] or (own[BAR] and point != BAR):
        return None
    to = point - die
    if to < 0:
        rearmost = max(place for place, count in enumerate(own) if count)
        if rearmost > 5 or (to < OFF and rearmost > point):
            return None
        return change_point(own, point, -1), other
    if other[23 - to] > 1:
        return None
    if other[23 - to] == 1:
        other = change_point(change_point(other, 23 - to, -1), BAR, 1)
    return change_point(change_point(own, point, -1), to, 1), other


def change_point(side: Side, point: int, by: int) -> Side:
    return (*side[:point], side[point] + by, *side[point + 1 :])


def sequences(board: Board, dice: tuple[int, ...], highest: int = BAR) -> Iterator[tuple[Steps, Board]]:
    """The ways to play these dice in this order, each as long as possible, the rearmost checker always first.

    That is all of them up to the order of the dice: a move of a checker further ahead is still legal later.
    """
    moved = False
    for point in range(highest, -1, -1) if dice else ():
        reached = step(board, point, dice[0])
        if reached is not None:
            moved = True
            for steps, last in sequences(reached, dice[1:], point):
                yield ((point, dice[0]), *steps), last
    if not moved:
        yield (), board


def moves(board: Board, dice: Dice) -> dict[Board, Steps]:
    """The different boards that this roll allows the player to make, each with one way to make it.

    Doubles are played four times. As many dice as possible must be played; if either of two different dice can be
    played but not both, it is the higher. A player who cannot move keeps the board. The boards are not turned.
    """
    high, low = max(dice), min(dice)
    if high == low:
        ways = list(sequences(board, (high,) * 4))
    else:
        ways = [*sequences(board, (high, low)), *sequences(board, (low, high))]
    most = max(len(steps) for steps, _ in ways)
    if most == 1 and any(steps and steps[0][1] == high for steps, _ in ways):
        ways = [(steps, reached) for steps, reached in ways if steps and steps[0][1] == high]
    unique: dict[Board, Steps] = {}
    for steps, reached in ways:
        if len(steps) == most:
            unique.setdefault(reached, steps)
    return unique


def after_states(board: Board, dice: Dice) -> list[Board]:
    """The boards that this roll allows, without duplicates."""
    return list(moves(board, dice))


def play(board: Board, dice: Dice, steps: Steps) -> Board:
    """The board after a move. LabError if the roll does not allow it."""
    reached = board
    for point, die in steps:
        following = step(reached, point, die)
        if following is None:
            raise LabError(f"no checker can go from {name_of(point)} by {die}")
        reached = following
    allowed = moves(board, dice)
    if reached not in allowed:
        raise LabError(f"{notation(steps)} does not play {dice[0]}-{dice[1]} in full; as many dice as possible count")
    return reached


def points_won(board: Board) -> int:
    """Points of a finished game, positive if the player to roll has won: 1, a gammon 2, a backgammon 3; 0 before.

    A gammon: the loser has borne off no checker. A backgammon: and has one on the bar or in the winner's home board.
    """
    own, other = board
    if not any(own):
        return size_of_win(other)
    return 0 if any(other) else -size_of_win(own)


def size_of_win(loser: Side) -> int:
    if borne_off(loser):
        return 1
    return 3 if any(loser[18:]) else 2


def name_of(point: int) -> str:
    return "bar" if point == BAR else "off" if point < 0 else str(point + 1)


def notation(steps: Steps, board: Board | None = None) -> str:
    """A move as it is usually written, from the player's view: "8/5 6/5", "bar/22", "6/off"; "no move" for none.

    board   where it is made: then a star marks where a checker is hit, "8/5*"
    """
    hops = [(point, max(point - die, OFF)) for point, die in steps]
    hit = {to for _, to in hops if board and to != OFF and board[1][23 - to] == 1}
    written = []
    for point, to in dict.fromkeys(hops):
        star = "*" if to in hit else ""
        hit.discard(to)  # only the first to come there hits
        many = hops.count((point, to))
        written.append(f"{name_of(point)}/{name_of(to)}{star}" + (f"({many})" if many > 1 else ""))
    return " ".join(written) or "no move"
