"""A run ends in its run.json whatever goes wrong in what writes it: no run is "running" without a process for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from regression_kind import RegressionScenario, Train, register
from waiting import LONGEST

import txlab
from txlab.experiments.schema import Record
from txlab.runs import ending, loop, recorder
from txlab.runs.directory import RunDirectory, RunInfo, read_heartbeat
from txlab.runs.events import EventWriter, Row, read_rows
from txlab.runs.finding import find_run
from txlab.runs.frames import FrameWriter
from txlab.runs.process import execute, prepare
from txlab.runs.recorder import Recorder
from txlab.runs.scenario import LoadedScenario

register()
STEPS = 12


class Broken(Exception):
    """What no code of ours expects."""


def breaks(*_: Any, **__: Any) -> Any:
    raise Broken("it is broken")


def made(root: Path) -> RunDirectory:
    record = Record(evaluate_every=4, sample_every=4, frame_every=4, checkpoint_every=4)
    scenario = RegressionScenario(record=record, train=Train(steps=STEPS))
    return RunDirectory(prepare(LoadedScenario(scenario, "regression", "a test"), root=root))


def at_the_end(row: Row) -> None:
    if row["event"] == "end":
        raise Broken("the terminal is broken")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (EventWriter, "sync"),  # in the loop, in the clock's thread, and at the end
        (EventWriter, "write"),
        (FrameWriter, "write"),
        (recorder, "_fetch"),
        (loop, "_reason"),
        (loop, "Speed"),
        (loop.checkpoints, "save"),
        (loop.checkpoints, "last_good"),
    ],
)
def test_the_end_is_written_whatever_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    run = made(tmp_path)
    monkeypatch.setattr(owner, name, breaks)
    if name in ("_reason", "last_good"):  # which are asked after an error
        monkeypatch.setattr(FrameWriter, "write", breaks)
    with contextlib.suppress(Broken):  # a bug keeps its traceback
        execute(run)
    info = RunInfo.load(run)
    assert (info.status, "it is broken" in info.reason) == ("failed", True)
    beat = read_heartbeat(run)
    assert beat is not None
    assert beat["status"] == "failed"
    assert "txlab heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_an_observer_that_breaks_at_the_end_does_not_prevent_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(Broken):
        execute(run, observer=at_the_end)
    assert RunInfo.load(run).status == "done"


@pytest.mark.parametrize("owner", ["recorder.FrameWriter", "recorder.EventWriter", "recorder.Recorder._beat"])
def test_a_run_that_cannot_be_begun_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    run = made(tmp_path)
    monkeypatch.setattr(f"txlab.runs.{owner}", breaks)
    with pytest.raises(Broken):
        execute(run)
    with pytest.raises(Broken):
        txlab.record("mine", root=tmp_path)
    info = RunInfo.load(run)
    assert (info.status, info.reason) == ("failed", "it could not begin: it is broken")
    assert info.ended is not None
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [run.path]  # a new recording leaves nothing


@pytest.mark.parametrize(("owner", "name"), [("alerts.Alarms", "look"), ("recorder.Recorder", "_look")])
def test_the_heartbeat_continues_after_an_error_in_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, name: str
) -> None:
    """Without it, a run that is computed would be shown as lost; the log says what was wrong, once."""
    monkeypatch.setattr(recorder, "SYNC_EVERY", 0.01)
    monkeypatch.setattr(recorder, "HEARTBEAT_EVERY", 0.01)
    monkeypatch.setattr(f"txlab.runs.{owner}.{name}", breaks)
    beats, enough = [], threading.Event()
    write = RunDirectory.write

    def counted(self: RunDirectory, entry: str, *said: Any, **how: Any) -> None:
        write(self, entry, *said, **how)
        if entry == "heartbeat":
            beats.append(entry)
            if len(beats) > 5:
                enough.set()

    monkeypatch.setattr(RunDirectory, "write", counted)
    run = made(tmp_path)
    writer = Recorder(run, RunInfo.load(run))
    assert enough.wait(LONGEST)
    writer.finish("done", "")
    notes = [row["text"] for row in read_rows(run.events)[0] if row["event"] == "note"]
    assert notes == ["heartbeat: Broken: it is broken"]


def test_a_recording_that_cannot_be_ended_lets_the_others_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = txlab.record("first", root=tmp_path), txlab.record("second", root=tmp_path)
    monkeypatch.setattr(first, "_answer", breaks)
    ending._end_all(lambda run: ending.end_with(run, None))
    assert "Broken: it is broken" in capsys.readouterr().err
    assert RunInfo.load(RunDirectory(second.path)).status == "done"
    monkeypatch.undo()
    first.close()
    assert RunInfo.load(RunDirectory(first.path)).status == "done"


PROGRAM = """
import os, signal, txlab
from txlab.runs.recorder import Recorder
run = txlab.record("mine", root={root!r})
run.log(1, loss=2.0)
def breaks(*_): raise RuntimeError("it is broken")
{broken} = breaks
{end}
"""


@pytest.mark.parametrize("broken", ["run._answer", "run.recorder.events.sync", "run.recorder.events.write"])
@pytest.mark.parametrize("number", [0, signal.SIGTERM])
def test_a_program_with_a_broken_writer_still_ends_its_run(tmp_path: Path, broken: str, number: int) -> None:
    """Normally, and by a signal, which still ends the program."""
    end = f"os.kill(os.getpid(), {int(number)}); print('it went on')" if number else ""
    program = textwrap.dedent(PROGRAM.format(root=str(tmp_path), broken=broken, end=end))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False, env=os.environ
    )
    assert "it went on" not in done.stdout
    assert done.returncode == -number
    if broken != "run._answer":
        info = RunInfo.load(RunDirectory(find_run("mine", tmp_path)))
        assert info.status == ("interrupted" if number else "done"), done.stderr
