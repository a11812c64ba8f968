"""What is "auto" gets decided by measuring, is explained, and is not measured again (MATH T9)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.experiment import trial_of
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning import autotune as probe
from txlab.experiments.learning import timing

SMALL = {"layers": 1, "heads": 2, "width": 8, "context": 8}


def scenario(**compute: object) -> LanguageModelScenario:
    return LanguageModelScenario.model_validate({"model": SMALL, "train": {"batch": 2}, "compute": compute})


def test_nothing_is_left_to_decide_and_every_decision_has_a_reason() -> None:
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    resolved = KIND.resolve(scenario(device="cpu"))
    assert probe.is_decided(resolved.compute)
    assert resolved.compute.device == "cpu"
    assert resolved.compute.compile is False
    why = " ".join(probe.reasons(resolved))
    assert resolved.compute.dtype in why
    assert "ms a step" in why
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert resolved.model_copy(update={"compute": scenario().compute}) == scenario()


def test_user_settings_stay() -> None:
    resolved = KIND.resolve(scenario(device="cpu", dtype="float32", threads=1, attention="sdpa"))
    assert resolved.compute.model_dump() == {
        "device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1, "thread_mode": "operations",
        "compile": False, "cuda_graphs": False, "processes": 1, "parallel": "ddp", "timeout": 600.0,
    }  # fmt: skip


def test_a_decided_scenario_is_not_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing.Trial, "time", lambda *_: pytest.fail("timed"))
    settled = {
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "thread_mode": "operations",
        "attention": "sdpa",
        "cuda_graphs": False,
    }
    decided = scenario(**settled, compile=False)
    assert KIND.resolve(decided) is decided


@pytest.mark.parametrize(
    ("milliseconds", "chosen"),
    [
        (
            {("bfloat16", "matmul", 2): 10, ("float32", "sdpa", 2): 30, ("bfloat16", "matmul", 1): 15},
            "bfloat16 matmul 2",
        ),
        # Next to busy processes one thread may win.
        ({("bfloat16", "matmul", 2): 30, ("bfloat16", "matmul", 1): 12}, "bfloat16 matmul 1"),
        # A processor without bfloat16, or one on which it hardly helps.
        ({("bfloat16", "matmul", 2): 28, ("float32", "sdpa", 2): 30}, "float32 sdpa 2"),
    ],
)
def test_the_fastest_setting_wins_and_bfloat16_only_clearly(
    milliseconds: dict[tuple[str, str, int], float], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time(self: object, setting: timing.Setting) -> float:
        return milliseconds.get((setting.dtype, setting.attention, setting.threads), 99) / 1e3

    monkeypatch.setattr(timing.Trial, "time", time)
    monkeypatch.setattr(probe, "cores", lambda: 2)
    compute = KIND.resolve(scenario(device="cpu")).compute
    assert f"{compute.dtype} {compute.attention} {compute.threads}" == chosen


def test_a_large_model_is_timed_in_part_and_says_so() -> None:
    large = LanguageModelScenario.model_validate(
        {"model": {"layers": 12, "heads": 12, "width": 768, "context": 256}, "train": {"batch": 64}}
    )
    trial = trial_of(large)
    assert trial.model.shape.layers == 1
    assert 2 <= trial.sequences < 64  # two, or sharing the batch could not be tried
    assert trial.model.shape.width == 768
    assert "1 of 12 layers" in trial.scale


def test_a_gpu_that_is_not_here_is_refused_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LabError, match="'cuda:1' cannot be used: there is no CUDA here; allowed: auto, cpu"):
        KIND.resolve(scenario(device="cuda:1"))


def test_threads_alone_are_decided_where_the_rest_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing.Trial, "time", lambda self, setting: {1: 0.020, 2: 0.012}[setting.threads])
    monkeypatch.setattr(probe, "cores", lambda: 2)
    resolved = KIND.resolve(scenario(device="cpu", dtype="float32", attention="sdpa"))
    assert resolved.compute.threads == 2
    assert resolved.compute.thread_mode == "batch"  # as fast, and tried first
    assert "2 threads sharing the batch: 12.0 ms a step" in " ".join(probe.reasons(resolved))


def test_a_hopeless_setting_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def time(self: object, setting: timing.Setting) -> float:
        tried.append(setting.threads)
        return 5.0 if setting.threads == 2 else 0.02

    monkeypatch.setattr(timing.Trial, "time", time)
    monkeypatch.setattr(probe, "cores", lambda: 2)
    assert KIND.resolve(scenario(device="cpu")).compute.threads == 1
    assert tried.count(2) == 2  # once sharing the batch and once sharing operations


@pytest.mark.parametrize(
    ("asked", "change", "shares"),
    [
        ({}, {}, {(1, "operations"), (2, "batch"), (2, "operations")}),
        ({"thread_mode": "operations"}, {}, {(1, "operations"), (2, "operations")}),
        ({"thread_mode": "batch", "threads": 2}, {}, {(2, "batch")}),
        ({}, {"model": {**SMALL, "dropout": 0.1}}, {(1, "operations"), (2, "operations")}),
        ({}, {"train": {"batch": 1}}, {(1, "operations"), (2, "operations")}),
        ({"thread_mode": "batch", "threads": 2}, {"train": {"batch": 1}}, {(2, "operations")}),
    ],
)
def test_a_batch_is_shared_where_it_can_be(
    asked: dict[str, Any], change: dict[str, Any], shares: set[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: set[tuple[int, str]] = set()

    def time(self: object, setting: timing.Setting) -> float:
        tried.add((setting.threads, setting.thread_mode))
        return 0.02 / setting.threads - (0.001 if setting.thread_mode == "batch" else 0)

    monkeypatch.setattr(timing.Trial, "time", time)
    monkeypatch.setattr(probe, "cores", lambda: 2)
    given = LanguageModelScenario.model_validate({"model": SMALL, "compute": {"device": "cpu", **asked}, **change})
    compute = KIND.resolve(given).compute
    assert (compute.threads, compute.thread_mode) == max(shares, key=lambda crew: (crew[0], crew[1] == "batch"))
    if len(shares) > 1:
        assert tried == shares


def timed(milliseconds: dict[bool, float]) -> object:
    def time(self: object, setting: timing.Setting) -> float:
        if setting.compiled and True not in milliseconds:
            raise RuntimeError("No working C++ compiler found")
        return milliseconds[setting.compiled] / 1e3

    return time


def long_run(steps: int) -> LanguageModelScenario:
    compute = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1}
    return LanguageModelScenario.model_validate({"model": SMALL, "train": {"steps": steps}, "compute": compute})


@pytest.mark.parametrize(
    ("steps", "milliseconds", "compiled", "why"),
    [
        (100_000, {False: 30.0, True: 25.0}, True, "compile on: 25.0 ms a step compiled, 30.0 ms not"),
        (100_000, {False: 30.0, True: 29.5}, False, "compile off: 29.5 ms a step compiled"),
        (10_000, {False: 30.0, True: 1.0}, False, "compile off: about 5 min of training would not earn"),
        (100_000, {False: 30.0}, False, "does not work here (No working C++ compiler found)"),
    ],
)
def test_only_a_long_run_is_compiled_and_only_if_that_was_faster(
    steps: int, milliseconds: dict[bool, float], compiled: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing.Trial, "time", timed(milliseconds))
    said: list[str] = []
    resolved = KIND.resolve(long_run(steps), said.append)
    assert resolved.compute.compile is compiled
    assert why in " ".join(probe.reasons(resolved))
    assert bool(said) == (steps == 100_000)  # what waits is announced


@pytest.mark.parametrize(
    ("plain", "by_compiler", "chosen", "compiled_too"),
    [
        # Not clearly quicker in bfloat16, until its casts are compiled away.
        ({"float32": 57, "bfloat16": 50}, {"float32": 50, "bfloat16": 36}, ("bfloat16", True), {"float32", "bfloat16"}),
        # Quicker, and not clearly so when compiled either: the digits count for more.
        ({"float32": 57, "bfloat16": 50}, {"float32": 50, "bfloat16": 44}, ("float32", True), {"float32", "bfloat16"}),
        ({"float32": 57, "bfloat16": 50}, {"float32": 56, "bfloat16": 49}, ("float32", False), {"float32", "bfloat16"}),
        # Clear beforehand: no test waits for a second compilation.
        ({"float32": 57, "bfloat16": 40}, {"float32": 50, "bfloat16": 36}, ("bfloat16", True), {"bfloat16"}),
        # A little behind because of the casts.
        ({"float32": 57, "bfloat16": 60}, {"float32": 50, "bfloat16": 36}, ("bfloat16", True), {"float32", "bfloat16"}),
        # Clearly behind, so not tried.
        ({"float32": 57, "bfloat16": 70}, {"float32": 50, "bfloat16": 36}, ("float32", True), {"float32"}),
    ],
)
def test_where_the_dtype_is_nearly_even_the_compiler_is_tried_with_both(
    plain: dict[str, float],
    by_compiler: dict[str, float],
    chosen: tuple[str, bool],
    compiled_too: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: set[str] = set()

    def time(self: object, setting: timing.Setting) -> float:
        if setting.compiled:
            tried.add(setting.dtype)
        return (by_compiler if setting.compiled else plain)[setting.dtype] / 1e3

    monkeypatch.setattr(timing.Trial, "time", time)
    compute = {"device": "cpu", "attention": "sdpa", "threads": 1}
    resolved = KIND.resolve(
        LanguageModelScenario.model_validate({"model": SMALL, "train": {"steps": 100_000}, "compute": compute})
    )
    assert (resolved.compute.dtype, resolved.compute.compile) == chosen
    assert tried == compiled_too
    why = " ".join(probe.reasons(resolved))
    assert f"{min(by_compiler[dtype] for dtype in compiled_too):.1f} ms a step compiled" in why
    assert f"{plain[min(plain, key=lambda d: plain[d] * (1.15 if d == 'bfloat16' else 1))]:.1f} ms not" in why


@pytest.mark.parametrize(("steps", "tried"), [(100_000, 2), (40_000, 1)])
def test_a_long_run_also_tries_the_other_way_of_sharing_through_the_compiler(
    steps: int, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: set[str] = set()

    def time(self: object, setting: timing.Setting) -> float:
        if not setting.compiled:
            return 0.030 if setting.thread_mode == "batch" else 0.031
        compiled.add(setting.thread_mode)
        return 0.027 if setting.thread_mode == "batch" else 0.024

    monkeypatch.setattr(timing.Trial, "time", time)
    compute = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 2}
    compute_given = KIND.resolve(
        LanguageModelScenario.model_validate(
            {"model": SMALL, "train": {"steps": steps, "batch": 2}, "compute": compute}
        )
    ).compute
    assert len(compiled) == tried
    assert compute_given.compile is True
    assert compute_given.thread_mode == ("operations" if tried == 2 else "batch")


@pytest.mark.parametrize(("steps", "chosen"), [(100_000, "operations"), (1000, "batch")])
def test_a_long_run_tries_every_crew_that_is_near_with_every_dtype_and_kernel(
    steps: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is a little behind in float32 may be ahead in bfloat16."""

    def time(self: object, setting: timing.Setting) -> float:
        bfloat16 = {"operations": 0.010, "batch": 0.015}
        float32 = {"operations": 0.032, "batch": 0.030}
        return (bfloat16 if setting.dtype == "bfloat16" else float32)[setting.thread_mode]

    monkeypatch.setattr(timing.Trial, "time", time)
    compute = {"device": "cpu", "attention": "sdpa", "threads": 2, "compile": False}
    given = {"model": SMALL, "train": {"steps": steps, "batch": 2}, "compute": compute}
    assert KIND.resolve(LanguageModelScenario.model_validate(given)).compute.thread_mode == chosen


@pytest.mark.parametrize(
    ("alone", "tried"),
    [(0.029, {1, 2}), (0.025, {1})],  # two threads take .030: hardly more, and clearly more
)
def test_a_long_run_also_tries_another_number_of_threads_through_the_compiler(
    alone: float, tried: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: set[int] = set()

    def time(self: object, setting: timing.Setting) -> float:
        if setting.compiled:
            compiled.add(setting.threads)
            return 0.024 if setting.threads == 1 else 0.015
        return alone if setting.threads == 1 else 0.030

    monkeypatch.setattr(timing.Trial, "time", time)
    monkeypatch.setattr(probe, "cores", lambda: 2)
    compute = {"device": "cpu", "dtype": "float32", "attention": "sdpa"}
    given = {"model": SMALL, "train": {"steps": 100_000, "batch": 2}, "compute": compute}
    assert KIND.resolve(LanguageModelScenario.model_validate(given)).compute.threads == max(tried)
    assert compiled == tried


def test_a_compiled_setting_too_slow_to_be_timed_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = timing.compare

    def the_first_two(*given: Any) -> dict[timing.Setting, float]:
        return dict(list(compare(*given).items())[:2])

    monkeypatch.setattr(timing.Trial, "time", lambda self, setting: 0.02 if setting.compiled else 0.03)
    monkeypatch.setattr(probe, "compare", the_first_two)
    compute = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 2}
    given = {"model": SMALL, "train": {"steps": 100_000, "batch": 2}, "compute": compute}
    assert KIND.resolve(LanguageModelScenario.model_validate(given)).compute.compile is True


@pytest.mark.parametrize(("steps", "chosen"), [(100_000, "float32"), (1000, "bfloat16")])
def test_a_long_run_is_timed_over_more_than_a_slow_moment(
    steps: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its first twenty steps float32 is slowed down by another process."""
    counts = {"float32": 0, "bfloat16": 0}

    def time(self: object, setting: timing.Setting) -> float:
        counts[setting.dtype] += 1
        slow = setting.dtype == "float32" and counts["float32"] <= 20
        return 0.06 if slow else 0.03

    monkeypatch.setattr(timing.Trial, "time", time)
    compute = {"device": "cpu", "attention": "sdpa", "threads": 1, "compile": False}
    given = {"model": SMALL, "train": {"steps": steps}, "compute": compute}
    said: list[str] = []
    assert KIND.resolve(LanguageModelScenario.model_validate(given), said.append).compute.dtype == chosen
    assert any("timing the settings" in line for line in said) == (steps == 100_000)  # what waits is announced


def test_one_slow_thread_does_not_keep_two_from_being_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first step far over the budget says nothing about the others, which may be twice as quick."""
    clock = iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: 1.3 * next(clock))
    monkeypatch.setattr(timing.Trial, "time", lambda self, setting: {1: 1.4, 2: 0.7}[setting.threads])
    monkeypatch.setattr(probe, "cores", lambda: 2)
    assert KIND.resolve(scenario(device="cpu")).compute.threads == 2


def test_a_run_for_which_it_is_nothing_is_timed_on_more_of_the_whole() -> None:
    whole = {"layers": 6, "heads": 6, "width": 384, "context": 256}

    def sequences(steps: int) -> int:
        train = {"batch": 8, "steps": steps}
        return trial_of(LanguageModelScenario.model_validate({"model": whole, "train": train})).sequences

    assert (sequences(1000), sequences(10**6)) == (2, 8)


def test_a_model_timed_in_part_is_expected_to_take_as_long_as_the_whole() -> None:
    whole = {"layers": 12, "heads": 12, "width": 768, "context": 256}
    scenario = LanguageModelScenario.model_validate({"model": whole, "train": {"batch": 64}})
    trial = trial_of(scenario)
    layers, batch, times = trial.model.shape.layers, trial.sequences, trial.steps / scenario.train.steps
    assert 0.5 * 12 / layers * 64 / batch < times <= 12 / layers * 64 / batch  # the embedding is not 12 times there
