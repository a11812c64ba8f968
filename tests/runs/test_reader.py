"""Reading a run while it is written: torn, rewound, garbled, vanishing; and the live branch against its definition."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.runs import events as lines_module
from txlab.runs.events import live_branch
from txlab.runs.live_rows import Branch
from txlab.runs.reader import RunReader

KEYS = [("loss", "lr"), ("loss",), ("val_loss",), ("lr", "loss", "grad_norm")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def row(event: str, step: int, **rest: Any) -> bytes:
    return orjson.dumps({"event": event, "time": 1000.0 + step, "step": step, **rest}) + b"\n"


def metrics(step: int, **values: Any) -> bytes:
    return row("metrics", step, values=values)


def make_run(path: Path, log: bytes = b"", info: dict[str, Any] | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "events.jsonl").write_bytes(log)
    described = {"format": 1, "name": path.name, "status": "done", "step": 3, "steps": 9} | (info or {})
    (path / "run.json").write_bytes(orjson.dumps(described))
    return path


def append(run: Path, data: bytes) -> None:
    with (run / "events.jsonl").open("ab") as file:
        file.write(data)


def live_by_definition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Going backwards from the end, a row counts only if no later rewind goes below its step."""
    kept = []
    for index, candidate in enumerate(rows):
        later = [other["step"] for other in rows[index + 1 :] if other["event"] == "rewind"]
        if all(candidate["step"] <= step for step in later):
            kept.append(candidate)
    return kept


def points(rows: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    found = [(r["step"], float(r["values"][name])) for r in rows if name in r.get("values", {})]
    return sorted(found, key=lambda point: point[0])


def read_points(reader: RunReader, name: str) -> list[tuple[int, float]]:
    series = reader.series(name)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows as a run writes them: steps increase between rewinds, with an occasional row out of order."""
    rows: list[dict[str, Any]] = []
    step = 0
    for number in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from(["metrics"] * 5 + ["machine", "sample", "rewind", "stray", "checkpoint"]))
        here = draw(st.integers(0, 30)) if kind == "stray" else step
        common = {"time": float(number), "step": here}
        if kind == "rewind":
            step = draw(st.integers(-1, step))
            rows.append({"event": "rewind", "time": float(number), "step": step, "from": here, "reason": "resumed"})
            step = max(step, 0)
        elif kind in ("sample", "checkpoint"):
            rows.append({"event": kind, **common, "text": str(number)})
        else:
            names = draw(st.sampled_from(KEYS))
            event = "machine" if kind == "machine" else "metrics"
            rows.append({"event": event, **common, "values": {name: float(number) for name in names}})
        step += draw(st.integers(0, 2))
    return rows


class TestTheLiveBranch:
    @given(histories(), st.lists(st.integers(0, 5000), max_size=4))
    @settings(max_examples=150, deadline=None)
    def test_it_is_what_the_definition_says_however_the_log_arrives(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], cuts: list[int]
    ) -> None:
        log = b"".join(orjson.dumps(r) + b"\n" for r in rows)
        run = make_run(tmp_path_factory.mktemp("run"))
        reader = RunReader(run)
        places = sorted({min(cut, len(log)) for cut in cuts} | {len(log)})
        for begin, end in zip([0, *places], places, strict=False):
            append(run, log[begin:end])
            reader.poll()
        live = live_by_definition(rows)
        for name in ("loss", "lr", "val_loss", "grad_norm"):
            assert read_points(reader, name) == points(live, name)
            dead = [point for series in reader.dead_series(name) for point in series.values.tolist()]
            assert len(dead) == len(points(rows, name)) - len(points(live, name))
        for event in ("sample", "checkpoint", "rewind"):
            assert reader.rows(event) == [r for r in live if r["event"] == event]
        assert reader.complete
        assert reader.skipped == 0

    def test_a_dead_branch_can_still_be_drawn(self, tmp_path: Path) -> None:
        log = b"".join(metrics(step, loss=float(step)) for step in range(10))
        log += row("rewind", 6, **{"from": 9, "reason": "resumed from checkpoint 6"})
        log += b"".join(metrics(step, loss=-float(step)) for step in range(7, 9))
        reader = RunReader(make_run(tmp_path / "run", log))
        reader.poll()
        assert reader.series("loss").values.tolist() == [0, 1, 2, 3, 4, 5, 6, -7, -8]
        assert [series.steps.tolist() for series in reader.dead_series("loss")] == [[7, 8, 9]]
        assert reader.latest("loss") == -8
        assert reader.rows("rewind")[0]["reason"] == "resumed from checkpoint 6"

    def test_a_series_once_given_never_changes_and_cannot_be_written(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", b"".join(metrics(step, loss=float(step)) for step in range(100)))
        reader = RunReader(run)
        reader.poll()
        series = reader.series("loss")
        before = series.values.copy()
        append(run, row("rewind", 10) + b"".join(metrics(step, loss=-1.0) for step in range(11, 300)))
        reader.poll()
        assert np.array_equal(series.values, before)
        assert len(reader.series("loss")) == 300
        with pytest.raises(ValueError, match="read-only"):
            series.values[0] = 1.0


class TestTornRows:
    def test_at_every_byte_what_is_whole_is_read_and_the_rest_is_waited_for(self, tmp_path: Path) -> None:
        log = metrics(1, loss=2.5) + row("sample", 1, prompt="ä\n", text="naïve \u2028 text") + row("rewind", 0)
        log += metrics(1, loss=2.25) + row("end", 1, status="done", reason="")
        for cut in range(len(log) + 1):
            run = make_run(tmp_path / f"run-{cut}", log[:cut])
            reader = RunReader(run)
            reader.poll()
            assert reader.skipped == 0
            assert reader.complete
            whole = [orjson.loads(line) for line in log[: log[:cut].rfind(b"\n") + 1].splitlines()]
            assert read_points(reader, "loss") == points(live_by_definition(whole), "loss")
            append(run, log[cut:])
            reader.poll()
            assert read_points(reader, "loss") == [(1, 2.25)]
            assert [r["status"] for r in reader.rows("end")] == ["done"]

    def test_garbled_lines_between_rows_are_counted_and_passed_over(self, tmp_path: Path) -> None:
        rubbish = (
            b'{"event":"metr\n[1,2]\n"text"\n{"event":"metrics","step":"x","time":1}\n\n\xff\xfe\n{"step":1,"time":1}\n'
        )
        rubbish += b'{"event":"metrics","time":1.0,"step":2,"values":3}\n'
        reader = RunReader(make_run(tmp_path / "run", metrics(1, loss=1.0) + rubbish + metrics(2, loss=2.0)))
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0), (2, 2.0)]
        assert reader.skipped == 7

    def test_zeros_at_the_end_are_waited_for_until_they_are_filled_in(self, tmp_path: Path) -> None:
        late = metrics(2, loss=2.0) + metrics(3, loss=3.0)
        run = make_run(tmp_path / "run", metrics(1, loss=1.0) + bytes(len(late)))
        reader = RunReader(run)
        for _ in range(3):
            reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0)]
        with (run / "events.jsonl").open("r+b") as file:
            file.seek(-len(late), os.SEEK_END)
            file.write(late)
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0), (2, 2.0), (3, 3.0)]

    def test_zeros_with_rows_behind_them_are_stepped_over_after_a_while(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hole = bytes(1000) + b"\n"
        run = make_run(tmp_path / "run", metrics(1, loss=1.0) + hole + metrics(2, loss=2.0))
        reader = RunReader(run)
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0)]
        monkeypatch.setattr(lines_module, "PATIENCE", -1.0)
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0), (2, 2.0)]

    def test_a_row_that_began_right_behind_zeros_is_still_read(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", metrics(1, loss=1.0) + bytes(300_000) + metrics(2, loss=2.0))
        os.utime(run / "events.jsonl", (1, 1))
        reader = RunReader(run)
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0), (2, 2.0)]

    def test_a_line_longer_than_a_slice_is_read(self, tmp_path: Path) -> None:
        text = "x" * 1_000_000
        reader = RunReader(make_run(tmp_path / "run", row("sample", 1, prompt="", text=text) + metrics(2, loss=2.0)))
        reader.poll()
        assert reader.rows("sample")[0]["text"] == text
        assert read_points(reader, "loss") == [(2, 2.0)]


class TestValues:
    def test_named_numbers_come_back_and_non_numbers_are_nan(self, tmp_path: Path) -> None:
        strange: list[Any] = ["NaN", "Infinity", "-Infinity", None, [1, 2], {"a": 1}, "text", True, 2**63, 1e308]
        log = b"".join(metrics(step, loss=value, lr=float(step)) for step, value in enumerate(strange))
        reader = RunReader(make_run(tmp_path / "run", log))
        reader.poll()
        nan = float("nan")
        expected = [nan, np.inf, -np.inf, nan, nan, nan, nan, 1.0, 2.0**63, 1e308]
        np.testing.assert_array_equal(reader.series("loss").values, expected)
        assert reader.series("lr").values.tolist() == [float(step) for step in range(len(strange))]

    def test_a_whole_batch_of_lists_is_nan(self, tmp_path: Path) -> None:
        reader = RunReader(make_run(tmp_path / "run", metrics(1, x=[1.0, 2.0]) + metrics(2, x=[1.0, 2.0])))
        reader.poll()
        assert np.isnan(reader.series("x").values).tolist() == [True, True]

    def test_doubles_are_kept_exactly(self, tmp_path: Path) -> None:
        values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.12345679]
        reader = RunReader(make_run(tmp_path / "run", b"".join(metrics(i, loss=v) for i, v in enumerate(values))))
        reader.poll()
        assert [v.hex() for v in reader.series("loss").values.tolist()] == [v.hex() for v in values]

    def test_names_tell_metrics_from_machine(self, tmp_path: Path) -> None:
        log = row("machine", 1, values={"memory_mb": 5.0}) + metrics(1, loss=1.0, lr=0.1) + metrics(2, val_loss=2.0)
        reader = RunReader(make_run(tmp_path / "run", log))
        reader.poll()
        assert reader.names() == ["loss", "lr", "val_loss", "memory_mb"]
        assert reader.names("machine") == ["memory_mb"]
        assert len(reader.series("nothing")) == 0
        assert reader.latest("nothing") is None


class TestWhatGoesWrong:
    def test_what_is_not_a_run_is_refused_with_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(LabError, match="no such directory"):
            RunReader(tmp_path / "absent")
        with pytest.raises(LabError, match=r"neither run\.json nor events\.jsonl"):
            RunReader(tmp_path)
        (tmp_path / "file").write_text("x")
        with pytest.raises(LabError, match="no such directory"):
            RunReader(tmp_path / "file")

    def test_a_garbled_run_json_leaves_what_was_known_and_heals(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", metrics(1, loss=1.0), {"title": "first"})
        reader = RunReader(run)
        reader.poll()
        (run / "run.json").write_bytes(b'{"form')
        reader.poll()
        assert reader.info.title == "first"
        assert "not valid JSON" in reader.problem
        make_run(run, metrics(1, loss=1.0), {"title": "second"})
        assert reader.poll()
        assert (reader.info.title, reader.problem) == ("second", "")

    def test_a_log_alone_is_enough_and_a_garbled_heartbeat_counts_as_none(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", metrics(1, loss=1.0))
        (run / "run.json").unlink()
        (run / "heartbeat").write_bytes(b"\0\0\0")
        reader = RunReader(run)
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0)]
        assert reader.state.heartbeat_age is None
        assert reader.scenario == {}

    def test_the_scenario_is_read_and_a_broken_one_is_empty(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run")
        reader = RunReader(run)
        assert reader.scenario == {}
        (run / "scenario.toml").write_text("kind = ", "utf-8")
        assert reader.scenario == {}
        (run / "scenario.toml").write_text('kind = "language-model"\n', "utf-8")
        assert reader.scenario == {"kind": "language-model"}

    @pytest.mark.parametrize("way", ["truncated", "replaced", "rewritten"])
    def test_a_log_that_is_another_one_is_read_afresh(self, tmp_path: Path, way: str) -> None:
        run = make_run(tmp_path / "run", b"".join(metrics(step, loss=1.0) for step in range(50)))
        reader = RunReader(run)
        reader.poll()
        other = b"".join(metrics(step, loss=7.0) for step in range(3 if way == "truncated" else 80))
        if way == "replaced":
            (run / "aside").write_bytes(other)
            (run / "aside").replace(run / "events.jsonl")
        else:
            (run / "events.jsonl").write_bytes(other)
        reader.poll()
        reader.poll()
        assert set(reader.series("loss").values.tolist()) == {7.0}

    def test_a_torn_tail_that_the_next_writer_cuts_off_is_not_a_new_log(self, tmp_path: Path) -> None:
        whole = metrics(1, loss=1.0)
        run = make_run(tmp_path / "run", whole + b'{"event":"metrics","ti')
        reader = RunReader(run)
        reader.poll()
        os.truncate(run / "events.jsonl", len(whole))
        append(run, row("rewind", 0) + metrics(1, loss=3.0))
        reader.poll()
        assert read_points(reader, "loss") == [(1, 3.0)]
        assert [s.values.tolist() for s in reader.dead_series("loss")] == [[1.0]]

    def test_a_run_that_is_deleted_under_the_reader_stays_as_it_was(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", metrics(1, loss=1.0))
        reader = RunReader(run)
        reader.poll()
        assert len(reader.frames.steps) == 0
        shutil.rmtree(run)
        reader.poll()
        reader.poll()
        assert read_points(reader, "loss") == [(1, 1.0)]
        assert reader.problem

    def test_it_writes_nothing_into_the_run(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", b"".join(metrics(step, loss=1.0) for step in range(50)))

        def everything() -> list[tuple[str, int, int]]:
            return [(p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in sorted([run, *run.rglob("*")])]

        before = everything()
        for light in (False, True):
            reader = RunReader(run, light=light)
            reader.poll()
            reader.catch_up()
            _ = reader.frames, reader.scenario, reader.state, reader.rows("sample")
        assert everything() == before

    def test_poll_says_whether_anything_changed(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", metrics(1, loss=1.0))
        reader = RunReader(run)
        assert reader.poll()
        assert not reader.poll()
        append(run, metrics(2, loss=1.0))
        assert reader.poll()
        assert not reader.poll()


def test_rewinds_are_followed_whatever_came_between_them() -> None:
    draw = random.Random(7)
    rows = [
        {"event": draw.choice(["rewind", "note", "note"]), "time": 1.0, "step": draw.randrange(8), "text": str(n)}
        for n in range(2000)
    ]
    branch = Branch()
    for begin in range(0, len(rows), 7):
        branch.add(rows[begin : begin + 7])
        assert branch.rows == live_branch(rows[: begin + 7])
    assert branch.left_out == 0


def test_many_rewinds_do_not_go_through_all_rows_each() -> None:
    asked = 0

    class Counted(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            nonlocal asked
            asked += 1
            return super().__getitem__(key)

    branch = Branch()
    branch.add([Counted(event="note", time=1.0, step=5) for _ in range(500)])
    branch.add([Counted(event="rewind", time=1.0, step=5) for _ in range(500)])
    assert len(branch.rows) == 1000
    assert asked < 20_000  # it would be at least 500 · 500 rows if each were read again
