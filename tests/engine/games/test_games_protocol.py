"""What every game of the catalogue promises (game.py), in random games of each."""

from __future__ import annotations

import random
from math import isclose

import pytest
from calculator import contradictions
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.backgammon.rules import START, swap_sides
from txlab.engine.games.catalogue import game_named, games
from txlab.engine.games.game import CHANCE, FIRST, SECOND, Game, Position, read_move, throw_dice
from txlab.engine.games.players import Player, RandomPlayer
from txlab.errors import LabError

NAMES = sorted(games())
seeds = st.integers(0, 2**32)


def game_of(game: Game, seed: int) -> list[Position]:
    """The positions of a game of random moves and throws."""
    chance = random.Random(seed)
    found = [game.start()]
    while game.outcome(found[-1]) is None:
        position = found[-1]
        if game.mover(position) == CHANCE:
            found.append(throw_dice(game, position, chance.random()))
        else:
            found.append(game.after(position, chance.choice(game.legal(position))))
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(seed=seeds)
def test_every_position_of_a_game_keeps_the_promises_of_the_protocol(name: str, seed: int) -> None:
    game = game_named(name).game
    positions = game_of(game, seed)
    for position in positions[:-1]:
        hash(position)
        assert game.read(game.text(position)) == position
        assert game.outcome(position) is None
        legal, chances = game.legal(position), game.chances(position)
        if game.mover(position) == CHANCE:
            assert not legal
            assert not game.ways(position)
            assert isclose(sum(probability for _, probability in chances), 1)
            assert all(game.mover(reached) in (FIRST, SECOND) for reached, _ in chances)
            assert len({reached for reached, _ in chances}) == len(chances)
            continue
        assert not chances
        assert game.mover(position) in (FIRST, SECOND)
        assert len(set(legal)) == len(legal) > 0
        assert len({game.after(position, move) for move in legal}) == len(legal)
        assert len({game.name_of_move(position, move) for move in legal}) == len(legal)
        assert set(game.ways(position).values()) == set(legal)
        for move in (legal[0], legal[-1]):
            assert read_move(game, position, game.name_of_move(position, move).upper()) == move
    last = positions[-1]
    assert game.outcome(last) is not None
    assert not game.legal(last)
    assert not game.ways(last)
    assert not game.chances(last)
    assert game.read(game.text(last)) == last


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_no_way_of_a_move_is_a_prefix_of_another(name: str, seed: int) -> None:
    """So a move is complete when its places are chosen, and none is needed to say so."""
    game = game_named(name).game
    for position in game_of(game, seed)[:40]:
        ways = game.ways(position)
        assert not any(places[:cut] in ways for places in ways for cut in range(len(places)))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_move_or_a_position_is_refused_with_an_error(name: str) -> None:
    game = game_named(name).game
    position = game_of(game, 1)[3]
    for text in ("", "  ", "99", "bar/off", "x" * 500, "[red]1[/]", "8/5 8/5 8/5 8/5 8/5", "\x00", "²"):
        with pytest.raises(LabError):
            read_move(game, position, text)
        if text.strip():  # no text is no move made: the start of Connect Four
            with pytest.raises(LabError):
                game.read(text)
    last = game_of(game, 1)[-1]
    for there, move in ((last, game.legal(game_of(game, 1)[-2])[0]), (position, None), (position, "no such move")):
        with pytest.raises((LabError, TypeError)):
            game.after(there, move)


@pytest.mark.parametrize("name", NAMES)
def test_the_players_of_the_catalogue_that_need_no_run_make_legal_moves_and_value_them(name: str) -> None:
    entry = game_named(name)
    position = game_of(entry.game, 2)[-4]
    for named in entry.players:
        player = entry.player(named.name)
        assert isinstance(player, Player)
        while entry.game.mover(position) == CHANCE:
            position = throw_dice(entry.game, position, 0.5)
        assert player.move(position, 0.999) in entry.game.legal(position)
        values = player.values(position)
        assert not values or set(values) == set(entry.game.legal(position))
        assert (player.explain(position, entry.game.legal(position)[0]) is None) == (not values)
        for move, value in values.items():
            why = player.explain(position, move)
            assert why is not None
            assert contradictions(why) == []
            assert why.result == pytest.approx(value), named.name


def test_a_random_player_chooses_each_move_equally_often() -> None:
    game = game_named("connect-four").game
    player = RandomPlayer(game)
    taken = [player.move(game.start(), (k + 0.5) / 700) for k in range(700)]
    assert [taken.count(move) for move in range(7)] == [100] * 7


def test_an_unknown_game_or_player_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LabError, match="backgammon"):
        game_named("bakgammon")
    with pytest.raises(LabError, match="perfect"):
        game_named("tictactoe").player("perfekt")


# Backgammon


def test_the_opening_throw_lets_the_higher_die_begin_and_play_both() -> None:
    found = backgammon.chances(backgammon.start())
    assert len(found) == 30
    assert {(turn, dice) for (turn, dice, *_), _ in found} == {
        (side, (a, b)) for side in (FIRST, SECOND) for a in range(1, 7) for b in range(1, a)
    }


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_the_points_of_a_position_are_those_of_its_mirror_negated(seed: int) -> None:
    for turn, dice, own, other in game_of(backgammon, seed)[1:]:
        here, there = (turn, dice, own, other), (-turn, dice, own, other)
        points = backgammon.outcome(here)
        assert backgammon.outcome(there) == (None if points is None else -points)
        assert backgammon.mover(there) == -backgammon.mover(here)
        assert backgammon.legal(there) == backgammon.legal(here)


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_the_ways_of_a_move_are_all_orders_of_its_single_steps(seed: int) -> None:
    chance = random.Random(seed)
    for position in game_of(backgammon, seed):
        ways = backgammon.ways(position)
        for places in chance.sample(sorted(ways), min(len(ways), 20)):
            hops = list(zip(places[::2], places[1::2], strict=True))
            reached = backgammon.move_along(backgammon.board_of(position), hops)
            assert reached is not None
            assert swap_sides(reached) == backgammon.after(position, ways[places])[2:]


@pytest.mark.parametrize(
    ("dice", "written", "name"),
    [
        ("31", "6/5 8/5", "8/5 6/5"),
        ("31", "8/5  6/5", "8/5 6/5"),
        ("65", "24/13", "24/18 18/13"),
        ("65", "24/18/13", "24/18 18/13"),
        ("44", "24/16(2)", "24/20(2) 20/16(2)"),
        ("66", "24/18(2) 13/7(2)", "24/18(2) 13/7(2)"),
        ("43", "24/20 13/10", "24/20 13/10"),
    ],
)
def test_a_move_is_read_in_the_ways_it_is_written(dice: str, written: str, name: str) -> None:
    position = backgammon.read(f"4HPwATDgc/ABMA X {dice}")
    assert backgammon.name_of_move(position, read_move(backgammon, position, written)) == name


def test_a_star_marks_the_checker_that_is_hit_and_may_be_left_out() -> None:
    own, other = list(START[0]), list(START[1])
    other[23 - 4] = 1
    other[5] -= 1
    position = (FIRST, (3, 1), tuple(own), tuple(other))
    names = [backgammon.name_of_move(position, move) for move in backgammon.legal(position)]
    assert "8/5* 6/5" in names
    assert read_move(backgammon, position, "8/5 6/5") == read_move(backgammon, position, "6/5* 8/5")
    doubled = (FIRST, (1, 1), tuple(own), tuple(other))
    assert "6/5*(2)" in "".join(backgammon.name_of_move(doubled, move) for move in backgammon.legal(doubled))


@pytest.mark.parametrize(
    "text",
    [
        "4HPwATDgc/ABM",  # a letter short
        "4HPwATDgc/ABMB X",  # bits that no position sets
        "////////////AA X",  # hundreds of checkers
        "4HPwATDgc/ABMA Z",
        "4HPwATDgc/ABMA X 71",
        "4HPwATDgc/ABMA X 3",
        "4HPwATDgc/ABMA X 31 X",
        "sGfwATDgc/ABMA",  # whose turn?
        "4HPwATDgc/ABMA X ³¹",
    ],
)
def test_a_position_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(LabError):
        backgammon.read(text)


def test_position_ids_are_those_of_gnubg() -> None:
    gnubg = pytest.importorskip("gnubg_nn", reason="gnubg-nn, the judge of this test, is not installed")
    checked = 0
    for seed in range(20):
        for _, _, own, other in game_of(backgammon, seed):
            written = backgammon.position_id((own, other))
            assert written == gnubg.position_id([list(other), list(own)])
            theirs = gnubg.board_from_position_id(written)
            assert (tuple(theirs[1]), tuple(theirs[0])) == (own, other)
            checked += 1
    assert checked > 1000
