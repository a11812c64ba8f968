"""The rules, all positions, the search and exact matches, held against counts and fractions and against a search that
shares no line with ours."""

from __future__ import annotations

import doctest
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.perfect_play import best_response, both_seats, chances, explain, fractions, solve_game, verdict
from txlab.engine.games.players import Player, TabularPlayer, perfect_player, random_player, table_player
from txlab.errors import LabError

GRAPH = compile_graph(tictactoe)
SOLUTION = solve_game(tictactoe)
RANDOM, PERFECT = random_player(tictactoe), perfect_player(tictactoe)


@cache
def negamax(board: str, sign: str = "X") -> int:
    """What the board is worth to who is to move; boards are strings, lines are found by slicing."""
    other = "O" if sign == "X" else "X"
    rows = [board[0:3], board[3:6], board[6:9], board[0::3], board[1::3], board[2::3], board[0::4], board[2:7:2]]
    if other * 3 in rows:
        return -1
    if " " not in board:
        return 0
    return max(
        -negamax(board[:i] + sign + board[i + 1 :], other) for i in range(9) if board[i] == " "
    )  # fmt: skip


def board_of(position: tuple[int, ...]) -> str:
    return "".join(" XO"[sign] for sign in position)


def test_the_examples_of_the_rules_are_right() -> None:
    assert doctest.testmod(tictactoe).failed == 0


def test_positions_are_as_many_as_the_rules_allow() -> None:
    ended = GRAPH.ended
    assert (GRAPH.size, int((~ended).sum()), int(ended.sum())) == (5478, 4520, 958)
    assert [int((GRAPH.outcome[ended] == each).sum()) for each in (1, -1, 0)] == [626, 316, 16]


def test_positions_up_to_symmetry_are_765() -> None:
    classes = np.unique(GRAPH.symmetry)
    ended = classes[GRAPH.ended[classes]]
    assert (len(classes), len(ended)) == (765, 138)
    assert [int((GRAPH.outcome[ended] == each).sum()) for each in (1, -1, 0)] == [91, 44, 3]


def test_games_are_255168() -> None:
    ways = [0] * GRAPH.size
    ways[0] = 1
    for before, after in zip(GRAPH.before.tolist(), GRAPH.after.tolist(), strict=True):
        ways[after] += ways[before]
    by_outcome = [sum(ways[n] for n in np.flatnonzero(GRAPH.ended & (GRAPH.outcome == each))) for each in (1, -1, 0)]
    assert by_outcome == [131_184, 77_904, 46_080]
    assert sum(by_outcome) == 255_168


def test_the_graph_tells_what_the_rules_tell() -> None:
    for n, position in enumerate(GRAPH.positions):
        moves = GRAPH.moves(n)
        assert tuple(move for move, _ in moves) == tictactoe.legal(position)
        assert all(GRAPH.positions[after] == tictactoe.after(position, move) for move, after in moves)
        assert (GRAPH.mover[n] == 0) == (tictactoe.outcome(position) is not None)
        assert GRAPH.ply[n] == sum(map(abs, position))
    assert np.array_equal(GRAPH.ply, np.sort(GRAPH.ply))
    assert sum(span.stop - span.start for span in GRAPH.plies) == len(GRAPH.move)
    assert all(len(set(GRAPH.ply[GRAPH.before[span]])) == 1 for span in GRAPH.plies)


def test_symmetric_positions_are_worth_the_same_and_have_as_many_moves() -> None:
    representative = GRAPH.symmetry
    assert np.array_equal(SOLUTION.value, SOLUTION.value[representative])
    assert np.array_equal(GRAPH.count, GRAPH.count[representative])
    assert np.array_equal(SOLUTION.distance, SOLUTION.distance[representative])
    assert len({*tictactoe.images(tictactoe.read("XO./.../..."))}) == 8
    assert len({*tictactoe.images(tictactoe.start())}) == 1


def test_every_value_is_that_of_an_independent_search() -> None:
    for n, position in enumerate(GRAPH.positions):
        sign = "X" if sum(position) == 0 else "O"
        worth = negamax(board_of(position), sign)  # to who would be to move
        assert SOLUTION.value[n] == (worth if sign == "X" else -worth)


def test_random_against_random_is_the_exact_fraction() -> None:
    everything = RANDOM.kept
    assert fractions(GRAPH, everything, everything) == (Fraction(737, 1260), Fraction(8, 63), Fraction(121, 420))


def test_the_perfect_player_against_random_is_as_derived_from_either_seat() -> None:
    first, second = both_seats(GRAPH, PERFECT.policy(), RANDOM.policy())
    assert (round(first.won, 6), round(first.drawn, 6), first.lost) == (0.967811, 0.032189, 0.0)
    assert (round(second.won, 6), round(second.drawn, 6), second.lost) == (0.777484, 0.222516, 0.0)
    won, drawn, lost = fractions(GRAPH, PERFECT.kept, RANDOM.kept)
    assert lost == 0
    assert won + drawn == 1
    assert float(won) == pytest.approx(first.won, abs=1e-12)


def test_two_perfect_players_draw() -> None:
    assert fractions(GRAPH, PERFECT.kept, PERFECT.kept) == (0, 1, 0)


def test_the_best_response_to_random_is_as_derived() -> None:
    policy, earned = best_response(GRAPH, RANDOM.policy(), 1)
    first = chances(GRAPH, policy, RANDOM.policy())
    assert first.won == pytest.approx(191 / 192, abs=1e-12)
    assert first.mean == pytest.approx(earned[0], abs=1e-12)
    policy, earned = best_response(GRAPH, RANDOM.policy(), -1)
    second = chances(GRAPH, RANDOM.policy(), policy).swap_sides()
    assert round(second.won, 6) == 0.934392
    assert second.lost == pytest.approx(1 / 105, abs=1e-12)
    assert second.mean == pytest.approx(earned[0], abs=1e-12)


def test_a_match_computed_is_a_match_played() -> None:
    """The rules and the players' own moves, 4000 games: within four standard errors."""
    chance = np.random.default_rng(3)
    ends = []
    for _ in range(4000):
        position = tictactoe.start()
        while tictactoe.outcome(position) is None:
            player = RANDOM if tictactoe.mover(position) == 1 else PERFECT
            position = tictactoe.after(position, player.move(position, chance.random()))
        ends.append(tictactoe.outcome(position))
    expected = chances(GRAPH, RANDOM.policy(), PERFECT.policy())
    assert 1 not in ends  # no player wins against the perfect player
    error = (expected.lost * (1 - expected.lost) / len(ends)) ** 0.5
    assert abs(ends.count(-1) / len(ends) - expected.lost) < 4 * error


def test_values_are_shown_from_the_movers_view() -> None:
    assert isinstance(PERFECT, Player)
    assert isinstance(PERFECT, TabularPlayer)
    wins_for_x = tictactoe.read("XX./OO./...")
    assert PERFECT.values(wins_for_x)[2] == 1
    wins_for_o = tictactoe.read("XX./OO./X..")
    assert PERFECT.values(wins_for_o)[5] == 1
    assert PERFECT.values(wins_for_o)[8] == -1  # then X has the top row
    assert PERFECT.move(wins_for_o, 0.999) == 5
    assert RANDOM.values(wins_for_o) == {}


def test_a_table_of_after_states_and_one_of_moves_are_the_same_player() -> None:
    of_positions = table_player(GRAPH, SOLUTION.value.astype(float), "by positions")
    of_moves = table_player(GRAPH, SOLUTION.value[GRAPH.after].astype(float), "by moves")
    assert np.array_equal(of_positions.kept, PERFECT.kept)
    assert np.array_equal(of_moves.kept, PERFECT.kept)
    with pytest.raises(ValueError, match="5478 positions or 16167 moves"):
        table_player(GRAPH, np.zeros(9), "neither")


def test_every_position_is_described_in_words_and_explained() -> None:
    assert verdict(SOLUTION, tictactoe.start()) == "a draw with best play"
    assert verdict(SOLUTION, tictactoe.read("XO./.../...")) == "X wins in 3 moves"
    assert verdict(SOLUTION, tictactoe.read("XX./OO./...")) == "X wins in 1 move"
    assert verdict(SOLUTION, tictactoe.read("XXX/OO./...")) == "X has won"
    assert verdict(SOLUTION, tictactoe.read("XOX/XOO/OXX")) == "drawn"
    for n, position in enumerate(GRAPH.positions):
        why = explain(SOLUTION, position)
        assert why.result == SOLUTION.value[n]
        if not GRAPH.ended[n]:
            follow = why.operands[0].value
            assert why.result == (max if GRAPH.mover[n] == 1 else min)(follow)  # type: ignore[type-var, arg-type]
            assert follow[why.asked] == why.result  # type: ignore[index]
    assert explain(SOLUTION, tictactoe.read("XX./OO./..."), 2).result == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [("XO", "write nine of X, O and"), ("XXXXXXXXY", "write nine of X, O and"), ("XXX/.../...", "cannot come up"),
     ("XXX/OOO/...", "cannot come up"), ("XX./OO./O..", "cannot come up"), ("OOO/XX./XX.", "cannot come up")],
)  # fmt: skip
def test_an_invalid_position_is_refused_with_an_error(text: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        tictactoe.read(text)


def test_every_position_is_read_as_it_is_written() -> None:
    for position in GRAPH.positions:
        assert tictactoe.read(tictactoe.text(position)) == position


def test_a_sign_cannot_be_set_twice_nor_after_the_end() -> None:
    with pytest.raises(LabError, match="top left is not free; free are: top, top right"):
        tictactoe.after(tictactoe.read("X../.../..."), 0)
    with pytest.raises(LabError, match="free are: none"):
        tictactoe.after(tictactoe.read("XXX/OO./..."), 8)
    with pytest.raises(LabError, match="leads to"):
        GRAPH.number_of((1, 1, 1, 1, 0, 0, 0, 0, 0))
