"""The rules of backgammon: held against gnubg's where `gnubg-nn` is installed, and against hand-made cases."""

from __future__ import annotations

import os
import random
from collections import Counter
from types import ModuleType

import pytest

from txlab.engine.games.backgammon.dice import roll
from txlab.engine.games.backgammon.inputs import INPUTS, NAMES, inputs_of
from txlab.engine.games.backgammon.rules import (
    BAR,
    CHECKERS,
    ROLLS,
    START,
    Board,
    Dice,
    Side,
    after_states,
    borne_off,
    moves,
    notation,
    pips,
    play,
    points_won,
    swap_sides,
)
from txlab.errors import LabError

MANY = bool(os.environ.get("TXLAB_MANY"))  # 20 000 positions and 2 000 games take a minute


@pytest.fixture(scope="module")
def gnubg() -> ModuleType:
    """gnubg's rules and evaluation inside this process; a judge for tests only (GPL), not a dependency."""
    return pytest.importorskip("gnubg_nn", reason="gnubg-nn, the judge of these tests, is not installed")


def side(**points: int) -> Side:
    """side(p6=5, bar=1): five checkers on the six point, one on the bar."""
    counts = [0] * 25
    for name, count in points.items():
        counts[BAR if name == "bar" else int(name[1:]) - 1] = count
    return tuple(counts)


def scattered(chance: random.Random) -> Board:
    """A position that need not come up in play: checkers anywhere, on the bar and borne off, never sharing a point."""
    own, other = [0] * 25, [0] * 25
    farthest = chance.choice([6, 12, 24, 24])
    for mine, theirs in ((own, other), (other, own)):
        for _ in range(chance.randint(1, CHECKERS)):
            point = chance.choice([BAR, *range(farthest)] if chance.random() < 0.1 else range(farthest))
            if point == BAR or not theirs[23 - point]:
                mine[point] += 1
    if not any(own) or not any(other):
        return scattered(chance)
    return tuple(own), tuple(other)


def positions(count: int, seed: int) -> list[tuple[Board, Dice]]:
    """Half from games of random moves, half scattered, each with a roll."""
    chance = random.Random(seed)
    found: list[tuple[Board, Dice]] = []
    board = START
    while len(found) < count:
        dice = chance.randint(1, 6), chance.randint(1, 6)
        found += [(board, dice), (scattered(chance), dice)]
        board = swap_sides(chance.choice(after_states(board, dice)))
        if points_won(board):
            board = START
    return found[:count]


def gnubg_after_states(gnubg: ModuleType, board: Board, dice: Dice) -> set[Board]:
    own, other = map(list, board)
    keys = gnubg.moves([other, own], *dice)
    reached = {(tuple(b[1]), tuple(b[0])) for b in map(gnubg.board_from_position_key, keys)}
    return reached or {board}


def test_after_states_are_those_of_gnubg(gnubg: ModuleType) -> None:
    kinds: Counter[str] = Counter()
    for board, dice in positions(20_000 if MANY else 4_000, seed=1):
        ours = after_states(board, dice)
        assert len(ours) == len(set(ours))
        assert set(ours) == gnubg_after_states(gnubg, board, dice), (board, dice)
        kinds["no move"] += ours == [board]
        kinds["bar"] += board[0][BAR] > 0
        kinds["bearing off"] += any(borne_off(each[0]) > borne_off(board[0]) for each in ours)
        kinds["contact"] += (
            pips(board[0]) > 0
            and max(p for p in range(25) if board[0][p]) + max(p for p in range(25) if board[1][p]) > 22
        )
    assert min(kinds.values()) > 100, kinds  # each kind of position did come up


def test_final_scores_are_those_of_gnubg(gnubg: ModuleType) -> None:
    """Games of random moves: gnubg's probabilities of a finished game are its points."""
    chance, scores = random.Random(2), Counter[int]()
    for game in range(2_000 if MANY else 100):
        board, ply = START, 0
        while not points_won(board):
            board = swap_sides(chance.choice(after_states(board, roll(game, ply))))
            ply += 1
        _, _, _, lost_gammon, lost_backgammon = gnubg.probabilities([list(board[1]), list(board[0])], 0)
        assert points_won(board) == -(1 + lost_gammon + lost_backgammon)
        scores[points_won(board)] += 1
    assert set(scores) == {-1, -2, -3}


def test_both_dice_are_played_if_possible() -> None:
    """13/8 would leave no 6 (7 and 2 are closed); after 20/14 a 5 can still be played."""
    board = side(p20=1, p13=1), side(p18=2, p23=2, p10=2, p16=2)
    played = {notation(steps) for steps in moves(board, (6, 5)).values()}
    assert played
    assert all(len(steps) == 2 for steps in moves(board, (6, 5)).values())


def test_the_higher_die_is_played_if_only_one_can_be() -> None:
    board = side(p20=1), side(p16=2)  # 20/14 and 20/15 are open, but the point for both, 9, is closed
    assert {notation(each) for each in moves(board, (6, 5)).values()} == {"20/14"}


def test_a_checker_on_the_bar_enters_first_or_nothing_moves() -> None:
    barred = side(bar=1, p6=5), side(p1=2, p2=2, p3=2, p4=2, p5=2, p6=2)
    assert after_states(barred, (6, 5)) == [barred]
    assert notation(moves(barred, (6, 5))[barred]) == "no move"
    entering = side(bar=2, p6=5), side(p6=2)  # the 6 enters on a closed point, the 5 does not: one stays
    assert {notation(each) for each in moves(entering, (6, 5)).values()} == {"bar/20"}


def test_doubles_are_played_four_times() -> None:
    assert max(len(steps) for steps in moves(START, (1, 1)).values()) == 4
    assert "24/23(2) 6/5(2)" in {notation(steps) for steps in moves(START, (1, 1)).values()}


def test_a_single_checker_is_hit_and_goes_to_the_bar() -> None:
    board = side(p8=1), side(p20=1)  # the opponent's blot is on this player's 5 point
    reached = play(board, (3, 2), ((7, 3), (4, 2)))
    assert reached == (side(p3=1), side(bar=1))


def test_a_higher_die_bears_off_the_rearmost_checker_only() -> None:
    board = side(p4=1, p2=1), side(p24=2)
    assert {notation(each) for each in moves(board, (6, 5)).values()} == {"4/off 2/off"}


@pytest.mark.parametrize(
    ("loser", "points"),
    [(side(p6=14), 1), (side(p6=15), 2), (side(p19=1, p6=14), 3), (side(bar=1, p6=14), 3), (side(p18=1, p6=14), 2)],
)
def test_points_of_a_finished_game(loser: Side, points: int) -> None:
    assert points_won((side(), loser)) == points
    assert points_won((loser, side())) == -points
    assert points_won(START) == 0


def test_a_move_that_the_roll_does_not_allow_is_refused_with_an_error() -> None:
    with pytest.raises(LabError, match="no checker can go from 7 by 3"):
        play(START, (3, 1), ((6, 3), (5, 1)))
    with pytest.raises(LabError, match="8/5 does not play 3-1 in full"):
        play(START, (3, 1), ((7, 3),))


def test_every_roll_is_counted_once() -> None:
    assert len(ROLLS) == 21
    assert sum(weight for _, weight in ROLLS) == 36


def test_dice_are_fair_and_the_opening_roll_is_never_a_double() -> None:
    openings = Counter(roll(seed, 0) for seed in range(6_000))
    assert len(openings) == 30
    assert all(a != b for a, b in openings)
    later = Counter(roll(7, ply) for ply in range(1, 36_001))
    assert len(later) == 36
    for counted, expected in ((openings, 200), (later, 1_000)):  # χ² with 29 and 35 degrees of freedom: below 70
        assert sum((n - expected) ** 2 / expected for n in counted.values()) < 70


def test_the_198_inputs_are_tesauros() -> None:
    assert len(NAMES) == len(set(NAMES)) == INPUTS == 198
    named = dict(zip(NAMES, inputs_of(START).tolist(), strict=True))
    assert named["own point 6, 3 or more"] == 1
    assert named["own point 6, beyond 3"] == 1  # (5 − 3)/2
    assert named["own point 24, 2 or more"] == 1
    assert named["own point 24, 3 or more"] == 0
    assert named["own turn"] == 1
    assert sum(named.values()) == 2 * (4 + 3 + 4 + 2) + 1
    barred = dict(zip(NAMES, inputs_of((side(bar=3, p1=2), side(p9=4))).tolist(), strict=True))
    assert barred["own bar"] == 1.5
    assert barred["own borne off"] == pytest.approx(10 / 15)
    assert barred["opponent's point 9, beyond 3"] == 0.5
