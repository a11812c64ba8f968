"""A limit in wall time ends work that never asks for the time."""

from __future__ import annotations

import signal
import threading
import weakref
from typing import Any

import pytest
from waiting import LONGEST

from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning import autotune, timing
from txlab.experiments.learning.deadline import OutOfTime, deadline


def endless() -> None:
    end = threading.Event()
    assert not end.wait(LONGEST), "nothing ended it"


def test_endless_work_is_ended_and_the_timer_and_the_handler_of_others_are_put_back() -> None:
    def theirs(*_: Any) -> None: ...

    before = signal.signal(signal.SIGALRM, theirs)
    signal.setitimer(signal.ITIMER_REAL, 2000.0)
    try:
        with pytest.raises(OutOfTime), deadline(0.05):
            endless()
        assert signal.getsignal(signal.SIGALRM) is theirs
        assert 1000 < signal.getitimer(signal.ITIMER_REAL)[0] <= 2000
        with deadline(1000):
            assert signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_raised_where_python_drops_it_is_raised_again() -> None:
    class Thing: ...

    def swallow() -> None:
        """The first alarm comes while a weak reference is cleared: Python prints it and carries on."""
        thing = Thing()
        kept = weakref.ref(thing, lambda _: endless())
        del thing
        assert kept() is None
        endless()

    with pytest.raises(OutOfTime), deadline(0.05):
        swallow()


def test_an_exception_handler_that_takes_all_exceptions_does_not_take_it() -> None:
    def stubborn() -> None:
        try:
            endless()
        except Exception:
            endless()

    with pytest.raises(OutOfTime), deadline(0.05):
        stubborn()


def test_outside_the_main_thread_there_is_no_limit_and_no_error() -> None:
    done = threading.Event()

    def work() -> None:
        with deadline(1e-3):
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done.is_set()


@pytest.mark.parametrize(
    ("endless_at", "compiled", "why"),
    [(1, False, "compile off: not ready in time; tried for"), (2, True, "compile on: 10.0 ms a step compiled")],
)
def test_the_trial_of_the_compiler_ends_in_time_and_what_is_ready_by_then_counts(
    endless_at: int, compiled: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[timing.Setting] = []

    def time(self: object, setting: timing.Setting) -> float:
        if setting.compiled and setting not in tried:
            tried.append(setting)
            if len(tried) == endless_at:
                endless()
        return 0.010 if setting.compiled else 0.030

    monkeypatch.setattr(timing.Trial, "time", time)
    monkeypatch.setattr(autotune, "COMPILING", 1.0)
    compute = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 2}
    model = {"layers": 1, "heads": 2, "width": 8, "context": 8}
    given = {"model": model, "train": {"steps": 100_000, "batch": 2}, "compute": compute}
    resolved = KIND.resolve(LanguageModelScenario.model_validate(given))
    assert resolved.compute.compile is compiled
    assert why in " ".join(autotune.reasons(resolved))
    assert len(tried) == endless_at
