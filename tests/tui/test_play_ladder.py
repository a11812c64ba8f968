"""What learns a game is rated while it learns, on the Play screen: here, in another process, and from disk."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from picture import text_of
from play_screen import app_on, opened, type_on
from recorded import settle
from textual.pilot import Pilot
from waiting import wait_for

from txlab.drawing.boards import value_text
from txlab.drawing.formatting import interval
from txlab.engine.games import tictactoe
from txlab.engine.games.connect_four import rules
from txlab.engine.games.game import FIRST, SECOND, showcase
from txlab.engine.games.ladder import Ladder
from txlab.engine.games.perfect_play import solve_game
from txlab.engine.games.tournament import ratings
from txlab.experiments.tabular.training import Training
from txlab.runs.control import Request, send
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screens.play.ladder import LadderPanel
from txlab.tui.screens.play.lesson_dialog import Lesson
from txlab.tui.screens.play.players import Seat
from txlab.tui.screens.play.screen import PlayScreen
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.table import Table


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair plays 4 openings in all, and no rest is taken."""
    made = Ladder.__init__
    monkeypatch.setattr(Ladder, "__init__", lambda self, game, anchors: made(self, game, anchors, 4))
    monkeypatch.setattr("txlab.tui.screens.play.ladder.WHILE_LEARNING", 1.0)
    monkeypatch.setattr("txlab.tui.screens.play.ladder.AFTERWARDS", 1.0)


async def rated(pilot: Pilot[None], screen: PlayScreen, rungs: int) -> None:
    """Wait until this number of rungs have a rating."""
    ladder = screen.ladder
    await settle(pilot, lambda: ladder.subject is not None and len(ladder.subject.rungs) >= rungs)


def beside_the_board(app: TxlabApp) -> str:
    """The words of the side panel, on one line."""
    return " ".join(" ".join(line.rpartition("│")[2] for line in text_of(app).splitlines()).split())


async def test_the_ladder_of_a_learner_grows_while_it_learns_and_its_intervals_are_those_of_its_games(
    tmp_path: Path, few_games: None
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        screen.lessons.learn(Lesson(games=9_999_999))
        await rated(pilot, screen, 3)
        seen = len(screen.ladder.subject.rungs)
        assert screen.lessons.learning
        await rated(pilot, screen, seen + 1)  # by itself, without a key
        assert screen.lessons.learning
        await type_on(pilot, "x")
        await settle(pilot, lambda: not screen.lessons.learning and screen.lessons.session.idle)
        await settle(pilot, lambda: not screen.ladder.busy and not screen.ladder.subject.offers)
        subject, course = screen.ladder.subject, screen.lessons.course
        ladder = subject.ladder
        assert subject.rungs[0].age == 0
        assert subject.rungs[-1].age == course.training.games  # what it was in the end is rated too
        both = ladder.results + ladder.results.transpose(1, 0, 2)[:, :, ::-1]
        found = ratings(both[:, :, 0], both[:, :, 1], 0.0, zero=ladder.anchors)
        for number, rung in enumerate(subject.rungs, start=ladder.anchors):
            assert (rung.rating, rung.low, rung.high) == (found.rating[number], *found.interval(number))
        screen.show_tab("ladder")
        await settle(pilot)
        last = subject.rungs[-1]
        assert interval(last.low, last.high) in text_of(app)
        rows = screen.query_one("#rungs", Table).rows
        assert len(rows) == len(subject.rungs)
        assert rows[-1][-1] == "by definition"
        assert "against two earlier, random and perfect" in text_of(app)
        chart = screen.query_one("#strength", Chart)
        assert chart.series[0].values.tolist() == [rung.rating for rung in subject.rungs]
        alone = Training(course.lesson.settings, course.lesson.seed)
        alone.run(course.training.games)
        assert alone.player().seen.tobytes() == course.training.player().seen.tobytes()  # this one was not watched


LIVE = """
kind = "self-play"
learn = {games = 50_000_000, games_per_step = 100}
record = {evaluate_every = 5, sample_every = 0, frame_every = 5, checkpoint_every = 0}
"""


async def test_a_run_of_another_process_is_followed_and_is_the_same_run_to_the_bit(
    tmp_path: Path, few_games: None
) -> None:
    (tmp_path / "live.toml").write_text(LIVE)
    path = tmp_path / "runs" / "live"
    command = [sys.executable, "-m", "txlab", "run", str(tmp_path / "live.toml"), "--out", str(path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            frames = FrameIndex(path / "frames")
            wait_for(lambda: (path / "frames").exists() and frames.refresh() and len(frames) > 3, process)
            app = app_on(tmp_path / "runs")
            async with app.run_test(size=(120, 40)) as pilot:
                screen = await opened(pilot)
                screen.open_run("live")
                await rated(pilot, screen, 3)
                assert screen.lessons.progress.learning
                assert screen.game.seats[FIRST].title == "run live"  # the learner moved; the user is to move
                assert screen.game.playing.moves == list(showcase(tictactoe)[0])
                player, rungs = screen.game.seats[FIRST].player, len(screen.ladder.subject.rungs)
                await settle(pilot, lambda: screen.game.seats[FIRST].player is not player)  # as it is by now
                await rated(pilot, screen, rungs + 1)
                send(path, Request("stop"))
                await settle(pilot, lambda: process.poll() is not None)
                await settle(pilot, lambda: not screen.lessons.progress.learning and not screen.ladder.busy)
                shown = screen.lessons.progress.curve
        finally:
            process.kill()
    watched = RunReader(path)
    watched.poll()
    watched.catch_up()
    games = 100 * watched.state.step
    scenario = load_scenario(tmp_path / "live.toml", [f"learn.games={games}"])
    alone = prepare(scenario, root=tmp_path / "alone")
    execute(alone)
    other = RunReader(alone)
    other.poll()
    other.catch_up()
    for name in ("won_first", "lost_second", "lost_to_perfect_second", "self_won"):
        mine, theirs = watched.series(name), other.series(name)
        many = min(len(mine), len(theirs))
        assert many > 3
        assert mine.values[:many].tobytes() == theirs.values[:many].tobytes()
    one, two = FrameIndex(path / "frames"), FrameIndex(alone / "frames")
    one.refresh()
    two.refresh()
    for step in sorted({*map(int, one.steps)} & {*map(int, two.steps)})[-3:]:
        assert np.array_equal(one.read(step).tensors["values"], two.read(step).tensors["values"])
    # the curve is what the run recorded, not played again
    columns = [watched.series(f"{how}_{seat}").values for seat in ("first", "second") for how in ("won", "lost")]
    recorded = (columns[0] - columns[1] + columns[2] - columns[3]) / 2
    assert shown[1].tolist() == pytest.approx(recorded[: shown.shape[1]].tolist())
    assert shown.shape[1] > 3


NETWORK = """
kind = "td-gammon"
learn = {units = 8, games = 100, games_per_step = 20}
match = {games = 20, copies = [0]}
record = {evaluate_every = 1, sample_every = 0, frame_every = 1, checkpoint_every = 0}
"""


async def test_the_recorded_strength_of_a_run_that_has_ended_is_shown_with_its_band_and_its_ladder_is_played(
    tmp_path: Path, few_games: None
) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    run = prepare(load_scenario(tmp_path / "network.toml", []), root=tmp_path / "runs")
    execute(run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    app = app_on(tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        screen.open_run(run.name)
        await rated(pilot, screen, 6)
        await settle(pilot, lambda: not screen.ladder.busy)
        reader = RunReader(run)
        reader.poll()
        curve = screen.lessons.progress.curve
        for row, end in ((1, ""), (2, "_low"), (3, "_high")):
            assert curve[row].tolist() == reader.series(f"against/0{end}").values.tolist()
        screen.show_tab("learning")
        await settle(pilot)
        assert "points a game against its copy of 0 games, 95 % interval" in beside_the_board(app)
        assert [each.label for each in screen.query_one("#curves", Chart).series] == ["strength", "95 % interval", ""]
        subject = screen.ladder.subject
        assert [rung.age for rung in subject.rungs] == [0, 20, 40, 60, 80, 100]  # games
        screen.show_tab("ladder")
        await settle(pilot)
        assert value_text(subject.rungs[-1].points[0]) in screen.query_one("#rungs", Table).rows[0][-1]
        other = Seat("TD(0)", "TD(0)", player=subject.ladder.players[0], family="TD(0)", age=10)
        screen.ladder.offer_seats([other], learning=True)  # a learner of another game learns on
        assert not screen.ladder.learning
        assert "against two earlier and random; points a game are those against random" in beside_the_board(app)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


async def test_rating_is_switched_off_and_on_and_rests_while_the_screen_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: set[threading.Thread] = set()
    measure = LadderPanel.measure

    def noted(panel: LadderPanel, *arguments: object) -> None:
        inside.add(threading.current_thread())
        try:
            measure(panel, *arguments)
        finally:
            inside.discard(threading.current_thread())

    monkeypatch.setattr(LadderPanel, "measure", noted)
    monkeypatch.setattr("txlab.tui.screens.play.ladder.WHILE_LEARNING", 1e-6)  # it rests nearly all the time
    monkeypatch.setattr("txlab.tui.screens.play.ladder.AFTERWARDS", 1e-6)
    app = app_on(tmp_path)

    def played(screen: PlayScreen) -> Callable[[], bool]:
        return lambda: screen.ladder.subject is not None and screen.ladder.subject.games > 0

    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert not screen.check_action("panel", ("LadderPanel", "measure"))
        screen.lessons.learn(Lesson(games=1_000))
        await settle(pilot, played(screen))
        assert threading.main_thread() not in inside
        assert screen.ladder.busy
        assert len(inside) == 1
        await type_on(pilot, "f")
        await settle(pilot, lambda: not inside and not screen.ladder.busy)
        screen.show_tab("ladder")
        await settle(pilot)
        assert "f rates on" in text_of(app)
        await type_on(pilot, "f")
        await settle(pilot, lambda: len(inside) == 1)
        for _ in range(2):  # off and on at once, while the thread still ends
            screen.ladder.action_measure()
        games = screen.ladder.subject.games
        await settle(pilot, lambda: screen.ladder.subject.games > games)
        await settle(pilot, lambda: not screen.lessons.learning)
        await type_on(pilot, "x")  # nothing else is there to be cancelled
        await settle(pilot, lambda: not inside and not screen.ladder.on)
        await type_on(pilot, "f")
        await settle(pilot, lambda: len(inside) == 1)
        await app.switch_mode("lab")
        await settle(pilot, lambda: not inside and not screen.ladder.busy)
        await app.switch_mode("play")
        await settle(pilot, lambda: len(inside) == 1)
        await pilot.press("g")
        await settle(pilot, lambda: not inside)  # a dialog is in front
        await pilot.press("escape")
        await settle(pilot, lambda: len(inside) == 1)
    wait_for(lambda: not inside)  # closed


async def test_a_ladder_is_looked_at_only_when_no_thread_plays_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_play, waiting = threading.Semaphore(0), threading.Event()
    play, next_pair = Ladder.play, Ladder.next_pair.fget  # type: ignore[attr-defined]
    looked: list[bool] = []  # by the screen: whether a thread was playing

    def held(ladder: Ladder, *arguments: object) -> int:
        waiting.set()
        may_play.acquire()
        waiting.clear()
        return play(ladder, *arguments)  # type: ignore[arg-type]

    def noted(ladder: Ladder) -> object:
        if threading.current_thread() is threading.main_thread():
            looked.append(waiting.is_set())
        return next_pair(ladder)

    monkeypatch.setattr(Ladder, "play", held)
    monkeypatch.setattr(Ladder, "next_pair", property(noted))
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        screen.lessons.learn(Lesson(games=50))
        await settle(pilot, lambda: not screen.lessons.learning and screen.lessons.session.idle)
        subject = screen.ladder.subject
        assert subject is not None
        may_play.release()
        await settle(pilot, lambda: not subject.offers and subject.games and waiting.is_set())
        for _ in range(2):
            screen.ladder.action_measure()  # off and on, while a thread is inside
        games = subject.games
        may_play.release(10**6)
        await settle(pilot, lambda: subject.games > games)
        await settle(pilot, lambda: not screen.ladder.busy)
        assert looked
        assert not any(looked)


async def test_a_learner_begins_where_its_values_move_and_the_screen_says_what_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, seen = Training.run, threading.Event()  # the first values are read before a game is learned from

    def held(training: Training, games: int) -> bool:
        seen.wait()
        return learn(training, games)

    monkeypatch.setattr(Training, "run", held)
    moves, words = showcase(tictactoe)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert words not in text_of(app)
        screen.ladder.action_measure()  # no rating: it would take turns with the learning
        screen.lessons.learn(Lesson(games=9_999_999))
        await settle(pilot, lambda: screen.game.playing.moves == list(moves))
        assert screen.game.your_move
        values = screen.game.advice.evaluation_shown()[0].values
        assert words in text_of(app)
        seen.set()

        def moved() -> int:
            """How many of the values have moved."""
            after = screen.game.advice.evaluation_shown()[0].values
            return sum(abs(after[move] - values[move]) > 0.05 for move in after)

        await settle(pilot, lambda: moved() >= 4)
        assert screen.game.playing.moves == list(moves)
        await type_on(pilot, "x")
        await settle(pilot, lambda: not screen.lessons.learning and screen.lessons.session.idle)
        await type_on(pilot, "u")  # a user sets the position as ever
        await settle(pilot, lambda: screen.game.seats[SECOND].person)
        screen.game.put_moves((4,))
        await settle(pilot)
        assert words not in text_of(app)


def test_the_showcases_are_what_they_say() -> None:
    moves, _ = showcase(tictactoe)
    position = tictactoe.start()
    for move in moves:
        position = tictactoe.after(position, move)
    solution = solve_game(tictactoe)
    values = {
        move: int(solution.value[solution.graph.number_of(tictactoe.after(position, move))]) for move in range(1, 9)
    }
    assert [move for move, value in values.items() if value == 0] == [4]
    assert all(value == FIRST for move, value in values.items() if move != 4)
    moves, _ = showcase(rules)
    bitbully = pytest.importorskip("bitbully", reason="an independent solver")
    board = bitbully.Board()
    assert all(board.play(move) for move in moves)
    scores = bitbully.BitBully("12-ply-dist").score_all_moves(board)
    assert [move for move, score in scores.items() if score > 0] == [3]
    assert all(score < 0 for move, score in scores.items() if move != 3)
