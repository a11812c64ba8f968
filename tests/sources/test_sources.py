"""A live experiment and a recorded run answer a screen's questions alike, and say what each of them can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pytest
from waiting import LONGEST

import txlab
from txlab.errors import LabError
from txlab.experiments.protocol import Adjustable, Frame
from txlab.runs.control import Request
from txlab.runs.directory import RunDirectory
from txlab.sources.live import Live
from txlab.sources.recorded import Recorded
from txlab.sources.source import Source

CAPABILITIES = ("edit", "step", "pause", "stop", "undo", "pace", "replay", "branch")


@dataclass
class Squares:
    """Its loss after n updates is n² · rate."""

    step_count: int = 0
    rate: float = 1.0

    def step(self) -> dict[str, float]:
        self.step_count += 1
        return {}

    def back(self) -> None:
        self.step_count -= 1

    def frame(self) -> Frame:
        loss = self.rate * self.step_count**2
        return Frame(self.step_count, {"n": np.array([self.step_count])}, facts={"measured": {"loss": loss}})

    def adjustable(self) -> dict[str, Adjustable]:
        return {"rate": Adjustable("rate", self.rate, 0.0, 10.0)}

    def adjust(self, name: str, value: float) -> None:
        self.rate = value


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.005)


def live() -> Live[Squares]:
    """Five updates, each of them shown; without a terminal."""
    source: Live[Squares] = Live()
    source.begin(lambda _: Squares())
    until(lambda: source.idle and source.picture)
    for _ in range(5):
        source.step()
        until(lambda: source.idle)
    return source


def recorded(root: Path) -> Recorded:
    run = txlab.record("squares", root=root, steps=5)
    for step in range(6):
        run.log(step, loss=float(step**2))
        run.frame(step, {"n": np.array([step])})
    run.close("done")
    source = Recorded(run.path)
    source.poll()
    return source


@pytest.fixture(params=["live", "recorded"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return live() if request.param == "live" else recorded(tmp_path)


def test_frames_steps_and_metrics_are_asked_alike(source: Source) -> None:
    assert source.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert [int(np.asarray(source.frame(at).tensors["n"])[0]) for at in (0, 3, None)] == [0, 3, 5]
    loss = source.series("loss")
    assert (loss.steps.tolist(), loss.values.tolist()) == ([0, 1, 2, 3, 4, 5], [0.0, 1.0, 4.0, 9.0, 16.0, 25.0])
    assert len(source.series("none")) == 0
    assert source.status.step == 5
    assert source.status.ended
    assert source.can_replay


def test_each_says_what_it_can_do(tmp_path: Path) -> None:
    of_live, of_run = live(), recorded(tmp_path)
    can = {name: (getattr(of_live, f"can_{name}"), getattr(of_run, f"can_{name}")) for name in CAPABILITIES}
    assert can == {
        "edit": (True, False), "step": (True, False), "pause": (True, False), "stop": (False, False),
        "undo": (True, False), "pace": (True, False), "replay": (True, True), "branch": (False, True),
    }  # fmt: skip
    assert of_live.ask(lambda squares: squares.step_count) == 5
    assert of_run.ask(lambda squares: squares.step_count) is None


def test_an_update_taken_back_leaves_frames_and_metrics() -> None:
    source = live()
    source.undo()
    until(lambda: source.idle)
    assert source.steps.tolist() == [0, 1, 2, 3, 4]
    assert source.series("loss").values.tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]


def test_a_live_source_needs_no_terminal_and_runs_in_its_own_thread() -> None:
    threads: list[int] = []
    source: Live[Squares] = Live(lambda picture: threads.append(threading.get_ident()))
    source.begin(lambda _: Squares(), run=True)
    until(lambda: source.updates > 100)
    source.pause()
    until(lambda: source.idle)
    assert threads
    assert threading.get_ident() not in threads
    source.adjust("rate", 2.0)
    until(lambda: source.idle)
    assert source.series("loss").values[-1] == 2.0 * source.updates**2


@dataclass
class Counting:
    """Only what every live source requires."""

    step_count: int = 0

    def step(self) -> dict[str, float]:
        self.step_count += 1
        return {}

    def frame(self) -> Frame:
        return Frame(self.step_count)


def test_only_what_an_experiment_can_do_is_offered() -> None:
    said: list[str] = []
    source: Live[Counting] = Live(failed=said.append)
    source.begin(lambda _: Counting())
    source.adjust("rate", 1.0)
    until(lambda: said)
    assert said == ["rate cannot be adjusted here; adjustable: none"]
    assert not source.can_undo


class Gate(Squares):
    """Its second update fails. A step waits until it may begin."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    def step(self) -> dict[str, float]:
        assert self.open.wait(LONGEST)
        if self.step_count == 1:
            raise LabError("one is enough")
        return super().step()


class KeyLog(Live[Gate]):
    """Notes which pictures are shown, and when keys are held and released."""

    def __init__(self) -> None:
        super().__init__(lambda picture: self.log.append(picture.frame.step), self.note)
        self.log: list[object] = []
        self.held: list[object] = []

    def note(self, sentence: str) -> None:
        self.log.append(sentence)

    def hold_keys(self, what: object) -> None:
        self.held.append(what)
        self.log.append("held")

    def release_keys(self, what: object) -> None:
        self.held.remove(what)
        self.log.append("released")


def test_keys_wait_for_the_picture_of_a_step_even_of_one_that_fails() -> None:
    gate, source = Gate(), KeyLog()
    source.begin(lambda _: gate)
    until(lambda: source.idle)
    source.step(keys_wait=True)
    assert len(source.held) == 1
    gate.open.set()
    until(lambda: source.idle)
    source.step(keys_wait=True)
    until(lambda: source.idle)
    source.step()
    until(lambda: source.idle)
    assert source.held == []
    begun, step = ["held", 0, "released"], ["held", 1, "released"]
    assert source.log == [*begun, *step, "held", "one is enough", 1, "released", "one is enough", 1]


def test_an_unknown_parameter_is_reported() -> None:
    said: list[str] = []
    source: Live[Squares] = Live(failed=said.append)
    source.begin(lambda _: Squares())
    source.adjust("rate", 11.0)
    until(lambda: said)
    assert said == ["rate = 11 is not allowed; allowed: 0 … 10"]


def test_a_running_run_takes_requests_through_its_inbox(tmp_path: Path) -> None:
    heard: list[tuple[str, Request]] = []
    written = txlab.record("running", root=tmp_path, steps=5)
    path = Path(written.path)
    source = Recorded(path, asked=lambda ident, request: heard.append((ident, request)))
    source.adjust("rate", 0.5)
    source.step(3)
    source.pause()
    source.run()
    rows = [orjson.loads(each.read_bytes()) for each in sorted((path / "inbox").iterdir())]
    assert [(row["request"], row["key"], row["value"], row["count"]) for row in rows] == [
        ("set", "rate", 0.5, 1), ("step", None, None, 3), ("pause", None, None, 1), ("resume", None, None, 1),
    ]  # fmt: skip
    assert [ident for ident, _ in heard] == [row["id"] for row in rows]
    written.close("done")


def test_a_run_without_frames_or_without_a_folder_says_so(tmp_path: Path) -> None:
    run = txlab.record("empty", root=tmp_path, steps=1)
    run.close("done")
    source = Recorded(run.path)
    source.poll()
    with pytest.raises(LabError, match="no frame yet"):
        source.frame(None)
    for file in sorted(RunDirectory(run.path).path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.path.rmdir()
    with pytest.raises(LabError, match="gone"):
        source.poll()
