"""Screen 4 on a model of another machine: its checkpoint is fetched with progress, and `esc` cancels that."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from far_machine import stand_in
from picture import text_of
from test_attention import app_on, opened, until
from test_attention_bench import idle, typed_into
from waiting import LONGEST

from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.remote import fetching, mirroring
from txlab.runs.remote.address import mirrors_root


async def test_a_model_of_another_machine_is_fetched_and_esc_cancels_that(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "far" / "runs"
    shutil.copytree(tiny_run, runs / tiny_run.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=runs))
    goes_on, pieces_of = threading.Event(), fetching.pieces_of

    def slow_pieces(*given: Any) -> Iterator[bytes]:
        for piece in pieces_of(*given):
            yield piece
            assert goes_on.wait(LONGEST)

    monkeypatch.setattr(fetching, "pieces_of", slow_pieces)
    app = app_on(None, tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "esc close" in text_of(app))
        await typed_into(pilot, "box:latest")
        await until(pilot, lambda: "checkpoint 12 from box: " in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: screen.model.wanted is None)
        goes_on.set()
        await until(pilot, lambda: idle(screen))
        assert "checkpoint 12 from box" not in text_of(app)
        run = RunDirectory(mirrors_root() / "box" / "runs" / tiny_run.name)
        assert checkpoints.steps(run) == []
        await pilot.press("o")
        await until(pilot, lambda: "esc close" in text_of(app))
        await typed_into(pilot, "box:latest")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        assert screen.model.live is not None
        assert (screen.model.live.opened.step, screen.model.steps) == (12, (6, 12))
        assert checkpoints.steps(run) == [12]
        await pilot.press("left_square_bracket")  # the checkpoint before, which is not here yet
        await until(pilot, lambda: screen.model.live.opened.step == 6)  # type: ignore[union-attr]
        assert checkpoints.steps(run) == [6, 12]
    mirroring.close_all()
