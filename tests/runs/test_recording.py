"""Three lines in any training loop make a run, and the run records how it ended."""

import argparse
import dataclasses
import enum
import errno
import math
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import txlab
from txlab.errors import LabError
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import Row, decode_row, live_branch, read_rows
from txlab.runs.finding import find_run
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute
from txlab.runs.reader import RunReader


def metrics_of(path: Path) -> list[Row]:
    return [row for row in read_rows(RunDirectory(path).events)[0] if row["event"] == "metrics"]


def test_three_lines_make_a_run_that_readers_open(tmp_path: Path) -> None:
    with txlab.record("mine", config={"lr": 3e-4, "none": None, "path": Path("/x")}, root=tmp_path) as run:
        for step in range(5):
            run.log(step, loss=1 / (step + 1), accuracy=np.float32(0.5))
    path = find_run("mine", tmp_path)
    assert path == run.path
    info = RunInfo.load(path)
    assert (info.kind, info.status, info.step) == ("recorded", "done", 4)
    reader = RunReader(path)
    reader.poll()
    assert reader.series("loss").values.tolist() == [1 / (step + 1) for step in range(5)]
    assert reader.scenario["config"] == {"lr": 3e-4, "path": "/x"}


def test_frames_samples_and_torch_values_are_taken(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=torch.tensor(0.25, requires_grad=True))
        run.frame(1, {"attention/pattern": torch.eye(3)[None, None]}, tokens={"probe": ["a", "b", "c"]})
        run.sample(1, "The", " end")
        run.note(1, "so far")
    rows = read_rows(RunDirectory(run.path).events)[0]
    assert [row["event"] for row in rows] == ["start", "metrics", "sample", "note", "end"]
    assert rows[1]["values"] == {"loss": 0.25}
    frame = FrameIndex(run.path / "frames").read(1)
    assert frame.tensors["attention/pattern"].shape == (1, 1, 3, 3)
    assert frame.tokens == {"probe": ["a", "b", "c"]}


def test_an_exception_is_the_reason_and_propagates_to_the_caller(tmp_path: Path) -> None:
    run = txlab.record("mine", root=tmp_path)
    run.log(3, loss=1.0)
    with pytest.raises(ZeroDivisionError), run:
        run.log(4, loss=1 / 0)
    info = RunInfo.load(run.path)
    assert (info.status, info.reason, info.step) == ("failed", "ZeroDivisionError: division by zero", 3)
    assert "Traceback" in (run.path / "log.txt").read_text()


@pytest.mark.parametrize(("last", "status"), [("pass", "done"), ("1 / 0", "failed"), ("sys.exit(0)", "done")])
def test_an_unclosed_run_is_closed_at_the_end_of_the_program(tmp_path: Path, last: str, status: str) -> None:
    script = f"import sys, txlab\nrun = txlab.record('mine', root={str(tmp_path)!r})\nrun.log(1, loss=2.0)\n{last}\n"
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300, check=False)
    info = RunInfo.load(find_run("mine", tmp_path))
    assert (info.status, info.step) == (status, 1)


def test_steps_do_not_go_back_without_a_rewind(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        for step in range(5):
            run.log(step, loss=float(step))
        run.log(4, again=1.0)
        with pytest.raises(LabError, match=r"rewind\(2\)"):
            run.log(2, loss=0.0)
        run.rewind(2)
        run.log(3, loss=30.0)
    rows = live_branch(read_rows(RunDirectory(run.path).events)[0])
    assert [(row["step"], row["values"]) for row in rows if row["event"] == "metrics"] == [
        (0, {"loss": 0.0}), (1, {"loss": 1.0}), (2, {"loss": 2.0}), (3, {"loss": 30.0}),
    ]  # fmt: skip
    with pytest.raises(LabError, match="closed"):
        run.log(9, loss=0.0)


def test_requests_are_answered_and_such_a_run_is_not_executed(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        send(run.path, Request("pause"))
    (row,) = [row for row in read_rows(RunDirectory(run.path).events)[0] if row["event"] == "control"]
    assert (row["request"], row["applied"]) == ("pause", False)
    assert "another program" in row["error"]
    assert state_of(run.path).status == "done"
    with pytest.raises(LabError, match="only be looked at"):
        execute(run.path)


def test_steps_of_numpy_and_torch_are_rows_that_readers_see(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:
        run.log(np.int64(3), loss=1.0)
        run.log(torch.tensor(5), loss=2.0)
        run.rewind(np.int32(4))
        run.log(np.uint8(5), loss=3.0)
        run.frame(np.int64(6), {"x": np.ones(2)})
        run.sample(np.int64(6), "a", "b")
    rows = live_branch(read_rows(RunDirectory(run.path).events)[0])
    assert [(row["step"], row["values"]["loss"]) for row in rows if row["event"] == "metrics"] == [(3, 1.0), (5, 3.0)]
    assert [row["step"] for row in rows if row["event"] == "sample"] == [6]
    assert RunInfo.load(run.path).step == 6


@pytest.mark.parametrize("step", [6.0, 6.5, "6", None, -1])
def test_an_invalid_step_is_refused_and_not_lost(tmp_path: Path, step: object) -> None:
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match="whole number"):
        run.log(step, loss=1.0)  # type: ignore[arg-type]


MASKED = [np.ma.masked, np.ma.array([1.0], mask=True)]


@pytest.mark.parametrize(
    "value", ["abc", "1.5", b"1", None, [1.0, 2.0], np.ones(3), 10**400, 1 + 2j, np.complex64(1), *MASKED]
)
def test_a_non_number_is_refused_with_its_name(tmp_path: Path, value: object) -> None:
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match=r"step 7: accuracy = .* one number"):
        run.log(7, accuracy=value)  # type: ignore[arg-type]


class FAKE:
    type = "fake"


class OnDevice:
    """A tensor on a device as `log` sees it, which must not read its value."""

    def __init__(self, shape: tuple[int, ...] = (), value: float | None = None, dtype: str = "float32") -> None:
        self.shape, self.value, self.dtype, self.device = shape, value, dtype, FAKE

    def detach(self) -> "OnDevice":
        return self

    def clone(self) -> "OnDevice":
        return OnDevice(self.shape, self.value)

    def reshape(self, shape: tuple[int, ...]) -> "OnDevice":
        raise RuntimeError("the device is lost")

    def __float__(self) -> float:
        if self.value is None:
            raise RuntimeError("the device is lost")
        return self.value


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 2)])
def test_the_shape_of_a_tensor_on_a_device_is_checked_immediately_and_nothing_else_is_lost(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=OnDevice(value=1.0))
        with pytest.raises(
            LabError, match=rf"step 2: norm = something of shape {re.escape(str(shape))}: .* one number"
        ):
            run.log(2, loss=OnDevice(value=2.0), norm=OnDevice(shape))
        with pytest.raises(LabError, match="complex"):
            run.log(2, loss=OnDevice(dtype="complex64"))
    assert [(row["step"], row["values"]) for row in metrics_of(run.path)] == [(1, {"loss": 1.0})]


def test_a_meta_tensor_has_no_value_to_record(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match=r"loss = .* no value"):
        run.log(1, loss=torch.empty((), device="meta"))


def test_rows_that_wait_for_a_device_survive_its_loss_and_the_run_is_not_called_done(tmp_path: Path) -> None:
    run = txlab.record("mine", root=tmp_path)
    for step in range(1, 7):
        run.log(step, loss=OnDevice(value=None if step == 3 else float(step)), lr=0.1)
    with pytest.raises(RuntimeError, match="the device is lost"):
        run.recorder.flush()
    run.note(6, "still here")
    run.close()
    found = {row["step"]: row["values"] for row in metrics_of(run.path)}
    assert found == {step: {"lr": 0.1} | ({} if step == 3 else {"loss": float(step)}) for step in range(1, 7)}
    assert [row["text"] for row in read_rows(RunDirectory(run.path).events)[0] if row["event"] == "note"]
    info = RunInfo.load(run.path)
    assert (info.status, info.reason) == ("failed", "not recorded: loss of step 3 (the device is lost)")


def test_a_row_that_the_disk_refused_is_written_when_it_takes_it(tmp_path: Path) -> None:
    run = txlab.record("mine", root=tmp_path)
    write, full = run.recorder.events.write, True

    def refusing(row: Row) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(row)

    run.recorder.events.write = refusing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        run.log(1, loss=1.0)
    full = False
    run.log(2, loss=2.0)
    run.close()
    assert [row["step"] for row in metrics_of(run.path)] == [1, 2]
    assert RunInfo.load(run.path).status == "done"


def test_a_row_too_long_for_any_reader_is_not_lost_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = txlab.record("mine", root=tmp_path)
    run.log(1, {"loss": OnDevice(value=1.0), "x" * 2000: 2.0})
    run.log(2, loss=OnDevice(value=2.0))
    monkeypatch.setattr("txlab.runs.events.LONGEST", 1000)
    run.close()
    assert [row["step"] for row in metrics_of(run.path)] == [2]
    info = RunInfo.load(run.path)
    assert info.status == "failed"
    assert info.reason.startswith("not recorded: a row that is too long")


def test_rows_that_no_disk_ever_took_are_in_the_reason(tmp_path: Path) -> None:
    run = txlab.record("mine", root=tmp_path)

    def refusing(row: Row) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run.recorder.events.write = refusing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        run.log(1, loss=1.0)
    run.close()
    info = RunInfo.load(run.path)
    assert info.status == "failed"
    assert "the metrics row of step 1" in info.reason
    assert "No space left" in info.reason


def test_a_metric_may_have_any_name_and_comes_in_a_mapping_too(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, {"train/loss": 1.0, "values": 2.0}, step=7, self=8, lr=np.float32(0.5))
        run.log(2, {"epoch": np.int64(3), "ok": np.bool_(True), "half": np.float16(0.5), "one": np.ones((1, 1))})
        for wrong in ({"": 1.0}, {3: 1.0}):
            with pytest.raises(LabError, match="not a metric name"):
                run.log(3, wrong)  # type: ignore[arg-type]
        with pytest.raises(LabError, match="lr is given twice"):
            run.log(3, {"lr": 1.0}, lr=2.0)
        with pytest.raises(LabError, match="takes names with their numbers"):
            run.log(3, 0.5)  # type: ignore[arg-type]
        with pytest.raises(LabError, match="2\\^62"):
            run.log(2**63, loss=1.0)
    first, second = metrics_of(run.path)
    assert first["values"] == {"train/loss": 1.0, "values": 2.0, "step": 7.0, "self": 8.0, "lr": 0.5}
    assert second["values"] == {"epoch": 3.0, "ok": 1.0, "half": 0.5, "one": 1.0}


def test_numbers_of_a_configuration_stay_numbers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    config = {"lr": np.float32(0.25), "layers": np.int64(4), "betas": np.array([0.5, 0.75]), "eps": torch.tensor(0.5)}
    txlab.record("mine", config, tmp_path).close()
    said = tomllib.loads((find_run("mine", tmp_path) / "scenario.toml").read_text())
    assert said["config"] == {"lr": 0.25, "layers": 4, "betas": [0.5, 0.75], "eps": 0.5}


def test_numbers_of_numpy_that_are_their_own_items_are_numbers(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, long=np.longdouble("0.5"), array=np.array([2.5], np.longdouble), whole=np.ma.array(3, mask=False))
    assert metrics_of(run.path)[0]["values"] == {"long": 0.5, "array": 2.5, "whole": 3.0}


def test_names_that_no_utf8_can_hold_do_not_end_the_program(tmp_path: Path) -> None:
    """Text as os.fsdecode decodes file names."""
    broken = "a\udcffb"
    with txlab.record(broken, {"data": broken, broken: Path(broken)}, tmp_path, title=broken) as run:
        run.log(0, {broken: 1.0})
    said = tomllib.loads((run.path / "scenario.toml").read_text())
    assert said == {"kind": "recorded", "name": "a?b", "config": {"data": "a?b", "a?b": "a?b"}}


def test_a_frame_of_a_non_number_is_refused_with_its_name(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        for array in (np.array([None]), np.array(["a"]), np.zeros(2, complex)):
            with pytest.raises(LabError, match="attention of a frame is of"):
                run.frame(1, {"attention": array})


def test_a_tensor_that_the_loop_adds_to_keeps_the_value_that_it_had(tmp_path: Path) -> None:
    class Sum(OnDevice):
        def clone(self) -> OnDevice:
            return OnDevice(value=self.value)

    total = Sum(value=1.0)
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, total=total)
        total.value = 2.0
        run.log(2, total=total)
        total.value = None
    assert [row["values"]["total"] for row in metrics_of(run.path)] == [1.0, 2.0]


def test_tensors_of_a_device_are_fetched_together_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    for module in ("recorder", "loop_values"):
        monkeypatch.setattr(f"txlab.runs.{module}.on_a_device", lambda value: isinstance(value, torch.Tensor))
    total, weight = torch.zeros(()), torch.ones((), requires_grad=True)
    with txlab.record("mine", root=tmp_path) as run:
        for step in range(1, 4):
            total += step
            run.log(step, total=total, loss=weight * step, count=torch.tensor([step]), lr=0.5)
        assert not metrics_of(run.path)  # nothing waited for the device
        assert not any(
            value.requires_grad for row in run.recorder._waiting for value in list(row["values"].values())[:3]
        )
    assert [row["values"] for row in metrics_of(run.path)] == [
        {"total": float(step * (step + 1) // 2), "loss": float(step), "count": float(step), "lr": 0.5}
        for step in (1, 2, 3)
    ]


def test_each_metric_has_its_own_steps(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        for step in range(100):
            run.log(step, {"train/loss": 1 / (step + 1)})
            if step % 25 == 24:
                run.log(step // 25, {"epoch/acc": step / 100})
        with pytest.raises(LabError, match=r"step 2 of epoch/acc comes after its step 3; say rewind\(2\)"):
            run.log(2, {"epoch/acc": 0.0})
        assert run.recorder.step == 99
        run.rewind(50, "a spike")
        with pytest.raises(LabError, match="step 49 of train/loss"):
            run.log(49, {"train/loss": 0.0})
        run.log(51, {"train/loss": 9.0})
        run.log(2, {"epoch/acc": 0.9})
    reader = RunReader(run.path)
    reader.poll()
    assert reader.series("epoch/acc").values.tolist() == [0.24, 0.49, 0.9]
    assert reader.series("train/loss").steps.tolist() == [*range(51), 51]
    assert RunInfo.load(run.path).step == 51


def test_threads_may_be_at_different_steps_and_every_row_is_whole(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:

        def work(start: int) -> None:
            for step in range(start, start + 500):
                run.log(step, reward=float(step))

        threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = RunDirectory(run.path).events.read_bytes().splitlines()
    assert all(decode_row(line) for line in lines)
    reader = RunReader(run.path)
    reader.poll()
    series = reader.series("reward")
    assert series.steps.tolist() == sorted(step for i in range(4) for step in range(100 * i, 100 * i + 500))
    assert series.values.tolist() == series.steps.tolist()
    assert reader.latest("reward") == 799.0


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_directory_that_disappears_is_reported_once_and_the_loop_continues(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=1.0)
        if how == "deleted":
            shutil.rmtree(run.path)
        else:
            run.path.rename(tmp_path / "elsewhere")
        for step in range(2, 5):
            run.frame(step, {"x": np.ones(2)})
            run.log(step, loss=1.0)
        run.note(5, "still here")
    assert capsys.readouterr().err == (
        f"txlab: {run.path} is gone (deleted or moved); nothing more of this run is recorded\n"
    )
    assert not run.path.exists()


def test_metrics_alone_notice_that_the_directory_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = txlab.record("mine", root=tmp_path)
    shutil.rmtree(run.path)
    run._answered = -1e9  # as if half a second had passed
    run.log(1, loss=1.0)
    run.log(2, loss=1.0)
    run.close()
    assert capsys.readouterr().err.count("is gone") == 1


class Failing:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@dataclasses.dataclass
class Settings:
    width: int = 3
    inner: Any = None


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"in": found}
    return found


def hostile_configuration() -> dict[Any, Any]:
    circle: dict[str, Any] = {"x": 1}
    circle["itself"] = circle
    return {
        "seed": 2**70,
        "huge": 10**5000,
        "set": {3, 1},
        "bytes": b"\xff",
        "pair": (1, None, 2),
        "circle": circle,
        "deep": nested(900),
        "nan": math.nan,
        "array": np.arange(3),
        "matrix": np.zeros((200, 200)),
        "failing": Failing(),
        "objects": np.array([{1}, None], dtype=object),
        "dtype": torch.bfloat16,
        "tensor": torch.ones(2),
        "sum": sum,
        "meta": torch.ones(2, device="meta"),
        "path": Path("/x"),
        "data": Settings(inner=Settings()),
        "half": 1 + 2j,
        "status": enum.Enum("Colour", "RED")["RED"],
        "long double": np.longdouble(1),
        Failing(): 1,
        None: 2,
        1: 3,
        "1": 4,
        "a.b": 5,
        "a": {"b": 6},
        "many": list(range(10**6)),
        "": 7,
        "long": "x" * 10**6,
    }


def test_whatever_a_configuration_holds_is_written_and_nothing_ends_the_training(tmp_path: Path) -> None:
    with txlab.record("it", hostile_configuration(), tmp_path, tags=("a",), steps=np.int64(3)) as run:
        run.configure(argparse.Namespace(later=2**64))
        run.log(0, loss=1.0)
        run.note(0, "x" * 3)
        run.frame(1, {"w": np.ones(2)}, facts={"seed": 2**70})
    info = RunInfo.load(run.path)
    reader = RunReader(run.path)
    config = reader.scenario["config"]
    assert info.config["seed"] == config["seed"] == str(2**70)
    assert int(config["huge"], 16) == 10**5000
    assert (config["set"], config["pair"], config["bytes"]) == ([1, 3], [1, "None", 2], "b'\\xff'")
    assert config["circle"] == {"x": 1, "itself": "…"}
    assert str(config["deep"]).count("in") == 900
    assert (config["array"], config["tensor"], config["matrix"]) == (
        [0, 1, 2], [1.0, 1.0], "ndarray of shape (200, 200), float64",
    )  # fmt: skip
    assert (config["dtype"], config["sum"], config["path"]) == ("torch.bfloat16", "builtins.sum", "/x")
    assert config["data"] == {"width": 3, "inner": {"width": 3}}
    assert (config["None"], config["1"], config["1 (2)"], config["<Failing>"]) == (2, 3, 4, 1)
    assert (config["a.b"], config["a"]) == (5, {"b": 6})
    assert sorted((info.config["a.b"], info.config["a.b (2)"])) == [5, 6]
    assert info.config["nan"] == "NaN"
    assert math.isnan(config["nan"])
    assert config["later"] == str(2**64)
    assert "more" in str(config["many"][-1])
    assert reader.frames.read(1).facts == {"seed": str(2**70)}
    assert (run.path / "scenario.toml").stat().st_size < 256 * 1024


@pytest.mark.parametrize(
    "config", [Settings(), argparse.Namespace(width=3), None, [1, 2], 10**5000, "text"], ids=range(6)
)
def test_a_configuration_need_not_be_a_mapping(tmp_path: Path, config: Any) -> None:
    run = txlab.record("it", config, tmp_path)
    run.close()
    assert RunInfo.load(run.path).status == "done"


@pytest.mark.parametrize("wrong", [10**5000, Failing(), None, b"x", {1}, [1, 2]], ids=range(6))
def test_a_wrong_step_name_or_value_is_a_sentence_whatever_it_is(tmp_path: Path, wrong: Any) -> None:
    with txlab.record("it", root=tmp_path) as run:
        for call in (
            lambda: run.log(wrong, loss=1.0),
            lambda: run.log(0, {wrong: 1.0} if wrong.__hash__ else wrong or 3),
            lambda: run.log(0, loss=wrong),
        ):
            with pytest.raises(LabError):
                call()
        for tags in (wrong, [wrong]):
            with pytest.raises(LabError):
                txlab.record("it", root=tmp_path, tags=tags)
