"""The loop: cadences, requests, failures; with an experiment that is not a language model."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from regression_kind import RegressionScenario, Train, register

from txlab.experiments.protocol import Adjustable
from txlab.experiments.schema import Record
from txlab.runs import checkpoints
from txlab.runs.control import Request, change, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import Row, live_branch, read_rows
from txlab.runs.finding import find_run
from txlab.runs.frames import FrameIndex
from txlab.runs.loop import Speed, card_of, memory
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

register()

RECORD = Record(
    evaluate_every=10, sample_every=20, frame_every=5, checkpoint_every=10, checkpoints_kept=2, checkpoints_mb=0
)


def made(root: Path, record: Record = RECORD, **train: Any) -> RunDirectory:
    scenario = RegressionScenario(record=record, train=Train(**{"steps": 50, **train}))
    return RunDirectory(prepare(LoadedScenario(scenario, "regression", "a test"), root=root))


def rows_of(run: RunDirectory, event: str | None = None) -> list[Row]:
    return [row for row in live_branch(read_rows(run.events)[0]) if event in (None, row["event"])]


def metrics_of(run: RunDirectory) -> list[tuple[int, dict[str, float]]]:
    return [(row["step"], row["values"]) for row in rows_of(run, "metrics")]


def weights_of(run: RunDirectory, step: int = 50) -> bytes:
    weights: np.ndarray = checkpoints.load(run, step)["weights"]
    return weights.tobytes()


def at(run: RunDirectory, requests: dict[int, list[Request]]) -> Callable[[Row], None]:
    """An observer that sends a request as soon as the metrics of a step are written."""

    def observe(row: Row) -> None:
        if row["event"] == "metrics":
            for request in requests.pop(row["step"], []):
                send(run, request)

    return observe


@pytest.fixture(autouse=True)
def _requests_are_taken_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.loop.POLL_EVERY", 0.0)


def test_everything_is_recorded_at_its_cadence_at_step_0_and_at_the_last(tmp_path: Path) -> None:
    seen: list[Row] = []
    run = made(tmp_path, steps=47)
    info = execute(run, observer=seen.append)
    rows = rows_of(run)
    assert seen == rows
    losses = [row["step"] for row in rows if row["event"] == "metrics" and "loss" in row["values"]]
    assert losses == list(range(1, 48))
    assert [row["step"] for row in rows if "val_loss" in row.get("values", {})] == [0, 10, 20, 30, 40, 47]
    assert [row["step"] for row in rows_of(run, "sample")] == [0, 20, 40, 47]
    assert FrameIndex(run.frames).refresh()
    index = FrameIndex(run.frames)
    index.refresh()
    assert index.steps.tolist() == [*range(0, 50, 5), 47]
    assert [row["step"] for row in rows_of(run, "checkpoint")] == [10, 20, 30, 40, 47]
    assert checkpoints.steps(run) == [40, 47]
    assert rows[0]["event"] == "start"
    assert (rows[-1]["event"], rows[-1]["status"]) == ("end", "done")
    assert (info.status, info.step, info.steps, info.device) == ("done", 47, 47, "cpu")
    assert info.facts["parameters"] == 6
    assert state_of(run).status == "done"
    assert find_run("regression", tmp_path) == run.path
    machine = rows_of(run, "machine")[-1]["values"]
    assert machine["tokens_per_second"] == pytest.approx(16 * machine["steps_per_second"])
    assert machine["share_of_peak"] == pytest.approx(400 * machine["steps_per_second"] / 1e9)


def test_a_cadence_of_0_is_never_and_metrics_may_be_thinned(tmp_path: Path) -> None:
    record = Record(metrics_every=20, evaluate_every=0, sample_every=0, frame_every=0, checkpoint_every=0)
    run = made(tmp_path, record)
    execute(run)
    assert [step for step, _ in metrics_of(run)] == [20, 40, 50]
    assert not rows_of(run, "sample")
    assert not list(run.frames.iterdir())
    assert checkpoints.steps(run) == [50]


def test_the_checkpoint_is_the_last_thing_at_its_step(tmp_path: Path) -> None:
    run = made(tmp_path)
    execute(run)
    rows = [row for row in rows_of(run) if row["event"] not in ("machine", "end")]
    for row, following in itertools.pairwise(rows):
        if row["event"] == "checkpoint":
            assert following["step"] > row["step"]


def test_pause_step_and_resume(tmp_path: Path) -> None:
    run = made(tmp_path)
    states: list[tuple[int, str]] = []
    script = iter([Request("step", count=3), Request("step"), Request("resume")])

    def observe(row: Row) -> None:
        if row["event"] == "metrics" and row["step"] == 7 and "loss" in row["values"]:
            send(run, Request("pause"))
        if (row["event"] == "control" and row["request"] == "pause") or row["step"] in (10, 11):
            if row["event"] == "metrics" and "val_loss" in row["values"]:
                return
            states.append((row["step"], RunInfo.load(run).status))
            if row["event"] in ("control", "metrics") and (request := next(script, None)):
                send(run, request)

    info = execute(run, observer=observe)
    assert info.status == "done"
    controls = [(row["step"], row["request"], row["applied"]) for row in rows_of(run, "control")]
    assert controls == [(7, "pause", True), (7, "step", True), (10, "step", True), (11, "resume", True)]
    assert (7, "paused") in states
    assert metrics_of(run) == metrics_of(never_killed(tmp_path))


def never_killed(tmp_path: Path) -> RunDirectory:
    run = made(tmp_path / "plain")
    execute(run)
    return run


def test_a_change_is_in_the_log_with_who_when_from_what_to_what(tmp_path: Path) -> None:
    run = made(tmp_path)
    execute(run, observer=at(run, {12: [Request("set", "lr", 0.01, by="ann@box", id="one")]}))
    (row,) = rows_of(run, "control")
    assert (row["step"], row["key"], row["from"], row["to"], row["by"], row["id"]) == (
        12, "lr", 0.05, 0.01, "ann@box", "one",
    )  # fmt: skip
    assert (row["applied"], row["error"], row["replayed"]) == (True, None, False)
    assert [values["lr"] for step, values in metrics_of(run) if step in (12, 13) and "lr" in values] == [0.05, 0.01]


def test_a_factor_is_applied_to_what_the_value_is_then_and_recorded_as_the_change(tmp_path: Path) -> None:
    """Two people who press + at the same step both count; a restart repeats the values, not the factors."""
    run = made(tmp_path)
    execute(run, at(run, {4: [Request("scale", "lr", 1.25, by="a@b"), Request("scale", "lr", 1.25, by="c@d")]}))
    first, second = rows_of(run, "control")
    assert [first["request"], first["from"], first["to"]] == ["set", 0.05, pytest.approx(0.0625)]
    assert [second["from"], second["to"]] == [first["to"], pytest.approx(0.05 * 1.25**2, rel=1e-3)]
    assert [second["by"], second["applied"]] == ["c@d", True]


def test_a_factor_leads_away_from_0_and_back_where_the_parameter_says_how() -> None:
    values = {"beta": 0.0, "lr": 0.0}

    def scale(key: str, factor: float) -> float:
        known = {key: Adjustable(key, values[key], 0.0, 100.0, least=0.01 if key == "beta" else 0.0)}
        assert not change(known, values.__setitem__, Request("scale", key, factor)).error
        return values[key]

    assert [scale("beta", 1.25) for _ in range(3)] == [0.01, 0.0125, 0.01562]
    assert [scale("beta", 0.5) for _ in range(3)] == [0.00781, 0.0, 0.0]
    assert scale("lr", 1.25) == 0.0


def test_impossible_requests_are_answered_and_the_run_continues(tmp_path: Path) -> None:
    run = made(tmp_path)

    def observe(row: Row) -> None:
        if row["event"] == "metrics" and row["step"] == 5:
            send(run, Request("set", "l", 0.01))
            send(run, Request("set", "lr", 7.0))
            (run.inbox / "9-junk.json").write_bytes(b"\0junk")
            (run.inbox / "9-other.json").write_text('{"request": "format the disk"}')
            (run.inbox / "9-type.json").write_text('{"request": "set", "key": "lr", "value": "0.1"}')

    assert execute(run, observer=observe).status == "done"
    controls = rows_of(run, "control")
    assert [row["applied"] for row in controls] == [False] * 5
    errors = " / ".join(row["error"] for row in controls)
    for words in ["nearest: lr", "allowed: 0 to 1", "not valid JSON", "is unknown", "finite number"]:
        assert words in errors
    assert metrics_of(run) == metrics_of(never_killed(tmp_path))


def test_checkpoint_and_sample_on_demand(tmp_path: Path) -> None:
    run = made(tmp_path, RECORD.model_copy(update={"checkpoints_kept": 99}))
    execute(run, observer=at(run, {13: [Request("checkpoint"), Request("sample")]}))
    assert 13 in checkpoints.steps(run)
    assert 13 in [row["step"] for row in rows_of(run, "sample")]


def test_a_stopped_run_keeps_a_checkpoint_and_resumes_as_if_never_stopped(tmp_path: Path) -> None:
    run = made(tmp_path)
    info = execute(run, observer=at(run, {23: [Request("stop", by="ann@box"), Request("pause")]}))
    assert (info.status, info.step) == ("stopped", 23)
    assert "ann@box" in info.reason
    assert [row["applied"] for row in rows_of(run, "control")] == [True, False]
    send(run, Request("stop"))  # sent to a process that has ended: the next one must ignore it
    assert execute(run).status == "done"
    other = never_killed(tmp_path)
    assert metrics_of(run) == metrics_of(other)
    assert weights_of(run) == weights_of(other)
    starts = rows_of(run, "start")
    assert [row["resumed_from"] for row in starts] == [None, 23]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_run_after_a_checkpoint_and_handlers_are_restored(tmp_path: Path, name: str) -> None:
    run = made(tmp_path)
    number = signal.Signals[name]
    before = signal.getsignal(number)

    def observe(row: Row) -> None:
        if row["event"] == "metrics" and row["step"] == 17:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a second one within the wait is safe

    info = execute(run, observer=observe)
    assert info.status == "interrupted"
    assert name in info.reason
    assert checkpoints.newest(run) == info.step
    assert info.step in (17, 18)
    assert signal.getsignal(number) == before
    assert execute(run).status == "done"
    assert metrics_of(run) == metrics_of(never_killed(tmp_path))


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = made(tmp_path)
        observe = lambda row: os.kill(os.getpid(), signal.SIGHUP) if row["step"] == 5 else None  # noqa: E731
        assert execute(run, observer=observe).status == "done"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_not_a_number_stops_the_run_and_names_the_last_good_checkpoint(tmp_path: Path) -> None:
    run = made(tmp_path, blow_up_at=37)
    info = execute(run)
    assert (info.status, info.reason) == ("failed", "step 37: loss is NaN; last good checkpoint 30")
    assert info.step == 36
    assert rows_of(run, "end")[-1]["reason"] == info.reason


def test_out_of_memory_and_bugs_are_reported_in_one_line_with_the_traceback_in_the_log(tmp_path: Path) -> None:
    info = execute(made(tmp_path, out_of_memory_at=5))
    assert info.status == "failed"
    assert "out of memory" in info.reason
    assert "there is no checkpoint yet" in info.reason
    run = made(tmp_path, fail_at=15)
    info = execute(run)
    assert info.reason == "step 14: ValueError: an ordinary bug; last good checkpoint 10"
    assert "Traceback" in run.log.read_text()


def test_what_the_card_says_is_in_the_machine_rows_and_its_trouble_is_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        """A card that falls silent after its first reading."""

        trouble = ""
        asked = 0

        def read(self) -> dict[str, float]:
            self.asked += 1
            self.trouble = "" if self.asked == 1 else "the card's power is not read: GPU is lost"
            return {} if self.trouble else {"gpu_watts": 312.0}

    monkeypatch.setattr("txlab.runs.loop.card_of", lambda device: Failing())
    monkeypatch.setattr("txlab.runs.loop.MACHINE_EVERY", 0.0)
    run = made(tmp_path, steps=8)
    execute(run)
    rows = [row["values"].get("gpu_watts") for row in rows_of(run, "machine")]
    assert rows == [312.0, *[None] * 7]
    assert [row["text"] for row in rows_of(run, "note")] == ["the card's power is not read: GPU is lost"]


def test_a_cpu_has_no_card_and_its_memory_is_that_of_the_process() -> None:
    assert card_of("cpu") is card_of("") is card_of("cuda:0") is None  # the last where CUDA is missing
    assert set(memory("cpu")) == {"memory_mb"}


def test_the_share_of_the_data_sheet_is_shown_next_to_that_of_the_measured_peak() -> None:
    speed = Speed({"flops_per_step": 400.0, "peak_flops": 1e9, "data_sheet_flops": 4e9}, steps=2)
    speed.begin(0)
    values = speed.look(2)
    assert values["share_of_peak"] == pytest.approx(4 * values["share_of_data_sheet"])


def test_an_explicit_rewind_drops_later_rows_frames_checkpoints_and_changes(tmp_path: Path) -> None:
    run = made(tmp_path, RECORD.model_copy(update={"checkpoints_kept": 99}))
    execute(run, observer=at(run, {23: [Request("set", "lr", 0.5)]}))
    assert metrics_of(run) != metrics_of(never_killed(tmp_path))
    left: list[list[int]] = []

    def observe(row: Row) -> None:
        if row["event"] == "start":
            index = FrameIndex(run.frames)
            index.refresh()
            left.append([int(index.steps[-1]), checkpoints.steps(run)[-1]])

    info = execute(run, rewind_to=20, observer=observe)
    assert info.status == "done"
    assert left == [[20, 20]]  # before the first new step, no later one exists
    assert metrics_of(run) == metrics_of(never_killed(tmp_path))
    assert weights_of(run) == weights_of(never_killed(tmp_path))
    assert not rows_of(run, "control")
    (rewind,) = rows_of(run, "rewind")
    assert (rewind["step"], rewind["from"]) == (20, 50)
    index = FrameIndex(run.frames)
    index.refresh()
    assert index.steps.tolist() == list(range(0, 51, 5))


def test_a_machine_that_tells_late_is_fetched_together_and_in_order(tmp_path: Path) -> None:
    """Device scalars wait; rows that come after them wait behind them. The fake device counts its transfers."""
    torch = pytest.importorskip("torch")
    from txlab.runs.recorder import Recorder

    run = made(tmp_path)
    recorder = Recorder(run, RunInfo.load(run))
    for step in range(1, 5):
        recorder.metrics(step, {"loss": torch.empty((), device="meta"), "lr": 0.5})
        recorder.note(step, "between")
    assert read_rows(run.events)[0] == []
    for row in recorder._waiting:
        if row["event"] == "metrics":
            row["values"]["loss"] = torch.tensor(row["step"] / 8)
    recorder.flush()
    recorder.close()
    rows = read_rows(run.events)[0]
    assert [(row["event"], row["step"]) for row in rows] == [
        (event, step) for step in range(1, 5) for event in ("metrics", "note")
    ]
    assert [row["values"]["loss"] for row in rows if row["event"] == "metrics"] == [0.125, 0.25, 0.375, 0.5]
