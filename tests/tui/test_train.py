"""Train: the view of a run, everything follows the time line, and requests are confirmed and answered."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from picture import text_of
from recorded import HOSTILE, app_on, append_rows, as_ours, make_run, settle

import txlab
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.reader import RunReader
from txlab.tui.history import Entry, answered_requests, history
from txlab.tui.screens.train.controls import parse_setting
from txlab.tui.screens.train.curves import round_number
from txlab.tui.screens.train.screen import TrainScreen
from txlab.tui.screens.train.text import Pending, brief, header, log_lines, nearest_sample, select_entries, wrap_lines
from txlab.tui.train_snapshot import Look, snapshot, value_at
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.timeline import TimeLine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def train(app: Any) -> TrainScreen:
    screen = app.screen_stack[0]
    assert isinstance(screen, TrainScreen)
    return screen


def reader_of(run: Path) -> RunReader:
    reader = RunReader(run)
    reader.poll()
    return reader


def ready(app: Any) -> Callable[[], bool]:
    return lambda: isinstance(app.screen_stack[0], TrainScreen) and train(app).snap is not None


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_run_is_shown_with_its_numbers(root: Path, size: tuple[int, int]) -> None:
    run = as_ours(make_run(root))
    app = app_on(root, run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, ready(app))
        await pilot.pause(0.2)
        shown = text_of(app)
        assert "gpt-small ✓ done at step 40 of 40" in shown
        last = reader_of(run).series("loss").values[-1]
        assert f"loss {last:.3f}" in " ".join(shown.split())
        assert "nats" in shown
        assert any(0x2801 <= ord(character) <= 0x28FF for character in shown)  # the curve


async def test_without_a_run_the_screen_says_how_to_choose_one(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        assert "No run is chosen" in text_of(app)
        for key in ("space", ".", "c", "+", "r", "w", "o", "m", "z", "tab", "<"):
            await pilot.press(key)
        await pilot.pause()


async def test_everything_follows_the_time_line(root: Path) -> None:
    run = make_run(root)
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: len(app.screen.query_one(TimeLine).steps))
        await pilot.press("{")
        await settle(pilot, lambda: train(app).run.at == 10)
        expected = value_at(reader_of(run).series("loss"), 10)
        await settle(pilot, lambda: train(app).snap.values["loss"] == expected)
        shown = text_of(app)
        assert "looking at step 10" in shown
        assert "sample at 10" in shown
        assert train(app).query_one(Chart).marker == 10
        await pilot.press("]")
        await settle(pilot, lambda: "sample at 20" in text_of(app))
        await pilot.press("}")
        await settle(pilot, lambda: train(app).run.at is None and "looking at" not in text_of(app))


async def test_samples_of_two_steps_are_shown_side_by_side(root: Path) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("<", "<")
        await pilot.pause()
        assert any("sample at 20" in line and "sample at 40" in line for line in text_of(app).split("\n"))
        await pilot.press(">", ">")
        await pilot.pause()
        assert not any("sample at 20" in line and "sample at 40" in line for line in text_of(app).split("\n"))


async def test_samples_longer_than_their_place_are_laid_out_as_wide_as_short_ones(root: Path) -> None:
    """The output of a finished run is laid out once, before its scroll bar appears: space for it is always reserved."""
    widths = {}
    for text in ("a cat", "many cats\n" * 60):
        app = app_on(root, make_run(root, text=text))
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot, ready(app))
            samples = train(app).query_one("#samples")
            widths[samples.show_vertical_scrollbar] = samples.scrollable_content_region.width
    assert widths[False] == widths[True]


async def test_the_metric_changes_and_so_do_the_axes(root: Path) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("tab")
        await settle(pilot, lambda: train(app).snap.metric == "lr")
        await pilot.press("shift+tab")
        await settle(pilot, lambda: train(app).snap.metric == "loss")
        chart = train(app).query_one(Chart)
        await pilot.press("l", "L", "m")
        assert (chart.log_x, chart.log_y, chart.smoothing > 0) == (True, True, True)
        await pilot.press("z")
        assert chart.zoomed is not None
        await pilot.press("Z")
        assert chart.zoomed is None


async def test_another_run_is_overlaid_and_removed(root: Path) -> None:
    make_run(root, "other")
    app = app_on(root, make_run(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        for expected in (2 + 1, 2):
            await pilot.press("o")
            await settle(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press(*"other", "enter")
            await settle(pilot, lambda expected=expected: len(train(app).snap.lines) == expected)


async def test_a_request_is_asked_until_the_run_answers(root: Path) -> None:
    run = as_ours(make_run(root, status="open"))
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("minus")
        await settle(pilot, lambda: train(app).controls.pending)
        assert "asked…" in text_of(app)
        (file,) = [path for path in (run / "inbox").iterdir() if path.suffix == ".json"]
        request = orjson.loads(file.read_bytes())
        assert [request["request"], request["key"], request["value"]] == ["scale", "lr", 0.8]
        answer = {"event": "control", "step": 40, "request": "set", "key": "lr", "from": 2.5e-5, "to": 2e-5}
        append_rows(run, {**answer, "by": request["by"], "id": request["id"], "applied": True, "error": None})
        await settle(pilot, lambda: not train(app).controls.pending)
        assert "lr 2.5e-5 → 2e-5 by you, at step 40" in text_of(app)


async def test_a_run_that_is_gone_is_reported_not_to_answer(root: Path) -> None:
    run = as_ours(make_run(root, status="open"))
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("c")
        await settle(pilot, lambda: train(app).controls.pending)
        info = RunInfo.load(run)
        info.pid = 2**22 - 3
        (run / "run.json").write_bytes(info.to_json())
        await settle(pilot, lambda: "no answer: the run is gone" in text_of(app))
        assert "r resumes it" in text_of(app)


async def test_a_run_that_grows_is_followed(root: Path) -> None:
    run = make_run(root, status="open")
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        append_rows(run, {"event": "metrics", "step": 41, "values": {"loss": 0.123}})
        await settle(pilot, lambda: "0.123" in text_of(app))


async def test_a_long_log_is_shown_immediately_and_read_to_its_end(root: Path) -> None:
    run = make_run(root, status="open")
    with (run / "events.jsonl").open("ab") as file:
        for step in range(41, 60_001):
            file.write(b'{"event":"metrics","time":%d.5,"step":%d,"values":{"loss":%d.25}}\n' % (step, step, step % 7))
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: train(app).snap.complete and len(train(app).snap.lines[0].steps) == 60_000)


async def test_a_run_that_vanishes_is_reported_once(root: Path, tmp_path: Path) -> None:
    app = app_on(root, tmp_path / "nowhere")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: app._notifications)
        await pilot.pause(1.0)
        assert len(app._notifications) == 1
        assert "is not a run" in str(next(iter(app._notifications)).message)
    run = make_run(root)
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        shutil.rmtree(run)
        await settle(pilot, lambda: f"{run.name} was deleted or moved." in text_of(app))
        assert not any(0x2801 <= ord(character) <= 0x28FF for character in text_of(app))  # its curve
        assert len(app._notifications) == 1
        await pilot.press("tab", "[", "w")
        await pilot.pause(0.3)


def test_a_number_or_a_date_without_room_is_left_out_and_not_cut(root: Path) -> None:
    snap = snapshot(RunReader(make_run(root)), Look(), RunReader)
    whole = [fact.value for fact in snap.facts]
    for cells in range(40, 130):
        said = brief(snap, cells)
        assert said.cell_length <= cells
        assert said.plain.split()[-1] in whole
        said = header(snap, None, cells)
        assert "started" not in said.plain or said.cell_length <= cells
    assert "started 20" in header(snap, None, 120).plain


async def test_nothing_is_sent_to_the_terminal_while_nothing_happens(root: Path) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.pause(1.0)
        sent: list[object] = []
        display = app._display
        app._display = lambda screen, renderable: (sent.append(renderable), display(screen, renderable))  # type: ignore
        await pilot.pause(1.5)
        assert not sent


@pytest.mark.parametrize("status", ["failed", "stopped", "interrupted"])
async def test_an_end_is_described_with_advice(root: Path, status: str) -> None:
    app = app_on(root, as_ours(make_run(root, status=status)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        shown = text_of(app)
        assert f"{status} at step 40" in shown
        assert f"ended as {status}" in shown
        assert "r resumes it" in shown


async def test_what_another_program_recorded_offers_no_control_that_it_cannot_obey(root: Path) -> None:
    run = txlab.record("own", root=root)
    for step in range(3):
        run.log(step, {"train/loss": 3.0 - step, "eval/loss": 3.1 - step})
    run.close("failed", "it broke")
    app = app_on(root, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        assert "it broke" in text_of(app)
        assert "resume" not in text_of(app)
        assert {line.label for line in train(app).snap.lines} == {"train", "eval"}
        await pilot.press("r", "space", "c")
        await settle(pilot)
        assert not train(app).controls.pending
        assert not list((run.path / "inbox").iterdir())
        await pilot.press("1", "tab")
        await settle(pilot, lambda: "it broke" in text_of(app))
        assert "resume" not in text_of(app)


async def test_hostile_texts_reach_no_cell_unescaped(root: Path) -> None:
    run = make_run(root, text=HOSTILE)
    append_rows(
        run,
        {"event": "note", "step": 40, "text": HOSTILE},
        {"event": "metrics", "step": 41, "values": {HOSTILE: 1.0, "loss": float("nan")}},
        {"event": "control", "step": 41, "request": HOSTILE, "key": HOSTILE, "by": HOSTILE, "applied": False},
        {"event": "sample", "step": 41, "prompt": HOSTILE, "text": HOSTILE},
        {"event": "end", "step": 41, "status": HOSTILE, "reason": HOSTILE},
    )
    info = RunInfo.load(run)
    info.facts = {"unit": HOSTILE, "compute": {"dtype": HOSTILE, "attention": HOSTILE, "why": [HOSTILE]}}
    info.reason = info.scenario = HOSTILE
    info.status = "failed"
    (run / "run.json").write_bytes(info.to_json())
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        for key in ("tab", "tab", "tab", "tab", "<", "t", "escape", "o", "escape", "down", "down", "?"):
            await pilot.press(key)
            await pilot.pause(0.05)
            assert not {"\x1b", "\x07", "\x00", "\x9b", "\u202e"} & set(text_of(app))


def test_a_snapshot_at_a_step_knows_only_what_was_known_then(root: Path) -> None:
    run = make_run(root)
    reader = reader_of(run)
    at = snapshot(reader, Look(at=15), RunReader)
    series = reader.series("loss")
    assert at.values["loss"] == series.values[int(np.flatnonzero(series.steps <= 15)[-1])]
    assert at.values["val_loss"] == reader.series("val_loss").values[0]


def test_a_run_that_cannot_be_read_is_not_said_to_be_starting(root: Path) -> None:
    run = make_run(root)
    for name in ("run.json", "events.jsonl"):
        (run / name).unlink()
        os.mkfifo(run / name)
    snap = snapshot(RunReader(run), Look(), RunReader)
    said = header(snap, None, 120).plain
    assert "run.json cannot be read (it is a FIFO)" in said
    assert "starting" not in said
    assert "resumes" not in said


def test_dead_branches_are_drawn_dim(root: Path) -> None:
    run = make_run(root, status="open")
    append_rows(
        run,
        {"event": "rewind", "step": 20, "from": 40, "reason": "resumed from checkpoint 20"},
        {"event": "metrics", "step": 21, "values": {"loss": 1.0}},
    )
    reader = reader_of(run)
    snap = snapshot(reader, Look(), RunReader)
    assert [line.role for line in snap.lines] == ["train", "val", "dead"]
    assert int(snap.lines[0].steps[-1]) == 21
    assert any("went back to step 20" in entry.text for entry in snap.entries)


def test_the_log_tells_refusals_and_who(root: Path) -> None:
    run = make_run(root)
    row = {"event": "control", "step": 5, "request": "set", "key": "lr", "by": "bob@far", "id": "q", "applied": False}
    append_rows(run, {**row, "error": "lr must be at most 1"})
    reader = reader_of(run)
    entries = history(reader)
    assert any(entry.text == "set lr refused by bob@far: lr must be at most 1" for entry in entries)
    assert answered_requests(entries) == {"q"}


@pytest.mark.parametrize(("entries", "lines"), [(0, 3), (1, 3), (2, 3), (3, 3), (9, 3), (9, 1)])
def test_the_log_shows_the_newest_entries_that_fit_and_requests_last(entries: int, lines: int) -> None:
    known = [Entry(float(i), i, f"entry {i}") for i in range(entries)]
    shown = log_lines(known, {}, None, lines, 0.0, "").plain
    assert [line.split(maxsplit=1)[1] for line in shown.split("\n") if "entry" in line] == [
        entry.text for entry in known[-lines:]
    ]
    asked = log_lines(known, {"x": Pending("checkpoint", 0.0)}, None, lines, 1.0, "").plain.split("\n")
    assert asked[-1].endswith("checkpoint  asked…")
    assert len(asked) == min(lines, entries + 1)


def test_of_what_happens_again_and_again_the_log_keeps_the_newest_before_the_step() -> None:
    entries = [Entry(float(i), i, f"checkpoint {i}", regular="checkpoint") for i in range(5)] + [Entry(9, 9, "a note")]
    assert [entry.text for entry in select_entries(entries, None)] == ["checkpoint 4", "a note"]
    assert [entry.text for entry in select_entries(entries, 2)] == ["checkpoint 2", "a note"]


def test_where_there_are_few_lines_checkpoints_give_way() -> None:
    entries = [
        Entry(1, 1, "lr changed", "accent"),
        Entry(2, 2, "val 1 (best so far)", regular="best"),
        Entry(3, 3, "val 2", regular="val"),
        Entry(4, 4, "checkpoint 4", regular="checkpoint"),
        Entry(5, 5, "done"),
        Entry(6, 6, "checkpoint 6", regular="checkpoint"),
    ]
    assert [e.split(" ", 1)[1] for e in log_lines(entries, {}, None, 2, 0.0, "").plain.split("\n")] == [
        "val 1 (best so far)",
        "done",
    ]
    many = log_lines(entries, {}, None, 6, 0.0, "").plain.split("\n")
    assert [line.split(" ", 1)[1] for line in many] == [entry.text for entry in entries]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_log_has_the_end_at_every_size(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root, make_run(root))
    async with app.run_test(size=size) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: any(line.rstrip().endswith(" done") for line in text_of(app).split("\n")[-9:]))


@pytest.mark.parametrize("text", ["lr", "= 3", "lr = x", "lr = nan", "lr = inf", ""])
def test_an_unknown_setting_is_refused_with_an_error(text: str) -> None:
    with pytest.raises(LabError):
        parse_setting(text)


def test_a_setting_is_a_name_and_a_number() -> None:
    assert parse_setting(" lr = 1e-4 ") == ("lr", 1e-4)


def test_the_nearest_sample_is_the_last_one_before() -> None:
    assert [nearest_sample([10, 20, 30], at) for at in (None, 5, 20, 29)] == [30, 10, 20, 20]
    assert nearest_sample([], 3) is None


def test_text_is_folded_without_losing_any_of_it() -> None:
    text = "the cat sat on a very-long-word-indeed and\n\nleft 日本語日本語"
    for cells in (1, 2, 7, 20, 100):
        lines = wrap_lines(text, cells)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_smoothing_is_over_round_numbers() -> None:
    assert [round_number(value) for value in (0.2, 1, 3, 24.8, 50, 999)] == [1, 1, 2, 20, 50, 500]


def test_metrics_of_one_kind_are_drawn_together_and_told_one_by_one(root: Path) -> None:
    run = txlab.record("several", root=root, steps=20)
    for step in (10, 20):
        accuracies = {f"accuracy_{k}": k / 16 for k in (16, 2, 0)}
        texts = {"epochs/python-docs": step / 4, "epochs/python-source": step / 400}
        run.log(step, loss=1.0, val_loss=2.0, accuracy=0.5, **accuracies, **texts)
    run.close()
    reader = reader_of(as_ours(run.path))
    snap = snapshot(reader, Look("epochs/python-source"), RunReader)
    assert [line.label for line in snap.lines] == ["python-docs", "python-source"]
    assert snap.unit == "epochs of each text"
    assert [name for name in snap.metrics if name.startswith(("acc", "epo"))] == [
        "accuracy",
        "accuracy_0",
        "epochs/python-docs",
    ]
    told = {fact.key: fact.name for fact in snap.facts}
    assert told["accuracy_16"] == "accuracy 16"
    assert told["epochs/python-docs"] == "epochs python-docs"
    curves = snapshot(reader, Look("accuracy_16"), RunReader)
    assert [line.label for line in curves.lines] == ["0", "2", "16"]
    assert [float(line.values[-1]) for line in curves.lines] == [0.0, 0.125, 1.0]
    assert [line.label for line in snapshot(reader, Look("accuracy"), RunReader).lines] == ["accuracy"]


def test_a_run_with_a_headline_shows_it_first_with_its_band(root: Path) -> None:
    run = make_run(root)
    info = RunInfo.load(RunReader(run).directory)
    info.facts = {"unit": "episodes", "headline": ["return/sarsa", "return/q-learning"], "compute": {"device": "cpu"}}
    info.save(RunReader(run).directory)
    values = {"return/sarsa": -20.0, "return_low/sarsa": -22.0, "return_high/sarsa": -18.0, "greedy/sarsa": -15.0}
    values |= {"return/q-learning": -50.0, "won_first": 0.5, "episodes_per_second": 100.0, "greedy/q-learning": -13.0}
    append_rows(run, {"event": "metrics", "step": 41, "values": values})
    snap = snapshot(reader_of(run), Look(), RunReader)
    facts = {fact.name: fact for fact in snap.facts}
    assert [fact.name for fact in snap.facts][:2] == ["return sarsa", "return q-learning"]
    assert facts["return sarsa"].note == "−22.00 to −18.00"
    assert "return_low sarsa" not in facts
    assert {"won first", "greedy sarsa", "episodes/s"} <= facts.keys()
    assert snap.metric == "return/sarsa"
    assert snap.metrics.index("episodes_per_second") > snap.metrics.index("greedy/sarsa")


async def test_another_run_is_shown_at_its_own_live_edge_whatever_step_the_last_one_was_at(root: Path) -> None:
    first, second = make_run(root), make_run(root, "second", steps=30)
    app = app_on(root, first)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("[", "[", "left", "z")
        await settle(pilot, lambda: train(app).run.at is not None)
        app.current_run = second.absolute()
        await settle(pilot, lambda: train(app).snap is not None and train(app).snap.step == 30)
        timeline, chart = train(app).query_one(TimeLine), train(app).query_one(Chart)
        assert (train(app).run.at, timeline.at, chart.marker, chart.cursor, chart.zoomed) == (None,) * 5
        assert timeline.label() == "30 · last frame"


async def test_nothing_of_a_deleted_run_stays_on_the_screen(root: Path) -> None:
    run = as_ours(make_run(root, status="open"))
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: "loss" in text_of(app))
        app.current_run = None
        await settle(pilot, lambda: "No run is chosen" in text_of(app))
        shown = text_of(app)
        assert not any(0x2801 <= ord(character) <= 0x28FF for character in shown)
        for word in ("loss", "sample at", "last frame", "pause", "stop", "resume", "lr", "checkpoint", "why"):
            assert word not in shown, word


async def test_a_long_list_of_changes_leaves_room_for_the_step(root: Path) -> None:
    run = as_ours(make_run(root))
    info = RunInfo.load(run)
    info.changes = {"compute.compile": False, "compute.attention": "matmul", "compute.dtype": "float32"}
    info.changes |= {"model.layers": 3, "train.learning_rate": 0.001, "compute.threads": 1}
    info.save(RunDirectory(run))
    app = app_on(root, run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: "step" in text_of(app).splitlines()[2])
        assert "layers=3" in text_of(app).splitlines()[2]


# Going back


def told(app: Any) -> str:
    return " ".join(str(notice.message) for notice in app._notifications)


BANDITS = ["testbed.steps=60", "testbed.runs=20", "record.checkpoint_every=20", "record.frame_every=8"]


def bandits(root: Path) -> Path:
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    run = prepare(load_scenario("bandits", BANDITS), root=root)
    execute(run)
    return run


async def test_a_selected_step_is_continued_in_a_new_run(root: Path) -> None:
    run = bandits(root)
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("[", "[")  # frames are at 0, 8 … 56, 60
        await settle(pilot, lambda: train(app).run.at == 48)
        await settle(pilot, lambda: "continue from 48" in text_of(app))
        await pilot.press("r")
        await settle(pilot, lambda: "Go on from checkpoint 40, the nearest before 48" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_run != run)
        new = app.current_run
        assert new is not None
        await settle(pilot, lambda: RunInfo.load(new).status == "done")
        assert RunInfo.load(new).branched == {"run": run.name, "step": 40}


async def test_or_in_the_same_run_whose_end_stays_as_a_branch(root: Path) -> None:
    run = bandits(root)
    app = app_on(root, run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("[", "[", "r")
        await settle(pilot, lambda: "in this run" in text_of(app))
        await pilot.press("down", "enter")
        await settle(pilot, lambda: "rewound to checkpoint 40" in (run / "events.jsonl").read_text())
        await settle(pilot, lambda: RunInfo.load(run).status == "done")
        reader = reader_of(run)
        assert any(len(reader.dead_series(name)) for name in reader.names())


async def test_at_the_live_edge_r_says_how_to_go_back(root: Path) -> None:
    run = bandits(root)
    before = (run / "events.jsonl").read_bytes()
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("r")
        await settle(pilot, lambda: "is done; [ goes back" in told(app))
    assert (run / "events.jsonl").read_bytes() == before


async def test_a_step_before_the_first_checkpoint_is_answered_with_those_there_are(root: Path) -> None:
    app = app_on(root, bandits(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await pilot.press("{", "r")
        await settle(pilot, lambda: "no checkpoint at or before step 0; there are: 20, 40, 60" in told(app))


async def test_ticks_mark_only_checkpoints_that_exist(root: Path) -> None:
    run = bandits(root)
    shutil.rmtree(run / "checkpoints" / "00000020")
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        assert train(app).run.timeline.checkpoints.tolist() == [40, 60]


async def test_events_of_a_run_are_drawn_on_its_curve(root: Path) -> None:
    run = as_ours(make_run(root, status="open"))
    row = {"event": "control", "request": "set", "key": "lr", "from": 1e-3, "by": "ann@box"}
    append_rows(
        run,
        row | {"step": 41, "to": 5e-4, "applied": True, "id": "a"},
        row | {"step": 41, "to": 9.0, "applied": False, "id": "b"},
        {"event": "metrics", "step": 60, "values": {"loss": 2.0}},
        {"event": "rewind", "step": 55, "from": 55, "reason": "resumed from checkpoint 55"},
        {"event": "metrics", "step": 80, "values": {"loss": 1.9}},
    )
    assert snapshot(reader_of(run), Look(), RunReader).events == ((41, "lr 5e-4"), (55, "resumed"))
    app = app_on(root, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: "╎lr 5e-4" in text_of(app) and "╎resumed" in text_of(app))


def test_a_branch_is_drawn_where_it_leaves_the_other_run(root: Path) -> None:
    run = make_run(root, status="open")
    info = RunInfo.load(run)
    info.branched = {"run": "another", "step": 20}
    (run / "run.json").write_bytes(info.to_json())
    for step, explicit in ((20, False), (25, True), (30, False)):
        append_rows(run, {"event": "rewind", "step": step, "from": 40, "reason": "", "explicit": explicit})
    assert snapshot(reader_of(run), Look(), RunReader).events == ((20, "branched"), (25, "rewound"), (30, "resumed"))


async def test_two_overlays_keep_their_legend(root: Path) -> None:
    others = [make_run(root, f"another-long-name-{word}") for word in ("seven", "eight")]
    app = app_on(root, make_run(root))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        for path in others:
            train(app).curves.toggle_overlay(path.absolute())
        await settle(pilot, lambda: len(train(app).snap.lines) == 4)
        chart = train(app).query_one(Chart)

        def named() -> int:
            legend = "".join(text for line in chart.pieces[: chart.above] for text, _ in line)
            return sum(each.label[-8:] in legend for each in chart.series) + legend.count("──")

        await settle(pilot, lambda: named() == 4 + 3)


def on_a_card(root: Path, **more: float) -> Path:
    """A run whose machine rows are those of a GPU."""
    run = as_ours(make_run(root, status="open", name="gpt-card"))
    values = {
        "tokens_per_second": 812_000.0,
        "share_of_peak": 0.47,
        "share_of_data_sheet": 0.38,
        "memory_mb": 21_400.0,
        "memory_reserved_mb": 23_000.0,
        "host_memory_mb": 2_100.0,
        "gpu_busy": 0.98,
        "gpu_used_mb": 24_100.0,
        "gpu_total_mb": 85_000.0,
        "gpu_celsius": 61.0,
        "gpu_watts": 687.0,
        "gpu_watts_limit": 700.0,
        "gpu_slowed": 4.0,
    }
    append_rows(run, {"event": "machine", "step": 40, "values": values | more})
    return run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_card_is_shown_with_its_units_and_why_its_clock_is_slowed(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root, on_a_card(root))
    async with app.run_test(size=size) as pilot:
        await settle(pilot, ready(app))
        facts = {fact.name: (fact.value, fact.note) for fact in train(app).snap.facts}
        assert facts["of sheet"] == ("38 %", "the data sheet's peak")
        assert facts["memory"] == ("21 400", "MB; in use 24.1 of 85.0 GB")
        assert facts["busy"] == ("98 %", "time with a kernel")
        assert (facts["power"], facts["temperature"]) == (("687", "W of 700"), ("61", "°C"))
        assert facts["slowed"][0] == "power limit"
        assert not [name for name in facts if name.startswith(("gpu", "host"))]  # not listed a second time by its name
        if size[0] == 120:
            shown = " ".join(text_of(app).split())
            assert "slowed power limit" in shown


def test_a_card_that_is_not_slowed_or_says_nothing_takes_no_room(root: Path) -> None:
    run = on_a_card(root, gpu_slowed=1.0)
    found = snapshot(reader_of(run), Look(), reader_of)
    assert "slowed" not in [fact.name for fact in found.facts]
    assert found.metrics[-1].startswith(("gpu_", "share_", "memory_", "host_", "tokens_"))  # machines come last


async def test_the_number_under_the_cursor_is_the_one_that_is_drawn(root: Path) -> None:
    app = app_on(root, as_ours(make_run(root)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        facts = train(app).numbers.facts
        keys = [fact.key for fact in facts.facts]
        for key in ("lr", "grad_norm", "val_loss"):
            facts.choose(keys.index(key))
            await settle(pilot, lambda key=key: train(app).snap.metric == key.removeprefix("val_"))
            assert facts.chosen.key == key
        await pilot.press("tab")
        await settle(pilot, lambda: train(app).snap.metric != "loss")
        assert facts.chosen.key == train(app).snap.metric


async def test_validation_is_points_and_overlays_lie_below_the_runs_own_curve(root: Path) -> None:
    other = as_ours(make_run(root, "other"))
    app = app_on(root, as_ours(make_run(root)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        train(app).curves.toggle_overlay(other.absolute())
        await settle(pilot, lambda: len(train(app).query_one(Chart).series) == 3)
        drawn = [(each.label.split(" ")[0], each.style) for each in train(app).query_one(Chart).series]
        assert drawn == [("other", "line"), ("gpt-small", "line"), ("val", "points")]


async def test_a_run_without_numbers_says_what_it_is_doing(root: Path) -> None:
    run = make_run(root, "waiting", steps=0, status="open")
    append_rows(run, {"event": "note", "step": 0, "text": "trying torch's compiler on this shape: up to a minute"})
    app = app_on(root, as_ours(run))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, ready(app))
        await settle(pilot, lambda: text_of(app).count("trying torch's compiler on this shape") == 2)


def test_each_kind_says_what_it_has_instead_of_texts() -> None:
    from txlab.experiments.kind import kind_named
    from txlab.tui.screens.train.text import instead_of_samples

    assert instead_of_samples(kind_named("language-model")).startswith("no samples yet")
    assert "g plays" in instead_of_samples(kind_named("self-play"))
    assert "Arena (6)" in instead_of_samples(kind_named("planning"))
    assert (
        instead_of_samples(kind_named("image-classification")) == "It writes no texts: the curves show what it learns."
    )
