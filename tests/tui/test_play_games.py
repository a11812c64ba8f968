"""Every game on the Play screen: places one after the other, dice that come again, a game that outlives the console."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from picture import text_of
from play_screen import app_on, opened
from recorded import explained, settle
from textual.pilot import Pilot
from waiting import wait_for

from txlab.drawing.boards import board_of, least_columns
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.catalogue import game_named
from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.solver import solver
from txlab.engine.games.game import FIRST, SECOND
from txlab.engine.games.playing import Playing
from txlab.errors import LabError
from txlab.runs import saved_games
from txlab.runs.process import execute, prepare
from txlab.runs.saved_games import GameFile, SavedGame, left_behind, read_saved
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.play.games import GamesPanel, Prepared
from txlab.tui.screens.play.lesson_dialog import Lesson
from txlab.tui.screens.play.screen import TABS, PlayScreen
from txlab.tui.widgets.chart import Chart


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Agents answer soon, and games are kept in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("txlab.tui.screens.play.game.ANSWER", 0.02)
    monkeypatch.setattr("txlab.tui.screens.play.game.NO_CHOICE", 0.02)


async def playing(pilot: Pilot[None], name: str, seed: int) -> PlayScreen:
    """The screen with that game and seed, when the user may move."""
    screen = await opened(pilot)
    screen.games.prepare(game_named(name))
    await settle(pilot, lambda: screen.game.entry.name == name and screen.game.ready)
    screen.game.start(Playing(game_named(name).game, seed))
    await settle(pilot, lambda: screen.game.your_move)
    return screen


async def choose(pilot: Pilot[None], screen: PlayScreen, places: tuple[int, ...]) -> None:
    """Choose these places with the keys."""
    for place in places:
        screen.game.board.go(place)
        await pilot.press("enter")
    await settle(pilot, lambda: screen.game.your_move or screen.game.ended)


async def test_a_move_of_several_places_is_chosen_one_after_the_other_and_escape_takes_one_back(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await playing(pilot, "backgammon", 3)
        game, before = screen.game, screen.game.position
        dice = "-".join(map(str, before[1]))
        assert f"with {dice}" in text_of(app)
        made = len(game.playing.moves)
        places = next(each for each in game.game.ways(before) if len(each) == 4)
        game.board.go(places[0])
        await pilot.press("enter")
        assert game.chosen == places[:1]
        await pilot.press("escape")
        assert game.chosen == ()
        game.board.go(24)  # nothing is on the bar
        await pilot.press("enter")
        assert game.chosen == ()
        assert any("bar is not possible; possible are" in str(each.message) for each in app._notifications)
        await choose(pilot, screen, places)
        assert game.playing.moves[made] == game.game.ways(before)[places]
        assert game.position != before


@pytest.mark.parametrize("seed", [1, 4])
async def test_what_is_taken_back_comes_again_with_the_same_dice(tmp_path: Path, seed: int) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await playing(pilot, "backgammon", seed)
        positions = []
        for _ in range(3):
            positions.append(screen.game.position)
            await choose(pilot, screen, next(iter(screen.game.game.ways(screen.game.position))))
        for expected in reversed(positions):
            await pilot.press("u")
            await settle(pilot, lambda: screen.game.your_move)
            assert screen.game.position == expected
        await choose(pilot, screen, next(iter(screen.game.game.ways(screen.game.position))))
        assert screen.game.position == positions[1]  # the same answer, the same throw


async def test_a_throw_that_allows_no_move_is_played_by_itself_and_said(tmp_path: Path) -> None:
    own = (0,) * 24 + (1,)
    closed = tuple(2 if point < 6 else 0 for point in range(25))
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await playing(pilot, "backgammon", 3)
        game = screen.game
        made = len(game.playing.moves)
        game.running = False
        game.playing.positions[-1] = (FIRST, (2, 1), own, closed)
        assert game.no_choice
        game.proceed()
        await pilot.pause()
        seen = text_of(app)
        await settle(pilot, lambda: len(game.playing.moves) > made)
        assert game.playing.moves[made] == ()
        assert "X cannot move with 2-1" in seen or game.playing.names()[made] == "no move"


async def test_hints_and_w_of_connect_four_come_from_the_solver_where_it_solves(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    moves = rules.read_moves("4444433355522277117711")
    position = rules.play(moves)
    assert rules.plies(position) >= solver().quick_from
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await playing(pilot, "connect-four", 1)
        screen.game.put_moves(moves)
        await settle(pilot, lambda: screen.game.your_move)
        await pilot.press("h")
        scores = solver().scores(screen.game.position)
        best = {move for move, score in scores.items() if score == max(scores.values())}
        await settle(pilot, lambda: set(screen.game.advice.moves_hinted()) == best)
        screen.game.board.go(min(best))
        await pilot.press("w")
        found = await explained(pilot)
        assert found.steps[0].result == scores[min(best)]


@pytest.mark.parametrize("name", ["tictactoe", "connect-four", "backgammon"])
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_game_fits_every_size(tmp_path: Path, name: str, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await playing(pilot, name, 5)
        for columns, rows in ((60, 20), (80, 24), (120, 40), (20, 5)):
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
            text = text_of(app)
            assert not ascii or text.isascii(), sorted({c for c in text if not c.isascii()})
            if columns >= 60:
                assert "Your move" in text
                assert "u undo" in text or not screen.game.playing.moves
        assert app._exception is None


async def test_a_run_is_played_against_as_it_was_at_the_step_that_is_shown_and_its_ladder_is_rated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.tui.screens.play.ratings.FEWER", 10)
    text = """
kind = "td-gammon"
learn = {units = 8, games = 80, games_per_step = 20}
match = {games = 2, copies = [0]}
record = {evaluate_every = 0, frame_every = 1, checkpoint_every = 0}
"""
    (tmp_path / "network.toml").write_text(text)
    run = prepare(load_scenario(tmp_path / "network.toml", []), root=tmp_path)
    execute(run)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.current_run = run
        await app.switch_mode("train")
        await settle(pilot, lambda: app.screen.snap is not None and app.screen.check_action("game", ()))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await pilot.press("g")
        await settle(pilot, lambda: isinstance(app.screen, PlayScreen))
        screen = app.screen
        await settle(pilot, lambda: screen.game.entry.name == "backgammon" and screen.game.your_move)
        assert screen.game.seats[SECOND].title == f"run {run.name}@2"
        await settle(pilot, lambda: "points that TD-Gammon, 40 games" in text_of(app))
        await pilot.press("m")
        await settle(pilot, lambda: screen.ratings.standings is not None and not screen.ratings.contest)
        rated = {seat.age for seat in screen.ratings.rated_seats.values() if seat.family}
        assert rated >= {1, 2, 3, 4}
        assert all(row.points_low <= row.points <= row.points_high for row in screen.ratings.rows)
        await pilot.press("w")
        assert "points for" in (await explained(pilot)).question


# A game that outlives the console

CONSOLE = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from play_screen import app_on, opened
from recorded import settle
from test_play_games import choose, playing
from txlab.tui.screens.play import game as module

module.ANSWER = module.NO_CHOICE = 0.02

async def play():
    app = app_on(Path({root!r}))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await playing(pilot, "backgammon", 11)
        for _ in range(3):
            await choose(pilot, screen, next(iter(screen.game.game.ways(screen.game.position))))
        game = screen.game
        Path({told!r}).write_text(repr((game.position, game.playing.names())))
        await asyncio.sleep(600)

asyncio.run(play())
"""


@pytest.mark.evidence
async def test_a_game_outlives_the_console_that_is_killed_and_is_continued_in_another(tmp_path: Path) -> None:
    told = tmp_path / "told"
    here = Path(__file__).parent
    script = CONSOLE.format(paths=[str(here), str(here.parent)], root=str(tmp_path), told=str(told))
    console = subprocess.Popen(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    wait_for(lambda: told.exists() and told.read_text(), console)
    assert list(left_behind()) == []  # it plays on there
    os.kill(console.pid, signal.SIGKILL)
    assert console.wait() == -signal.SIGKILL
    ((path, saved),) = left_behind()
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        assert screen.game.entry.name == "tictactoe"
        assert "r continues it" in "\n".join(str(each.message) for each in app._notifications)
        await pilot.press("r")
        await settle(pilot, lambda: screen.game.entry.name == "backgammon" and screen.game.your_move)
        assert repr((screen.game.position, screen.game.playing.names())) == told.read_text()
        assert screen.game.seats[FIRST].person
        assert screen.game.seats[SECOND].title == "random"
        assert not path.exists()  # this console has it now
        assert list(left_behind()) == []
        await choose(pilot, screen, next(iter(screen.game.game.ways(screen.game.position))))
        assert len(screen.game.playing.moves) > len(saved.moves)
        (kept,) = saved_games.games_folder().iterdir()
        assert read_saved(kept).moves == tuple(screen.game.playing.names())
        screen.game.action_new()
        assert not kept.exists()  # a game that is given up is not offered


def left_by_nobody(folder: Path, **changed: object) -> Path:
    """A file of a process that is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    value = {
        "format": 1, "game": "tictactoe", "seed": 1, "seats": {"1": "you", "-1": "perfect"}, "moves": ["centre"],
        "time": time.time(), "host": __import__("socket").gethostname(),
    } | changed  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{gone.pid}-{os.urandom(4).hex()}.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"game": 7},
        {"seed": -1},
        {"seed": True},
        {"seats": {"1": "you"}},
        {"seats": {"1": "you", "-1": ["perfect"]}},
        {"seats": {"1": "you", "-1": ""}},
        {"moves": "centre"},
        {"moves": ["x" * 301]},
        {"moves": ["1"] * 5001},
        {"time": "now"},
        {"time": float("inf")},
        {"host": 1},
    ],
)
def test_a_file_that_is_not_a_saved_game_is_passed_over(tmp_path: Path, changed: dict[str, object]) -> None:
    path = left_by_nobody(tmp_path, **changed)
    with pytest.raises(LabError):
        read_saved(path)
    assert list(left_behind(tmp_path)) == []


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    good = left_by_nobody(tmp_path)
    for content in (b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"x" * (saved_games.LARGEST + 1)):
        left_by_nobody(tmp_path).write_bytes(content)
    left_by_nobody(tmp_path).unlink()
    link = tmp_path / "1-00000000.json"
    link.symlink_to(good)
    (tmp_path / "2-0000000g.json").write_text("{}")
    assert [path for path, _ in left_behind(tmp_path)] == [good]


@pytest.mark.parametrize("changed", [{"moves": ["centre", "centre"]}, {"game": "chess"}, {"moves": ["[red]"]}])
def test_a_game_with_moves_that_are_not_legal_is_refused_with_an_error(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    with pytest.raises(LabError):
        read_saved(left_by_nobody(tmp_path, **changed)).playing()


def test_of_two_consoles_one_takes_a_game_over(tmp_path: Path) -> None:
    path = left_by_nobody(tmp_path)
    assert [GameFile(tmp_path).take_over(path) for _ in range(2)] == [True, False]


def test_only_a_limited_number_of_games_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_games, "KEPT", 3)
    paths = [left_by_nobody(tmp_path) for _ in range(6)]
    for age, path in enumerate(paths):
        os.utime(path, (time.time() - 100 * age,) * 2)
    assert [path for path, _ in left_behind(tmp_path)] == paths[:3]
    assert sorted(tmp_path.iterdir()) == sorted(paths[:3])


async def test_a_seat_that_is_not_there_any_more_is_taken_by_another_player(tmp_path: Path) -> None:
    left_by_nobody(saved_games.games_folder(), seats={"1": "box:run", "-1": "you"})
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("r")
        await settle(pilot, lambda: screen.game.seats[FIRST].title == "perfect" and screen.game.your_move)
        assert len(screen.game.playing.moves) == 1


async def test_a_saved_game_that_cannot_be_continued_is_not_lost(tmp_path: Path) -> None:
    path = left_by_nobody(saved_games.games_folder(), moves=["centre", "centre"])
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("r")
        await settle(pilot, lambda: screen.games.left is None and screen.games.preparing.idle)
        assert path.exists()
        await pilot.press("n")
        await settle(pilot)
        assert path.exists()


def test_a_replayed_game_is_the_same_throw_by_throw() -> None:
    playing = Playing(backgammon, 5)
    playing.throw_all()
    while not playing.ended and len(playing.moves) < 60:
        legal = backgammon.legal(playing.position)
        playing.go_on([legal[int(playing.draw * len(legal))]])
    assert Playing.replay_moves(backgammon, 5, playing.names()).positions == playing.positions


@pytest.mark.parametrize("name", ["backgammon", "connect-four"])
async def test_a_board_has_the_room_that_it_needs_as_soon_as_its_game_is_chosen(tmp_path: Path, name: str) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        assert not screen.has_class("-folded")
        screen.games.prepare(game_named(name))
        await settle(pilot, lambda: screen.game.entry.name == name and screen.has_class("-folded"))
        await settle(pilot, lambda: screen.game.board.size.width >= least_columns(board_of(name)) > 0)


async def test_another_game_begins_with_its_board_and_shows_no_learner_of_the_one_before(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)

        async def turn_to(tab: str) -> str:
            """Press tab until this tab is shown; return the text of the screen."""
            presses = 0
            while not screen.query_one(f"#{tab}").display:
                await pilot.press("tab")
                presses += 1
                assert presses <= len(TABS)
            return text_of(app)

        await pilot.press("tab")
        for tab, words in (("learning", "l lets an agent learn"), ("ladder", "l lets an agent learn, o")):
            assert words in await turn_to(tab)
        screen.lessons.learn(Lesson(games=50))
        await settle(pilot, lambda: not screen.lessons.learning and screen.lessons.session.idle)
        learner = screen.lessons.course.title  # type: ignore[union-attr]
        assert f"{learner}  α" in await turn_to("learning")
        for name in ("connect-four", "backgammon"):
            screen.games.prepare(game_named(name))
            await settle(pilot, lambda name=name: screen.game.entry.name == name and screen.game.your_move)
            assert screen.has_class("-folded")
            assert screen.game.display
            await pilot.press("tab")  # from the board to the side panel
            assert not screen.game.display
            seen = await turn_to("learning")
            assert "o seats the player of a run" in seen
            assert learner not in seen
            assert not screen.query_one("#curves", Chart).series
            assert "its snapshots are rated" in await turn_to("ladder")
            assert not screen.query_one("#rungs").display
        screen.games.prepare(game_named("tictactoe"))
        await settle(pilot, lambda: screen.game.entry.name == "tictactoe" and screen.game.your_move)
        assert f"{learner}  α" in await turn_to("learning")  # it learnt this game
        await turn_to("ladder")
        await pilot.resize_terminal(50, 24)
        await settle(pilot, lambda: screen.has_class("-folded"))
        assert screen.game.display  # tab had not turned away from it: both were shown
        await pilot.press("tab")
        screen.games.prepare(game_named("backgammon"))
        await settle(pilot, lambda: screen.game.entry.name == "backgammon" and screen.game.your_move)
        assert screen.game.display


async def test_what_a_screen_behind_has_to_say_is_said_when_it_comes_to_the_front(tmp_path: Path) -> None:
    """Its keys are not those of the screen in front: r would branch a run on Train."""
    app = app_on(tmp_path)

    def told() -> str:
        return "\n".join(str(each.message) for each in app._notifications)

    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        panel = screen.query_one(GamesPanel)
        await app.switch_mode("lab")
        saved = SavedGame("tictactoe", 1, {}, ("1",), 1.0)
        panel.show_prepared(Prepared(screen.game.entry, [], screen.game.seats[SECOND], (tmp_path / "game", saved)))
        await settle(pilot)
        assert "not finished" not in told()
        await app.switch_mode("play")
        await settle(pilot, lambda: "1 move; r continues it" in told())
