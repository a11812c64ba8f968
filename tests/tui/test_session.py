"""A session steps any experiment in a thread: it runs, pauses, keeps a pace, takes commands, records, and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.worker import Worker, WorkerState
from waiting import LONGEST

from txlab.errors import LabError
from txlab.experiments.protocol import Adjustable, Frame
from txlab.sources.live import MOST_FRAMES, FrameMemory, Picture
from txlab.tui.session import Session


@dataclass
class Counter:
    """An experiment that counts: at `fails_at` updates it raises `failure`."""

    step_count: int = 0
    steps: int = 10**9
    rate: float = 0.5
    fails_at: int = -1
    failure: Exception = field(default_factory=lambda: LabError("it cannot count on"))
    threads: set[int] = field(default_factory=set)

    def step(self) -> dict[str, float]:
        self.threads.add(threading.get_ident())
        if self.step_count == self.fails_at:
            raise self.failure
        self.step_count += 1
        return {"count": float(self.step_count)}

    def frame(self) -> Frame:
        return Frame(self.step_count, {"count": np.array([self.step_count])})

    def adjustable(self) -> dict[str, Adjustable]:
        return {"rate": Adjustable("rate", self.rate, 0.0, 1.0)}

    def adjust(self, name: str, value: float) -> None:
        self.rate = value


class Bench(Screen[None]):
    """A screen that remembers what its session has shown."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[Picture[Counter]] = []
        self.sentences: list[str] = []
        self.failures: list[BaseException] = []
        self.session: Session[Counter] = Session(self, self.pictures.append, self.sentences.append)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.failures.append(event.worker.error)

    @property
    def shown(self) -> int:
        return self.pictures[-1].frame.step if self.pictures else -1


@asynccontextmanager
async def bench(**options: object) -> AsyncIterator[tuple[Bench, Pilot[None]]]:
    screen = Bench()
    app: App[None] = App()
    async with app.run_test() as pilot:
        await app.push_screen(screen)
        screen.session.begin(lambda _: Counter(**options))  # type: ignore[arg-type]
        await until(pilot, lambda: screen.session.idle and bool(screen.pictures))
        yield screen, pilot


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        await pilot.pause(0.01)


async def test_it_shows_what_it_begins_with_and_then_sleeps() -> None:
    async with bench() as (screen, _):
        assert screen.shown == 0
        assert not screen.session.alive
        assert screen.pictures[-1].experiment is screen.session.experiment


async def test_it_runs_and_pauses() -> None:
    async with bench() as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: screen.session.updates > 1000)
        assert screen.session.alive
        screen.session.pause()
        await until(pilot, lambda: screen.session.idle)
        stood = screen.session.updates
        assert screen.shown == stood
        assert not screen.pictures[-1].running
        await pilot.pause(0.05)
        assert screen.session.updates == stood


async def test_a_single_step_is_one_update_and_pauses() -> None:
    async with bench(steps=1) as (screen, pilot):
        for made in (1, 2):  # also beyond the end that the experiment asks for
            screen.session.step()
            await until(pilot, lambda: screen.session.idle)
            assert screen.shown == made


async def test_a_slow_pace_shows_every_update() -> None:
    async with bench() as (screen, pilot):
        screen.session.pace = 15.0
        screen.session.run()
        await until(pilot, lambda: screen.session.updates >= 5)
        screen.session.pause()
        await until(pilot, lambda: screen.session.idle)
        assert screen.session.recording.steps[:5] == list(range(5))


async def test_a_pace_is_kept() -> None:
    async with bench() as (screen, pilot):
        screen.session.pace = 1000.0
        begun = time.monotonic()
        screen.session.run()
        await until(pilot, lambda: screen.session.updates >= 300)
        assert time.monotonic() - begun > 0.25


async def test_it_pauses_where_the_experiment_ends() -> None:
    async with bench(steps=700) as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: screen.session.idle)
        assert screen.shown == 700
        assert not screen.pictures[-1].running


async def test_updates_in_one_call_are_the_experiments_own() -> None:
    class Runner(Counter):
        def run(self, updates: int) -> None:
            self.step_count += updates

        def step(self) -> dict[str, float]:
            raise AssertionError("one by one")

    async with bench() as (screen, pilot):
        screen.session.begin(lambda old: Runner(steps=12345))
        screen.session.run()
        await until(pilot, lambda: screen.session.idle)
        assert screen.shown == 12345


async def test_a_named_order_takes_the_place_of_the_one_that_waits() -> None:
    async with bench() as (screen, pilot):
        done: list[object] = []
        held = threading.Event()
        screen.session.edit(lambda _: held.wait(LONGEST))
        await until(pilot, lambda: not screen.session.orders)
        for number in range(5):
            screen.session.edit(lambda _, number=number: done.append(number), "number")
        screen.session.edit(lambda _: done.append("other"))
        held.set()
        await until(pilot, lambda: screen.session.idle)
        assert done == [4, "other"]


async def test_a_question_of_another_thread_is_answered_between_two_updates() -> None:
    async with bench() as (screen, pilot):
        found: list[object] = []

        def ask() -> None:
            found.append(screen.session.ask(lambda counter: (counter.step_count, threading.get_ident())))
            try:
                screen.session.ask(lambda counter: 1 // 0)
            except ZeroDivisionError as error:
                found.append(error)

        screen.session.run()
        await until(pilot, lambda: screen.session.updates > 100)
        threading.Thread(target=ask, daemon=True).start()
        await until(pilot, lambda: len(found) == 2)
        count, thread = found[0]  # type: ignore[misc]
        assert count >= 100
        assert screen.session.experiment is not None
        assert {thread} == screen.session.experiment.threads
        assert isinstance(found[1], ZeroDivisionError)
        screen.session.pause()
        assert not screen.failures


async def test_parameters_are_adjusted_within_their_bounds() -> None:
    async with bench() as (screen, pilot):
        screen.session.adjust("rate", 0.25)
        await until(pilot, lambda: screen.session.idle)
        assert screen.session.experiment is not None
        assert screen.session.experiment.rate == 0.25
        screen.session.adjust("rate", 7)
        screen.session.adjust("raet", 1)
        await until(pilot, lambda: len(screen.sentences) == 2)
        assert screen.session.experiment.rate == 0.25
        assert "0 … 1" in screen.sentences[0]
        assert "rate" in screen.sentences[1]


async def test_frames_are_kept_for_the_time_line() -> None:
    async with bench() as (screen, pilot):
        for _ in range(4):
            screen.session.step()
            await until(pilot, lambda: screen.session.idle)
        assert screen.pictures[-1].steps == (0, 1, 2, 3, 4)
        found = screen.session.recording.at(2)
        assert found is not None
        assert found.tensors["count"][0] == 2
        screen.session.begin(lambda old: Counter(step_count=old.step_count if old else 0))
        await until(pilot, lambda: screen.session.idle)
        assert screen.pictures[-1].steps == (4,)


async def test_no_picture_comes_while_one_is_drawn() -> None:
    async with bench() as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: screen.session.updates > 100)
        before = len(screen.session.recording.steps)
        time.sleep(0.5)  # the event loop is blocked meanwhile
        assert len(screen.session.recording.steps) <= before + 1
        assert not screen.session.taken
        screen.session.pause()


async def test_an_impossible_update_pauses_and_is_reported() -> None:
    async with bench(fails_at=5) as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: bool(screen.sentences))
        assert screen.sentences == ["it cannot count on"]
        await until(pilot, lambda: screen.session.idle)
        assert not screen.session.running
        assert screen.session.updates == 5


async def test_any_other_exception_reaches_the_screen_and_the_next_order_begins_again() -> None:
    async with bench(fails_at=5, failure=ZeroDivisionError("a bug")) as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: bool(screen.failures))
        assert "a bug" in str(screen.failures[0])
        assert not screen.session.running
        screen.session.look()
        await until(pilot, lambda: screen.session.idle and screen.shown == 5)


async def test_it_dies_with_its_screen() -> None:
    async with bench() as (screen, pilot):
        screen.session.run()
        await until(pilot, lambda: screen.session.updates > 100)
    end = time.monotonic() + 5
    while screen.session.alive and time.monotonic() < end:
        time.sleep(0.01)
    assert not screen.session.alive


def test_undone_updates_leave_the_recording() -> None:
    recording = FrameMemory()
    for step in (0, 1, 2, 3, 2):
        recording.add(Frame(step, {"v": np.full(1, step)}))
    assert recording.steps == [0, 1, 2]


def test_a_frame_is_looked_up_while_another_thread_takes_updates_back() -> None:
    recording = FrameMemory()

    class Undone(Frame):
        @property
        def step(self) -> int:  # type: ignore[override]
            """The step; where it is read, all later updates are undone."""
            recording.frames = recording.frames[:1]
            return 5

        @step.setter
        def step(self, value: int) -> None: ...

    recording.add(Frame(0, {}))
    recording.frames = [recording.frames[0], *(object.__new__(Undone) for _ in range(4))]
    found = recording.at(9)
    assert found is not None
    assert found.step == 5


def test_a_long_session_keeps_few_frames_of_all_of_it() -> None:
    recording = FrameMemory()
    for step in range(5000):
        recording.add(Frame(step, {"v": np.zeros(10)}))
    assert len(recording.frames) <= MOST_FRAMES
    assert recording.steps[0] == 0
    assert recording.steps[-1] > 4900
    found = recording.at(2500)
    assert found is not None
    assert abs(found.step - 2500) < 50


@pytest.mark.parametrize("bytes_each", [10_000_000])
def test_large_frames_are_fewer(bytes_each: int) -> None:
    recording = FrameMemory()
    for step in range(20):
        recording.add(Frame(step, {"v": np.zeros(bytes_each, np.int8)}))
    assert recording.bytes <= 60_000_000
