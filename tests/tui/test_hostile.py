"""The console on untrusted runs: it stays responsive and says what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

from picture import text_of
from recorded import app_on, as_ours, make_run, settle

from txlab.tui.screens.train.screen import TrainScreen


def with_a_huge_row(run: Path, size: int = 200 << 20) -> Path:
    """A row of hundreds of megabytes before those of the run."""
    events = run / "events.jsonl"
    rows = events.read_bytes()
    with events.open("wb") as file:
        file.write(b'{"event":"note","time":1,"step":0,"text":"')
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + rows)
    return run


async def test_a_run_json_that_is_a_fifo_and_a_huge_row_are_shown_without_blocking(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = with_a_huge_row(as_ours(make_run(root)))
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "cannot be read" in text_of(app))
        app.look_at(run)
        await settle(pilot, lambda: isinstance(app.screen_stack[0], TrainScreen) and app.screen_stack[0].snap)
        screen = app.screen_stack[0]
        assert isinstance(screen, TrainScreen)
        await settle(pilot, lambda: screen.snap is not None and screen.snap.complete)
        assert screen.snap is not None
        assert "loss" in screen.snap.metrics
        assert "loss" in text_of(app)
