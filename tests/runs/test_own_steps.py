"""One metric counts epochs and another counts updates: every reader gets both curves complete, also after rewinds."""

import csv
from pathlib import Path

import numpy as np
import pytest

import txlab
from txlab.cli.curves import curves
from txlab.cli.progress import PlainLines
from txlab.cli.runs import facts_and_summary
from txlab.drawing.picture import draw_curves, strokes_of
from txlab.drawing.plot import text_chart
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.events import live_branch, read_rows
from txlab.runs.export import live_rows, write_csv, write_tensorboard
from txlab.runs.reader import RunReader, sample_branch
from txlab.runs.summary import summary_of
from txlab.tui.train_snapshot import Look, snapshot, value_at

STEPS, EPOCH, BACK = 3000, 300, 2000


def loss(step: int) -> float:
    return 1 + 1 / (step + 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 000 updates with an epoch each 300; the last 1 000 updates, and epochs 6 to 9, are done twice."""
    with txlab.record("mine", root=tmp_path_factory.mktemp("own"), steps=STEPS) as run:

        def train(first: int, again: float) -> None:
            for step in range(first, STEPS):
                run.log(step, {"train/loss": loss(step) + again})
                if step % EPOCH == EPOCH - 1:
                    run.log(step // EPOCH, {"epoch/acc": step / STEPS + again})

        train(0, 5.0)
        run.rewind(BACK)
        train(BACK + 1, 0.0)
    return run.path


def whole(run: Path) -> RunReader:
    reader = RunReader(run)
    reader.catch_up()
    return reader


def test_the_whole_curves_are_there_and_a_rewind_counts_steps(run: Path) -> None:
    rows = live_branch(read_rows(RunDirectory(run).events)[0])
    expected = [(row["step"], row["values"]["train/loss"]) for row in rows if "train/loss" in row.get("values", {})]
    series = whole(run).series("train/loss")
    assert list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == expected
    assert series.steps.tolist() == list(range(STEPS))
    assert series.values[BACK] == loss(BACK) + 5
    assert series.values[-1] == loss(STEPS - 1)
    (dead,) = whole(run).dead_series("train/loss")
    assert dead.steps.tolist() == list(range(BACK + 1, STEPS))
    assert whole(run).latest("train/loss") == loss(STEPS - 1)
    accuracies = whole(run).series("epoch/acc")
    assert accuracies.steps.tolist() == list(range(10))
    assert (accuracies.values > 5).tolist() == [True] * 6 + [False] * 4
    (dropped,) = whole(run).dead_series("epoch/acc")
    assert dropped.steps.tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize("searched", [0, 1 << 30])
def test_the_first_look_at_a_long_log_shows_the_whole_live_curve(run: Path, searched: int) -> None:
    branch, _ = sample_branch(run / "events.jsonl", tail=8000, samples=64, block=1024, searched=searched)
    series = branch.series("train/loss")
    assert series.steps[0] < 100
    assert (np.diff(series.steps) > 0).all()
    gaps = np.diff(series.steps)
    assert gaps.max() < STEPS / 20
    expected = [loss(step) + (5.0 if step <= BACK else 0) for step in series.steps.tolist()]
    assert series.values.tolist() == expected


def test_a_list_of_runs_has_its_curve_from_the_beginning_and_its_own_step(run: Path) -> None:
    reader = RunReader(run, light=True)
    reader.poll()
    assert not reader.complete
    assert summary_of(reader).first < 100
    assert summary_of(reader).step == facts_and_summary(run)[0]["step"] == STEPS - 1
    assert len(facts_and_summary(run)[0]["curve"]) > 40


def test_csv_is_in_the_order_of_the_steps_with_one_line_a_step(run: Path, tmp_path: Path) -> None:
    with write_csv(run, tmp_path / "wide.csv", wide=True, names=["train/loss"]).open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["step"]) for line in lines] == list(range(STEPS))
    with write_csv(run, tmp_path / "both.csv", wide=True).open() as file:
        both = list(csv.DictReader(file))
    steps = [int(line["step"]) for line in both]
    assert steps == sorted(steps)
    first = both[0]
    assert (float(first["train/loss"]), float(first["epoch/acc"])) == (loss(0) + 5, (EPOCH - 1) / STEPS + 5)
    with write_csv(run, tmp_path / "long.csv").open() as file:
        long = [(int(step), name) for step, name, *_ in list(csv.reader(file))[1:]]
    assert [step for step, _ in long] == sorted(step for step, _ in long)
    assert sum(name == "train/loss" for _, name in long) == STEPS


def test_tensorboard_draws_both_curves_whole(run: Path, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = write_tensorboard(run, tmp_path / "board")
    found = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    assert [event.step for event in found.Scalars("train/loss")] == list(range(STEPS))
    assert [event.step for event in found.Scalars("epoch/acc")] == list(range(10))


def test_charts_and_pictures_are_drawn_from_ascending_steps(run: Path, tmp_path: Path) -> None:
    found = curves([whole(run)], ["train/loss", "epoch/acc"])
    assert all((np.diff(curve.steps) >= 0).all() for curve in found)
    assert text_chart(found, 80, 12)
    strokes = strokes_of(whole(run), ["train/loss", "epoch/acc"])
    assert all((np.diff(stroke.steps) >= 0).all() for stroke in strokes)
    assert draw_curves(strokes, tmp_path / "both.svg").stat().st_size > 1000


def test_the_console_shows_the_run_at_its_last_update(run: Path) -> None:
    snap = snapshot(whole(run), Look(), RunReader)
    assert snap.step == STEPS - 1
    assert value_at(whole(run).series("epoch/acc"), 3) == (4 * EPOCH - 1) / STEPS + 5
    assert all((np.diff(line.steps) >= 0).all() for line in snap.lines)


def test_lines_that_follow_the_run_do_not_go_back(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(run)
    for row in live_branch(read_rows(run / "events.jsonl")[0]):
        lines.take(row)
    assert lines.step == STEPS - 1


def test_a_run_whose_summary_is_lost_is_at_its_last_update(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("events.jsonl", "scenario.toml"):
        (copy / name).write_bytes((run / name).read_bytes())
    assert info_of(RunDirectory(copy)).step == STEPS - 1


def test_what_a_rewind_drops_of_threads_at_different_steps_is_in_order_too(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        for step in (0, 2, 1, 8, 5, 7, 3):
            run.recorder.metrics(step, {"reward": float(step)})
        run.rewind(4)
    (dead,) = whole(run.path).dead_series("reward")
    assert dead.steps.tolist() == [3, 5, 7, 8]
    assert whole(run.path).series("reward").steps.tolist() == [0, 1, 2]


def test_a_rewind_that_comes_while_it_is_read_counts_the_steps_of_the_run(run: Path) -> None:
    reader = whole(run)
    reader._branch.add([{"event": "rewind", "step": 1000, "time": 1.0}])
    assert reader._branch.series("epoch/acc").steps.tolist() == [0, 1, 2]


def test_an_invalid_place_misleads_no_reader(tmp_path: Path) -> None:
    rows = enumerate([b"null", b'"x"', b"1e300", b"9" * 19, b"true", b"[1]"])
    lines = [b'{"event":"metrics","time":1,"step":%d,"at":%s,"values":{"loss":1}}\n' % row for row in rows]
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines) + b'{"event":"rewind","time":1,"step":2}\n')
    assert whole(tmp_path).series("loss").steps.tolist() == [0, 1, 2]
    assert [row["step"] for row in live_rows(tmp_path)] == [0, 1, 2, 2]
