"""The page on which two models are compared blindly, on a real run; and the same by `txlab rank --against`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from feedback_runs import app_on, opened
from made_once import made_once
from picture import text_of
from recorded import settle
from test_pty import Terminal
from textual.pilot import Pilot
from waiting import LONGEST

from txlab.engine.rlhf.comparisons import Comparison, comparison_line, standing
from txlab.engine.rlhf.preferences import Undo
from txlab.experiments.kinds.human_feedback.materials import Texts
from txlab.runs.comparisons import COMPARISONS, Comparing
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import append
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screens.feedback.comparison import ComparisonPanel
from txlab.tui.screens.feedback.screen import FeedbackScreen

SMALL = [
    "task.tokens=10", "model.layers=1", "model.heads=2", "model.width=16", "model.context=32",
    "demonstrations.steps=5", "demonstrations.batch=4", "demonstrations.count=20", "rankings.steps=4",
    "rankings.settling=2", "rankings.answers=3", "policy.steps=4", "policy.batch=8", "policy.minibatches=2",
    "policy.learning_rate=0.01", "probe.prompts=2", "probe.held_out=4", "compute.device=cpu", "compute.threads=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained() -> Path:
    """A finished run of feedback-reviews, much too small to be any good."""
    return made_once("feedback-comparison", train) / "small"


def train(folder: Path) -> None:
    assert execute(prepare(load_scenario("feedback-reviews", SMALL), out=folder / "small")).status == "done"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "runs" / "small"))


def kept(run: Path) -> list[Comparison]:
    file = run / COMPARISONS
    return standing(map(comparison_line, file.read_bytes().splitlines())) if file.exists() else []


async def comparing(pilot: Pilot[None], app: TxlabApp) -> ComparisonPanel:
    """Turn to the page and begin."""
    screen = await opened(pilot, app)
    assert isinstance(screen, FeedbackScreen)
    screen.turn_to("compared")
    await settle(pilot, lambda: "enter begins" in text_of(app))
    await pilot.press("enter")
    await settle(pilot, lambda: screen.compared.seen_now is not None)
    return screen.compared


async def judged(pilot: Pilot[None], panel: ComparisonPanel, keys: Sequence[str]) -> None:
    for key in keys:
        before = panel.seen_now
        await pilot.press(key)
        await settle(pilot, lambda before=before: panel.seen_now is not before and not panel.busy)  # type: ignore[misc]


async def test_models_are_not_named_before_their_answers_are_judged(run: Path) -> None:
    app = app_on(run.parent, run)
    async with app.run_test(size=(100, 30)) as pilot:
        panel = await comparing(pilot, app)
        shown = []
        for _ in range(8):
            assert panel.seen_now is not None
            pair, text = panel.seen_now.pair, text_of(app)
            shown.append(pair.shown)
            assert "1 was" not in text.partition("the pair before")[0]
            for line in text.splitlines():
                assert not (line.strip().startswith(("1 ", "2 ")) and ("now" in line or "fine-tuned" in line))
            await judged(pilot, panel, ["1"])
            told = "1 was now, 2 was as fine-tuned" if pair.shown == "ba" else "1 was as fine-tuned, 2 was now"
            assert told in text_of(app)
        assert set(shown) == {"ab", "ba"}  # a place favours neither
        assert [each.result for each in kept(run)] == [each[0] for each in shown]


async def test_equal_skipped_and_taken_back(run: Path) -> None:
    app = app_on(run.parent, run)
    async with app.run_test(size=(100, 30)) as pilot:
        panel = await comparing(pilot, app)
        await judged(pilot, panel, ["equals_sign", "s", "2"])
        assert [each.result for each in kept(run)][:2] == ["tie", "skip"]
        assert panel.seen_now is not None
        assert panel.seen_now.verdict.ties == 1
        last = kept(run)[-1]
        await judged(pilot, panel, ["u"])
        assert panel.seen_now.pair.id == last.pair  # it is asked again
        assert len(kept(run)) == 2
        await judged(pilot, panel, ["u", "u"])
        assert kept(run) == []
        await pilot.press("u")
        await pilot.pause(0.3)
        assert "nothing is compared yet" in text_of(app)
        assert len((run / COMPARISONS).read_bytes().splitlines()) == 6  # nothing is ever removed from the file


async def test_keys_that_come_while_a_result_is_written_judge_the_next_pairs(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, disk = Comparing.judge, threading.Event()
    monkeypatch.setattr(Comparing, "judge", lambda *given: judge(*given) if disk.wait(LONGEST) else None)
    app = app_on(run.parent, run)
    async with app.run_test(size=(80, 24)) as pilot:
        panel = await comparing(pilot, app)
        await pilot.press_at_once(*"1212121212")
        assert kept(run) == []
        disk.set()
        await settle(pilot, lambda: len(kept(run)) == 10 and not panel.busy)
        assert len({each.pair for each in kept(run)}) == 10
        places = ["12"[each.shown.index(each.result)] for each in kept(run)]
        assert "".join(places) == "1212121212"


@pytest.mark.parametrize(("size", "ascii"), [((60, 20), False), ((80, 24), True), ((120, 40), False)])
async def test_both_answers_and_what_they_add_up_to_are_seen(run: Path, size: tuple[int, int], ascii: bool) -> None:
    app = app_on(run.parent, run, ascii=ascii) if ascii else app_on(run.parent, run)
    async with app.run_test(size=size) as pilot:
        panel = await comparing(pilot, app)
        await judged(pilot, panel, "12")
        text = text_of(app)
        assert "now against as fine-tuned: " in text
        assert sum(line.startswith((" 1 ", "  1 ", "  2 ", " 2 ")) for line in text.splitlines()) >= 2
        assert not ascii or text.isascii()


async def test_hostile_answers_and_names_are_shown_and_not_obeyed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202e[red]x[/]"
    monkeypatch.setattr(Texts, "answer", lambda texts, episodes, row: f"{evil}{row}{id(episodes)}")
    made = Comparing(run, "eve")
    row = made.judge(made.next(), "a").as_row() | {"id": "e1", "by": evil, "prompt": evil}
    row["a"] = {"model": evil, "text": evil}
    append(RunDirectory(run), COMPARISONS, [orjson.dumps(row) + b"\n", b"\xff no JSON\n"])
    app = app_on(run.parent, run)
    async with app.run_test(size=(100, 30)) as pilot:
        await judged(pilot, await comparing(pilot, app), "1")
        text = text_of(app)
        assert text.count("owned") == text.count("[red]x[/]") == 2
        assert not any(bad in text for bad in ("\x1b", "\u202e", "\x9b", "\x07"))


def test_two_people_judge_the_same_pairs_and_each_takes_back_only_their_own(run: Path) -> None:
    ann, ben = Comparing(run, "ann"), Comparing(run, "ben")
    first = ann.next()
    assert ben.next().id == first.id
    ann.judge(first, "a")
    assert ann.next().id != first.id
    assert ben.next().id == first.id
    ben.judge(ben.next(), "b")
    verdict = ann.verdict()
    assert (verdict.won, verdict.lost, verdict.ties) == (0, 0, 1)  # a pair counts once
    assert ben.undo() is not None
    assert ben.undo() is None
    assert [each.by for each in kept(run)] == ["ann"]
    assert any(isinstance(line, Undo) for line in map(comparison_line, (run / COMPARISONS).read_bytes().splitlines()))


def test_pairs_are_the_same_on_another_day(run: Path) -> None:
    one, again = (Comparing(run, "ann").next() for _ in range(2))
    assert one == again


def test_killed_while_judging_nothing_is_lost(run: Path) -> None:
    terminal = Terminal(run.parent)
    try:
        terminal.until("feedback-reviews")
        terminal.type("7")
        terminal.until("√KL")
        terminal.type("\x1b[Z")  # shift+tab twice: the last page
        terminal.until("tokens")
        terminal.type("\x1b[Z")
        terminal.until("enter begins")
        terminal.type("\r")
        for number in range(1, 6):
            while len(kept(run)) < number - 1:
                terminal.read(0.05)
            terminal.until("nothing is compared yet" if number == 1 else "Elo")
            terminal.type("1")
        while len(kept(run)) < 5:
            terminal.read(0.05)
        os.kill(terminal.pid, signal.SIGKILL)
    finally:
        terminal.close()
    assert len({each.pair for each in kept(run)}) == 5
    assert Comparing(run, "another").verdict().won + Comparing(run, "another").verdict().lost == 5


def test_at_a_pipe(run: Path) -> None:
    def rank(*words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "txlab", "rank", str(run), "--by=ann", *words]
        return subprocess.run(command, input=typed, capture_output=True, text=True, check=False)

    said = rank("--against=before", typed="1\n7\n=\ns\nu\nq\n")
    assert [each.result for each in kept(run)][1:] == ["tie"]
    assert "'7' is none of 1 or 2 is better" in said.stderr
    assert said.stdout.count("1 was small@") == 3
    told = json.loads(rank("--against=before", "--status", "--json").stdout)
    assert told["better"] + told["worse"] == told["equal"] == 1
    wrong = rank("--against=nobody")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("txlab: ")
    itself = rank(f"--against={run}")
    assert "would be compared with itself" in itself.stderr
