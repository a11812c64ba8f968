"""Screen 7, Feedback: the pipeline, and ranking by keys, which leave a valid file after each of them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from feedback_runs import SWEEP, answers_of, app_on, feedback_run, opened, screen_of
from picture import text_of
from recorded import HOSTILE, make_run, settle, still_open
from waiting import LONGEST

from txlab.engine.rlhf.preferences import Question, Skip, Undo, encode_line
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.control import asker
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import PREFERENCES, QUESTIONS, append, shown_order
from txlab.tui.app import TxlabApp
from txlab.tui.screens.feedback.ranking import Order
from txlab.tui.screens.feedback.snapshot import Asked, RunFeedback

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return feedback_run(tmp_path)


@pytest.fixture
def app(run: Path) -> TxlabApp:
    return app_on(run.parent, run)


async def rank(app: TxlabApp, pilot: object, *keys: str) -> None:
    """Type a ranking and wait until it is on disk."""
    screen = screen_of(app)
    before = screen.ranking.asked.version
    for key in keys:
        await pilot.press(key)  # type: ignore[attr-defined]
    await settle(pilot, lambda: screen.ranking.asked.version > before and not screen.ranking.busy)  # type: ignore[arg-type]


def test_an_order_has_ties_and_can_be_taken_back() -> None:
    order = Order(4)
    order.place(2)
    order.tie()
    order.place(0)
    order.place(3)
    assert order.ranks() == [1, 0, 1, 3]
    order.take_back()
    order.tie()
    order.take_back()
    order.place(1)
    assert order.finish() == [1, 3, 1, 4]
    with pytest.raises(LabError, match="there is no answer 5"):
        order.place(4)
    halfway = Order(4)
    halfway.place(0)
    halfway.place(2)
    with pytest.raises(LabError, match="2 answers have no place yet: 2, 4"):
        halfway.finish()
    with pytest.raises(LabError, match="= goes between"):
        Order(3).tie()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii", [False, True])
async def test_the_pipeline_and_the_question_are_shown(app: TxlabApp, size: tuple[int, int], ascii: bool) -> None:
    app.ascii = ascii
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "answer 1.0" in text_of(app))
        shown = text_of(app)
        assert "rankings 0 of 40" in shown
        assert "waiting for your ranking" in shown
        assert "film: heat 1" in shown
        for index in range(4):
            assert f"answer 1.{index}" in shown
        assert not ascii or shown.isascii()


async def test_answers_longer_than_the_terminal_are_scrolled_to(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, questions=0)
    texts = tuple(f" answer {i}: " + "long and wordy " * 30 for i in range(4))
    append(RunDirectory(run), QUESTIONS, [encode_line(Question("q1", "film: heat", texts))])
    app = app_on(tmp_path, run)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "long and wordy" in text_of(app))
        last = shown_order(Question("q1", "film: heat", texts), asker())[-1]
        assert f"answer {last}:" not in text_of(app)
        for _ in range(6):
            await pilot.press("pagedown")
        await settle(pilot, lambda: app.screen.query_one("#ranking-scroll").is_vertical_scroll_end)
        assert "Type the numbers" in text_of(app)
        await pilot.press("pageup")
        await settle(pilot, lambda: f"answer {last}:" in text_of(app))


async def test_the_numbers_typed_are_the_order_that_is_kept(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "answer 1.0" in text_of(app))
        await rank(app, pilot, "3", "1", "equals_sign", "4", "2", "enter")
        await settle(pilot, lambda: "rankings 1 of 40" in text_of(app))
        assert "film: heat 2" in text_of(app)
    (kept,) = answers_of(run).rankings
    by = asker()
    order = shown_order(answers_of(run).questions[0], by)
    assert [kept.ranks[order[place]] for place in (2, 0, 3, 1)] == [1, 2, 2, 4]
    assert kept.by == by


async def test_the_file_is_valid_after_every_key(app: TxlabApp, run: Path) -> None:
    file = run / PREFERENCES
    named = {"=": "equals_sign", "<": "backspace", "!": "enter"}
    keys = [named.get(key, key) for key in "3142!1<2=<su214!uu4321!9!"]
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "answer 1.0" in text_of(app))
        for key in keys:
            await pilot.press(key)
            await settle(pilot, lambda: not screen.ranking.busy)
            data = file.read_bytes() if file.exists() else b""
            assert not data or data.endswith(b"\n")
            assert all(isinstance(orjson.loads(line), dict) for line in data.splitlines())
    found = answers_of(run)
    assert found.garbled == 0
    # ranked, skipped, undone, ranked, two undone, ranked
    assert sum(isinstance(line, Undo) for line in found.lines) == 3
    assert sum(isinstance(line, Skip) for line in found.lines) == 1
    assert [each.question for each in found.rankings] == ["q0001"]


async def test_skipped_is_not_asked_again_and_undo_asks_again(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        await rank(app, pilot, "s")
        await settle(pilot, lambda: "film: heat 2" in text_of(app))
        await rank(app, pilot, "u")
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        assert not answers_of(run).rankings


async def test_keys_that_come_while_a_ranking_is_written_wait_for_the_next_question(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        feedback, disk = screen.feedback, threading.Event()
        assert feedback is not None
        at_once = feedback.rank

        def slowly(question: Question, ranks: Sequence[int]) -> Asked:
            assert disk.wait(LONGEST)
            return at_once(question, ranks)

        feedback.rank = slowly  # type: ignore[method-assign]
        await pilot.press_at_once(*"123", "enter", *"4321", "enter", *"21")
        assert not answers_of(run).rankings
        disk.set()
        await settle(pilot, lambda: screen.ranking.asked.version == 2 and not screen.ranking.busy)
        assert [ranking.question for ranking in answers_of(run).rankings] == ["q0001", "q0002"]
        assert screen.ranking.order.placed == [(1, False), (0, False)]


async def test_the_next_question_is_not_taken_back_by_what_was_read_before(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        old = screen.snap
        await rank(app, pilot, *"1234", "enter")
        assert old is not None
        screen.show(old)
        await pilot.pause()
        assert "film: heat 2" in text_of(app)


async def test_questions_ranked_by_another_user_are_not_asked(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        answers = answers_of(run)
        answers.rank(answers.questions[0], [1, 2, 3, 4], "bob@elsewhere")
        await settle(pilot, lambda: "film: heat 2" in text_of(app))
        assert "rankings 1 of 40" in text_of(app)
        assert told(app) == ["q0001 was ranked by bob@elsewhere meanwhile"]


async def test_a_list_ranked_by_another_user_while_typing_is_not_ranked_again(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        await pilot.press(*"43")
        answers = answers_of(run)
        answers.rank(answers.questions[0], [1, 2, 3, 4], "bob@elsewhere")
        await pilot.press(*"21", "enter", *"12")
        await settle(pilot, lambda: screen.ranking.asked.version == 1 and not screen.ranking.busy)
        assert [(each.question, each.by) for each in answers_of(run).rankings] == [("q0001", "bob@elsewhere")]
        assert told(app) == ["q0001 was ranked by bob@elsewhere meanwhile; your ranking of it is not counted"]
        assert "film: heat 2" in text_of(app)
        assert screen.ranking.order.placed == [(0, False), (1, False)]  # what was typed since belongs to the next list


def told(app: TxlabApp) -> list[str]:
    return [str(notice.message) for notice in app._notifications if "meanwhile" in str(notice.message)]


async def test_the_reward_models_order_is_shown_once_the_raters_is_complete(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=12)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "order is shown when yours is complete" in text_of(app))
        assert screen.snap is not None
        question = screen.ranking.asked.question
        assert question is not None
        scores = screen.snap.scores_of(question)
        assert scores is not None
        best = sorted(range(4), key=lambda place: -scores[screen.ranking.asked.order[place]])
        order = " ".join(str(place + 1) for place in best)
        await pilot.press(str(best[1] + 1), str(best[0] + 1))
        await settle(pilot)
        assert f"model:      {order}" not in text_of(app)
        await pilot.press(str(best[2] + 1))
        await settle(pilot, lambda: f"model:      {order}   5 of 6 pairs as yours" in text_of(app))


async def test_digits_are_answers_before_a_question_is_there(tmp_path: Path) -> None:
    app = app_on(tmp_path, feedback_run(tmp_path, questions=0))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "preparing the next question" in text_of(app))
        await pilot.press("3")
        await settle(pilot)
        assert app.screen is screen
        assert "best first" not in text_of(app).splitlines()[-1]  # but the bottom line lists what works
        await pilot.press("tab", "tab", "tab", "tab")  # the comparison
        await settle(pilot, lambda: screen.page == "compared")
        await pilot.press("1", "3", "9")
        await settle(pilot)
        assert app.screen is screen


async def test_digits_open_screens_when_nothing_is_asked(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=12, labeller="simulated")
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "The simulated labeller ranks" in text_of(app))
        await pilot.press("3")
        await settle(pilot, lambda: app.current_mode == "train")


async def test_the_reward_models_order_is_shown_next_to_the_ranking(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=12, labeller="simulated")
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "by the simulated labeller" in text_of(app))
        shown = text_of(app)
        row = next(line for line in shown.splitlines() if "answer 2.1" in line and "1.25" in line)
        assert row.split()[-6:] == ["1", "0.25", "1.25", "+1.00", "answer", "2.1"]
        assert "had 5 of 6 pairs right, now 6" in shown


def ranked_run(root: Path, step: int = 18, labeller: str = "human") -> Path:
    """A run that was stopped after eight questions, which were ranked by two people in turn."""
    run = feedback_run(root, step=step, questions=8, labeller=labeller)
    answers = answers_of(run)
    for place, question in enumerate(answers.questions):
        answers.rank(question, [2, 1, 3, 4], "ann@lab" if place % 2 else asker())
    still_open[-1].close("stopped")
    return run


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_that_was_stopped_says_what_it_has_learnt_and_how_it_goes_on(
    size: tuple[int, int], tmp_path: Path
) -> None:
    app = app_on(tmp_path, ranked_run(tmp_path))
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "was stopped after 8 of" in text_of(app))
        shown = " ".join(text_of(app).replace("│", " ").split())
        assert "4 by you, 4" in shown
        assert "r continue" in text_of(app).splitlines()[-1]
        assert all(f"answer 8.{place}" in shown for place in range(4))
        assert "−2.00" in shown  # the reward model's score of the last one
        if size[0] > 60:
            assert "moved" in shown
            assert "+1.00" in shown
            assert "best" in shown  # the rankings so far
        if size[1] >= 40:
            assert "pairs in the right order" in shown
            assert [line.split()[-7:-5] for line in text_of(app).splitlines() if "film: heat 7" in line] == [
                ["7", "you"]
            ]


async def test_r_continues_a_run_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    continued: list[Path] = []
    monkeypatch.setattr("txlab.tui.screens.train.controls.start_detached_again", continued.append)
    run = ranked_run(tmp_path)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.ranking.check_action("resume", ()) is True)
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: screen.ranking.check_action("resume", ()) is False)  # Train asks where to go on
        await pilot.press("right_curly_bracket")
        await settle(pilot, lambda: screen.ranking.check_action("resume", ()) is True)
        await pilot.press("r")
        await settle(pilot, lambda: continued == [run])


async def test_what_was_ranked_last_is_shown_after_the_policy_too(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=70, labeller="simulated", questions=0)
    still_open[-1].close("done")
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.page == "policy")
        await pilot.press("shift+tab")
        await settle(pilot, lambda: "answer 40.0" in text_of(app))
        assert "had 5 of 6 pairs right, now 6" in text_of(app)
        assert "All 40 rankings have been taken" in text_of(app)


async def test_h_asks_the_run_to_let_people_rank(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=12, labeller="simulated")
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "simulated labeller ranks" in text_of(app))
        await pilot.press("h")
        await settle(pilot, lambda: any((run / "inbox").iterdir()) or "refused" in (run / "events.jsonl").read_text())
        asked = b"".join(file.read_bytes() for file in (run / "inbox").iterdir()) + (run / "events.jsonl").read_bytes()
        assert b'"human"' in asked


async def test_hostile_texts_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=60, texts=(HOSTILE, HOSTILE, HOSTILE), prompt=HOSTILE)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        shown = ""
        for _ in range(5):
            await pilot.press("tab")
            await settle(pilot)
            shown += text_of(app)
        assert not any(bad in shown for bad in ("\x1b", "\u202e", "\x9b", "\x00", "\x07"))
        assert "owned" in shown


async def test_another_run_shows_nothing_of_the_last_one(app: TxlabApp, run: Path) -> None:
    other = make_run(run.parent, "other")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        app.current_run = other
        await settle(pilot, lambda: "other" in text_of(app))
        for _ in range(5):
            await settle(pilot)
            assert "heat" not in text_of(app)
            await pilot.press("tab")


async def test_a_run_that_is_gone_leaves_nothing_on_the_screen(app: TxlabApp, run: Path) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "film: heat 1" in text_of(app))
        still_open.pop().close("stopped")
        shutil.rmtree(run)
        await settle(pilot, lambda: f"{run.name} was deleted or moved" in text_of(app))
        for _ in range(4):
            assert "heat" not in text_of(app)
            await pilot.press("tab", "w", "escape")  # enter would start the scenario that is offered instead
            await settle(pilot)


async def test_a_sweep_names_its_policies_in_the_pipeline(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=75, stages=SWEEP)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "policy β=0 5 of 20" in text_of(app))
        assert "✓ policy β=0.3" in text_of(app)


def test_the_frame_of_the_rankings_is_read_again_after_it_could_not_be_read(tmp_path: Path) -> None:
    late, judged = Frame(9), Frame(4, facts={"ranking": {}})
    answers: list[Frame | LabError] = [LabError("not here yet"), judged]

    def read(step: int) -> Frame:
        answer = answers.pop(0)
        if isinstance(answer, LabError):
            raise answer
        return answer

    reader: Any = SimpleNamespace(frames=SimpleNamespace(steps=np.array([2, 4, 9]), read=read))
    feedback = RunFeedback(tmp_path)
    feedback.wanted = 4
    rankings: Any = SimpleNamespace(first=1)
    assert [feedback.judged_frame(reader, late, rankings) for _ in range(3)] == [late, judged, judged]
