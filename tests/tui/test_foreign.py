"""Other programs' logs on the screens: Lab lists them with their origin, Train follows one that grows."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from picture import text_of
from recorded import HOSTILE, app_on, make_run, settle
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from txlab.runs import summary as run_summary
from txlab.runs.external_logs.finding import logs_under
from txlab.runs.external_logs.mirror import mirror_path
from txlab.runs.finding import find_run
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.screens.train.screen import TrainScreen
from txlab.tui.widgets.rows import Rows


def scalar(writer: EventFileWriter, step: int, tag: str = "train/loss") -> None:
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=4 / (step + 1))])
    writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs with one of ours, TensorBoard's and Lightning's; the current folder is the one above it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(run_summary, "SEARCH_EVERY", 0.1)
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    make_run(root, "ours")
    writer = EventFileWriter(str(root / "board" / "train"))
    for step in range(60):
        scalar(writer, step)
    writer.close()
    table = tmp_path / "lightning_logs" / "version_0" / "metrics.csv"
    table.parent.mkdir(parents=True)
    table.write_text("epoch,step,train_loss\n" + "".join(f"0,{n},{1 / (n + 1)}\n" for n in range(30)))
    os.utime(table, (time.time() - 7200,) * 2)
    return root


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_lab_lists_them_with_their_origin_and_does_not_delete_them(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        await pilot.press("tab")
        await settle(
            pilot, lambda: all(word in text_of(app) for word in ("TensorBoard", "Lightning", "silent", "ours"))
        )
        screen = app.screen_stack[0]
        assert isinstance(screen, LabScreen)
        (log,) = logs_under(root / "board")
        screen.query_one("#runs", Rows).select(str(mirror_path(log)))
        await settle(
            pilot, lambda: size[0] < 100 or str(root / "board" / "train")[-20:] in text_of(app).replace("\n", "")
        )
        assert "delete" not in text_of(app).splitlines()[-1]
        await pilot.press("d")
        await settle(pilot, lambda: any("only read here" in said.message for said in app._notifications))
        assert len(app.screen_stack) == 1
    assert list((root / "board" / "train").iterdir())


async def test_train_follows_a_log_that_grows(root: Path) -> None:
    board = root / "board" / "train"
    app = app_on(root, find_run(board))
    async with app.run_test(size=(120, 40)) as pilot:

        def steps() -> int:
            screen = app.screen_stack[0]
            snap = screen.snap if isinstance(screen, TrainScreen) else None
            return len(snap.lines[0].steps) if snap is not None and snap.lines else 0

        await settle(pilot, lambda: steps() == 60)
        assert "TensorBoard's log" in text_of(app)
        assert "board/train" in text_of(app)
        writer = EventFileWriter(str(board), filename_suffix=".more")
        for step in range(60, 75):
            scalar(writer, step)
        writer.flush()
        await settle(pilot, lambda: steps() == 75)
        assert "step 74" in text_of(app)
        scalar(writer, 80)
        writer.flush()
        await settle(pilot, lambda: steps() == 76)
        writer.close()


async def test_a_silent_log_says_when_it_was_written(root: Path) -> None:
    app = app_on(root, find_run(root.parent / "lightning_logs"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "silent" in text_of(app) and "last written 2h" in text_of(app))


async def test_hostile_names_are_made_visible(root: Path) -> None:
    board = root / "hostile"
    writer = EventFileWriter(str(board))
    for step in range(3):
        scalar(writer, step, HOSTILE.replace("\x00", ""))
    writer.close()
    app = app_on(root, find_run(board))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "[/x][bold]" in text_of(app))
        shown = text_of(app)
        assert "\x1b" not in shown
        assert "\x07" not in shown
