"""Ratings and tournaments: against closed forms, another solver, games played one by one, and exact matches."""

from __future__ import annotations

from math import log10, sqrt

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.perfect_play import chances
from txlab.engine.games.players import MaskPlayer, Player, perfect_player, random_player, table_player
from txlab.engine.games.tournament import play, ratings, tournament
from txlab.engine.intervals import difference_interval
from txlab.errors import LabError

GRAPH = compile_graph(tictactoe)
RANDOM, PERFECT = random_player(tictactoe), perfect_player(tictactoe)


def stubborn(name: str, last: bool) -> MaskPlayer:
    """Always the first, or always the last, of the moves there are."""
    order = np.arange(len(GRAPH.move), dtype=float)
    seen = (order if last else -order) * GRAPH.mover[GRAPH.before]
    return table_player(GRAPH, seen, name)


class Asked:
    """A player that hides its table, so that it must be asked for every move."""

    def __init__(self, player: MaskPlayer) -> None:
        self.player, self.name, self.game = player, player.name, player.game

    def move(self, position: tuple[int, ...], draw: float) -> int:
        return self.player.move(position, draw)

    def values(self, position: tuple[int, ...]) -> dict[int, float]:
        return {}


def test_two_players_are_as_far_apart_as_their_score_says() -> None:
    """400 log₁₀(s / (n − s)); each is half of that from their mean, and so is its interval."""
    found = ratings(np.array([[0, 300], [100, 0]]), np.zeros((2, 2)), prior=0)
    assert np.ptp(found.rating) == pytest.approx(400 * log10(3), abs=1e-9)
    assert found.rating.mean() == pytest.approx(1500)
    assert found.high - 1500 == pytest.approx(1500 - found.low[::-1])
    assert found.interval(0) == pytest.approx([1500 + end / 2 for end in difference_interval(300, 0, 100)])
    # The same score with draws is surer: here two in three games are drawn, and none lost.
    drawn = ratings(np.array([[0, 200], [0, 0]]), np.array([[0, 200], [200, 0]]), prior=0)
    assert drawn.rating == pytest.approx(found.rating, abs=1e-9)
    assert np.ptp(drawn.interval(0)) < np.ptp(found.interval(0))


def test_ratings_are_those_of_the_slow_sure_algorithm() -> None:
    """Zermelo's iteration: strength = score / Σ games / (strength + strength of the other)."""
    chance = np.random.default_rng(2)
    won = np.triu(chance.integers(5, 60, (6, 6)), 1) + np.tril(chance.integers(5, 60, (6, 6)), -1)
    drawn = chance.integers(0, 40, (6, 6))
    drawn = np.triu(drawn, 1) + np.triu(drawn, 1).T
    games = won + won.T + drawn
    score = (won + drawn / 2).sum(axis=1)
    strength = np.ones(6)
    for _ in range(5000):
        strength = score / (games / (strength[:, None] + strength[None, :])).sum(axis=1)
    expected = 400 * np.log10(strength)
    assert ratings(won, drawn, prior=0).rating - 1500 == pytest.approx(expected - expected.mean(), abs=1e-6)


def test_who_lost_nothing_still_has_a_rating_and_without_the_drawn_game_none() -> None:
    won = np.array([[0, 50, 50], [0, 0, 30], [0, 20, 0]])
    found = ratings(won, np.zeros((3, 3)))
    assert np.isfinite(found.rating).all()
    assert found.rating[0] > found.rating[1] > found.rating[2]
    assert found.high[0] == np.inf
    assert np.isfinite(found.low[0])
    with pytest.raises(LabError, match="has no rating"):
        ratings(won, np.zeros((3, 3)), prior=0)


def test_games_of_tables_are_the_games_that_the_players_would_play() -> None:
    greedy = table_player(GRAPH, np.random.default_rng(1).random(GRAPH.size).round(1), "a table with ties")
    openings = np.arange(0, 80, 2, dtype=np.uint64)
    for first, second in ((RANDOM, PERFECT), (PERFECT, greedy)):
        at_once = play(first, second, openings, openings + np.uint64(1), 2)
        one_by_one = play(Asked(first), second, openings, openings + np.uint64(1), 2)
        assert np.array_equal(at_once[0], one_by_one[0])
        assert at_once[1] == one_by_one[1]


def test_what_is_played_scatters_about_what_is_computed() -> None:
    standings = tournament([RANDOM, PERFECT], 4000, seed=1, opening=0)
    assert standings is not None
    for (i, j), first, second in (((0, 1), RANDOM, PERFECT), ((1, 0), PERFECT, RANDOM)):
        expected = chances(GRAPH, first.policy(), second.policy())
        shares = standings.results[i, j] / 2000
        for share, p in zip(shares, (expected.won, expected.drawn, expected.lost), strict=True):
            assert abs(share - p) <= 4 * sqrt(p * (1 - p) / 2000)


def test_players_without_chance_do_not_play_one_game_a_thousand_times() -> None:
    """Trap 7: without openings they do, and it is seen; with one they play every opening there is, from both seats."""
    players: list[Player] = [stubborn("first", last=False), stubborn("last", last=True)]
    same = tournament(players, 200, seed=3, opening=0)
    varied = tournament(players, 200, seed=3)
    assert same is not None
    assert varied is not None
    assert same.different.tolist() == [[0, 1], [1, 0]]
    assert varied.different.tolist() == [[0, 9], [9, 0]]
    assert (same.results[0, 1] == 100).sum() == 1
    assert (varied.results[0, 1] > 0).sum() > 1


def test_seats_alternate_and_each_opening_is_played_from_both() -> None:
    greedy = stubborn("first", last=False)
    standings = tournament([greedy, RANDOM], 100, seed=9)
    assert standings is not None
    assert standings.results[0, 1].sum() == standings.results[1, 0].sum() == 50
    # a player against its like, without chance of its own: what is won from one seat is lost from the other
    twin = MaskPlayer("twin", GRAPH, greedy.kept)
    mirrored = tournament([greedy, twin], 100, seed=9)
    assert mirrored is not None
    assert mirrored.results[0, 1].tolist() == mirrored.results[1, 0].tolist()


def test_rows_are_sorted_add_up_and_come_again_from_the_same_seed() -> None:
    progress: list[tuple[int, int]] = []
    players = [RANDOM, stubborn("first", last=False), PERFECT]
    standings = tournament(players, 1200, seed=2, say=lambda done, total: progress.append((done, total)))
    again = tournament(players, 1200, seed=2)
    assert standings is not None
    assert again is not None
    assert np.array_equal(standings.results, again.results)
    rows = standings.rows()
    assert [row.name for row in rows] == ["perfect", "first", "random"]
    assert [row.rating for row in rows] == sorted((row.rating for row in rows), reverse=True)
    assert all(row.won + row.drawn + row.lost == row.games == 2400 for row in rows)
    assert sum(row.won for row in rows) == sum(row.lost for row in rows)
    assert rows[0].lost == 0
    assert progress[-1] == (3600, 3600)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_a_tournament_stops_when_it_is_told_to() -> None:
    said: list[int] = []
    late = iter([False, True])
    stopped = tournament(
        [RANDOM, PERFECT], 4000, 1, late=lambda: next(late), say=lambda done, total: said.append(done)
    )  # fmt: skip
    assert stopped is None
    assert said == [1000]


@pytest.mark.parametrize(
    ("players", "games", "why"),
    [([RANDOM], 10, "two players"), ([RANDOM, RANDOM], 10, "need different names"), ([RANDOM, PERFECT], 7, "even")],
)
def test_an_invalid_tournament_is_refused(players: list[Player], games: int, why: str) -> None:
    with pytest.raises(LabError, match=why):
        tournament(players, games, 1)
