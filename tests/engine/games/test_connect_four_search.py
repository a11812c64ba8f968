"""PUCT of many games at once: against a plain recursive search of one tree, and in positions that it must solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from calculator import miscalculated
from independent.puct import safe_moves, searched, threatened_columns, winning_moves

from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.network import (
    PolicyValueNet,
    Remembered,
    evaluate,
    legal_columns,
    planes,
)
from txlab.engine.games.connect_four.search import Rollouts, Search, explain_selection, selection, sensible
from txlab.engine.games.connect_four.self_play import Exploring, Replay, SelfPlay, draw_moves, name_of
from txlab.engine.games.game import Position

C = 1.7
OPENINGS = ("", "44", "4433", "123", "4444441", "77665", "1122336")


def guess(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priors and values that look like chance but follow from the stones alone, position by position."""
    legal = legal_columns(both)
    noise = np.array(
        [[(int(o) * 31 + int(b) * 17 + k * 7919) % 1009 for k in range(8)] for o, b in zip(own, both, strict=True)]
    )
    priors = np.where(legal, 1.0 + noise[:, :7], 0.0)
    return priors / priors.sum(1, keepdims=True), noise[:, 7] / 504.5 - 1


def side_by_side(openings: tuple[str, ...], tactics: bool = False) -> Search:
    own, both = np.array([rules.own_and_both(rules.read(text)) for text in openings]).T
    return Search(own, both, tactics)


@pytest.mark.parametrize(("visits", "tactics"), [(1, False), (50, False), (300, False), (300, True)])
def test_it_visits_what_a_plain_recursive_search_visits(visits: int, tactics: bool) -> None:
    search = side_by_side(OPENINGS, tactics)
    search.run(guess, visits, C)
    for game, text in enumerate(OPENINGS):
        root = searched(rules.read(text), guess, visits, C, tactics)
        todo = [(root, 0)]
        while todo:
            node, place = todo.pop()
            assert search.N[game, place].tolist() == node.N
            assert search.W[game, place] == pytest.approx(node.W, abs=1e-12)
            assert search.P[game, place] == pytest.approx(node.P)
            for move, below in node.below.items():
                assert search.child[game, place, move] > 0
                todo.append((below, int(search.child[game, place, move])))
        assert search.value()[game] == pytest.approx((search.V[game, 0] + sum(root.W)) / (1 + visits))


def random_positions(games: int, seed: int) -> list[Position]:
    """Those of random games, but for their ends."""
    draws, found = np.random.default_rng(seed), []
    for _ in range(games):
        position = rules.start()
        while rules.outcome(position) is None:
            found.append(position)
            position = rules.after(position, int(draws.choice(rules.legal(position))))
    return found


def test_the_columns_worth_a_visit_win_immediately_or_prevent_a_loss() -> None:
    positions = random_positions(60, seed=8)
    own, both = np.array([rules.own_and_both(position) for position in positions]).T
    columns, decided = sensible(own, both)
    verdicts = {1: 0, -1: 0, 0: 0}
    for position, chosen, verdict in zip(positions, columns, decided, strict=True):
        wins, safe = winning_moves(position), safe_moves(position)
        assert set(np.flatnonzero(chosen)) <= set(rules.legal(position))
        if wins:
            assert (np.flatnonzero(chosen).tolist(), verdict) == (wins, 1)
        elif safe:
            assert np.flatnonzero(chosen).tolist() == safe
            assert np.isnan(verdict)
        else:
            assert np.flatnonzero(chosen).tolist() == (threatened_columns(position) or [*rules.legal(position)])
            assert verdict == -1
        verdicts[int(np.nan_to_num(verdict))] += 1
    assert min(verdicts.values()) > 5


def test_a_search_with_tactics_asks_about_nothing_that_is_decided() -> None:
    asked: list[int] = []

    def ask(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        columns, decided = sensible(own, both)
        assert np.isnan(decided).all()
        asked.append(len(own))
        priors, values = guess(own, both)
        if len(asked) % 2:  # a network may be so sure of a move that is left out that the rest rounds to 0
            priors[columns] = 0.0
        return priors, values

    search = side_by_side((*OPENINGS, "121212", "3344"), tactics=True)
    search.run(ask, 100, C)
    assert 0 < sum(asked) < search.size.sum()
    for name in ("P", "W", "V"):
        assert np.isfinite(search.arrays()[name]).all(), name
    assert search.visits()[-2].tolist() == [100, 0, 0, 0, 0, 0, 0]  # X wins in column 1
    assert search.value()[-2] == 1
    assert search.visits()[-1].sum() == 100


def test_games_in_a_batch_equal_each_game_alone() -> None:
    together = side_by_side(OPENINGS)
    together.run(guess, 80, C)
    for game, text in enumerate(OPENINGS):
        alone = Search.of(rules.read(text))
        alone.run(guess, 80, C)
        size = int(alone.size[0])
        assert size == together.size[game]
        for name, array in alone.arrays().items():
            assert np.array_equal(array[0, :size], together.arrays()[name][game, :size]), name


def test_the_tree_below_a_move_is_kept_and_searched_further_as_if_nothing_had_happened() -> None:
    search = side_by_side(OPENINGS)
    search.run(guess, 120, C)
    moves = search.visits().argmax(1)
    before = {name: array.copy() for name, array in search.arrays().items()}
    search.advance(moves)
    for game, text in enumerate(OPENINGS):
        assert (search.own[game], search.both[game]) == rules.own_and_both(rules.after(rules.read(text), moves[game]))
        todo = [(int(before["child"][game, 0, moves[game]]), 0)]
        seen = 0
        while todo:
            old, new = todo.pop()
            seen += 1
            for name in ("N", "W", "P", "V"):
                assert np.array_equal(before[name][game, old], search.arrays()[name][game, new]), name
            for a, b in zip(before["child"][game, old], search.child[game, new], strict=True):
                assert (a > 0) == (b > 0)
                assert a > 0 or a == b
                todo += [(int(a), int(b))] if a > 0 else []
        assert seen == search.size[game]
    search.run(guess, 40, C)
    kept = before["N"][np.arange(len(OPENINGS)), before["child"][np.arange(len(OPENINGS)), 0, moves]].sum(1)
    assert np.array_equal(search.visits().sum(1), kept + 40)


@pytest.mark.parametrize("text", ["121212", "445566", "1223433414"])  # upwards, to either side, along a diagonal
def test_a_win_in_one_is_found_without_any_knowledge(text: str) -> None:
    position = rules.read(text)
    wins = [move for move in rules.legal(position) if rules.outcome(rules.after(position, move)) not in (None, 0)]
    search = Search.of(position)
    search.run(Rollouts(np.random.default_rng(1)), 100, C)
    assert search.visits()[0].argmax() in wins
    assert search.W[0, 0, wins[0]] == search.N[0, 0, wins[0]] > 0  # each visit there was a win


def test_a_threat_is_blocked_by_rollouts() -> None:
    search = Search.of(rules.read("41424"))  # X threatens the fourth in column 4
    search.run(Rollouts(np.random.default_rng(2)), 200, C)
    assert search.visits()[0].argmax() == 3


def test_rollouts_end_as_random_games_do() -> None:
    """Their mean from the start is the first player's advantage under random play, +.11 (games of rules.py here)."""
    draws = np.random.default_rng(3)
    start = np.zeros(20_000, dtype=np.int64)
    priors, values = Rollouts(draws)(start, start)
    assert (priors == 1 / 7).all()
    total = 0
    for _ in range(4000):
        position = rules.start()
        while rules.outcome(position) is None:
            position = rules.after(position, int(draws.choice(rules.legal(position))))
        total += rules.outcome(position) or 0
    assert values.mean() == pytest.approx(total / 4000, abs=4 * (1 / 4000 + 1 / 20_000) ** 0.5)


def test_an_explained_choice_is_the_choice() -> None:
    search = Search.of(rules.read("4444441"))
    search.run(guess, 60, C)
    N, W, P = search.N[0, 0], search.W[0, 0], search.P[0, 0]
    Q, U = selection(N, W, P, C)
    legal = [move for move in range(7) if move != 3]
    scores = {}
    for move in legal:
        why = explain_selection(N, W, P, C, move)
        assert [step.result for step in why.steps] == pytest.approx([Q[move], U[move], Q[move] + U[move]])
        assert miscalculated([*why.steps, *why.meaning], within=1e-3) == []
        scores[move] = why.result
    before = N.copy()
    search.visit(guess, C)
    assert int((search.N[0, 0] - before).argmax()) == max(scores, key=scores.__getitem__)


def test_noise_is_mixed_into_the_legal_priors_alone() -> None:
    search = side_by_side(OPENINGS)
    search.prepare(guess)
    before = search.P[:, 0].copy()
    search.add_noise(0.25, 1.0, np.random.default_rng(4))
    assert search.P[:, 0].sum(1) == pytest.approx(1.0)
    eta = (search.P[:, 0] - 0.75 * before) / 0.25
    assert (eta >= -1e-12).all()
    assert search.P[OPENINGS.index("4444441"), 0, 3] == 0
    assert eta.sum(1) == pytest.approx(1.0)


# The network


def test_planes_show_the_stones_from_the_movers_view() -> None:
    own, both = rules.own_and_both(rules.read("4453"))
    (seen,) = planes(np.array([own]), np.array([both]))
    assert seen[0, 0].tolist() == [0, 0, 0, 1, 1, 0, 0]  # X: columns 4 and 5
    assert (seen[1, 0, 2], seen[1, 1, 3]) == (1, 1)  # O: column 3, and on top of 4
    assert seen[1].sum() == 2
    assert seen[2].sum() == 7
    assert (seen[2, 2, 3], seen[2, 1, 4], seen[2, 0, 0]) == (1, 1, 1)


def test_a_remembered_position_is_asked_about_once_and_mirrored_rightly() -> None:
    asked = []

    def ask(own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(len(own))
        return guess(own, both)

    remembered = Remembered(ask)
    own, both = np.array([rules.own_and_both(rules.read(text)) for text in ("12", "76", "12", "445", "443")]).T
    priors, values = remembered(own, both)
    assert (asked, remembered.asked) == ([2], 2)
    assert np.array_equal(priors[0], priors[1][::-1])
    assert np.array_equal(priors[0], priors[2])
    assert np.array_equal(priors[3], priors[4][::-1])
    assert values[0] == values[1] == values[2]
    again, _ = remembered(own[::-1], both[::-1])
    assert np.array_equal(again, priors[::-1])
    assert asked == [2]
    least = np.minimum(own + both, rules.mirror(own) + rules.mirror(both)) == own + both
    expected, _ = guess(own[least], both[least])
    assert np.array_equal(priors[least], expected)


def test_full_columns_have_no_prior() -> None:
    net = PolicyValueNet(4, 1, torch.Generator().manual_seed(2))
    own, both = np.array([rules.own_and_both(rules.read(text)) for text in ("4444441", "777777")]).T
    priors, values = evaluate(net, own, both)
    assert priors.sum(1) == pytest.approx(1.0)
    assert (priors[0, 3], priors[1, 6]) == (0, 0)
    assert (np.abs(values) <= 1).all()


# Self-play

HOW = Exploring(c=C, temperature=1.0, opening=6, noise=0.25, alpha=1.0)


class Watched(SelfPlay):
    """Keeps of each game that ends how many of its moves were random, and all of them."""

    def end(self, rows: np.ndarray, won: np.ndarray) -> None:
        games = self.__dict__.setdefault("games", [])
        games += [(int(self.begun[row]), self.moves[row, : self.length[row]].tolist()) for row in rows]
        super().end(rows, won)


@pytest.mark.parametrize(("random", "tactics"), [(0, False), (9, True)])
def test_what_is_learnt_is_the_visits_and_the_end_of_each_game(random: int, tactics: bool) -> None:
    replay = Replay(10_000)
    play, draws = Watched(6, replay, tactics=tactics), np.random.default_rng(5)
    while play.ended < 20:
        play.move(guess, 12, replace(HOW, random=random), draws)
    place, won, begun = 0, {1: 0, 0: 0, -1: 0}, []
    for first, game in play.games:
        outcome = rules.outcome(rules.play(game))
        assert outcome is not None
        won[outcome] += 1
        begun.append(first)
        for ply in range(first, len(game)):
            position = rules.play(game[:ply])
            assert (replay.own[place], replay.both[place]) == rules.own_and_both(position)
            assert replay.result[place] == outcome * rules.mover(position)
            assert replay.policy[place].sum() == pytest.approx(1.0)
            assert replay.policy[place, game[ply]] > 0
            assert -1 <= replay.value[place] <= 1
            place += 1
    assert place == len(replay) == replay.written
    assert play.results.tolist() == [won[1], won[0], won[-1]]
    assert len(set(begun)) == 1 if random == 0 else len(set(begun)) > 4


def test_random_openings_have_each_length_and_leave_a_game_to_be_played() -> None:
    play = SelfPlay(3000, Replay(1))
    play.open(np.arange(0, 3000, 2), 6, np.random.default_rng(9))
    assert (play.length[1::2] == 0).all()
    assert (play.begun == play.length).all()
    shares = np.bincount(play.begun[::2], minlength=7) / 1500
    assert shares == pytest.approx(np.full(7, 1 / 7), abs=0.04)
    for row in range(0, 3000, 50):
        moves = play.moves[row]
        position = rules.play(moves[: play.length[row]].tolist())
        assert (moves[play.length[row] :] == -1).all()
        assert rules.outcome(position) is None
        assert (play.search.own[row], play.search.both[row]) == rules.own_and_both(position)
    longest = SelfPlay(400, Replay(1))
    longest.open(np.arange(400), 30, np.random.default_rng(10))
    assert all(rules.outcome(rules.play(m[m >= 0].tolist())) is None for m in longest.moves)
    assert longest.length.max() > 20


def test_a_move_of_self_play_is_that_of_a_search_with_noise_and_drawn_in_the_opening_alone() -> None:
    play, replayed = SelfPlay(5, Replay(1)), np.random.default_rng(11)
    how, draws = replace(HOW, opening=2, temperature=0.5, noise=0.4), np.random.default_rng(11)
    search = side_by_side(("",) * 5)
    for ply in range(5):
        play.move(guess, 20, how, draws)
        if ply:  # the tree below the move is kept
            search.advance(play.moves[:, ply - 1].astype(np.int64))
        search.prepare(guess)
        before = search.P[:, 0].copy()
        search.add_noise(0.4, 1.0, replayed)
        assert not np.allclose(search.P[:, 0], before)
        search.run(guess, 20, C)
        shares = search.visits() / search.visits().sum(1, keepdims=True)
        chance = replayed.random(5)
        assert play.policy[:, ply] == pytest.approx(shares)
        for game in range(5):
            running = np.cumsum(shares[game] ** 2) / (shares[game] ** 2).sum()
            expected = int((running <= chance[game]).sum()) if ply < 2 else int(shares[game].argmax())
            assert play.moves[game, ply] == expected


def test_unseen_positions_and_their_mirror_images_never_enter_the_replay() -> None:
    first = name_of(*np.array([rules.own_and_both(rules.read(text)) for text in ("", "4")]).T)
    seen, replay = Replay(5000), Replay(5000)
    for each, unseen in ((seen, []), (replay, first.tolist())):
        play, draws = SelfPlay(8, each, unseen), np.random.default_rng(6)
        while play.ended < 20:
            play.move(guess, 6, HOW, draws)
    assert np.isin(name_of(seen.own[: len(seen)], seen.both[: len(seen)]), first).sum() >= 20
    assert not np.isin(name_of(replay.own[: len(replay)], replay.both[: len(replay)]), first).any()


def test_the_oldest_positions_of_a_replay_are_overwritten() -> None:
    replay = Replay(5)
    for start in (0, 3, 6):
        rows = np.arange(start, start + 3)
        replay.add(own=rows, both=rows, policy=np.zeros((3, 7)), result=np.zeros(3), value=np.zeros(3))
    assert sorted(replay.own.tolist()) == [4, 5, 6, 7, 8]
    assert (len(replay), replay.written) == (5, 9)


def test_moves_are_drawn_by_their_visits_and_temperature() -> None:
    policy = np.tile(np.array([0.1, 0.0, 0.4, 0.5, 0.0, 0.0, 0.0]), (200_000, 1))
    chance = np.random.default_rng(7).random(len(policy))
    shares = np.bincount(draw_moves(policy, 0.5, chance), minlength=7) / len(policy)
    assert shares == pytest.approx(np.array([0.01, 0, 0.16, 0.25, 0, 0, 0]) / 0.42, abs=0.005)
    assert set(draw_moves(policy, 0.0, chance)) == {3}
    assert draw_moves(policy[:2], 1.0, np.array([0.0, np.nextafter(1.0, 0.0)])).tolist() == [0, 3]
