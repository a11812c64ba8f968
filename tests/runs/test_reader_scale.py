"""Long logs: a true coarse curve at once, all of it behind, and a cache that is believed only while it is right."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.runs import curve_cache as sidecar
from txlab.runs import reader
from txlab.runs import sampled_log as coarse
from txlab.runs.reader import RunReader
from txlab.runs.sampled_log import coarse_branch


@pytest.fixture(autouse=True)
def small_scale(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is megabytes in life is kilobytes here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(reader, "AT_ONCE", 20_000)
    monkeypatch.setattr(reader, "EACH_POLL", 10_000)
    monkeypatch.setattr(reader, "TAIL", 2_000)
    monkeypatch.setattr(reader, "SAMPLES", 40)
    monkeypatch.setattr(reader, "PAUSE", 0.0)
    monkeypatch.setattr(reader, "BLOCK", 512)
    monkeypatch.setattr(coarse, "CHUNK", 3_000)


def row(event: str, step: int, **rest: Any) -> bytes:
    return orjson.dumps({"event": event, "time": 1000.0 + step, "step": step, **rest}) + b"\n"


def metrics(step: int, **values: Any) -> bytes:
    return row("metrics", step, values=values)


def history(steps: int, rewinds: dict[int, int]) -> bytes:
    """A log that goes back from step a to step b for each a: b; values tell the branches apart."""
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
    found = RunReader(run, cache=False)
    assert found.catch_up()
    return found


class TestTheFirstLook:
    @given(st.dictionaries(st.integers(1, 1500), st.integers(-1, 1500), max_size=6), st.integers(600, 5000))
    @settings(max_examples=30, deadline=None)
    def test_every_point_of_the_coarse_curve_is_on_the_live_branch(
        self, tmp_path_factory: pytest.TempPathFactory, rewinds: dict[int, int], tail: int
    ) -> None:
        log = history(1500, {start: stop for start, stop in rewinds.items() if stop < start})
        run = make_run(tmp_path_factory.mktemp("run"), log)
        branch, offset = coarse_branch(run / "events.jsonl", tail, 60, 512)
        whole = full(run)
        assert offset == len(log)
        for name in ("loss", "val_loss"):
            assert set(points(branch, name)) <= set(points(whole, name))
        steps = branch.series("loss").steps
        assert steps[-1] == 1500
        assert steps[0] <= whole.series("loss").steps[0] + 100
        assert np.diff(steps).max() < 200
        texts = [r["text"] for r in whole.samples]
        assert {r["text"] for r in branch.rows if r["event"] == "sample"} <= set(texts)

    def test_too_long_to_look_for_rewinds_the_steps_themselves_decide(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {2000: 500}))
        branch, _ = coarse_branch(run / "events.jsonl", 2000, 100, 512, searched=0)
        steps = branch.series("loss").steps
        assert (np.diff(steps) >= 0).all()
        dead = set(points(branch, "loss")) - set(points(full(run), "loss"))
        assert all(500 < step < 500 + 60 for step, _ in dead)  # no further from the fork than samples lie apart

    def test_it_is_there_at_once_and_follows_what_comes(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {2000: 1500}))
        seen = RunReader(run, background=False)
        assert seen.poll()
        assert not seen.complete
        coarse_points = points(seen, "loss")
        assert 30 < len(coarse_points) < 500
        with (run / "events.jsonl").open("ab") as file:
            file.write(row("rewind", 2990) + metrics(2991, loss=-1.0))
        seen.poll()
        assert points(seen, "loss")[-1] == (2991, -1.0)
        assert seen.latest("loss") == -1.0
        assert seen.catch_up()
        assert seen.complete
        assert points(seen, "loss") == points(full(run), "loss")
        assert set(coarse_points) - set(points(seen, "loss")) == {p for p in coarse_points if p[0] > 2990}

    def test_catching_up_in_slices_arrives_where_one_go_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run(tmp_path / "run", history(5000, {4000: 100}))
        seen = RunReader(run, cache=False, background=False)
        seen.poll()
        read = seen._beside

        def one_slice() -> Any:
            branch, cursor = read()
            monkeypatch.setattr(cursor, "read", lambda _read=type(cursor).read: _read(cursor, 5_000))
            return branch, cursor

        monkeypatch.setattr(seen, "_beside", one_slice)
        turns = 0
        while not seen.catch_up(seconds=0.002):
            seen.poll()
            turns += 1
        assert points(seen, "loss") == points(full(run), "loss")
        assert [len(s) for s in seen.dead_series("loss")] == [3900]

    def test_while_another_thread_catches_up_and_a_run_goes_on_nothing_is_lost(self, tmp_path: Path) -> None:
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
        seen.catch_up_in_background().join(timeout=60)
        assert seen.poll()
        assert seen.complete
        assert points(seen, "loss") == points(full(run), "loss")

    def test_a_log_that_goes_away_before_it_was_read_leaves_the_coarse_curve(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", history(3000, {}))
        seen = RunReader(run, cache=False, background=False)
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


class TestTheCache:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        run = make_run(tmp_path / "run", history(3000, {2000: 1500}) + metrics(3001, loss="NaN"))
        first = RunReader(run)
        first.poll()
        assert first.catch_up()
        assert sidecar.sidecar_file(run / "events.jsonl").exists()
        return run

    def same(self, one: RunReader, two: RunReader) -> None:
        for name in ("loss", "val_loss", "lr"):
            for a, b in zip(
                [one.series(name), *one.dead_series(name)], [two.series(name), *two.dead_series(name)], strict=True
            ):
                np.testing.assert_array_equal(a.steps, b.steps)
                np.testing.assert_array_equal(a.values, b.values)
                np.testing.assert_array_equal(a.times, b.times)
        assert one.samples == two.samples
        assert one.names() == two.names()

    def test_the_second_opening_is_complete_at_the_first_poll_and_the_same(self, run: Path) -> None:
        second = RunReader(run)
        second.poll()
        assert second.complete
        self.same(second, full(run))

    def test_what_has_come_since_is_read_from_the_log(self, run: Path) -> None:
        with (run / "events.jsonl").open("ab") as file:
            file.write(row("rewind", 1000) + metrics(1001, loss=0.5))
        second = RunReader(run)
        second.poll()
        assert second.complete
        assert points(second, "loss")[-1] == (1001, 0.5)
        self.same(second, full(run))

    def test_if_much_has_come_since_it_saves_catching_up_only(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with (run / "events.jsonl").open("ab") as file:
            file.write(b"".join(metrics(step, loss=1.0) for step in range(3002, 6000)))
        second = RunReader(run, background=False)
        second.poll()
        assert not second.complete
        assert second.catch_up()
        self.same(second, full(run))

    @pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "other version", "header"])
    def test_a_damaged_cache_is_thrown_away(self, run: Path, damage: str) -> None:
        path = sidecar.sidecar_file(run / "events.jsonl")
        data = bytearray(path.read_bytes())
        if damage == "flipped":
            data[len(data) // 2] ^= 1
        elif damage == "other version":
            data[14:15] = b"0"
        elif damage == "header":
            data[17:20] = b"\xff\xff\xff"
        path.write_bytes(b"" if damage == "empty" else bytes(data[:-100]) if damage == "cut" else bytes(data))
        assert sidecar.load(run / "events.jsonl") is None
        assert not path.exists()
        second = RunReader(run)
        second.poll()
        second.catch_up()
        self.same(second, full(run))

    def test_another_log_in_the_same_place_is_not_believed(self, run: Path) -> None:
        log = (run / "events.jsonl").read_bytes()
        with (run / "events.jsonl").open("r+b") as file:  # the same inode and size
            file.write(log.replace(b'"lr":0.001', b'"lr":0.002'))
        assert sidecar.load(run / "events.jsonl") is None
        second = RunReader(run)
        second.poll()
        second.catch_up()
        assert second.latest("lr") == 0.002

    def test_a_cache_that_cannot_be_written_is_done_without(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        run = make_run(tmp_path / "run", history(3000, {}))
        seen = RunReader(run)
        seen.poll()
        assert seen.catch_up()
        assert len(seen.series("loss")) == 3000

    def test_the_longest_unused_goes_when_there_is_too_much(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = sidecar.sidecar_file(run / "events.jsonl")
        other = path.with_name("old.columns")
        other.write_bytes(b"x" * 100)
        os.utime(other, (1, 1))
        monkeypatch.setattr(sidecar, "KEPT", path.stat().st_size + 50)
        sidecar.forget_the_oldest(path)
        assert path.exists()
        assert not other.exists()
