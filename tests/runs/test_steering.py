"""A loop of another program that polls is paused, stepped, changed, saved and stopped as a run of ours is."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import LONGEST, wait_for

import txlab
from txlab.errors import LabError
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import Row, read_rows
from txlab.runs.recording import Recording


class Loop:
    """A loop of two million steps in a thread, which polls once a step, and the questions of a test to it."""

    def __init__(self, root: Path, prepare: Callable[[Recording, dict[str, Any]], None] = lambda run, at: None) -> None:
        self.at: dict[str, Any] = {"step": 0, "lr": 0.1, "saved": []}
        self.run = txlab.record("mine", root=root)
        prepare(self.run, self.at)
        self.thread = threading.Thread(target=self._go, daemon=True)
        self.thread.start()

    def _go(self) -> None:
        with self.run:
            for step in range(1, 2_000_000):
                if not self.run.poll(step):
                    break
                self.at["step"] = step
                self.run.log(step, loss=1 / step, lr=self.at["lr"])
                time.sleep(0.001)

    def ask(self, request: str, **said: Any) -> Row:
        """The row that answers a request."""
        ident = send(self.run.path, Request(request, by="ann@box", **said))
        found: list[Row] = []
        wait_for(lambda: bool(found.extend(r for r in self.rows("control") if r["id"] == ident) or found))
        return found[0]

    def rows(self, event: str) -> list[Row]:
        return [row for row in read_rows(RunDirectory(self.run.path).events)[0] if row["event"] == event]

    def stop(self) -> None:
        self.ask("stop")
        self.thread.join(LONGEST)
        assert not self.thread.is_alive()


def test_a_loop_that_polls_pauses_steps_resumes_and_stops(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    row = loop.ask("pause")
    assert (row["applied"], row["by"], row["error"]) == (True, "ann@box", None)
    assert state_of(loop.run.path).status == "paused"
    before = loop.at["step"]
    time.sleep(0.2)
    assert loop.at["step"] == before
    loop.ask("step", count=3)
    wait_for(lambda: bool(loop.at["step"] == before + 3))
    time.sleep(0.2)
    assert loop.at["step"] == before + 3
    loop.ask("resume")
    wait_for(lambda: bool(loop.at["step"] > before + 3))
    loop.stop()
    info = RunInfo.load(loop.run.path)
    assert info.status == "stopped"
    assert info.reason.startswith("ann@box asked for it at step ")
    assert RunInfo.load(loop.run.path).takes == ("pause", "resume", "step", "stop")


def test_a_changed_parameter_takes_effect_and_is_in_the_log(tmp_path: Path) -> None:
    def prepare(run: Recording, at: dict[str, Any]) -> None:
        run.adjustable("lr", lambda: at["lr"], 1e-6, 1.0, apply=lambda value: at.update(lr=value))

    loop = Loop(tmp_path, prepare)
    row = loop.ask("scale", key="lr", value=0.5)
    assert (row["request"], row["from"], row["to"], row["applied"]) == ("set", 0.1, 0.05, True)
    wait_for(lambda: any(r["values"]["lr"] == 0.05 for r in loop.rows("metrics")))
    refused = loop.ask("set", key="lr", value=7.0)
    assert (refused["applied"], refused["error"]) == (False, "set lr = 7.0: allowed: 1e-06 to 1")
    assert "nearest: lr" in loop.ask("set", key="l", value=0.1)["error"]
    assert loop.at["lr"] == 0.05
    loop.stop()
    assert RunInfo.load(loop.run.path).facts["adjustable"]["lr"]["high"] == 1.0


def test_a_checkpoint_is_made_by_the_loop_and_before_a_stop(tmp_path: Path) -> None:
    loop = Loop(tmp_path, lambda run, at: run.saves(lambda step: at["saved"].append(step) or Path(f"model-{step}.pt")))
    row = loop.ask("checkpoint")
    assert row["applied"]
    assert loop.at["saved"] == [row["step"]]
    loop.stop()
    assert len(loop.at["saved"]) == 2
    assert [row["path"] for row in loop.rows("checkpoint")] == [f"model-{step}.pt" for step in loop.at["saved"]]


def test_a_loop_whose_save_or_change_fails_continues(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    def prepare(run: Recording, at: dict[str, Any]) -> None:
        run.saves(broken)
        run.adjustable("lr", 0.1, 0, 1, apply=broken)

    loop = Loop(tmp_path, prepare)
    assert loop.ask("checkpoint")["error"] == "the loop could not save: OSError: the disk is full"
    assert loop.ask("set", key="lr", value=0.2)["error"] == "set lr = 0.2: the disk is full"
    loop.stop()
    assert [row["text"] for row in loop.rows("note")] == ["the loop could not save: OSError: the disk is full"]


def test_what_the_loop_has_not_declared_is_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    assert "run.saves" in loop.ask("checkpoint")["error"]
    assert "no such parameter" in loop.ask("set", key="lr", value=1.0)["error"]
    assert "samples" in loop.ask("sample")["error"]
    loop.stop()


def test_a_parameter_outside_its_bounds_is_refused_immediately(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run, pytest.raises(LabError, match="lr = 5 is outside"):
        run.adjustable("lr", 5, 0, 1, apply=print)


def test_poll_costs_the_loop_next_to_nothing_and_looks_twenty_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        looks = []
        take = run.inbox.take
        run.inbox.take = lambda: looks.append(1) or take()  # type: ignore[method-assign, func-returns-value]
        passed = iter(range(10**6))
        monkeypatch.setattr("txlab.runs.steering.time.monotonic", lambda: next(passed) / 1000)  # a millisecond a call
        for step in range(10_000):
            assert run.poll(step)
        assert 0 < len(looks) <= 2 + next(passed) / 1000 / 0.05


def test_a_directory_that_is_gone_does_not_stop_the_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    with txlab.record("mine", root=tmp_path) as run:
        run.poll(1)
        shutil.rmtree(run.path)
        run.steering.looked = 0
        assert run.poll(2)
    assert "is gone" in capsys.readouterr().err
