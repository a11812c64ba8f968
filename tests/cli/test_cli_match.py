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
from txlab.engine.games.players import Player, RandomPlayer, perfect_player
from txlab.engine.games.records import mat, moves
from txlab.engine.games.records.record import Record
from txlab.runs.models import player_of_run
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

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
def test_wrong_words_are_readable_errors(ask: Ask, words: list[str], sentence: str) -> None:
    assert sentence in ask("match", *words).refused


def test_a_match_that_is_interrupted_gives_what_was_played(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*words: Any, **more: Any) -> Any:
        for number, each in enumerate(play_match(*words, **more)):
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
    def interrupted(*words: Any, **more: Any) -> Any:
        yield next(play_match(*words, **more))
        raise KeyboardInterrupt

    monkeypatch.setattr("txlab.engine.games.match.play_match", interrupted)
    said = ask("match", "perfect", "random", "--game", "tictactoe")
    assert "is not known yet: no pair of games is complete" in said.out
    assert said.status == 130


# How far a run looks ahead

NETWORK = """
kind = "td-gammon"
learn = {units = 4, games = 40, games_per_step = 20}
match = {games = 2, copies = [0]}
record = {evaluate_every = 0, frame_every = 1, checkpoint_every = 0}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of backgammon, "network"."""
    root = tmp_path_factory.mktemp("runs")
    (root / "network.toml").write_text(NETWORK)
    run = prepare(load_scenario(root / "network.toml", []), root=root)
    execute(run)
    run.rename(root / "network")
    return root


@pytest.fixture
def shell(ask: Ask, runs: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("TXLAB_RUNS", str(runs))
    return ask


def test_each_player_of_a_match_looks_ahead_as_far_as_was_said(shell: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def play(a: Player, b: Player, *rest: Any, **more: Any) -> Any:
        asked.append((getattr(a, "plies", 0), getattr(b, "plies", 0)))
        return play_match(a, b, *rest, **more)

    monkeypatch.setattr("txlab.engine.games.match.play_match", play)
    words = ("match", "network", "network@1", "--games", "2", "--json")
    assert shell(*words).json["players"] == ["network", "network@1"]
    assert shell(*words, "--plies", "2").json["players"] == ["network, 2 plies", "network@1, 2 plies"]
    same = ("match", "network", "network", "--games", "2", "--json", "--plies", "1,2")
    assert shell(*same).json["players"] == ["network, 1 ply", "network, 2 plies"]
    against = ("match", "random", "network", "--games", "2", "--json", "--plies", "2")
    assert shell(*against).json["players"] == ["random", "network, 2 plies"]
    assert asked == [(1, 1), (2, 2), (1, 2), (0, 2)]


def test_an_opponent_and_a_judge_look_ahead_as_far_as_was_said(shell: Ask, runs: Path, tmp_path: Path) -> None:
    player = player_of_run(runs / "network", looking=2)
    record = tmp_path / "games.mat"
    shell("match", "random", "random", "--game", "backgammon", "--games", "2", "--record", str(record))
    for plies in (1, 2):
        found = events(shell("analyse", str(record), "--judge", "network", "--plies", str(plies), "--json").out)
        assert found[0]["judge"] == ("network, 1 ply", "network, 2 plies")[plies - 1]
        for each in [each for each in found if each["event"] == "move" and each["value"] is not None][:5]:
            position = backgammon.read(each["position"])
            values = {backgammon.name_of_move(position, move): value for move, value in player.values(position).items()}
            assert (values.get(each["move"]) == each["value"]) == (plies == 2 or each["choices"] == 1)
    said = shell("play", "backgammon", "--against", "network", "--plies", "2", "--seed", "3", stdin=b"q\n")
    assert "network, 2 plies" in said.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["match", "network", "network@1", "--plies", "3"], "--plies: 3 is not allowed; allowed: 1 to 2"),
        (["match", "network", "network@1", "--plies", "1,0"], "--plies: 0 is not allowed; allowed: 1 to 2"),
        (["match", "network", "network@1", "--plies", "two"], "'two' is not allowed; give a number, or as in 1,2"),
        (["match", "network", "network@1", "--plies", "1,2,1"], "'1,2,1' is not allowed"),
        (["match", "network", "random", "--plies", "1,2"], "--plies is for runs; random is not a run"),
        (["match", "random", "random", "--game", "backgammon", "--plies", "2"], "--plies is for runs"),
        (["match", "network", "random", "--visits", "2"], "network looks ahead by plies; give --plies"),
        (["match", "network", "random", "--visits", "2", "--plies", "2"], "give one of them"),
        (["play", "backgammon", "--against", "network", "--plies", "3"], "--plies: 3 is not allowed; allowed: 1 to 2"),
        (["play", "backgammon", "--against", "random", "--plies", "2"], "--plies is for runs; random is not a run"),
        (["play", "connect-four", "--plies", "2"], "--plies is for runs; perfect is not a run"),
    ],
)
def test_a_wrong_search_depth_is_refused_with_an_error(shell: Ask, words: list[str], sentence: str) -> None:
    assert sentence in shell(*words).refused


def test_a_match_of_networks_is_played_as_whole_games_with_the_same_results(shell: Ask, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    words = ["match", "network", "random", "--games", "50", "--seed", "4"]
    whole, single = shell(*words).out, shell(*words, "--record", str(tmp_path / "games.mat")).out
    assert whole.splitlines()[-1] == "played as whole games, compiled"
    assert single.splitlines()[-1] == "played move by move"
    assert whole.splitlines()[:-1] == single.splitlines()[:-1]
    assert shell(*words, "--json").json["played"] == "as whole games, compiled"
    assert shell(*words[:-4], "--games", "2", "--json").json["played"] == "move by move"


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
    assert "fits several games; give --game with one of tictactoe, connect-four" in ask("analyse", str(file)).refused
    file.write_text("44444433333322\n", encoding="utf-8")
    assert events(ask("analyse", str(file), "--json").out)[0]["game"] == "connect-four"
    file.write_text(" 1 point match\n\n Game 1\n Ann : 0        Bob : 0\n  1) 31: 8/5 6/5\n", encoding="utf-8")
    assert "there is no run that plays Backgammon to judge by; give --judge" in ask("analyse", str(file)).refused
    assert "not judged" in ask("analyse", str(file), "--judge", "random").out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b" 1 point match\n Game 1\n A : 0   B : 0\n 1) 31: 8/3\n", "line 4: '8/3' is not a move here"),
        (b"44448888\n", "it fits no known game"),
        (b"\x1b]0;x\x07\n", "it fits no known game"),
        (b"\0", "it is not a text"),
        (b"", "there is no game in it"),
    ],
)
def test_a_mistake_in_a_file_is_a_readable_error(ask: Ask, tmp_path: Path, text: bytes, sentence: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    assert sentence in ask("analyse", str(file)).refused


def test_help_needs_no_numpy() -> None:
    code = (
        "import sys; import txlab.cli.match, txlab.cli.analyse, txlab.engine.games.catalogue;"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'torch', 'numba', 'textual')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
