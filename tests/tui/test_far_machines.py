"""The console on runs of another machine: the Lab's list, Train, a lost line, requests, and exact numbers for `w`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from far_machine import stand_in
from picture import text_of
from recorded import app_on, as_ours, make_run, settle, still_open

from txlab.runs.reader import RunReader
from txlab.runs.remote import mirroring
from txlab.runs.remote.address import Address
from txlab.runs.remote.coarse import APPROXIMATE
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.widgets.why import WhyScreen


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    runs = tmp_path / "far" / "runs"
    runs.mkdir(parents=True)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host box\n  User ann\nHost *.lan -x\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=runs))
    yield runs
    mirroring.close_all()


def lab(app: object) -> LabScreen:
    screen = app.screen_stack[0]  # type: ignore[attr-defined]
    assert isinstance(screen, LabScreen)
    return screen


async def test_the_lab_lists_another_machine_and_opens_its_runs(
    far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(far, "far-model", status="open")
    make_run(tmp_path / "here", "near-model")
    app = app_on(tmp_path / "here")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        await pilot.press("tab", "o")
        await settle(pilot, lambda: isinstance(app.screen, Choose))
        assert "~/.ssh/config" in text_of(app)
        await pilot.press(*"box", "enter")
        await settle(pilot, lambda: "far-model" in text_of(app) and "on box" in text_of(app))
        assert "near-model" not in text_of(app)
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_mode == "train" and "loss" in text_of(app))
        await settle(pilot, lambda: app.far is not None and app.far.connected)
        still_open[-1].log(41, loss=0.125)
        await settle(pilot, lambda: "41" in text_of(app) and ".125" in text_of(app))

        host = mirroring.host_at(Address("box"))
        monkeypatch.setenv("TXLAB_SSH", "false")
        assert host._line is not None
        host._line.process.kill()
        await settle(pilot, lambda: "connection to box lost" in text_of(app))
        await pilot.press("1")
        await settle(pilot, lambda: "line lost" in text_of(app))
        monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=far))
        still_open[-1].log(42, loss=0.0625)
        host.try_now()
        await settle(pilot, lambda: "line lost" not in text_of(app))
        await pilot.press("3")
        await settle(pilot, lambda: ".0625" in text_of(app))
        assert "connection to box" not in text_of(app)

        await pilot.press("1", "o")
        await settle(pilot, lambda: isinstance(app.screen, Choose))
        await pilot.press(*"this", "enter")
        await settle(pilot, lambda: "near-model" in text_of(app))
        assert run.name


async def test_a_request_of_the_console_reaches_the_inbox_there(far: Path, tmp_path: Path) -> None:
    run = as_ours(make_run(far, "far-model", status="open"))
    still_open[-1].recorder.info.kind = "language-model"
    path = mirroring.open_run(Address("box"))
    app = app_on(tmp_path / "here", path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "far-model" in text_of(app) and "on box" in text_of(app))
        await pilot.press("space")
        await settle(pilot, lambda: list((run / "inbox").glob("*.json")))
        [request] = (run / "inbox").glob("*.json")
        assert b'"pause"' in request.read_bytes()


async def test_asking_why_fetches_all_digits_first(far: Path, tmp_path: Path) -> None:
    run = make_run(far, "far-model", status="open")
    scores = np.random.default_rng(1).random((2, 2, 8, 8)).astype(np.float32)
    pattern = np.tril(scores) / np.tril(scores).sum(-1, keepdims=True)
    still_open[-1].frame(50, {"attention/pattern": pattern}, {"probe": [*"abcdefgh"]})
    path = mirroring.open_run(Address("box"))
    reader = RunReader(path)

    def newest() -> int:
        reader.poll()
        return int(reader.frames.steps[-1]) if len(reader.frames) else 0

    while newest() != 50:
        time.sleep(0.01)
    assert APPROXIMATE in reader.frames.read(50).facts
    app = app_on(tmp_path / "here", path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app.far is not None)
        app.look_at(path, "attention")
        await settle(pilot, lambda: "@ 50" in text_of(app))
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen))
        exact = RunReader(path).frames.read(50)
        np.testing.assert_array_equal(np.asarray(exact.tensors["attention/pattern"]), pattern)
        np.testing.assert_array_equal(next(iter(app.screen_stack[0].recorded.patterns.values())), pattern)  # type: ignore[attr-defined]
    assert run.exists()
