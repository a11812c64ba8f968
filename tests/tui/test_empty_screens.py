"""A screen with nothing to show offers one run and one scenario, and lists only the keys that work then."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import app_on, as_ours, make_run, settle
from textual.pilot import Pilot

from txlab.drawing.text import sentences
from txlab.experiments.kind import kind_named
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.scenario import catalogue
from txlab.tui.invitation import find_run
from txlab.tui.playback import Playback
from txlab.tui.screen_registry import SCREENS, ScreenEntry
from txlab.tui.screens.keyline import KeyLine

OFFERING = [entry for entry in SCREENS if entry.scenario]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def of_kind(run: Path, kind: str, status: str = "done") -> Path:
    """The same run as if a run of that kind had written it."""
    info = RunInfo.load(run)
    info.kind, info.status = kind, status
    info.save(RunDirectory(run))
    return run


async def open_screen(pilot: Pilot[None], entry: ScreenEntry) -> None:
    pilot.app.action_open_screen(entry.name)
    await settle(pilot, lambda: pilot.app.current_mode == entry.name and len(pilot.app.screen.query(Playback)))
    await settle(pilot)


def keys(pilot: Pilot[None]) -> list[str]:
    return [word for _, _, word in pilot.app.screen.query_one(KeyLine).shown_keys()]


def test_every_screen_without_an_experiment_of_its_own_declares_its_scenario() -> None:
    for entry in SCREENS:
        screen = entry.open()
        run = getattr(screen, "run", None)
        assert (isinstance(run, Playback) and run.live is None) == bool(entry.scenario), entry.name
        if entry.scenario:
            named = {each.name: each.scenario.kind for each in catalogue()}
            assert run.opens(kind_named(named[entry.scenario])), f"{entry.name} would not show {entry.scenario}"


@pytest.mark.parametrize("entry", OFFERING, ids=lambda entry: entry.name)
async def test_enter_starts_the_scenario_of_an_empty_screen(
    root: Path, entry: ScreenEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda run: 0)
    app = app_on(root)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_screen(pilot, entry)
        shown = text_of(app)
        assert "No run is chosen." in shown
        assert entry.scenario in shown
        assert entry.about in shown
        opens = ["open"] if entry.name in ("attention", "words") else []
        assert keys(pilot) == ["start", *opens, "quit", "help"]
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_run is not None)
        assert RunInfo.load(app.current_run).scenario == entry.scenario
        await settle(pilot, lambda: not app.screen.has_class("-empty") or entry.name == "attention")
        assert app.current_mode == entry.name


@pytest.mark.parametrize("entry", OFFERING, ids=lambda entry: entry.name)
async def test_a_run_of_another_kind_is_named_with_the_screen_that_shows_it(root: Path, entry: ScreenEntry) -> None:
    app = app_on(root, of_kind(make_run(root), "planning"), screen="lab")
    async with app.run_test(size=(80, 24)) as pilot:
        await open_screen(pilot, entry)
        if entry.name == "train":  # it shows every kind
            assert not app.screen.has_class("-empty")
            return
        await settle(pilot, lambda: "records nothing that this screen shows" in " ".join(text_of(app).split()))
        assert "Arena (6) shows it" in " ".join(text_of(app).split())
        others = {"attention": ["text", "open"], "words": ["open"]}.get(entry.name, [])
        assert keys(pilot) == ["start", *others, "quit", "help"]


async def test_the_run_that_waits_is_offered_and_opened(root: Path) -> None:
    entry = next(each for each in SCREENS if each.name == "words")
    runs = {status: of_kind(make_run(root, status), "word-vectors") for status in ("waiting", "last")}
    of_kind(make_run(root, "newest"), "planning")
    assert find_run(root, lambda kind: kind.screen == "words").path == runs["last"]
    run = of_kind(make_run(root, "waiting2", status="open"), "word-vectors", "paused")
    last = of_kind(make_run(root, "later"), "word-vectors")
    assert find_run(root, lambda kind: kind.screen == "words").path == run
    app = app_on(root, of_kind(last, "planning"), screen="lab")
    async with app.run_test(size=(100, 30)) as pilot:
        await open_screen(pilot, entry)
        await settle(pilot, lambda: "waiting2" in text_of(app))
        assert keys(pilot) == ["open", "open", "quit", "help"]
        await pilot.press("j")
        assert keys(pilot)[0] == "start"
        await pilot.press("k", "enter")
        await settle(pilot, lambda: app.current_run == run.absolute())


async def test_a_deleted_run_is_named(root: Path) -> None:
    import shutil

    run = as_ours(make_run(root))
    app = app_on(root, run)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: "gpt-small" in text_of(app))
        shutil.rmtree(run)
        await settle(pilot, lambda: f"{run.name} was deleted or moved." in text_of(app))


async def test_at_24_lines_an_empty_screen_says_the_first_sentences_of_its_scenario_and_no_half_one(root: Path) -> None:
    entry = next(each for each in OFFERING if each.name == "attention")
    shows = next(each for each in catalogue() if each.name == entry.scenario).scenario.about.shows
    told = sentences(shows)
    assert len(told) > 3
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_screen(pilot, entry)
        await settle(pilot, lambda: told[0][:30] in text_of(app))
        shown = " ".join(text_of(app).split())
        assert told[0] in shown
        assert told[-1] not in shown
        said = [sentence for sentence in told if sentence[:20] in shown]
        assert said == told[: len(said)]
        assert all(sentence in shown for sentence in said)
