"""Exports read back by other programs: Python's csv, and TensorBoard's own reader."""

import csv
import math
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from test_branch import killed_after

from txlab.cli.follow import follow
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory, new_info
from txlab.runs.export import live_rows, write_csv, write_tensorboard
from txlab.runs.frames import FrameWriter
from txlab.runs.process import rows_behind
from txlab.runs.reader import RunReader


def row(event: str, step: int, **rest: Any) -> bytes:
    return orjson.dumps({"event": event, "time": 1000.5 + step, "step": step, **rest}) + b"\n"


def metrics(step: int, **values: Any) -> bytes:
    return row("metrics", step, values=values)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Twelve steps, of which 5 … 8 were done twice."""
    draw = random.Random(3)
    log = [row("start", 0)]
    for step in [*range(1, 9), "back", *range(5, 13)]:
        if step == "back":
            log.append(row("rewind", 4, reason="resumed"))
            continue
        log.append(metrics(step, loss=draw.random() * 10, lr=3e-4))
        log.append(row("machine", step, values={"tokens_per_second": 1e5 * draw.random()}))
        if step % 4 == 0:
            log.append(metrics(step, val_loss=draw.random()))
            log.append(row("sample", step, prompt="The *", text="# not a title\n<b>x</b> \ud7ff日本"))
    log += [metrics(13, loss="NaN", lr="Infinity"), b'{"torn', b"\n", metrics(14, loss="-Infinity")]
    path = tmp_path / "run"
    path.mkdir()
    (path / "events.jsonl").write_bytes(b"".join(log))
    return path


def series_of(run: Path) -> dict[str, list[tuple[int, float, float]]]:
    reader = RunReader(run)
    reader.catch_up()
    found = {name: reader.series(name) for name in reader.names()}
    return {n: list(zip(s.steps.tolist(), s.values.tolist(), s.times.tolist(), strict=True)) for n, s in found.items()}


def same(one: list[tuple[int, float, float]], two: list[tuple[int, float, float]]) -> bool:
    return np.array_equal(np.array(one), np.array(two), equal_nan=True)


class TestCsv:
    def test_long_has_every_live_value_exactly(self, run: Path, tmp_path: Path) -> None:
        out = write_csv(run, tmp_path / "deep" / "long.csv")
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        expected = series_of(run)
        assert list(rows[0]) == ["step", "name", "value", "time"]
        for name, points in expected.items():
            found = [(int(r["step"]), float(r["value"]), float(r["time"])) for r in rows if r["name"] == name]
            assert same(found, points)
        assert len(rows) == sum(len(points) for points in expected.values())

    def test_wide_has_a_line_a_step_and_leaves_empty_what_was_not_measured(self, run: Path, tmp_path: Path) -> None:
        out = write_csv(run, tmp_path / "wide.csv", wide=True)
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [int(r["step"]) for r in rows] == list(range(1, 15))
        for name, points in series_of(run).items():
            found = [(int(r["step"]), float(r[name]), 0.0) for r in rows if r[name]]
            assert same(found, [(step, value, 0.0) for step, value, _ in points])
        assert rows[0]["val_loss"] == ""
        assert rows[-1]["loss"] == "-inf"

    def test_two_values_of_a_name_at_one_step_are_two_lines(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        run.mkdir()
        (run / "events.jsonl").write_bytes(metrics(1, a=1.0) + metrics(1, b=2.0) + metrics(1, a=3.0))
        assert write_csv(run, tmp_path / "o.csv", wide=True).read_text() == (
            "step,time,a,b\n1,1001.5,1.0,2.0\n1,1001.5,3.0,\n"
        )

    def test_names_choose_and_an_unknown_one_is_refused(self, run: Path, tmp_path: Path) -> None:
        out = write_csv(run, tmp_path / "o.csv", names=["lr"])
        assert {line.split(",")[1] for line in out.read_text().splitlines()[1:]} == {"lr"}
        with pytest.raises(LabError, match=r"no metric 'los' \(nearest: loss\)"):
            write_csv(run, tmp_path / "p.csv", names=["los"])
        assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "run"]

    def test_a_place_that_cannot_be_written_and_a_run_without_a_log(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LabError, match="cannot be written"):
            write_csv(run, tmp_path / "file" / "o.csv")
        with pytest.raises(LabError, match=r"no events\.jsonl"):
            write_csv(tmp_path, tmp_path / "o.csv")

    def test_names_with_commas_and_quotes_survive(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        run.mkdir()
        (run / "events.jsonl").write_bytes(metrics(1, **{'a,"b"\n': 1.0}))
        with write_csv(run, tmp_path / "o.csv").open(newline="") as file:
            assert next(csv.DictReader(file))["name"] == 'a,"b"\n'


class TestTensorBoard:
    def test_its_own_reader_reads_back_what_the_live_branch_has(self, run: Path, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        out = write_tensorboard(run, tmp_path / "tb")
        events = EventAccumulator(str(out), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        expected = series_of(run)
        assert set(events.Tags()["scalars"]) == set(expected)
        for name, points in expected.items():
            found = [(e.step, e.value, e.wall_time) for e in events.Scalars(name)]
            assert same(found, [(step, float(np.float32(value)), time) for step, value, time in points])
        texts = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("sample/text_summary")]
        assert [event.step for event in events.Tensors("sample/text_summary")] == [4, 8, 12]
        assert texts[0] == "    The *# not a title\n    <b>x</b> \ud7ff日本"

    def test_patterns_become_images_of_all_heads(self, run: Path, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        pattern = np.full((2, 3, 5, 5), 0.5, np.float16)
        FrameWriter(run / "frames", 1e9).write(Frame(4, {"attention/pattern": pattern}, {"probe": list("abcde")}))
        out = write_tensorboard(run, tmp_path / "tb", images=True)
        events = EventAccumulator(str(out), size_guidance={"images": 0})
        events.Reload()
        assert events.Tags()["images"] == ["attention/layer_0", "attention/layer_1"]
        image = events.Images("attention/layer_0")[0]
        assert (image.step, image.width, image.height) == (4, 15, 5)

    def test_it_does_not_mix_with_events_that_are_there(self, run: Path, tmp_path: Path) -> None:
        write_tensorboard(run, tmp_path / "tb")
        with pytest.raises(LabError, match="already holds"):
            write_tensorboard(run, tmp_path / "tb")

    def test_doubles_beyond_float32_become_infinite(self, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        run = tmp_path / "run"
        run.mkdir()
        (run / "events.jsonl").write_bytes(metrics(1, loss=1e300) + metrics(2, loss=-1e39) + metrics(3, loss=1e-300))
        events = EventAccumulator(str(write_tensorboard(run, tmp_path / "tb")))
        events.Reload()
        assert [e.value for e in events.Scalars("loss")] == [math.inf, -math.inf, 0.0]


def test_the_streamed_live_branch_is_the_folded_one(tmp_path: Path) -> None:
    draw = random.Random(5)
    for number in range(30):
        log, step = b"", 0
        for _ in range(60):
            step = max(0, step + 1 if draw.random() < 0.85 else step - draw.randrange(9))
            log += row("rewind", step) if draw.random() < 0.2 else metrics(step, loss=draw.random())
        run = tmp_path / str(number)
        run.mkdir()
        (run / "events.jsonl").write_bytes(log)
        streamed = [r["values"]["loss"] for r in live_rows(run) if r["event"] == "metrics"]
        reader = RunReader(run)
        reader.poll()
        assert sorted(streamed) == sorted(reader.series("loss").values.tolist())


def test_very_many_rewinds_take_little_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.jsonl").write_bytes(metrics(1, loss=2.5) + row("rewind", 5, explicit=True) * 40_000)
    info = new_info(RunDirectory(tmp_path), "many", "test-regression")
    info.status = "done"
    info.save(RunDirectory(tmp_path))
    tracemalloc.start()
    try:
        assert follow(tmp_path, json=True) == 0
        assert capsys.readouterr().out.count("\n") == 40_001
        assert [r["values"] for r in live_rows(tmp_path) if r["event"] == "metrics"] == [{"loss": 2.5}]
        kept, newest = rows_behind(RunDirectory(tmp_path), 0)
        assert (len(kept), newest) == (1, 5)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20  # as rows they are 30 MB
    finally:
        tracemalloc.stop()


def test_an_export_for_tensorboard_that_is_killed_at_any_point_is_complete_or_absent(run: Path, tmp_path: Path) -> None:
    write_tensorboard(run, tmp_path / "whole")  # its imports are not counted below
    [whole] = (tmp_path / "whole").iterdir()
    out = tmp_path / "out"
    ended, operations = False, 0
    while not ended:
        ended = killed_after(operations, lambda: write_tensorboard(run, out))
        made = list(out.glob("events.out.tfevents.*"))
        assert [file.stat().st_size for file in made] in ([], [whole.stat().st_size])
        for file in made:
            file.unlink()
        operations += 1
    assert operations > 4
    assert made
    assert list(out.iterdir()) == []  # each try has removed what the one before it left
