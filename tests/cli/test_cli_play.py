"""`txlab play`: whole games on a pipe, as JSON and at a terminal; what is wrong is a sentence and asked again."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.backgammon.network import Network
from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.catalogue import game_named
from txlab.engine.games.game import Position
from txlab.engine.games.learner import SelfPlaySettings
from txlab.engine.games.players import RandomPlayer
from txlab.engine.games.playing import Playing
from txlab.engine.games.records import mat
from txlab.experiments.tabular.training import Training

Ask = Any


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_a_game_on_a_pipe_is_a_line_a_move_and_says_who_won(ask: Ask) -> None:
    said = ask("play", "tictactoe", "--seed", "4", stdin="".join(f"{n}\n" for n in range(1, 10)).encode())
    assert said.status == 0
    first, *moves, last = said.out.splitlines()
    assert first == "you are X, perfect is O; squares are 1 to 9, row by row"
    positions = [tictactoe.read(move.split()[2]) for move in moves]
    assert [sum(map(abs, position)) for position in positions] == list(range(1, len(moves) + 1))
    assert [move.split()[0] for move in moves] == ["X", "O", "X", "O", "X", "O", "X", "O", "X"][: len(moves)]
    outcome = tictactoe.outcome(positions[-1])
    assert outcome in (-1, 0)  # no player wins against it
    assert last.startswith("you have lost: O has" if outcome else "drawn")
    assert all("taken; free are" in line for line in said.error.splitlines())
    again = ask("play", "tictactoe", "--seed", "4", stdin="".join(f"{n}\n" for n in range(1, 10)).encode())
    assert again.out == said.out


def test_json_has_an_object_for_everything(ask: Ask) -> None:
    said = ask(
        "play", "tictactoe", "--against", "random", "--second", "--json", "--seed", "1",
        stdin=b"huh\nh\nw\nv\nu\n" + b"".join(b"%d\n" % n for n in range(1, 10)) * 2,
    )  # fmt: skip
    assert said.status == 0
    assert said.error == ""
    found = events(said.out)
    assert found[0] == {"event": "begin", "you": "O", "against": "random"}
    assert {each["event"] for each in found} == {"begin", "move", "wrong", "hint", "why", "values", "end"}
    moves = [each for each in found if each["event"] == "move"]
    assert moves[0]["sign"] == "X"
    assert moves[0]["by"] == "random"
    position = tictactoe.read(moves[-1]["position"])
    outcome = tictactoe.outcome(position)
    end = found[-1]
    assert end["winner"] == {1: "X", -1: "O", 0: None}[outcome or 0]
    assert end["you"] == {1: "lost", -1: "won", 0: "drawn"}[outcome or 0]


def test_a_hint_a_value_and_a_reason_before_the_move(ask: Ask) -> None:
    said = ask("play", "tictactoe", "--seed", "2", stdin=b"5\nh\nv\nw 3\nu\nq\n")
    lines = said.out.splitlines()
    assert any(line.startswith("hint ") and line.endswith(": draws") for line in lines)
    assert any(re.fullmatch(r"values (\d (\.00|−1)(, )?)+", line) for line in lines)
    assert any(line.startswith("why is ") for line in lines)
    assert "back  .../.../..." in lines
    assert lines[-1] == "left after 0 moves; the game has no winner"


@pytest.mark.parametrize("games", [0, 400])
def test_what_learns_first_sees_what_so_much_learning_gives(ask: Ask, games: int) -> None:
    said = ask(
        "play", "tictactoe", "--against", "td", "--games", str(games), "--seed", "3", "--values", "--json", stdin=b"q"
    )
    training = Training(SelfPlaySettings(), 3)
    training.run(games)
    values = training.player().values(tictactoe.start())
    assert events(said.out)[1]["values"] == {str(square + 1): value for square, value in values.items()}


def test_the_end_of_the_input_is_not_an_error(ask: Ask) -> None:
    said = ask("play", "tictactoe", stdin=b"")
    assert said.status == 0
    assert said.error == ""
    assert said.out.endswith("left after 0 moves; the game has no winner\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chess"], "'chess' is not known; allowed: tictactoe"),
        (["tictacto"], "(nearest: "),
        (["tictactoe", "--against", "perfct"], "(nearest: "),
        (["tictactoe", "--against", "nobody"], "or one of perfect, random, td"),
        (["tictactoe", "--games", "10"], "give it with --against td"),
        (["tictactoe", "--against", "td", "--games", "1000000"], "at most 100000"),
        (["connect-four", "--against", "td"], "or one of perfect, search, random"),
        (["backgammon", "--against", "perfect"], "or one of random"),
        (["backgammon", "--tournament"], "txlab match compares two of its players"),
        (["backgammon", "--record", "nowhere/at/all.mat"], "there is no folder nowhere/at"),
        (["tictactoe", "--seat", "third"], "'third' is not allowed"),
    ],
)
def test_wrong_words_are_readable_errors(ask: Ask, words: Sequence[str], sentence: str) -> None:
    assert sentence in ask("play", *words).refused


def test_wrong_moves_are_errors_without_terminal_control_characters(ask: Ask) -> None:
    hostile = "\x1b]0;owned\x07" + "y" * 500
    said = ask("play", "tictactoe", stdin=f"0\n10\n٣\n{hostile}\n\n99999999999999999999\n".encode() + b"\xff\n")
    assert said.status == 0
    assert len(said.error.splitlines()) == 7
    assert all("free are 1 2 3 4 5 6 7 8 9" in line for line in said.error.splitlines())
    assert max(map(len, said.error.splitlines())) < 200


def test_a_run_of_another_kind_does_not_play(ask: Ask, tiny_run: Path) -> None:
    assert (
        "which has no player; those that have: connect-four, self-play, td-gammon"
        in ask("play", "tictactoe", "--against", "latest").refused
    )


def test_the_ratings_put_the_perfect_player_first(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.cli.play_table.BETWEEN_TWO", 200)
    rows = ask("play", "tictactoe", "--tournament", "--games", "200", "--json").json["players"]
    assert rows[0]["name"] == "perfect"
    assert {row["name"] for row in rows} == {"perfect", "random", *(f"TD(0), {n} games" for n in (0, 100, 200))}
    assert all(row["won"] + row["drawn"] + row["lost"] == row["games"] == 800 for row in rows)
    table = ask("play", "tictactoe", "--tournament", "--games", "0").out.splitlines()
    assert table[0].split() == ["player", "rating", "95", "%", "interval", "won", "drawn", "lost"]
    assert len(table) == 6


def test_help_needs_no_numpy() -> None:
    code = "import sys; import txlab.cli.play; sys.exit(any(m in sys.modules for m in ('numpy', 'torch', 'textual')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_at_a_terminal_the_board_is_drawn_and_the_user_is_asked(tmp_path: Path) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        environment = os.environ | {"TERM": "xterm-256color", "TXLAB_RUNS": str(tmp_path), "NO_COLOR": ""}
        words = ["-m", "txlab", "play", "tictactoe", "--seed", "1"]
        os.execve(sys.executable, [sys.executable, *words], environment)
    said = b""

    def until(text: str) -> None:
        nonlocal said
        while text.encode() not in said:
            assert select.select([fd], [], [], 40.0)[0], said.decode()
            said += os.read(fd, 65536)

    until("q quit > ")
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", said).decode()
    assert "│     2     │" in plain
    assert "───────────┼───────────┼───────────" in plain
    said = b""
    os.write(fd, b"5\n")
    until("q quit > ")
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", said).decode()
    assert "perfect takes " in plain
    assert "│  ▀▙▖ ▗▟▀  │" in plain
    os.write(fd, b"\x04")
    until("left after 2 moves; the game has no winner")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(fd)


def test_a_game_with_dice_on_a_pipe_has_its_throws_and_is_the_same_again(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "game.mat"
    words = ("play", "backgammon", "--against", "random", "--seed", "3", "--record", str(file))
    moves = b"24/20 24/21\nbogus\nq\n"
    said = ask(*words, stdin=moves)
    lines = said.out.splitlines()
    assert lines[0].startswith("you are X, random is O; moves are written as 8/5 6/5")
    assert lines[0].endswith("the dice follow from --seed 3")
    assert lines[1] == "X throws 4-3"
    assert re.fullmatch(r"X 24/20 24/21   \S{14} O   you", lines[2])
    assert re.fullmatch(r"O throws \d-\d", lines[3])
    assert re.fullmatch(r"O .+   \S{14} X   random", lines[4])
    assert lines[-1] == "left after 2 moves; the game has no winner"
    assert "'bogus' is not a move here; " in said.error
    assert ask(*words, stdin=moves).out == said.out
    (game,) = mat.read(backgammon, file.read_text()).games
    assert game.names == ("you", "random")
    assert backgammon.name_of_move(*game.turns[0]) == "24/20 24/21"
    assert game.points is None


def test_a_move_that_is_taken_back_is_followed_by_the_same_dice(ask: Ask) -> None:
    words = ("play", "backgammon", "--against", "random", "--seed", "3", "--json")
    found = events(ask(*words, stdin=b"24/20 24/21\nu\n24/20, 24/21\n24/20 24/21\nq\n").out)
    thrown = [(each["sign"], each["dice"]) for each in found if each["event"] == "throw"]
    assert thrown[0] == ("X", "4-3")
    assert thrown[1:3] == thrown[3:5]
    assert found[0] == {"event": "begin", "you": "X", "against": "random", "seed": 3}
    assert [each["event"] for each in found if each["event"] in ("back", "wrong", "left")] == ["back", "wrong", "left"]
    moves = [(each["sign"], each["move"]) for each in found if each["event"] == "move"]
    assert moves[0] == ("X", "24/20 24/21")
    assert moves[:2] == moves[2:]


def test_a_player_who_cannot_move_is_not_asked(ask: Ask) -> None:
    chance = random.Random(1)
    lines = b"".join(b"%d\n" % chance.randrange(9) for _ in range(3))  # no moves: they are refused
    words = ("play", "backgammon", "--against", "random", "--json", "--seed")
    playing = Playing(backgammon, 0)
    for seed in range(200):  # a short game in which a side cannot move
        playing = Playing(backgammon, seed)
        playing.throw_all()
        while len(playing.moves) < 24 and not playing.ended:
            legal = playing.game.legal(playing.position)
            player = RandomPlayer(backgammon) if playing.mover < 0 else None
            playing.go_on([player.move(playing.position, playing.draw) if player else legal[0]])
        if any(move == () and playing.side_of(number) > 0 for number, move in enumerate(playing.moves)):
            break
    own = [name for number, name in enumerate(playing.names()) if playing.side_of(number) > 0 and name != "no move"]
    found = events(ask(*words, str(playing.seed), stdin=lines + "\n".join([*own, "q"]).encode()).out)
    made = [each["move"] for each in found if each["event"] == "move"]
    assert made[: len(playing.moves)] == playing.names()
    assert "no move" in made


def test_connect_four_is_played_by_columns_against_what_does_not_call_a_guess_perfect(ask: Ask) -> None:
    said = ask("play", "connect-four", "--seat", "second", "--seed", "2", stdin=b"8\n4\nh\nw\nq\n")
    lines = said.out.splitlines()
    assert re.match(r"you are O, perfect from move \d+ is X; columns are 1 to 7", lines[0])
    assert re.fullmatch(r"X [1-7]   \S+   perfect from move \d+", lines[1])
    assert lines[2].startswith("O 4   ")
    assert "txlab: 8 is not a column; free are 1 2 3 4 5 6 7; h hints" in said.error
    (hint,) = (line for line in lines if line.startswith("hint "))
    assert "search" in hint  # so early the value of a move is unknown
    assert any(line.startswith("why ") for line in lines)
    found = events(ask("play", "connect-four", "--against", "random", "--json", stdin=b"4\nq\n").out)
    assert found[1]["column"] == 4


def test_the_player_of_a_run_at_a_step_values_moves(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def player_named(name: str, looking: int | None = None) -> NetworkPlayer:
        asked.append(name)
        return NetworkPlayer(name, Network.initialize(4, 1))

    monkeypatch.setattr("txlab.runs.models.player_named", player_named)
    said = ask("play", "backgammon", "--against", "gammon@20", "--seed", "3", stdin=b"v\nh\nw 24/20 24/21\nq\n")
    assert asked == ["gammon@20"]
    assert re.search(r"^values .*24/20 24/21 [+−]?\d?\.\d{3}", said.out, re.MULTILINE)
    assert re.search(r"^hint [^:]+: [+−]?\d?\.\d{3}, \d+ % \(points that gammon@20 expects\)$", said.out, re.MULTILINE)
    assert "points for 24/20 24/21?" in said.out
    assert "gammon@20 plays Backgammon" in ask("play", "tictactoe", "--against", "gammon@20").refused


class Seer(RandomPlayer):
    """Sees some values of tic-tac-toe."""

    def values(self, position: Position) -> dict[int, float]:
        return {1: -0.65, 2: -0.91, 3: 0.0, 5: 0.1, 7: 0.2}


def test_every_square_at_a_terminal_has_its_own_number_before_and_after_it_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from txlab.cli.play_table import AtTerminal

    playing = Playing(tictactoe, 1)
    playing.go_on([4, 0, 8, 6])
    for seer in (None, Seer(tictactoe)):
        AtTerminal(game_named("tictactoe")).board(playing, 1, seer)
        board = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        numbers = re.findall(r"(?<![.\d])[1-9](?![\d])", board)
        assert sorted(numbers) == list("123456789")
        assert (seer is None) or numbers == list("123456789")
