"""Long logs: a correctly sampled curve at once, and the whole of it in the background."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import LONGEST

from txlab.runs import reader
from txlab.runs.events import LineCursor
from txlab.runs.reader import SEARCHED, RunReader, sample_branch


@pytest.fixture(autouse=True)
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scale the sizes down, from megabytes to kilobytes."""
    monkeypatch.setattr(reader, "AT_ONCE", 20_000)
    monkeypatch.setattr(reader, "EACH_POLL", 10_000)
    monkeypatch.setattr(reader, "TAIL", 2_000)
    monkeypatch.setattr(reader, "SAMPLES", 40)
    monkeypatch.setattr(reader, "PAUSE", 0.0)
    monkeypatch.setattr(reader, "BLOCK", 512)
    monkeypatch.setattr(reader, "CHUNK", 3_000)


def row(event: str, step: int, **rest: Any) -> bytes:
    return orjson.dumps({"event": event, "time": 1000.0 + step, "step": step, **rest}) + b"\n"


def metrics(step: int, **values: Any) -> bytes:
    return row("metrics", step, values=values)


def history(steps: int, rewinds: dict[int, int]) -> bytes:
    """A log that rewinds from step a to step b for each a: b; the values identify the branch."""
    rows, step, branch = [row("start", 0)], 0, 0
    todo = dict(rewinds)
    while step < steps:
        step += 1
        rows.append(metrics(step, loss=step + branch / 16, lr=1e-3))
        if step % 50 == 0:
            rows.append(metrics(step, val_loss=step + branch / 16))
            rows.append(row("sample", step, prompt='say "rewind"', text=f"{branch}"))
        if step in todo:
            step, branch = todo.pop(step), branch + 1
            rows.append(row("rewind", step, reason="resumed"))
    return b"".join(rows)


def make_run(path: Path, log: bytes) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "events.jsonl").write_bytes(log)
    (path / "run.json").write_bytes(orjson.dumps({"format": 1, "name": path.name, "status": "done"}))
    return path


def points(which: Any, name: str) -> list[tuple[int, float]]:
    series = which.series(name)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def full(run: Path) -> RunReader:
    found = RunReader(run)
    assert found.catch_up()
    return found


class TestTheFirstLook:
    @given(st.dictionaries(st.integers(1, 1500), st.integers(-1, 1500), max_size=6), st.integers(600, 5000))
    @settings(max_examples=30, deadline=None)
    def test_every_point_of_the_sampled_curve_is_on_the_live_branch(
        self, tmp_path_factory: pytest.TempPathFactory, rewinds: dict[int, int], tail: int
    ) -> None:
        log = history(1500, {start: stop for start, stop in rewinds.items() if stop < start})
        run = make_run(tmp_path_factory.mktemp("run"), log)
        branch, offset = sample_branch(run / "events.jsonl", tail, 60, 512, SEARCHED)
        whole = full(run)
        assert offset == len(log)
        for name in ("loss", "val_loss"):
            assert set(points(branch, name)) <= set(points(whole, name))
        steps = branch.series("loss").steps
        assert steps[-1] == 1500
        assert steps[0] <= whole.series("loss").steps[0] + 100
        assert np.diff(steps).max() < 200
        texts = [r["text"] for r in whole.rows("sample")]
        assert {r["text"] for r in branch.rows if r["event"] == "sample"} <= set(texts)

    def test_too_long_to_look_for_rewinds_the_steps_themselves_decide(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {2000: 500}))
        branch, _ = sample_branch(run / "events.jsonl", 2000, 100, 512, 0)
        steps = branch.series("loss").steps
        assert (np.diff(steps) >= 0).all()
        dead = set(points(branch, "loss")) - set(points(full(run), "loss"))
        assert all(500 < step < 500 + 60 for step, _ in dead)  # within one sample distance of the fork

    def test_it_is_available_immediately_and_follows_new_rows(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {2000: 1500}))
        seen = RunReader(run, background=False)
        assert seen.poll()
        assert not seen.complete
        sampled_points = points(seen, "loss")
        assert 30 < len(sampled_points) < 500
        with (run / "events.jsonl").open("ab") as file:
            file.write(row("rewind", 2990) + metrics(2991, loss=-1.0))
        seen.poll()
        assert points(seen, "loss")[-1] == (2991, -1.0)
        assert seen.latest("loss") == -1.0
        assert seen.catch_up()
        assert seen.complete
        assert points(seen, "loss") == points(full(run), "loss")
        assert set(sampled_points) - set(points(seen, "loss")) == {p for p in sampled_points if p[0] > 2990}

    def test_catching_up_in_slices_arrives_where_one_go_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run(tmp_path / "run", history(5000, {4000: 100}))
        seen = RunReader(run, background=False)
        seen.poll()
        assert seen._whole is not None
        cursor = seen._whole[1]
        monkeypatch.setattr(cursor, "read", lambda: LineCursor.read(cursor, 5_000))
        turns = 0
        while not seen.catch_up(seconds=0.002):
            seen.poll()
            turns += 1
        assert points(seen, "loss") == points(full(run), "loss")
        assert [len(s) for s in seen.dead_series("loss")] == [3900]

    def test_while_another_thread_catches_up_and_a_run_continues_nothing_is_lost(self, tmp_path: Path) -> None:
        log = history(8_000, {6_000: 5_000})
        run = make_run(tmp_path / "run", log[: len(log) // 2])
        seen = RunReader(run)
        seen.poll()

        def write() -> None:
            with (run / "events.jsonl").open("ab", buffering=0) as file:
                for begin in range(len(log) // 2, len(log), 4919):
                    file.write(log[begin : begin + 4919])

        writer = threading.Thread(target=write)
        writer.start()
        catcher = seen.catch_up_in_background()
        while writer.is_alive() or catcher.is_alive():
            seen.poll()
            steps = seen.series("loss").steps
            assert (np.diff(steps) > 0).all()
        seen.catch_up()
        assert seen.complete
        assert seen.skipped == 0
        assert points(seen, "loss") == points(full(run), "loss")

    def test_polling_is_enough_the_rest_is_read_in_the_background(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {2000: 1500}))
        seen = RunReader(run)
        seen.poll()
        seen.catch_up_in_background().join(timeout=LONGEST)
        assert seen.poll()
        assert seen.complete
        assert points(seen, "loss") == points(full(run), "loss")

    def test_a_log_that_goes_away_before_it_was_read_leaves_the_sampled_curve(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {}))
        seen = RunReader(run, background=False)
        seen.poll()
        before = points(seen, "loss")
        (run / "events.jsonl").unlink()
        assert not seen.catch_up()
        seen.poll()
        assert points(seen, "loss") == before

    def test_the_light_reader_stays_small(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reader, "LIGHT_GROWTH", 50_000)
        run = make_run(tmp_path / "run", history(5_000, {}))
        light = RunReader(run, light=True)
        light.poll()
        assert not light.complete
        assert light.latest("loss") == 5_000
        assert light.series("loss").steps[0] < 1000
        assert len(light.series("loss")) < 2000
        with (run / "events.jsonl").open("ab") as file:
            for step in range(5_001, 20_000):
                file.write(metrics(step, loss=float(step)))
        for _ in range(200):
            light.poll()
        assert light.latest("loss") == 19_999
        assert len(light.series("loss")) < 2000
