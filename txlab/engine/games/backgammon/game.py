"""Backgammon under the protocol of all games (game.py): throws are separate positions (MATH G2).

A position is (turn, dice, own, other): `turn` is the side to roll or to play, whose checkers are `own`, both sides
counted from their own view (rules.py); `dice` is () before the throw. At the start it is CHANCE's turn: each side
throws one die, and the higher one begins and plays both.

The places of the board are 0 … 23, the points of the player to move, BAR and OFF; the user chooses (from, to) for each
die played. On one line a position is gnubg's Position ID, as the player to roll sees it, whose turn it is, and the
dice.

>>> position = read("4HPwATDgc/ABMA X 31")
>>> [name_of_move(position, move) for move in legal(position)][:3]
['24/21 24/23', '24/21 21/20', '24/21 8/7']
>>> text(after(position, read_move(position, "8/5 6/5")))
'sGfwATDgc/ABMA O'
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from txlab.engine.games.backgammon import rules
from txlab.engine.games.backgammon.rules import (
    BAR,
    CHECKERS,
    OFF,
    ROLLS,
    START,
    Board,
    Dice,
    Steps,
    change_point,
    moves,
    name_of,
    notation,
    play,
    points_won,
    step,
    swap_sides,
)
from txlab.engine.games.game import CHANCE, FIRST, SECOND, Move, Position, no_such_move
from txlab.errors import LabError

NAME, TITLE = rules.NAME, rules.TITLE
SIGNS = ("X", "O")
MOST_POINTS = 3  # a backgammon
WINS = ("single game", "gammon", "backgammon")
HOW = "moves are written as 8/5 6/5, bar/22, 6/off or 13/8(2)"
ID_LENGTH = 14  # letters of a Position ID: 80 bits
FORM = "write a Position ID, X or O, and the dice, as in '4HPwATDgc/ABMA X 31'"


def start() -> Position:
    return CHANCE, (), *START


def board_of(position: Position) -> Board:
    return position[2], position[3]


def mover(position: Position) -> int:
    """The side whose dice are on the board; CHANCE if there are none."""
    turn, dice, *_ = position
    return turn if dice else CHANCE


def chances(position: Position) -> Sequence[tuple[Position, float]]:
    """The 21 different rolls; in the beginning the 30 throws of two different dice, the higher of which begins."""
    turn, dice, own, other = position
    if dice or outcome(position) is not None:
        return ()
    if turn == CHANCE:
        return [
            ((side, roll, own, other), 1 / 30) for side in (FIRST, SECOND) for roll, _ in ROLLS if roll[0] != roll[1]
        ]
    return [((turn, roll, own, other), weight / 36) for roll, weight in ROLLS]


@lru_cache(maxsize=4096)
def allowed_moves(board: Board, dice: Dice) -> dict[Board, Steps]:
    """`moves`, remembered."""
    return moves(board, dice)


def legal(position: Position) -> Sequence[Steps]:
    """The moves that lead to different positions; (), "no move", is the only one of a player who cannot move."""
    return list(allowed_moves(board_of(position), position[1]).values()) if mover(position) != CHANCE else ()


def after(position: Position, move: Move) -> Position:
    """The position after the move, in which the other side is to throw. LabError if it is not legal."""
    turn, dice, *_ = position
    if not dice:
        raise LabError("the game has ended" if outcome(position) is not None else "the dice have not been thrown yet")
    if not isinstance(move, tuple):
        raise LabError(f"{move!r} is not a move of backgammon")
    board = board_of(position)
    reached = next((each for each, steps in allowed_moves(board, dice).items() if steps == move), None)
    return -turn, (), *swap_sides(play(board, dice, move) if reached is None else reached)


def outcome(position: Position) -> int | None:
    """The points of the first player: ±1, a gammon ±2, a backgammon ±3; None until the game ends."""
    return points_won(board_of(position)) * position[0] or None


def how_won(position: Position) -> str:
    """ "all checkers are borne off", "a gammon, 2 points" """
    points = abs(outcome(position) or 0)
    return f"a {WINS[points - 1]}, {points} points" if points > 1 else "all checkers are borne off"


def name_of_move(position: Position, move: Move) -> str:
    """ "8/5 6/5", "bar/22*" with a star where a checker is hit, "6/off", "no move"."""
    return notation(move, board_of(position)) if isinstance(move, tuple) else str(move)


def name_of_throw(position: Position) -> str:
    """ "3-1" """
    return "-".join(map(str, position[1]))


# The user's ways to move

name_of_place = name_of


def ways(position: Position) -> Mapping[tuple[int, ...], Steps]:
    """Every order in which the checkers can be moved: (from, to, from, to, …) → the move; () alone for no move."""
    return ways_of(board_of(position), position[1]) if mover(position) != CHANCE else {}


@lru_cache(maxsize=64)
def ways_of(board: Board, dice: Dice) -> dict[tuple[int, ...], Steps]:
    named = allowed_moves(board, dice)
    orders = {dice, dice[::-1]} if dice[0] != dice[1] else {dice * 2}
    return {
        places: named[reached] for order in orders for places, reached in orders_of(board, order) if reached in named
        if len(places) == 2 * len(named[reached])
    }  # fmt: skip


def orders_of(board: Board, dice: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Board]]:
    """The choices for these dice in this order, each as long as possible."""
    moved = False
    for point, count in enumerate(board[0]) if dice else ():
        reached = step(board, point, dice[0]) if count else None
        if reached is not None:
            moved = True
            for places, last in orders_of(reached, dice[1:]):
                yield (point, max(point - dice[0], OFF), *places), last
    if not moved:
        yield (), board


HOP = re.compile(r"(bar|\d{1,2})((?:/(?:off|\d{1,2})\*?)+)(?:\((\d)\))?", re.ASCII)


def read_move(position: Position, text: str) -> Steps:
    """The legal move that is written so: "8/5 6/5" in any order, "13/7/2*" or "13/2" with one checker, "13/8(2)".

    LabError with the nearest of the legal moves.
    """
    names = {name_of_move(position, move): move for move in legal(position)}
    wanted = " ".join(text.casefold().split())
    if wanted in names:
        return names[wanted]
    hops: list[tuple[int, int]] = []
    for word in wanted.split():
        match = HOP.fullmatch(word)
        if match is None:
            break
        points = [point_of(each) for each in (match[1], *match[2].replace("*", "").strip("/").split("/"))]
        hops += list(pairwise(points)) * int(match[3] or 1)
    else:
        board = move_along(board_of(position), hops)
        if hops and board in (reached := allowed_moves(board_of(position), position[1]) if names else {}):
            return reached[board]
    raise no_such_move(text, list(names))


def point_of(text: str) -> int:
    return BAR if text == "bar" else OFF if text == "off" else int(text) - 1


def move_along(board: Board, hops: Sequence[tuple[int, int]]) -> Board | None:
    """The board after checkers have moved from … to … and hit blots; None if there are no such points."""
    own, other = board
    for point, to in hops:
        if not (0 <= point <= BAR and OFF <= to < point):
            return None
        own = change_point(own, point, -1)
        if to != OFF:
            own = change_point(own, to, 1)
            if other[23 - to] == 1:
                other = change_point(change_point(other, 23 - to, -1), BAR, 1)
    return own, other


# On one line


def text(position: Position) -> str:
    turn, dice, *_ = position
    words = [position_id(board_of(position))]
    if turn != CHANCE:
        words.append(SIGNS[0 if turn == FIRST else 1])
    return " ".join([*words, *(["".join(map(str, dice))] if dice else [])])


def read(text: str) -> Position:
    """Parse a Position ID, then X or O, to roll, then the dice if they have been thrown; the ID of the start alone is
    the beginning of a game. LabError if it is not one."""
    words = text.split()
    if not 1 <= len(words) <= 3:
        raise LabError(f"{text[:80]!r} is not a position of backgammon; {FORM}")
    own, other = read_id(words[0])
    if len(words) == 1:
        if (own, other) != START:
            raise LabError(f"{text!r} does not tell whose turn it is; {FORM}")
        return start()
    turn = {"X": FIRST, "O": SECOND}.get(words[1].upper())
    dice = words[2].replace("-", "") if len(words) == 3 else ""
    if turn is None or re.fullmatch("([1-6]{2})?", dice, re.ASCII) is None:
        raise LabError(f"{text[:80]!r} is not a position of backgammon; {FORM}")
    position = turn, tuple(sorted(map(int, dice), reverse=True)), own, other
    if dice and points_won((own, other)):
        raise LabError(f"{text!r}: the game has ended, so there are no dice")
    return position


def position_id(board: Board) -> str:
    """gnubg's Position ID: for each point of the opponent, then of the player to roll, a 1 for each checker and a 0."""
    own, other = board
    bits = "".join("1" * count + "0" for side in (other, own) for count in side).ljust(80, "0")
    packed = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, 80, 8))
    return b64encode(packed).decode("ascii")[:ID_LENGTH]


def read_id(text: str) -> Board:
    """LabError if the text is not a Position ID, or of a position that no game has."""
    wrong = LabError(f"{text[:80]!r} is not a Position ID, 14 letters and digits as in 4HPwATDgc/ABMA")
    if re.fullmatch(r"[A-Za-z0-9+/]{14}", text, re.ASCII) is None:
        raise wrong
    bits = "".join(f"{byte:08b}"[::-1] for byte in b64decode(text + "=="))
    sides = [len(each) for each in bits.split("0")[:50]]
    other, own = tuple(sides[:25]), tuple(sides[25:])
    if len(own) < 25 or position_id((own, other)) != text:
        raise wrong
    many = max(sum(own), sum(other)) > CHECKERS
    shared = any(own[point] and other[23 - point] for point in range(24))
    if many or shared or not any(own):  # the player to roll has not borne off all: the game had ended before
        what = "more than 15 checkers of a side" if many else "both sides on one point" if shared else "none to play"
        raise LabError(f"{text!r} cannot come up: {what}")
    return own, other
