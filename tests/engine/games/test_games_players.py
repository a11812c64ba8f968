"""Players of backgammon and Connect Four under the protocol of all games, and their matches with dice and points."""

from __future__ import annotations

import random

import numpy as np
import pytest

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.backgammon.inputs import inputs_of
from txlab.engine.games.backgammon.network import Network, equity, forward
from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.catalogue import game_named
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.judged import load_judged
from txlab.engine.games.connect_four.players import FreshRollouts, SearchPlayer, SolverPlayer
from txlab.engine.games.connect_four.search import selection
from txlab.engine.games.connect_four.solver import solver
from txlab.engine.games.game import Game, Position, throw_dice
from txlab.engine.games.players import Player, RandomPlayer, perfect_player
from txlab.engine.games.tournament import play, tournament

NET = Network.initialize(10, 3, scale=8.0)


def played(game: Game, seed: int, most: int) -> list[Position]:
    """Positions of random games in which a player is to move."""
    chance = random.Random(seed)
    found: list[Position] = []
    position = game.start()
    while len(found) < most:
        if game.outcome(position) is not None:
            position = game.start()
        elif game.mover(position) == 0:
            position = throw_dice(game, position, chance.random())
        else:
            found.append(position)
            position = game.after(position, chance.choice(game.legal(position)))
    return found


# Backgammon


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("plies", [1, 2])
def test_a_network_values_moves_as_the_plain_search_does(
    plies: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(choice, "load_compiled", lambda: None)
    player = NetworkPlayer("net", NET, plies)
    for position in played(backgammon, plies, 40 if plies == 1 else 2):
        values = player.values(position)
        plain = choice.value_moves(NET, position[2:], position[1], plies)
        for after, expected in plain.items():
            move = next(each for each in values if backgammon.after(position, each)[2:] == after)
            assert values[move] == pytest.approx(-expected, abs=1e-12)
        assert len(values) == len(plain)
        assert backgammon.after(position, player.move(position, 0.0))[2:] == next(iter(plain))


@pytest.mark.parametrize("plies", [1, 2])
def test_w_on_a_move_of_backgammon_gives_the_numbers_of_its_value(plies: int) -> None:
    player = NetworkPlayer("net", NET, plies)
    for position in played(backgammon, 5, 6 if plies == 1 else 2):
        values = player.values(position)
        for move, value in list(values.items())[:3]:
            why = player.explain(position, move)
            assert why is not None
            assert why.result == pytest.approx(value, abs=1e-6)
            after = backgammon.after(position, move)[2:]
            y = forward(NET, inputs_of(after))[1].astype(float)
            told = {step.name: step.result for step in why.meaning}
            assert told["win"] == pytest.approx(1 - y[0])
            assert told["win gammon"] == pytest.approx(y[2])
            assert told["behind the best"] == pytest.approx(max(values.values()) - value)
            if plies == 1:
                assert told["win"] * 2 - 1 + told["win gammon"] - told["lose gammon"] == pytest.approx(value)
    assert player.explain(position, ((0, 0),)) is None


def test_the_inputs_that_raise_a_value_are_those_without_which_it_is_lower() -> None:
    player = NetworkPlayer("net", NET)
    position = played(backgammon, 7, 12)[-1]
    move = player.move(position, 0.0)
    why = player.explain(position, move)
    assert why is not None
    named = [step for step in why.meaning if step.expression == "value − value without it"]
    assert named
    after = backgammon.after(position, move)[2:]
    x = inputs_of(after)
    lost = {}
    for i in np.flatnonzero(x[:-2]):
        without = x.copy()
        without[i] = 0
        lost[i] = equity(forward(NET, without)[1]) - equity(forward(NET, x)[1])
    assert max(step.result for step in named) == pytest.approx(max(lost.values()))  # type: ignore[type-var]
    assert min(step.result for step in named) == pytest.approx(min(lost.values()))  # type: ignore[type-var]


def test_a_won_game_is_worth_its_points_by_the_rules() -> None:
    one = (1, *(0,) * 24)
    position = (1, (6, 5), one, (*(0,) * 24, 15))  # the last checker against fifteen on the bar: a backgammon
    player = NetworkPlayer("net", NET, 2)
    (move,) = backgammon.legal(position)
    assert player.values(position) == {move: 3.0}
    why = player.explain(position, move)
    assert why is not None
    assert why.result == 3.0
    assert player.notes(position) == {move: "100 %"}


def test_both_games_of_a_pair_have_the_same_dice_so_a_player_beats_itself_by_nothing() -> None:
    one, other = NetworkPlayer("one", NET), NetworkPlayer("other", NET)
    by_itself = tournament([one, other], 20, seed=4)  # by `match`, compiled
    assert by_itself is not None
    assert by_itself.pairs[0, 1].tolist() == [0.0] * 10

    class Slow(RandomPlayer):
        """Asked for each move, the first that is legal."""

        def move(self, position: Position, draw: float) -> object:
            return self.game.legal(position)[0]

    slow = tournament([Slow(backgammon, "one"), Slow(backgammon, "other")], 10, seed=4)
    assert slow is not None
    assert slow.pairs[0, 1].tolist() == [0.0] * 5
    assert slow.opening == 0
    assert slow.different.tolist() == [[0, 5], [5, 0]]  # the dice make each game another one


def test_throws_of_a_match_are_fair_and_a_win_of_several_points_is_one_win() -> None:
    seeds = np.arange(40, dtype=np.uint64)
    player: Player = RandomPlayer(backgammon)
    points, moves = play(player, player, seeds, seeds + np.uint64(1000), 0)
    assert set(np.abs(points).tolist()) <= {1, 2, 3}
    assert len(set(moves)) == 40
    standings = tournament([RandomPlayer(backgammon, "a"), RandomPlayer(backgammon, "b")], 40, seed=1)
    assert standings is not None
    assert standings.results.sum() == 40
    rows = {row.name: row for row in standings.rows()}
    assert rows["a"].points == pytest.approx(-rows["b"].points)
    assert rows["a"].points_low < rows["a"].points < rows["a"].points_high
    assert rows["a"].points_low >= -3
    assert rows["a"].points == pytest.approx(standings.pairs[0, 1].mean())


def test_points_agree_with_games_that_are_replayed_from_their_draws() -> None:
    """The same seeds are the same throws: replayed here by the protocol alone."""
    from txlab.engine.rl.draws import uniforms

    seed = 77
    points, ((*moves,),) = play(*[RandomPlayer(backgammon)] * 2, *[np.array([seed], dtype=np.uint64)] * 2, 0)
    throws = iter(uniforms(seed, 0, 5000)[0, :, 2])
    position = backgammon.start()
    for move in [*moves, None]:
        while backgammon.outcome(position) is None and backgammon.mover(position) == 0:
            position = throw_dice(backgammon, position, next(throws))
        if move is not None:
            position = backgammon.after(position, move)
    assert backgammon.outcome(position) == points[0]


# Connect Four


def test_a_search_says_the_same_of_a_position_whenever_it_is_asked() -> None:
    player, again = (SearchPlayer("search", FreshRollouts(), 40) for _ in range(2))
    for position in played(rules, 3, 4):
        N, W, P = player.terms(position)
        assert N.sum() == player.visits
        values = player.values(position)
        for move in rules.legal(position):
            why = player.explain(position, move)
            assert why is not None
            Q, U = selection(N, W, P, player.c)
            told = {step.name: step.result for step in why.meaning}
            assert why.result == pytest.approx(Q[move])
            assert told["Q + U"] == pytest.approx(Q[move] + U[move])
            assert move not in values or values[move] == why.result == pytest.approx(W[move] / N[move])
            assert player.shares(position)[move] == N[move] / player.visits
            visits, _, prior = player.notes(position)[move].partition(" visits, P ")
            assert (int(visits), float(prior)) == (N[move], pytest.approx(P[move], abs=0.005))
        assert player.move(position, 0.5) == int(N.argmax())
        assert again.values(position) == values


def test_a_network_makes_the_same_moves_alone_and_in_many_games() -> None:
    torch = pytest.importorskip("torch")
    from txlab.engine.games.connect_four.network import PolicyValueNet
    from txlab.engine.games.connect_four.players import network_player

    player = network_player("net", PolicyValueNet(4, 1, torch.Generator().manual_seed(1)), 24, 2.0)
    positions = [each for each in played(rules, 9, 12) if rules.legal(each)]
    assert player.moves(positions, [0.0] * len(positions)) == [player.move(each, 0.0) for each in positions]


def test_the_solver_is_right_wherever_it_has_a_value_and_has_none_elsewhere() -> None:
    player = SolverPlayer()
    known = load_judged()
    late = [n for n in range(len(known)) if len(known.moves[n]) >= max(18, solver().quick_from)][:25]
    for n in late:
        position = rules.read(known.moves[n])
        values = player.values(position)
        assert values == {move: float(np.sign(known.scores[n, move])) for move in rules.legal(position)}
        assert known.optimal[n, player.move(position, 0.99)]
        move = player.move(position, 0.0)
        why = player.explain(position, move)
        assert why is not None
        assert why.result == values[move]
        for move, words in player.notes(position).items():
            assert words.split()[0] == {1: "wins", 0: "draws", -1: "loses"}[int(values[move])]
    early = rules.read("4453")
    assert player.values(early) == {}
    assert player.notes(early) == {}
    assert "searched" in player.sees(early)
    assert "perfect" in player.name
    assert str(solver().quick_from + 1) in player.name
    assert player.move(early, 0.0) in rules.legal(early)


def test_notes_count_the_moves_to_the_end_as_they_are_played() -> None:
    """Both play the solver's best from a position that is decided: the game ends when its note said."""
    player = SolverPlayer()
    known = load_judged()
    late = [rules.read(known.moves[n]) for n in range(len(known)) if len(known.moves[n]) >= 22]
    position = next(each for each in late if max(solver().scores(each).values()) in (2, 3))
    move = player.move(position, 0.0)
    words, own = player.notes(position)[move], 1
    mover = rules.mover(position)
    position = rules.after(position, move)
    while rules.outcome(position) is None:
        own += rules.mover(position) == mover
        position = rules.after(position, player.move(position, 0.0))
    assert rules.outcome(position) == mover
    assert own > 1
    assert words == f"wins in {own}"


def test_search_beats_chance_in_a_match_of_connect_four() -> None:
    search = SearchPlayer("search", FreshRollouts(), 32)
    standings = tournament([search, RandomPlayer(rules)], 20, seed=1)
    assert standings is not None
    assert standings.against(0, 1)[0] >= 17


# Tic-tac-toe


def test_the_perfect_players_words_are_those_of_the_solution() -> None:
    game = game_named("tictactoe").game
    player = perfect_player(game)  # type: ignore[arg-type]
    position = game.read("XX./OO./...")
    notes = player.notes(position)
    assert (notes[2], notes[6]) == ("wins", "loses in 1")
    assert player.sees(position) == "best play"
