"""Records of games: what is written is read again move for move, what others write is read, and what is wrong is one
sentence that names the line."""

from __future__ import annotations

import random
import re
from pathlib import Path
from types import ModuleType

import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import FIRST, SECOND
from txlab.engine.games.match import play_match
from txlab.engine.games.players import RandomPlayer
from txlab.engine.games.records import mat, moves
from txlab.engine.games.records.record import LARGEST, PlayedGame, Record, read_text
from txlab.errors import LabError

# Written by hand, column for column as GNU Backgammon writes: bar 25, off 0, nothing after dice that allow no move.
SAMPLE = """\
; [Site "somewhere"]
; [EventDate "2026.11.25"]

 5 point match

 Game 1
 Ann : 0                        Bob B. : 0
  1)                             31: 8/5 6/5
  2) 64: 24/18 13/9              55: 8/3 8/3 6/1* 6/1
  3) 66:                         Doubles => 2
  4)  Takes                      21: 13/11 6/5
  5)  Doubles => 4                Drops
      Wins 2 points

 Game 2
 Ann : 2                        Bob B. : 0
  1) 42: 8/4 6/4                 21: 24/23 13/11
  2) 11: 8/7 8/7 6/5 6/5         63: 13/4
  3) 65: 24/13                   31:
      Wins 4 points
"""


def random_games(game: ModuleType, count: int, seed: int) -> list[PlayedGame]:
    return list(play_match(RandomPlayer(game, "Ann"), RandomPlayer(game, "Bob"), count, seed))


def test_a_match_of_backgammon_is_read_as_it_was_written() -> None:
    games = random_games(backgammon, 8, 3)
    text = mat.write(backgammon, Record(tuple(games), 7))
    record = mat.read(backgammon, text)
    assert record.length == 7
    assert record.names() == ["Ann", "Bob"]
    for played, again in zip(games, record.games, strict=True):
        view = FIRST if played.names[0] == "Ann" else SECOND  # Ann is on the left, and so the first, in all of them
        assert [turn.move for turn in again.turns] == [turn.move for turn in played.turns]
        assert [turn.position[1:] for turn in again.turns] == [turn.position[1:] for turn in played.turns]
        assert [turn.position[0] * view for turn in again.turns] == [turn.position[0] for turn in played.turns]
        assert again.points_of("Ann") == played.points_of("Ann")
    assert mat.write(backgammon, record) == text


def test_the_columns_are_those_of_gnu_backgammon() -> None:
    text = mat.write(backgammon, Record(tuple(random_games(backgammon, 4, 1)), 0))
    rows = [line for line in text.splitlines() if line[3:4] == ")"]
    assert len(rows) > 50
    for row in rows:
        assert row[:3].strip().isdecimal()
        assert re.fullmatch(r" ([1-6]{2}:.{25,}| {28,}).*", f"{row[4:]:<60}")  # the left throw begins in column 6
        assert len(row) < 33 or re.match(r"[1-6]{2}:", row[33:]) or row[32] != " "  # and the right one in column 34
    assert sum(row[33:].strip() != "" for row in rows) > len(rows) - 5
    wins = [line for line in text.splitlines() if "Wins" in line]
    assert {len(line) - len(line.lstrip()) for line in wins} <= {6, 34}
    assert " 0 point match" in text.splitlines()
    header = next(line for line in text.splitlines() if line.startswith(" Ann : "))
    assert header.index("Bob : ") == 32


def test_a_file_as_gnu_backgammon_writes_it_is_read_with_its_cube() -> None:
    record = mat.read(backgammon, SAMPLE)
    assert mat.recognises(backgammon, SAMPLE)
    assert record.length == 5
    assert record.names() == ["Ann", "Bob B."]
    first, second = record.games
    assert [turn.position[:2] for turn in first.turns] == [
        (SECOND, (3, 1)), (FIRST, (6, 4)), (SECOND, (5, 5)), (FIRST, (6, 6)), (SECOND, (2, 1)),
    ]  # fmt: skip
    assert first.turns[3].move == ()  # on the bar before a point that is closed
    assert first.turns[3].position[2][24] == 1
    assert first.actions == (
        (4, SECOND, "Doubles => 2"), (4, FIRST, "Takes"), (5, FIRST, "Doubles => 4"), (5, SECOND, "Drops"),
    )  # fmt: skip
    assert first.points == 2
    assert first.winner() == "Ann"
    # both dice with one checker; the last throw was not played: the player resigned
    assert [len(turn.move) for turn in second.turns] == [2, 2, 4, 2, 2]
    assert second.points == 4


def test_what_was_read_is_written_with_the_same_rows() -> None:
    record = mat.read(backgammon, SAMPLE)
    again = mat.read(backgammon, mat.write(backgammon, record))
    assert again == record


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("8/5 6/5", "6/5 8/5"),
        ("8/5 6/5", "8/5  6/5*"),
        ("8/3 8/3 6/1* 6/1", "8/3(2) 6/1*(2)"),
        ("8/3 8/3 6/1* 6/1", "6/1(2) 8/3(2)"),
        ("24/18 13/9", "13/9, 24/18".replace(",", "")),
        ("24/13", "24/18/13"),
        ("  2) 64:", "  2)64: "),
        ("6/1* 6/1", "6/1* 6/1        "),
        (" 66:", " 66: Cannot Move"),
        ("; [Site", "# a comment\n; [Site"),
        ("\n", "\r\n"),
        (" 5 point match", "\ufeff 5 Point Match".lstrip("\ufeff")),
    ],
)
def test_a_move_may_be_written_in_other_ways(usual: str, other: str) -> None:
    assert usual in SAMPLE
    assert mat.read(backgammon, SAMPLE.replace(usual, other)).games == mat.read(backgammon, SAMPLE).games


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("8/5 6/5", "8/5 6/4", "line 8: '8/5 6/4' is not a move here (nearest: "),
        ("31: 8/5 6/5", "33: 8/5 8/5 6/3 6/3", "line 8: a game begins with two different dice, not 3-3"),
        ("31: 8/5 6/5", "71: 8/5 6/5", "line 8: '71: 8/5 6/5' is not a throw and a move"),
        ("  2) 64: 24/18 13/9  ", "  2)                   ", "line 9: Bob B. moves out of turn"),
        (" 5 point match", " five point match", "line 4: 'five point match' should be '0 point match'"),
        (" 5 point match", "", "line 6: 'Game 1' should be '0 point match'"),
        (
            " Ann : 0                        Bob B. : 0\n",
            "",
            "line 7: '1)                             31: 8/5 6' should be",
        ),
        ("Wins 2 points", "Wins lots", "line 13: 'Wins lots' should be 'Wins 1 point'"),
        ("Wins 2 points", "Wins 99999 points", "should be 'Wins 1 point'"),
        ("  2) 11:", "  2) 11: 6/5 31:", "line 18: a row has at most one entry for each player"),
        ("Drops\n", "Drops\n  6) 31: 8/5 6/5\n", "line 13: a move after the end of the game: the double was dropped"),
        ("31: 8/5 6/5", "31: Illegal play (x)", "line 8: a game with an illegal play cannot be followed"),
        ('; [Site "somewhere"]', '; [Variation "NackGammon"]', "line 1: only games that begin in the usual position"),
        ("24/13", "24/" + "1" * 30_000, "line 19: it has "),
        ("24/13", "24/٣", "line 19: '24/٣' is not a move here"),
    ],
)
def test_a_mistake_in_a_match_is_a_readable_error_with_its_line(old: str, new: str, sentence: str) -> None:
    assert old in SAMPLE
    with pytest.raises(LabError) as refusal:
        mat.read(backgammon, SAMPLE.replace(old, new, 1))
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith("line ")
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("text", ["", "\n\n", "; a comment\n", " 3 point match\n"])
def test_a_file_without_a_game_says_so(text: str) -> None:
    with pytest.raises(LabError, match=r"there is no (match|game) in it"):
        mat.read(backgammon, text)


def test_no_damage_to_a_file_is_a_crash() -> None:
    draw = random.Random(5)
    signs = "0123456789:/*() \n\t;abWTD\x1b\u202e٣²"
    for _ in range(300):
        damaged = list(SAMPLE)
        for _ in range(draw.randint(1, 5)):
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.choice((0, 1, 1, 8))] = draw.choice(signs) * draw.choice((0, 1, 1, 30))
        said = ""
        try:
            mat.read(backgammon, "".join(damaged))
        except LabError as error:
            said = str(error)
        assert len(said) < 700


def test_names_that_would_break_the_columns_are_written_so_that_they_do_not() -> None:
    names = 'an "evil": name\n Game 2', "x" * 60
    (played, *_) = random_games(backgammon, 2, 1)
    record = Record((PlayedGame(names, played.turns, played.points),))
    again = mat.read(backgammon, mat.write(backgammon, record))
    assert again.games[0].turns == played.turns
    assert again.names() == ["an ?evil?: name? Game 2", "x" * 60]


@pytest.mark.parametrize("game", [connect_four, tictactoe])
def test_games_without_dice_are_strings_of_moves(game: ModuleType) -> None:
    games = random_games(game, 12, 4)
    text = moves.write(game, Record(tuple(games)))
    assert moves.read(game, text).games == tuple(games)
    other = tictactoe if game is connect_four else connect_four
    assert moves.recognises(game, text)
    assert not moves.recognises(other, text)
    assert not mat.recognises(backgammon, text)
    plain = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(plain) == 12
    assert all(set(line) <= set("123456789") for line in plain)
    if game is connect_four:
        for line, played in zip(plain, games, strict=True):
            assert connect_four.outcome(connect_four.play(int(each) - 1 for each in line)) == played.points


def test_positions_for_solvers_are_read_without_their_scores() -> None:
    record = moves.read(connect_four, "2252576253462244111563365343671351441 -1\n\n44455554221 2\n4453\n")
    assert [len(each.turns) for each in record.games] == [37, 11, 4]
    assert {each.points for each in record.games} == {None}
    assert record.names() == ["X", "O"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("4453\n4444444\n", "line 2: move 7: 4 is full; free are 1 2 3 5 6 7"),
        ("4453 x\n", "line 1: move 5: 'x' is not a column; free are 1 2 3 4 5 6 7"),
        ("44538", "line 1: move 5: 8 is not a column; free are"),
        ("12121212", "line 1: move 8: the game had ended before it"),
        ("# nothing\n", "there is no game in it"),
        ('# [Game "tictactoe"]\n1\n', "line 1: these are games of 'tictactoe', not of connect-four"),
        ("4" * 30_000, "line 1: it has 30000 characters"),
        ("٤", "line 1: move 1: '٤' is not a column"),
    ],
)
def test_a_mistake_in_a_string_of_moves_is_a_readable_error(text: str, sentence: str) -> None:
    with pytest.raises(LabError) as refusal:
        moves.read(connect_four, text)
    assert sentence in str(refusal.value)


def test_names_are_quoted_in_tags() -> None:
    names = 'a "b" \\ c', "ü\n[O]"
    (played, *_) = random_games(tictactoe, 2, 1)
    text = moves.write(tictactoe, Record((PlayedGame(names, played.turns, played.points),)))
    assert moves.read(tictactoe, text).games[0].names == ('a "b" \\ c', "ü?[O]")


def test_dice_have_no_strings_of_moves() -> None:
    with pytest.raises(LabError, match="games of Backgammon have dice"):
        moves.write(backgammon, Record(()))


def test_a_file_is_read_only_if_it_is_a_text_of_bounded_size(tmp_path: Path) -> None:
    cases = {"large": b" " * (LARGEST + 1), "binary": b"\0\1\2"}
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LabError, match=str(tmp_path / name)):
            read_text(tmp_path / name)
    with pytest.raises(LabError, match="it cannot be read: No such file"):
        read_text(tmp_path / "missing")
    with pytest.raises(LabError, match="it cannot be read"):
        read_text("/dev/zero")
    (tmp_path / "old").write_bytes("\ufeffJos\u00e9".encode())
    assert read_text(tmp_path / "old") == "José"
    (tmp_path / "older").write_bytes(b"Jos\xe9")
    assert read_text(tmp_path / "older") == "José"
