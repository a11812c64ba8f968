"""`txlab match` and `txlab analyse`: results with their uncertainty, files that others read, and what moves cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.connect_four.solver import sign, solver
from txlab.engine.games.match import play_match
from txlab.engine.games.players import RandomPlayer, perfect_player
from txlab.engine.games.records import mat, moves
from txlab.engine.games.records.record import Record

Ask = Any


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_a_match_says_who_is_better_and_how_sure_that_is(ask: Ask) -> None:
    said = ask("match", "perfect", "random", "--game", "tictactoe", "--games", "40", "--seed", "3")
    lines = said.out.splitlines()
    assert lines[0] == "Tic-tac-toe: 40 games, two with the same first moves, the seats exchanged"
    assert lines[2].split() == ["player", "won", "drawn", "lost", "points", "a", "game"]
    perfect, random = lines[3].split(), lines[4].split()
    assert (perfect[0], perfect[3]) == ("perfect", "0")
    assert perfect[1] == random[3]
    assert int(perfect[1]) + int(perfect[2]) == 40
    assert "95 % interval" in lines[6]
    assert lines[7].startswith("probability that perfect is better than random: > .999, by Student's distribution")
    assert said.error == ""


def test_the_same_match_as_json_has_the_same_numbers(ask: Ask) -> None:
    words = ("match", "random", "perfect", "--game", "tictactoe", "--games", "20", "--seed", "1", "--json")
    found = ask(*words).json
    assert found["game"] == "tictactoe"
    assert found["players"] == ["random", "perfect"]
    assert found["won"] + found["drawn"] + found["lost"] == found["games"] == found["of"] == 20
    assert found["games_by_points"] == {"-1": found["lost"], "0": found["drawn"]}
    assert found["points_a_game"] == -found["lost"] / 20
    assert found["pairs"] == 10
    low, high = found["interval"]
    assert low < found["points_a_game"] < high
    assert found["probability_better"] < 0.05
    assert ask(*words).json == found


def test_gammons_are_counted_and_the_games_are_written_as_others_read_them(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "games.mat"
    words = ("match", "random", "random", "--game", "backgammon", "--games", "12", "--record", str(file))
    lines = ask(*words).out.splitlines()
    assert lines[0] == "Backgammon: 12 games, two with the same dice, the seats exchanged"
    assert lines[2].split() == [
        "player", "won", "gammons", "backgammons", "drawn", "lost", "points", "a", "game",
    ]  # fmt: skip
    record = mat.read(backgammon, file.read_text())
    assert record.names() == ["random", "random (2)"]
    points = [each.points_of("random") or 0 for each in record.games]
    row = lines[3].split()
    assert int(row[1]) == sum(each > 0 for each in points)
    assert int(row[2]) == points.count(2)
    assert int(row[3]) == points.count(3)
    assert int(row[5]) == sum(each < 0 for each in points)
    assert row[6] == f"{sum(points):+d}".replace("-", "−")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["perfect", "random"], "which game? give --game with one of tictactoe, connect-four"),
        (
            ["perfect", "random", "--game", "chess"],
            "'chess' is not known; allowed: tictactoe, connect-four",
        ),
        (["perfect", "randm", "--game", "tictactoe"], "'randm' is not known (nearest: random)"),
        (["perfect", "random", "--game", "tictactoe", "--games", "7"], "7 is not allowed; allowed: even numbers"),
        (["perfect", "random", "--game", "backgammon"], "or one of random"),
        (["nothing@7", "random", "--game", "backgammon"], "PLAYER: "),
        (
            ["td", "random", "--record", "/nowhere/at/all.txt"],
            "all.txt cannot be written: there is no folder",
        ),
    ],
)
def test_wrong_words_are_one_sentence(ask: Ask, words: list[str], sentence: str) -> None:
    assert sentence in ask("match", *words).refused


def test_a_match_that_is_interrupted_gives_what_was_played(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*words: Any) -> Any:
        for number, each in enumerate(play_match(*words)):
            if number == 9:
                raise KeyboardInterrupt
            yield each

    monkeypatch.setattr("txlab.engine.games.match.play_match", interrupted)
    file = tmp_path / "games.txt"
    words = ["match", "perfect", "random", "--game", "tictactoe", "--games", "1000", "--record", str(file)]
    said = ask(*words)
    assert said.status == 130
    assert said.out.startswith("Tic-tac-toe: 9 games of 1 000, ")
    assert "from 4 pairs" in said.out
    assert len(moves.read(tictactoe, file.read_text()).games) == 9


def test_an_interruption_before_the_first_pair_says_that_nothing_is_known(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any) -> Any:
        yield next(play_match(*words))
        raise KeyboardInterrupt

    monkeypatch.setattr("txlab.engine.games.match.play_match", interrupted)
    said = ask("match", "perfect", "random", "--game", "tictactoe")
    assert "is not known yet: no pair of games is complete" in said.out
    assert said.status == 130


# Analysis


def test_a_judge_finds_the_blunders_of_tic_tac_toe(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "games.txt"
    file.write_text('# [Game "tictactoe"]\n# [X "Ann"] [O "Bob"]\n12437\n', encoding="utf-8")
    found = events(ask("analyse", str(file), "--json").out)
    assert found[0] == {
        "event": "begin", "game": "tictactoe", "judge": "perfect", "players": ["Ann", "Bob"], "games": 1,
    }  # fmt: skip
    assert found[1]["winner"] == "Ann"
    position, judge = tictactoe.start(), perfect_player(tictactoe)
    judged = [each for each in found if each["event"] == "move"]
    for each, move in zip(judged, (0, 1, 3, 2, 6), strict=True):
        values = judge.values(position)
        assert each["loss"] == pytest.approx(max(values.values()) - values[move])
        position = tictactoe.after(position, move)
    assert [each["mark"] for each in judged] == ["", "??", "", "", ""]
    ann, bob = found[-2:]
    assert (ann["name"], ann["loss"], ann["marks"]["??"]) == ("Ann", 0, 0)
    assert (bob["name"], bob["loss"], bob["marks"]["??"]) == ("Bob", 1, 1)
    text = ask("analyse", str(file)).out
    assert "game 1: X Ann, O Bob; X wins 1 point" in text
    assert "loses 1.000 ??  best centre" in text
    only = ask("analyse", str(file), "--errors").out.splitlines()
    assert sum("loses" in line for line in only) == 1


def test_connect_four_is_judged_where_it_can_be_solved(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "games.txt"
    games = [
        each for each in play_match(RandomPlayer(connect_four, "A"), RandomPlayer(connect_four, "B"), 20, 5)
        if len(each.turns) > 30
    ][:2]  # fmt: skip
    file.write_text(moves.write(connect_four, Record(tuple(games))), encoding="utf-8")
    found = [each for each in events(ask("analyse", str(file), "--json").out) if each["event"] == "move"]
    judged = [each for each in found if each["loss"] is not None]
    assert judged
    assert min(each["number"] for each in judged) > 10
    assert all(each["loss"] is None for each in found if each["number"] <= 10)
    for each in judged:
        position = connect_four.read(each["position"])
        scores = {move: sign(score) for move, score in solver().scores(position).items()}
        assert each["loss"] == max(scores.values()) - scores[int(each["move"]) - 1]


def test_the_game_of_a_file_is_found_or_asked_for(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "games"
    file.write_text("1234567\n", encoding="utf-8")
    assert (
        "can be of several games; give --game with one of tictactoe, connect-four" in ask("analyse", str(file)).refused
    )
    file.write_text("44444433333322\n", encoding="utf-8")
    assert events(ask("analyse", str(file), "--json").out)[0]["game"] == "connect-four"
    file.write_text(" 1 point match\n\n Game 1\n Ann : 0        Bob : 0\n  1) 31: 8/5 6/5\n", encoding="utf-8")
    assert "there is no run that plays Backgammon to judge by; give --judge" in ask("analyse", str(file)).refused
    assert "not judged" in ask("analyse", str(file), "--judge", "random").out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b" 1 point match\n Game 1\n A : 0   B : 0\n 1) 31: 8/3\n", "line 4: '8/3' is not a move here"),
        (b"44448888\n", "it is of no game that is known"),
        (b"\x1b]0;x\x07\n", "it is of no game that is known"),
        (b"\0", "it is not a text"),
        (b"", "there is no game in it"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(ask: Ask, tmp_path: Path, text: bytes, sentence: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    assert sentence in ask("analyse", str(file)).refused


def test_help_needs_no_numpy() -> None:
    code = (
        "import sys; import txlab.cli.match, txlab.cli.analyse, txlab.engine.games.catalogue;"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'torch', 'numba', 'textual')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
