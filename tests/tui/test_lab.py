"""The Lab: the catalogue, the runs, and the actions on them."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import orjson
import pytest
from picture import text_of
from recorded import HOSTILE, app_on, make_run, settle
from rich.cells import cell_len
from textual import events
from textual.widgets import Input
from waiting import LONGEST

from txlab.drawing.explanation import formula_lines
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.folder import delete_run
from txlab.runs.label import Label, read_label
from txlab.runs.scenario import catalogue
from txlab.runs.summary import RunsUnder, resample
from txlab.tui.screens.dialogs import AskValue, Choose, Dialog
from txlab.tui.screens.lab.describe import describe_scenario
from txlab.tui.screens.lab.overrides import OverridesDialog
from txlab.tui.screens.lab.runs import metric_in
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.rows import Rows


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
        await pilot.press("down")  # from the tour to the first scenario
        chosen = lab(app).query_one("#catalogue", Rows).key or ""
        await settle(pilot, lambda: lab(app).catalogue.entries[chosen].scenario.about.title[:20] in text_of(app))
        shown = text_of(app)
        assert chosen in shown
        entry = lab(app).catalogue.entries[chosen]
        assert entry.scenario.about.title[:20] in shown


async def test_the_filter_finds_and_clears(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        every = len(lab(app).query_one("#catalogue", Rows).selectable())
        await pilot.press("slash", *"gpt-tiny")
        await pilot.pause()
        assert lab(app).query_one("#catalogue", Rows).selectable() == ["gpt-tiny"]
        await settle(pilot, lambda: "A small GPT begins to write" in text_of(app))
        await pilot.press("escape")
        await pilot.pause()
        assert len(lab(app).query_one("#catalogue", Rows).selectable()) == every
        assert lab(app).query_one("#catalogue", Rows).has_focus


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_each_list_has_its_own_filter_and_esc_clears_it_from_the_list_and_from_the_line(
    root: Path, size: tuple[int, int]
) -> None:
    for name in ("gpt-tiny", "cliff"):
        make_run(root, name)
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: lab(app).loaded and len(lab(app).runs.glances) == 2)
        catalogue, runs = (lab(app).query_one(f"#{name}", Rows) for name in ("catalogue", "runs"))
        every = catalogue.selectable()
        await pilot.press("slash", *"gpt-tiny", "enter")
        assert catalogue.selectable() == ["gpt-tiny"]
        assert len(runs.selectable()) == 2
        await pilot.press("tab", "slash", *"Cliff", "enter")
        await settle(pilot, lambda: len(runs.selectable()) == 1)
        assert "cliff" in runs.selectable()[0]
        await pilot.press("v")
        await settle(pilot, lambda: lab(app).runs.table is not None)
        assert len(runs.selectable()) == 1
        assert "Cliff" in text_of(app)
        await pilot.press("v", "escape")  # that of the runs, which the keys act on
        await settle(pilot, lambda: len(runs.selectable()) == 2)
        assert catalogue.selectable() == ["gpt-tiny"]
        await pilot.press("escape")  # then that of the other list
        assert catalogue.selectable() == every
        await pilot.press("slash", *"cliff", "escape")  # in the line itself
        assert len(runs.selectable()) == 2
        assert runs.has_focus


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
        await settle(pilot, lambda: started and lab(app).runs.glances)
        await settle(pilot, lambda: "starting…" in text_of(app))
        await pilot.press("3")
        assert app.current_run == started[0].absolute()
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
        assert isinstance(form, OverridesDialog)
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


def form_of(app: object) -> OverridesDialog:
    assert isinstance(app.screen, OverridesDialog)  # type: ignore[attr-defined]
    return app.screen  # type: ignore[attr-defined, no-any-return]


async def test_settings_are_a_form_with_what_is_allowed_and_the_changed_ones_marked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: started.append(path) or 1)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("e")
        await settle(pilot, lambda: form_of(app).good)
        keys = list(form_of(app).settings)
        tables = list(dict.fromkeys(key.rpartition(".")[0] for key in keys))
        assert tables[:3] == ["data", "model", "train"]
        assert "about.title" not in keys
        assert "248 k parameters" in text_of(app)
        assert "FLOPs, about" in text_of(app)
        assert "a whole number, at least 1" in text_of(app)
        await pilot.press(*"layers", "enter")  # the old value is selected: typing replaces it
        before = form_of(app).base["model.layers"].value
        await settle(pilot, lambda: form_of(app).good)
        await pilot.press("3")
        await settle(pilot, lambda: form_of(app).good and "* layers" in text_of(app))
        assert f"was {before}" in text_of(app)
        await pilot.press("enter", *"steps=x")
        await settle(pilot, lambda: form_of(app).wrong)
        assert "train.steps" in text_of(app)
        assert "--set" not in text_of(app)
        await pilot.press("f5")
        await settle(pilot, lambda: "not started: " in text_of(app))  # F5 answers
        await pilot.press("backspace", "5", "f5")  # before it has been checked
        await settle(pilot, lambda: started)
    assert RunInfo.load(started[0]).changes == {"model.layers": 3, "train.steps": 5}


async def test_what_is_typed_before_the_settings_are_known_is_judged_when_they_are(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("e")
        await settle(pilot, lambda: form_of(app).good)
        form = form_of(app)
        settings, form.base, form.judged = form.base, {}, None
        form.query_one(Input).value = "x5 4yt/ = 1"
        form.say("x5 4yt/ = 1", settings, "")  # what was found of the scenario alone
        form.action_start()
        await settle(pilot, lambda: bool(form.wrong))
        assert not form.good
        assert app.screen is form


async def test_a_line_that_has_changed_since_it_was_found_good_starts_nothing(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("e")
        await settle(pilot, lambda: form_of(app).good)
        form = form_of(app)
        line = form.query_one(Input)
        with line.prevent(Input.Changed):  # as when the key that starts overtakes the news of the change
            line.value = "x5 4yt/ = 1"
        form.action_start()
        assert app.screen is form


async def test_a_change_is_taken_back_by_an_empty_value_and_esc_leaves_one_level_at_a_time(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("e")
        await settle(pilot, lambda: form_of(app).good)
        for typed, changes in (("seed=7", {"seed": "7"}), ("seed=", {})):
            await pilot.press(*typed)
            await settle(pilot, lambda: form_of(app).good)
            await pilot.press("enter")
            assert form_of(app).changes == changes
        await pilot.press(*"lr", "escape")
        assert form_of(app).query_one(Input).value == ""
        await pilot.press("escape")
        await settle(pilot, lambda: len(app.screen_stack) == 1)


async def test_a_text_box_selects_its_old_text(root: Path) -> None:
    app = app_on(root)
    answers: list[str | None] = []
    async with app.run_test() as pilot:
        await app.push_screen(AskValue("What?", value="old"), answers.append)
        await pilot.press(*"new", "enter")
        await pilot.pause()
    assert answers == ["new"]


async def test_enter_on_a_run_opens_it_on_train(root: Path) -> None:
    path = make_run(root)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).runs.glances)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert app.current_mode == "train"
        assert app.current_run == path.absolute()


async def test_a_run_shows_its_state_step_and_loss(root: Path) -> None:
    make_run(root, "good")
    make_run(root, "bad", status="failed")
    app = app_on(root)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).runs.glances) == 2)
        shown = text_of(app)
        assert "✓ good" in shown
        assert "✗ bad" in shown
        assert "ended as failed" in shown
        assert "loss 2." in shown


async def test_delete_asks_and_removes_only_that_run(root: Path) -> None:
    keep, gone = make_run(root, "keep"), make_run(root, "gone")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).runs.glances) == 2)
        await pilot.press("tab")
        lab(app).query_one("#runs", Rows).select(str(gone))
        await pilot.press("d")
        await settle(pilot, lambda: "y enter delete" in text_of(app))  # both keys for it are named
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
    (path / "run.json").write_bytes(info.to_json())
    moved = path.rename(root / "[x]日本 \x1b[31m")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: moved in lab(app).runs.glances)
        await pilot.press("tab")
        for key in ("x", "r", "w", "d"):
            await pilot.press(key)
            await pilot.pause()
            shown = text_of(app)
            assert not {"\x1b", "\x07", "\x00", "\x9b", "\u202e"} & set(shown)
            await pilot.press("escape")


RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ODD = f"{HOSTILE}\nsecond\rline\u2028third\x85\u2066"


@pytest.mark.parametrize("text", [ODD, "w" * 1_000_000], ids=["escapes", "a megabyte"])
async def test_no_key_or_value_of_run_json_is_shown_raw_or_breaks_the_list(root: Path, text: str) -> None:
    """Its facts, changes and configuration, which are read by several parts of the screen, with all its other texts."""
    path = make_run(root, "hostile")
    said = orjson.loads((path / "run.json").read_bytes())
    nested = {
        "text": text,
        text: [text],
        "source": {"program": text, "path": text},
        "headline": [text],
        "parameters": 7,
    }
    said |= {"title": text, "scenario": text, "group": text, "tags": [text], "host": text, "user": text, "reason": text}
    said |= {"changes": {text: text, "lr": text}, "config": {text: text, "lr": {text: text}}, "versions": {text: text}}
    said |= {"facts": nested, "git": {"commit": text}, "branched": {"run": text, "step": text}, "command": [text, text]}
    said |= {"alerts": {"count": 3, "level": text, "title": text, "step": 4, "time": 1.0}}
    (path / "run.json").write_bytes(orjson.dumps(said))
    other = make_run(root, "sound")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: {path, other} <= set(lab(app).runs.glances))
        await pilot.press("tab")
        for key in ("down", "w", "up", "w", "v", "v", "c", "down", "c"):
            await pilot.press(key)
            await pilot.pause()
            shown = text_of(app)
            assert not RAW.search(shown), (key, RAW.search(shown))
            assert all(cell_len(line) <= 120 for line in shown.splitlines())
            if key in ("w", "c") and isinstance(app.screen, Dialog):
                await pilot.press("escape")
        assert "sound" in text_of(app)


async def test_only_runs_on_the_screen_are_read(root: Path) -> None:
    template = make_run(root, steps=2)
    for index in range(60):
        copy = root / f"2020-01-01_0000{index:02}_old"
        copy.mkdir()
        for name in ("run.json", "events.jsonl"):
            (copy / name).write_bytes((template / name).read_bytes())
    app = app_on(root)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: lab(app).runs.glances)
        await pilot.pause(0.8)
        assert len(lab(app).runs.paths) == 61
        assert len(lab(app).runs.glances) < 30
        await pilot.press("tab", "end")
        await settle(pilot, lambda: lab(app).runs.paths[-1] in lab(app).runs.glances)


def test_a_running_run_is_read_again_and_an_ended_one_is_not(root: Path) -> None:
    path = make_run(root)
    under = RunsUnder(root)
    assert list(under.look({path.name})[1]) == [path]
    assert under.look({path.name})[1] == {}
    assert under.readers == {}


def test_the_little_curve_is_even_in_steps() -> None:
    import numpy as np

    steps = np.concatenate([np.arange(0, 1000, 100), np.arange(1000, 1100)])
    curve = resample(steps, steps.astype(float), 12)
    assert np.allclose(np.diff(curve), np.diff(curve)[0])


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_description_leaves_a_blank_column_before_its_bar(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        page = lab(app).query_one("#details", Page)
        await pilot.press("down")
        await settle(pilot)
        lines = [page.render_line(y).text for y in range(page.size.height)]
        assert all(line[-2] == " " for line in lines)
        assert max(len(line[:-2].rstrip()) for line in lines) > 0.8 * page.cells
        if page.overflows:
            assert any(line[-1] != " " for line in lines)
            await pilot.press("J")
            await settle(pilot)
            assert page.top > 0
            assert page.render_line(0).text[:-1] == lines[page.top][:-1]


@pytest.mark.parametrize("cells", [30, 51, 84])
async def test_folded_formulas_and_expectations_hang(root: Path, cells: int) -> None:
    for entry in catalogue():
        lines = describe_scenario(entry, cells).plain.split("\n")
        start = lines.index("You will see") + 1
        assert all(line.startswith("  ") for line in lines[start : lines.index("", start)])
        folded = [line for line in lines if line.startswith("  ")]
        assert max(cell_len(line) for line in folded) <= cells


def test_a_formula_is_broken_between_its_equations_first() -> None:
    assert formula_lines("x ← x + Attn(LN x);  x ← x + W₂ h", 24) == ["x ← x + Attn(LN x);", "x ← x + W₂ h"]
    assert formula_lines("loss = −mean log p(answer)", 20) == ["loss = −mean log", "    p(answer)"]


async def test_why_says_how_large_a_scenario_is(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("w")
        await settle(pilot, lambda: "parameters" in text_of(app) and "FLOPs a step" in text_of(app))
        assert "248 448" in text_of(app)


async def test_why_says_what_became_of_a_run(root: Path) -> None:
    make_run(root, status="failed")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).runs.glances)
        await pilot.press("tab", "w")
        await settle(pilot, lambda: "Why: ended as failed" in text_of(app))
        shown = text_of(app)
        assert ": failed at step 40 of 40" in shown
        assert "grad_norm" in shown


async def test_the_bottom_line_offers_what_the_selected_run_can_do(root: Path) -> None:
    make_run(root, status="done")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).runs.glances)
        await pilot.press("tab")
        await settle(pilot, lambda: "d delete" in text_of(app))
        assert "x stop" not in text_of(app)
        assert "r resume" not in text_of(app)


async def test_what_is_behind_a_dialog_is_drawn_once(root: Path) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot, lambda: isinstance(app.screen, Dialog) and app.screen.behind)
        screen = app.screen
        assert isinstance(screen, Dialog)
        behind = screen.behind
        screen.refresh()
        await settle(pilot)
        assert screen.behind is behind
        assert "txlab" in text_of(app).split("\n")[0]
        await pilot.resize_terminal(100, 30)
        await settle(pilot, lambda: screen.behind is not behind)


async def test_the_lab_is_drawn_where_colours_are_not_wanted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    make_run(root)
    app = app_on(root)
    async with app.run_test(size=(120, 60)) as pilot:  # so high that the page has lines without any text
        await settle(pilot, lambda: lab(app).loaded and lab(app).runs.glances)
        for keys in (["tab"], ["question_mark"], ["escape"], ["w"], ["escape"], ["3"], ["4"]):
            await pilot.press(*keys)
            await settle(pilot)
            assert "txlab" in text_of(app)


async def test_a_name_that_is_written_out_is_the_one_that_is_chosen(root: Path) -> None:
    """cliff-alpha is listed before cliff, and both have these letters."""
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        rows = lab(app).query_one("#catalogue", Rows)
        await pilot.press("slash", *"cliff")
        await pilot.pause()
        assert rows.selectable()[0] != "cliff"
        assert rows.key == "cliff"


async def test_a_run_started_while_an_older_one_is_selected_is_the_one_that_opens(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: 1)
    make_run(root, "older begins")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded and lab(app).runs.glances)
        await pilot.press("tab", "slash", *"begins", "enter")  # the older run, but not the new one
        await settle(pilot, lambda: lab(app).runs.rows.key)
        await pilot.press("tab", "down")
        await pilot.press("enter")
        await settle(pilot, lambda: len(list(root.iterdir())) == 2)
        await settle(pilot, lambda: lab(app).runs.started)
        await pilot.press("tab", "enter")
        await settle(pilot, lambda: app.current_mode != "lab")
        assert app.current_run is not None
        assert "older" not in app.current_run.name


async def test_a_run_started_where_the_folder_of_runs_is_the_usual_one_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TXLAB_RUNS", raising=False)
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: 1)
    app = app_on(None)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded)
        lab(app).query_one("#catalogue", Rows).select("gpt-tiny")
        await pilot.press("enter")
        await settle(pilot, lambda: lab(app).runs.started and lab(app).runs.glances)
        assert lab(app).runs.rows.selectable() == [lab(app).runs.started]
        assert lab(app).runs.started.startswith(str(tmp_path / "runs"))


async def test_a_look_that_began_before_a_run_was_started_does_not_unlist_it(root: Path) -> None:
    older = make_run(root, "older")
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).runs.glances)
        new = make_run(root, "newer", status="open")
        runs = lab(app).runs
        runs.select_started(new)
        runs.show([older], {})
        assert runs.rows.key == str(new)
        runs.show([new, older], {})
        assert runs.rows.selectable() == [str(new), str(older)]


async def test_two_runs_of_one_scenario_are_distinguished_and_one_gets_a_name_and_a_note(root: Path) -> None:
    paths = [make_run(root, "gpt-tiny") for _ in range(3)]
    for path, layers in zip(paths, (2, 3), strict=False):
        info = RunInfo.load(path)
        info.changes = {"model.layers": layers}
        info.save(RunDirectory(path))
    app = app_on(root)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).runs.glances) == 3)
        shown = text_of(app)
        assert "gpt-tiny layers=2" in shown
        assert "gpt-tiny layers=3" in shown
        await pilot.press("tab")
        lab(app).runs.rows.select(str(paths[0]))
        await pilot.press("n", *"best", "enter")
        await settle(pilot, lambda: "A note" in text_of(app))
        await pilot.press(*"keep", "enter")
        await settle(pilot, lambda: "✓ best" in text_of(app))
        assert "keep" in text_of(app)
        assert "layers=2" in text_of(app)  # the details still say what was changed
    assert read_label(paths[0]) == Label("best", "keep")


async def test_runs_that_differ_in_nothing_show_when_they_were_started(root: Path) -> None:
    for created in (1e9, 1e9 + 61):
        path = make_run(root, "gpt-tiny")
        info = RunInfo.load(path)
        info.created = created
        info.save(RunDirectory(path))
    app = app_on(root)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, lambda: len(lab(app).runs.glances) == 2)
        for created in (1e9, 1e9 + 61):
            assert time.strftime("gpt-tiny %d %b %H:%M:%S", time.localtime(created)) in text_of(app)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_burst_of_keys_starts_the_scenario_that_was_typed_even_before_the_catalogue_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    """All of it is typed without a pause; `slow`: before there is a list to choose from."""
    from txlab.runs import scenario

    prepared: list[str] = []
    may_read = threading.Event()

    def read_late() -> list[scenario.CatalogueEntry]:
        may_read.wait(LONGEST)
        return catalogue()

    def prepare(chosen: scenario.LoadedScenario, **_: object) -> Path:
        prepared.append(chosen.name)
        return make_run(root, chosen.name)

    monkeypatch.setattr(scenario, "catalogue", read_late)
    monkeypatch.setattr("txlab.runs.process.prepare", prepare)
    monkeypatch.setattr("txlab.runs.process.start_detached", lambda path, **_: 1)
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        if not slow:
            may_read.set()
            await settle(pilot, lambda: lab(app).loaded)
        for character in "/cliff\r\r":
            name = {"/": "slash", "\r": "enter"}.get(character, character)
            app.post_message(events.Key(name, character))
        if slow:
            await pilot.pause(0.5)
            assert not prepared
            may_read.set()
        await settle(pilot, lambda: prepared)
        await pilot.pause(0.3)
        assert prepared == ["cliff"]
        assert app.current_mode == "lab"


def test_the_name_of_a_metric_ends_at_a_whole_word() -> None:
    assert [metric_in("value_start", room) for room in (11, 9, 5)] == ["value start", "value", "value"]
    assert metric_in("return/expected-sarsa", 12) == "return"


async def test_no_description_of_a_choice_runs_into_the_next_line(root: Path) -> None:
    choices = [
        (f"2026-11-23_07{n:04}_gpt-tiny", "a description that is a good deal longer than the room", False)
        for n in range(3)
    ]
    for columns in (60, 80, 120):
        app = app_on(root)
        async with app.run_test(size=(columns, 24)) as pilot:
            await pilot.pause()
            app.push_screen(Choose("Which?", choices))
            await pilot.pause(0.2)
            rows = [line for line in text_of(app).splitlines() if "gpt-tiny" in line and "2026" in line]
            assert len(rows) == 3
            lines = text_of(app).splitlines()
            first = next(at for at, line in enumerate(lines) if "070000_gpt" in line)
            assert ["_gpt-tiny" in line for line in lines[first : first + 3]] == [True] * 3


async def test_a_count_is_of_the_rows_shown_and_the_list_with_the_keys_has_the_lit_heading(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        make_run(tmp_path, name)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: len(app.screen.runs.paths) == 3 and app.screen.catalogue.entries)
        every = len(app.screen.catalogue.entries)
        assert f"Scenarios   {every}" in text_of(app)
        assert "Runs   3" in text_of(app)
        await pilot.press("slash", *"gpt-tiny")
        last = text_of(app).splitlines()[-1]
        assert "J K" not in last  # they are letters now, as is /
        assert "filter" not in last
        assert "quit" in last
        await pilot.press("enter")
        await settle(pilot, lambda: f"Scenarios   1 of {every}" in text_of(app))
        heads = [app.screen.query_one(f"#{name}-title", Words).text.spans[0].style for name in ("catalogue", "runs")]
        assert ["underline" in str(style) for style in heads] == [True, False]
        await pilot.press("tab", "slash", *"beta", "enter")
        await settle(pilot, lambda: "Runs   1 of 3" in text_of(app))
        heads = [app.screen.query_one(f"#{name}-title", Words).text.spans[0].style for name in ("catalogue", "runs")]
        assert ["underline" in str(style) for style in heads] == [False, True]
        await pilot.press("escape")
        await settle(pilot, lambda: "Runs   3" in text_of(app))
