"""The Lab: the catalogue, the runs, and what one may do to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import HOSTILE, app_on, make_run, settle

from txlab.errors import LabError
from txlab.runs.directory import RunInfo
from txlab.tui.deletion import delete_run
from txlab.tui.glance import RunsUnder, resampled
from txlab.tui.screens.lab import LabScreen
from txlab.tui.screens.overrides import ChangeFirst, overrides_in
from txlab.tui.screens.rows import Rows


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def lab(app: object) -> LabScreen:
    screen = app.screen_stack[0]  # type: ignore[attr-defined]
    assert isinstance(screen, LabScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_catalogue_says_what_a_scenario_shows(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        shown = text_of(app)
        assert "gpt-tiny" in shown
        entry = lab(app).entries[lab(app).query_one("#catalogue", Rows).key or ""]
        assert entry.scenario.about.title[:20] in shown


async def test_the_filter_finds_and_clears(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        every = len(lab(app).query_one("#catalogue", Rows).selectable())
        await pilot.press("slash", *"gpt-tiny")
        await pilot.pause()
        assert lab(app).query_one("#catalogue", Rows).selectable() == ["gpt-tiny"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(lab(app).query_one("#catalogue", Rows).selectable()) == every
        assert lab(app).query_one("#catalogue", Rows).has_focus


async def test_without_runs_the_list_says_what_to_do(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.5)
        assert "no runs yet" in text_of(app)


async def test_enter_starts_the_scenario_as_a_process_and_the_run_appears(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: started.append(path) or 1)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("enter")
        await settle(pilot, lambda: started and lab(app).glances)
        await settle(pilot, lambda: "starting…" in text_of(app))
    assert started[0].parent == root
    assert RunInfo.load(started[0]).status == "created"


async def test_changes_are_checked_while_they_are_typed_and_then_started(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: started.append(path) or 1)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("e")
        await pilot.pause()
        form = app.screen
        assert isinstance(form, ChangeFirst)
        await settle(pilot, lambda: form.good)
        await pilot.press(*"train.stps=5")
        await settle(pilot, lambda: not form.good)
        assert "train.steps" in text_of(app)  # the nearest name
        await pilot.press("f5")
        assert app.screen is form  # a wrong change starts nothing
        await pilot.press(*["backspace"] * 5, *"teps=5")
        await settle(pilot, lambda: form.good)
        await pilot.press("f5")
        await settle(pilot, lambda: started)
    assert "steps = 5" in (started[0] / "scenario.toml").read_text()


def test_overrides_are_lines_without_comments() -> None:
    assert overrides_in("a.b = 1\n\n# no\n  c=2  ") == ["a.b = 1", "c=2"]


async def test_enter_on_a_run_opens_it_on_train(root: Path) -> None:
    path = make_run(root)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).glances)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert app.current_mode == "train"
        assert app.current_run == path.absolute()


async def test_a_run_shows_its_state_step_and_loss(root: Path) -> None:
    make_run(root, "good")
    make_run(root, "bad", status="failed")
    app = app_on(root)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).glances) == 2)
        shown = text_of(app)
        assert "✓ good" in shown
        assert "✗ bad" in shown
        assert "ended as failed" in shown
        assert "loss 2." in shown


async def test_delete_asks_and_removes_only_that_run(root: Path) -> None:
    keep, gone = make_run(root, "keep"), make_run(root, "gone")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).glances) == 2)
        await pilot.press("tab")
        lab(app).query_one("#runs", Rows).select(str(gone))
        await pilot.press("d")
        await pilot.press("n")
        assert gone.exists()
        await pilot.press("d", "y")
        await settle(pilot, lambda: not gone.exists())
    assert keep.exists()


def test_nothing_but_an_ended_run_inside_the_folder_is_ever_deleted(root: Path, tmp_path: Path) -> None:
    outside = make_run(tmp_path / "elsewhere")
    running = make_run(root, status="open")
    folder = root / "not-a-run"
    folder.mkdir()
    link = root / "link"
    link.symlink_to(outside)
    for path in (outside, running, folder, link, root):
        with pytest.raises(LabError):
            delete_run(path, root)
        assert path.exists()


async def test_hostile_names_are_shown_and_break_nothing(root: Path) -> None:
    path = make_run(root, "hostile")
    info = RunInfo.load(path)
    info.scenario = info.title = info.reason = HOSTILE
    info.status = "failed"
    (path / "run.json").write_bytes(info.encoded())
    moved = path.rename(root / "[x]日本 \x1b[31m")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: moved in lab(app).glances)
        await pilot.press("tab")
        for key in ("x", "r", "w", "d"):
            await pilot.press(key)
            await pilot.pause()
            shown = text_of(app)
            assert not {"\x1b", "\x07", "\x00", "\x9b", "\u202e"} & set(shown)
            await pilot.press("escape")


async def test_only_runs_on_the_screen_are_read(root: Path) -> None:
    template = make_run(root, steps=2)
    for index in range(60):
        copy = root / f"2020-01-01_0000{index:02}_old"
        copy.mkdir()
        for name in ("run.json", "events.jsonl"):
            (copy / name).write_bytes((template / name).read_bytes())
    app = app_on(root)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: lab(app).glances)
        await pilot.pause(0.8)
        assert len(lab(app).paths) == 61
        assert len(lab(app).glances) < 30
        await pilot.press("tab", "end")
        await settle(pilot, lambda: lab(app).paths[-1] in lab(app).glances)


def test_a_run_that_goes_on_is_looked_at_again_and_one_that_ended_is_not(root: Path) -> None:
    path = make_run(root)
    under = RunsUnder(root)
    assert list(under.look({path.name})[1]) == [path]
    assert under.look({path.name})[1] == {}
    assert under.readers == {}


def test_the_little_curve_is_even_in_steps() -> None:
    import numpy as np

    steps = np.concatenate([np.arange(0, 1000, 100), np.arange(1000, 1100)])
    curve = resampled(steps, steps.astype(float), 12)
    assert np.allclose(np.diff(curve), np.diff(curve)[0])
