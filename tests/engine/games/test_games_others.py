"""What holds for tic-tac-toe holds for any game: a game of stones, whose theory is one line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from txlab.engine.games import graph as graphs
from txlab.engine.games.game import no_chances
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import RULES, SelfPlaySettings, make_learner
from txlab.engine.games.perfect_play import both_seats, fractions, solve_game
from txlab.engine.games.players import perfect_player, random_player
from txlab.engine.games.population import LearnerBatch
from txlab.engine.games.tournament import tournament
from txlab.errors import LabError

# The rules: one, two or three of the stones are taken in turn; who takes the last one wins. (stones, moves made)
NAME, TITLE, SIGNS, STONES = "stones", "Stones", ("A", "B"), 9
MOVES = ("one", "two", "three")
MOST_POINTS = 1
chances = no_chances


def start() -> tuple[int, ...]:
    return STONES, 0


def mover(position: tuple[int, ...]) -> int:
    return 1 if position[1] % 2 == 0 else -1


def legal(position: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(min(3, position[0])))


def after(position: tuple[int, ...], move: int) -> tuple[int, ...]:
    return position[0] - move - 1, position[1] + 1


def outcome(position: tuple[int, ...]) -> int | None:
    return None if position[0] else -mover(position)


def name_of_move(position: tuple[int, ...], move: int) -> str:
    return MOVES[move]


def ways(position: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    return {(move,): move for move in legal(position)}


def images(position: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return [position]


def text(position: tuple[int, ...]) -> str:
    return f"{position[0]}/{position[1]}"


def read(text: str) -> tuple[int, ...]:
    stones, moves = text.split("/")
    return int(stones), int(moves)


GAME = sys.modules[__name__]


def test_search_finds_the_theory_of_the_game() -> None:
    """Who must move at a multiple of four has lost; else the move that leaves one wins."""
    solution = solve_game(GAME)
    graph = solution.graph
    for n in graph.open.tolist():
        stones = graph.positions[n][0]
        assert solution.value[n] * graph.mover[n] == (1 if stones % 4 else -1)
    player = perfect_player(GAME)
    assert player.move((7, 2), 0.5) == 2
    first, second = both_seats(graph, player.policy(), random_player(GAME).policy())
    assert (first.won, first.drawn) == (1.0, 0.0)
    assert second.lost > 0


def test_exact_matches_are_those_of_a_recursion() -> None:
    def won(stones: int) -> Fraction:
        """How probably who moves wins, both at random."""
        if not stones:
            return Fraction(0)
        moves = range(1, min(3, stones) + 1)
        return sum((1 - won(stones - move) for move in moves), Fraction(0)) / len(moves)

    everything = random_player(GAME).kept
    assert fractions(compile_graph(GAME), everything, everything) == (won(STONES), 0, 1 - won(STONES))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_learns_to_win_it(rule: str) -> None:
    graph = compile_graph(GAME)
    settings = SelfPlaySettings(rule=rule, epsilon=1.0, decay=0.998)  # type: ignore[arg-type]
    learner, batch = make_learner(graph, settings, 1), LearnerBatch(graph, settings, [1])
    learner.run(200)
    batch.run(200)
    assert np.array_equal(batch.values(0), learner.values())
    learner.run(2800)
    first, _ = both_seats(graph, learner.player().policy(), perfect_player(GAME).policy())
    assert first.won == pytest.approx(1.0)


def test_it_is_played_in_tournaments() -> None:
    standings = tournament([random_player(GAME), perfect_player(GAME)], 200, seed=1, opening=0)
    assert standings is not None
    assert standings.results[1, 0].tolist() == [100, 0, 0]
    assert [row.name for row in standings.rows()] == ["perfect", "random"]


def test_a_game_too_large_is_refused_and_so_are_rules_whose_positions_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "MOST_POSITIONS", 20)
    with pytest.raises(LabError, match="Stones has more than 20 positions"):
        compile_graph.__wrapped__(GAME)
    monkeypatch.undo()
    monkeypatch.setattr(GAME, "after", lambda position, move: (position[0] - move - 1, 1 - position[1]))
    with pytest.raises(ValueError, match="comes up after"):
        compile_graph.__wrapped__(GAME)
