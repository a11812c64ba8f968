"""The rules and the solver of Connect Four: held against a board of rows, known counts, and `bitbully`."""

from __future__ import annotations

import os
import random
from types import ModuleType

import numpy as np
import pytest

from txlab.engine.games.connect_four import rules, solver
from txlab.engine.games.game import Position
from txlab.errors import LabError

COUNTS = (1, 7, 49, 238, 1120, 4263, 16_422, 54_859, 184_275, 558_186)
"""Positions by ply (OEIS A212693)."""


@pytest.fixture(scope="module")
def bitbully() -> ModuleType:
    """A perfect player inside this process; a judge for tests only (AGPL), not a dependency."""
    return pytest.importorskip("bitbully", reason="bitbully, the judge of these tests, is not installed")


def random_games(count: int, seed: int) -> list[tuple[int, ...]]:
    """The moves of whole games of random players."""
    chance, games = random.Random(seed), []
    for _ in range(count):
        position, moves = rules.start(), []
        while rules.outcome(position) is None:
            moves.append(chance.choice(rules.legal(position)))
            position = rules.after(position, moves[-1])
        games.append(tuple(moves))
    return games


def late_positions(count: int, seed: int, earliest: int) -> list[tuple[int, ...]]:
    """The moves to positions of random games that still go on, from a ply on."""
    chance = random.Random(seed)
    games = [moves for moves in random_games(6 * count, seed) if len(moves) > earliest]
    return [moves[: chance.randint(earliest, len(moves) - 1)] for moves in games][:count]


class Rows:
    """Connect Four once more: lists of rows, and every line looked at."""

    def __init__(self) -> None:
        self.squares = [[0] * 7 for _ in range(6)]

    def drop(self, column: int, side: int) -> None:
        next(row for row in self.squares if not row[column])[column] = side

    def winner(self) -> int:
        for row in range(6):
            for column in range(7):
                for up, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
                    places = [(row + k * up, column + k * right) for k in range(4)]
                    if all(0 <= r < 6 and 0 <= c < 7 for r, c in places):
                        line = {self.squares[r][c] for r, c in places}
                        if line in ({1}, {-1}):
                            return line.pop()
        return 0

    def open(self) -> tuple[int, ...]:
        return tuple(column for column in range(7) if not self.squares[5][column])


def test_random_games_are_those_of_a_board_of_rows() -> None:
    for moves in random_games(300, seed=1):
        position, board = rules.start(), Rows()
        for ply, move in enumerate(moves):
            assert rules.legal(position) == board.open()
            assert rules.mover(position) == (1 if ply % 2 == 0 else -1)
            assert rules.outcome(position) is None
            position = rules.after(position, move)
            board.drop(move, 1 if ply % 2 == 0 else -1)
            assert rules.outcome(position) == (board.winner() or (None if board.open() else 0))
        assert rules.legal(position) == ()
        won = rules.winning_squares(position)
        assert all(sum(position) >> bit & 1 for bit in won)
        assert (len(won) >= 4) == bool(board.winner())


@pytest.mark.parametrize("last", [7, pytest.param(9, marks=pytest.mark.skipif(
    "TXLAB_LONG_TESTS" not in os.environ, reason="some 15 s; set TXLAB_LONG_TESTS to count plies 8 and 9 too"
))])  # fmt: skip
def test_the_positions_of_each_ply_are_as_many_as_published(last: int) -> None:
    level = {rules.start()}
    counts = [1]
    for _ in range(last):
        level = {rules.after(position, move) for position in level for move in rules.legal(position)}
        counts.append(len(level))
    assert tuple(counts) == COUNTS[: last + 1]


def test_texts_are_read_back_and_a_mirror_image_is_the_mirrored_game() -> None:
    for moves in random_games(100, seed=2):
        position = rules.play(moves)
        assert rules.read(rules.text(position)) == position == rules.read(rules.moves_text(moves))
        assert rules.read_moves(rules.moves_text(moves)) == moves
        assert rules.images(position) == (position, rules.play(6 - move for move in moves))
        order = rules.history(position)
        assert order is not None
        assert rules.play(order) == position


@pytest.mark.parametrize(
    "text",
    [
        "48",
        "1111111",
        "12121212",
        "hello",
        "/".join([".......", ".......", ".......", ".......", "X......", "......."]),  # hangs in the air
        "/".join(["......."] * 5 + ["O......"]),  # O has begun
        "/".join(["......."] * 5 + ["XXX...."]),
        "/".join(["......."] * 4 + ["X......", "O......"]),  # O was first in the only column
        "/".join(["......."] * 4 + ["OOOO...", "XXXX..."]),  # played on
    ],
)
def test_a_text_that_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(LabError):
        rules.read(text)


def test_a_move_that_is_not_allowed_names_those_that_are() -> None:
    with pytest.raises(LabError, match="column 1 is not open; open are: 2, 3, 4, 5, 6, 7"):
        rules.after(rules.read("111111"), 0)
    with pytest.raises(LabError, match="the game has ended"):
        rules.after(rules.read("1212121"), 3)
    with pytest.raises(LabError, match="move 7: column 1 is not open"):
        rules.read("1111111")


def test_functions_of_stones_take_arrays() -> None:
    positions = [rules.play(moves[:ply]) for moves in random_games(40, seed=3) for ply in range(len(moves) + 1)]
    stones = np.array([first for first, _ in positions])
    assert rules.has_four(stones).astype(bool).tolist() == [bool(rules.has_four(first)) for first, _ in positions]
    assert rules.mirror(stones).tolist() == [rules.mirror(first) for first, _ in positions]


# The solver


def exact(position: Position, known: dict[Position, int]) -> int:
    """The score by plain exhaustive search."""
    if position not in known:
        if rules.outcome(position) is not None:
            won_now = rules.outcome(position) != 0
            known[position] = -((44 - rules.plies(position)) // 2) if won_now else 0
        else:
            known[position] = max(-exact(rules.after(position, move), known) for move in rules.legal(position))
    return known[position]


@pytest.mark.parametrize("fast", [False, True])
def test_scores_of_late_positions_are_those_of_exhaustive_search(fast: bool) -> None:
    judge = solver.Solver(fast)
    for moves in late_positions(40, seed=4, earliest=30):
        position = rules.play(moves)
        known: dict[Position, int] = {}
        scores = {move: -exact(rules.after(position, move), known) for move in rules.legal(position)}
        assert judge.scores(position) == scores
        assert judge.score(position) == max(scores.values()) == exact(position, known)


def test_the_compiled_search_enters_the_same_positions_in_its_table() -> None:
    pytest.importorskip("numba")
    plain, fast = solver.Solver(fast=False), solver.Solver()
    for moves in late_positions(10, seed=5, earliest=22):
        position = rules.play(moves)
        assert plain.scores(position) == fast.scores(position)
    there = np.flatnonzero(fast.bounds)
    assert {int(fast.keys[place]): int(fast.bounds[place]) for place in there}.items() <= plain.table.items()
    assert len(there) > 0.95 * len(plain.table)  # but for entries that share a place


@pytest.mark.parametrize(("count", "earliest"), [(60, 16), (1000, 22)])
def test_scores_and_best_moves_are_bitbullys(bitbully: ModuleType, count: int, earliest: int) -> None:
    pytest.importorskip("numba", reason="without Numba a thousand positions take minutes")
    judge, theirs = solver.solver(), bitbully.BitBully()
    for moves in late_positions(count, seed=6, earliest=earliest):
        board = bitbully.Board(list(moves))
        expected = {move: score for move, score in theirs.score_all_moves(board).items() if board.is_legal_move(move)}
        scores = judge.scores(rules.play(moves))
        assert scores == expected, moves
        most = max(expected.values())
        assert solver.best_moves(scores) == tuple(sorted(move for move, score in expected.items() if score == most))
        same = {move for move, score in expected.items() if np.sign(score) == np.sign(most)}
        assert set(solver.optimal_moves(scores)) == same


def test_an_immediate_win_an_immediate_loss_and_the_last_square() -> None:
    judge = solver.solver()
    assert judge.scores(rules.read("121212"))[0] == 18  # the fourth stone wins: 22 − 4
    full = rules.play(next(moves for moves in random_games(4000, seed=7) if len(moves) == 42)[:41])
    (move,) = rules.legal(full)
    ended = rules.outcome(rules.after(full, move))
    assert judge.scores(full) == {move: 1 if ended else 0}
    with pytest.raises(LabError, match="ended"):
        judge.scores(rules.read("1212121"))
