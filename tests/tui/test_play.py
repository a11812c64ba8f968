"""Tic-tac-toe: whole games by keys and mouse, what the agent sees, learning and tournaments in the background."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from picture import strips_of, text_of
from play_screen import answered, app_on, choose, opened, put, type_on, walk
from recorded import explained, settle
from textual import events

from txlab.drawing.boards.tictactoe import cell_size
from txlab.drawing.formatting import interval
from txlab.engine.games import tictactoe
from txlab.engine.games.learner import SelfPlaySettings
from txlab.engine.games.perfect_play import explain, solve_game
from txlab.engine.games.players import perfect_player
from txlab.experiments.tabular.training import Training
from txlab.runs.saved_games import left_behind
from txlab.tui.screens.play.learning import Course
from txlab.tui.screens.play.lesson_dialog import LearnDialog, Lesson
from txlab.tui.screens.play.screen import PlayScreen
from txlab.tui.widgets.board import Board
from txlab.tui.widgets.chart import Chart

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Agents answer soon (not at once: a timer that is late before it starts is skipped)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txlab.tui.screens.play.game.ANSWER", 0.02)


def notices(screen: PlayScreen) -> str:
    return "\n".join(str(notice.message) for notice in screen.app._notifications)


def games_of(screen: PlayScreen) -> int:
    """Whether the learner has played, according to the screen."""
    course = screen.lessons.course
    return course.snapshot.games if course is not None else -1


async def learnt(pilot: Any, screen: PlayScreen, lesson: Lesson) -> None:
    screen.lessons.learn(lesson)
    await settle(pilot, lambda: games_of(screen) == lesson.games and screen.lessons.session.idle)


@pytest.mark.parametrize("size", SIZES)
async def test_a_game_of_best_moves_against_the_perfect_player_is_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        assert "Your move: you are X" in text_of(app)
        line = text_of(app).splitlines()[-1]
        for key in ("enter move", "h hint", "n new", "o opponent", "l learn", "m tournament", "? help"):
            assert key in line
        while not screen.game.ended:
            square = perfect_player(tictactoe).best(screen.game.position)[-1]
            if len(screen.game.playing.moves) < 4:
                await walk(pilot, square)
            await put(pilot, square)
            await answered(pilot)
        shown = text_of(app)
        assert "Drawn: no square is free" in shown
        assert "you won 0, drawn 1, lost 0" in shown
        assert len(screen.game.playing.moves) == 9
        await pilot.press("enter")
        assert screen.game.playing.moves == []
        assert "Your move: you are X" in text_of(app)


async def test_a_game_lost_to_the_perfect_player_is_recognised(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    solution = solve_game(tictactoe)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        while not screen.game.ended:  # always the worst move for X
            graph = solution.graph
            worst = min(graph.moves(graph.number_of(screen.game.position)), key=lambda m: int(solution.value[m[1]]))
            await put(pilot, worst[0])
            await answered(pilot)
        shown = text_of(app)
        assert "You have lost: O has" in shown
        assert "you won 0, drawn 0, lost 1" in shown
        assert "mistake" in shown
        pieces = [piece for line in screen.query_one("#board", Board).pieces for piece in line if piece.kind == "won"]
        won = {piece.place for piece in pieces if piece.place is not None}
        assert len(won) >= 3
        assert {screen.game.position[place] for place in won} == {-1}
        assert shown.count("━━━━━") >= len(won)


async def test_undo_takes_back_a_move_and_its_answer_and_a_taken_square_is_refused(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await put(pilot, 4)
        await answered(pilot)
        kept = list(screen.game.playing.moves)
        await put(pilot, 4)
        assert screen.game.playing.moves == kept
        assert "centre is not possible; possible are" in notices(screen)
        await put(pilot, tictactoe.legal(screen.game.position)[0])
        await answered(pilot)
        await pilot.press("u")
        assert screen.game.playing.moves == kept
        await pilot.press("u")
        assert screen.game.playing.moves == []
        await pilot.press("u")
        assert screen.game.playing.moves == []
        screen.game.put_moves([0, 3, 1, 4])
        await put(pilot, 2)
        assert screen.game.tally == {1: 1}
        await pilot.press("u")
        assert screen.game.playing.moves == [0, 3, 1, 4]
        assert sum(screen.game.tally.values()) == 0  # a game that is taken back does not count


async def test_a_hint_is_a_best_move_and_says_what_it_leads_to(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("c")
        screen.game.put_moves([0, 4, 1])  # O must take the top right
        await pilot.press("h")
        await pilot.pause()
        assert "top right: draws" in text_of(app)
        assert screen.query_one("#board", Board).cursor == 2
        assert text_of(app).count("◆") == 1
        await pilot.press("c")
        screen.game.put_moves([0, 4, 1, 5])
        await pilot.press("h")
        await pilot.pause()
        assert "top right: wins" in text_of(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "You have won: the top row" in text_of(app)


async def test_the_other_side_begins_and_a_click_moves(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("c")
        await answered(pilot)
        assert len(screen.game.playing.moves) == 1
        assert "Your move: you are O" in text_of(app)
        free = tictactoe.legal(screen.game.position)[-1]
        board = screen.query_one("#board", Board)
        (left, top), (wide, high) = board.corner, cell_size(board.size.width, board.size.height)
        row, column = divmod(free, 3)
        place = (left + column * (wide + 1) + wide // 2, top + row * (high + 1) + high // 2)
        await pilot.click("#board", offset=place)
        await answered(pilot)
        assert screen.game.playing.moves[1] == free
        await pilot.click("#board", offset=(left + wide, top + high))  # a border is not a square
        assert len(screen.game.playing.moves) == 3


async def test_another_human_plays_and_a_random_player_has_no_values(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("o")
        await choose(pilot, "another")
        for square in (0, 3, 1):
            await put(pilot, square)
        assert "O is to move" in text_of(app)
        await put(pilot, 4)
        await put(pilot, 2)
        assert "X has won: the top row" in text_of(app)
        await pilot.press("o")
        await choose(pilot, "random")
        assert "random sees nothing" in text_of(app)
        await pilot.press("v")
        await pilot.pause()
        assert "best play, X's view" in text_of(app)
        await pilot.press("v")
        await pilot.pause()
        assert ".00" not in text_of(app)
        assert "best play" not in text_of(app)  # nor in the table of the moves


async def test_the_values_are_those_of_the_agent_for_who_is_to_move(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    training = Training(SelfPlaySettings(), 3)
    training.run(2000)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learnt(pilot, screen, Lesson(games=2000, seed=3))
        screen.game.put_moves([0, 1, 4])  # the learner is X
        seen = training.player().values(screen.game.position)
        view = screen.query_one("#board", Board).view
        assert view is not None
        assert view.values == seen
        assert any(seen.values())
        assert "what TD(0) expects, O's view" in text_of(app)
        square = max(seen, key=lambda place: abs(seen[place]))
        screen.query_one("#board", Board).go(square)
        await pilot.press("w")
        found = await explained(pilot)
        assert found == training.explain(screen.game.position, square)
        assert abs(found.result) == pytest.approx(abs(seen[square]))


async def test_why_of_a_perfect_value_is_what_may_follow(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        for keys, square in ((["w"], 4), (["escape", "right", "w"], 5)):
            await pilot.press(*keys)
            found = await explained(pilot)
            assert found == explain(solve_game(tictactoe), screen.game.position, square)


async def test_agents_play_each_other_pause_and_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.tui.screens.play.game.MOVE_RATES", (50.0, 50.0, 50.0, 50.0, 60.0))
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("a")
        await choose(pilot, "perfect")
        await choose(pilot, "random")
        assert screen.game.watching
        assert "X .9678, drawn .0322, O .0000" in text_of(app)
        await settle(pilot, lambda: sum(screen.game.tally.values()) >= 2)
        assert screen.game.tally.get(-1, 0) == 0  # the perfect player does not lose
        await pilot.press("question_mark")  # no move is made behind a dialog
        await pilot.pause()
        before = list(screen.game.playing.moves)
        await pilot.pause(0.4)  # longer than a finished game stays on the board
        assert screen.game.playing.moves == before
        await pilot.press("escape")
        await settle(pilot, lambda: screen.game.playing.moves != before)
        await pilot.press("space")
        before = list(screen.game.playing.moves)
        await pilot.pause(0.1)
        assert screen.game.playing.moves == before
        await pilot.press("full_stop")
        await pilot.pause(0.05)
        assert screen.game.playing.moves == [] or len(screen.game.playing.moves) == len(before) + 1
        await pilot.press("enter", "minus", "plus", "u", "space")
        await pilot.press("a")
        assert not screen.game.watching
        await answered(pilot)


async def test_it_learns_without_blocking_keys_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path)
    threads: set[threading.Thread] = set()
    run_of = Course.run

    def noted(course: Course, games: int) -> None:
        threads.add(threading.current_thread())
        run_of(course, games)

    monkeypatch.setattr(Course, "run", noted)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        screen.lessons.lesson = Lesson(games=9_999_999)
        await pilot.press("l")
        await settle(pilot, lambda: isinstance(app.screen, LearnDialog))
        await pilot.press("enter")
        await settle(pilot, lambda: games_of(screen) > 1000)
        assert threading.main_thread() not in threads
        assert screen.tab == "learning"
        assert "of 9 999 999 games" in text_of(app)
        assert "TD(0)" in text_of(app).split("games")[0]  # the learner is already at the board
        labels = [series.label for series in screen.query_one("#curves", Chart).series]
        assert labels[:3] == ["won", "drawn", "lost"]
        await type_on(pilot, "enter")  # the user plays meanwhile
        await answered(pilot)
        assert len(screen.game.playing.moves) == 3
        await type_on(pilot, "l", "x")
        assert "training is running" in notices(screen)
        await settle(pilot, lambda: not screen.lessons.learning and screen.lessons.session.idle)
        games = games_of(screen)
        assert 1000 < games < 9_999_999
        assert {"TD(0)", "TD(0) 0", "TD(0) 10", "TD(0) 100", "TD(0) 1 000"} <= {
            seat.title for seat in screen.seats.learners
        }
        await pilot.pause(0.05)
        assert screen.lessons.courses["TD(0)"].training.games == games


def test_what_it_was_at_a_mark_is_what_learning_so_long_gives() -> None:
    course = Course(Lesson(SelfPlaySettings(rule="q-learning"), games=250, seed=5), "Q-learning")
    while course.step_count < course.steps:
        course.run(min(37, course.steps - course.step_count))
    assert course.training.games == 250
    training = Training(SelfPlaySettings(rule="q-learning"), 5)
    for games, player in course.kept:
        training.run(games - training.games)
        assert player.seen is not None
        assert player.seen.tolist() == training.player().seen.tolist()  # type: ignore[union-attr]
    assert [games for games, _ in course.kept] == [0, 10, 100]


async def test_leaving_ends_the_learner_immediately(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        screen.lessons.learn(Lesson(games=10_000_000))
        await settle(pilot, lambda: games_of(screen) > 10)
        course = screen.lessons.courses["TD(0)"]
    for _ in range(100):
        games = course.training.games
        threading.Event().wait(0.1)
        if course.training.games == games:  # the current slice has ended, and no other one begins
            break
    assert course.training.games == games < 10_000_000


@pytest.mark.parametrize("size", SIZES)
async def test_a_tournament_rates_everybody_at_hand(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.tui.screens.play.ratings.GAMES", 100)
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await learnt(pilot, screen, Lesson(games=20))
        await pilot.press("m")
        await settle(pilot, lambda: screen.ratings.standings is not None and not screen.ratings.contest)
        rows = screen.ratings.rows
        assert rows[0].name == "perfect"
        assert {row.name for row in rows} == {"perfect", "random", "TD(0)", "TD(0) 0", "TD(0) 10"}
        assert rows[0].lost == 0
        assert all(row.games == 400 for row in rows)
        shown = text_of(app)
        assert f"{rows[0].rating:,.0f} ({interval(rows[0].low, rows[0].high)})".replace(",", " ") in shown
        assert "TD(0), rating" in shown
        await pilot.press("shift+down", *([] if size[1] > 30 else ["tab"]))
        await pilot.pause()
        assert f"{rows[1].name} against" in text_of(app)
        monkeypatch.setattr("txlab.tui.screens.play.ratings.GAMES", 1_000_000)  # it does not end by itself
        screen.ratings.action_tournament()
        await pilot.press("x")
        assert "cancelled" in notices(screen)
        await settle(pilot, lambda: not screen.ratings.contest)
        assert screen.ratings.rows is rows  # the earlier ratings stay


async def test_the_player_of_a_run_sits_down(tmp_path: Path) -> None:
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("o")
        await choose(pilot, "of a run")
        await settle(pilot, lambda: "there is no run that plays Tic-tac-toe" in notices(screen))
        run = prepare(load_scenario("tictactoe", ["learn.games=1000"]), root=tmp_path)
        execute(run)
        await pilot.press("o")
        await choose(pilot, "of a run")
        await settle(pilot, lambda: len(app.screen_stack) > 1)
        await choose(pilot, "tictactoe")
        await settle(pilot, lambda: screen.game.seats[-1].key.startswith("run "))
        assert screen.game.seats[-1].title == f"run {run.name}"
        await put(pilot, 4)
        await answered(pilot)
        assert len(screen.game.playing.moves) == 2
        screen.query_one("#board", Board).go(tictactoe.legal(screen.game.position)[0])
        await pilot.press("w")
        await settle(pilot, lambda: "updates are not kept" in text_of(app))


async def test_numbers_of_a_lesson_are_turned_and_typed(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        lessons: list[Lesson | None] = []
        app.push_screen(LearnDialog(Lesson()), lessons.append)
        await pilot.pause()
        dialog = app.screen
        assert isinstance(dialog, LearnDialog)
        for key in ("right", "down", "left"):  # in one burst, as a fast hand or a slow line sends them
            app.post_message(events.Key(key, None))
        await settle(pilot, lambda: dialog.lesson.settings.alpha == 0.05)
        assert dialog.lesson.settings.rule == "td-lambda"
        for key in ("1", "full_stop", "5", "down"):
            app.post_message(events.Key(key, {"full_stop": "."}.get(key)))
        await settle(pilot, lambda: "alpha must be from 0 to 1" in text_of(app))
        await pilot.press("backspace", "backspace", "backspace", *".25", "down", "up")
        assert dialog.lesson.settings.alpha == 0.25
        await pilot.press("right")
        assert dialog.lesson.settings.alpha == 0.3
        await pilot.press("down", "down", "right", "down", "right")
        assert dialog.lesson.settings.lam == 0.9
        assert dialog.lesson.settings.exploring
        await pilot.press("down", *"0", "enter")
        await pilot.pause()
        assert "games must be from 1" in text_of(app)
        assert app.current_mode == "play"  # digits are numbers here
        await pilot.press("left", "down", *"7", "enter")
        await pilot.pause()
        (lesson,) = lessons
        assert lesson is not None
        assert (lesson.games, lesson.seed, lesson.settings.lam) == (30_000, 7, 0.9)
        assert app.screen is screen


@pytest.mark.parametrize("ascii", [False, True])
async def test_no_size_breaks_it_and_ascii_is_ascii(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learnt(pilot, screen, Lesson(SelfPlaySettings(rule="td-lambda"), games=30))
        screen.ratings.action_tournament()
        await settle(pilot, lambda: not screen.ratings.contest)
        screen.game.view = "perfect"
        screen.game.put_moves([3, 6, 0, 8])  # every square loses
        for key in ("h", "tab", "tab", "l") if ascii else ("h", "tab"):
            await pilot.press(key)
            for size in ((20, 5), (59, 19), (200, 60), (1, 1), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                text = text_of(app)
                assert not ascii or text.isascii(), sorted({c for c in text if not c.isascii()})
        assert app._exception is None


async def test_t_goes_to_the_board_and_back_to_the_worlds(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.switch_mode("arena")
        await type_on(pilot, "t")
        await settle(pilot, lambda: isinstance(app.screen, PlayScreen) and app.screen.game.your_move)
        assert "6 Arena" in text_of(app)
        await type_on(pilot, "t")
        await settle(pilot, lambda: app.current_mode == "arena")


async def test_without_colours_it_says_the_same(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    app.colours = "none"  # type: ignore[attr-defined]
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        screen.game.put_moves([0, 4, 1, 5])
        await pilot.pause()
        shown = text_of(app)
        assert "+1" in shown
        assert "loses in 1" in shown
        fills = {style.bgcolor for strip in strips_of(app) for text, style, _ in strip if style and "loses" in text}
        assert len(fills) == 1


async def test_it_opens_where_one_move_is_better_and_says_against_whom(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await app.switch_mode("play")
        await settle(pilot, lambda: "Your move: you are O, against perfect (X)" in text_of(app))
        assert "only the centre does not lose" in text_of(app)
        assert "centre is best, 0 (draws)" in text_of(app)
        await pilot.press("escape")  # one level back: the room that this one belongs to
        await settle(pilot, lambda: app.current_mode == "arena")
    assert not list(left_behind())  # no move was made yet
