"""Whole steps as CUDA graphs, and batches made ahead: on a CPU the same steps with nothing recorded, bit for bit; and
with stand-ins for what only a GPU has, what is recorded, when, and what becomes of a recording that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from decided import DECIDED
from torch import Tensor

from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.learning import autotune, step_graph
from txlab.experiments.learning.parallel_strategy import ParallelStrategy
from txlab.experiments.learning.prefetch import Prefetch
from txlab.experiments.learning.step_graph import StepGraph
from txlab.experiments.protocol import NotFinite
from txlab.experiments.schema import Compute

SMALL: dict[str, dict[str, Any]] = {
    "language-model": {
        "model": {"layers": 1, "heads": 2, "width": 8, "context": 8, "dropout": 0.2},
        "train": {"batch": 4, "accumulate": 2, "steps": 30},
        "data": {"source": "induction", "vocabulary": 16},
        "sampling": {"prompts": ["ab"]},
    },
    "image-classification": {
        "model": {"layers": 1, "heads": 2, "width": 8},
        "train": {"batch": 4, "steps": 30},
    },
    "modular-addition": {"model": {"heads": 2, "width": 8}, "data": {"modulus": 7}, "train": {"steps": 30}},
    "superposition": {"train": {"steps": 30, "batch": 8}},
}


def made(kind: str, graphs: bool = False, **train: Any) -> Any:
    given = SMALL[kind]
    scenario = kind_named(kind).schema.model_validate(
        {**given, "train": given["train"] | train, "compute": DECIDED | {"cuda_graphs": graphs}}
    )
    return kind_named(kind).build(scenario)


def same_state(one: Any, other: Any) -> bool:
    first, second = one.state_dict(), other.state_dict()
    return all(torch.equal(first["model"][name], second["model"][name]) for name in first["model"]) and all(
        torch.equal(moment, second["optimizer"][name][key])
        for name, moments in first["optimizer"].items()
        for key, moment in moments.items()
    )


@pytest.mark.parametrize("kind", SMALL)
def test_whole_steps_on_a_cpu_are_the_ordinary_steps_bit_for_bit(kind: str) -> None:
    """Where nothing is clipped; `checks_async` clips with a factor in float32, as a GPU does in both ways of
    stepping."""
    plain, whole = made(kind, clip=0.0), made(kind, graphs=True, clip=0.0)
    assert plain.graphed_step is None
    assert whole.graphed_step is not None
    for _ in range(6):
        one, other = plain.step(), whole.step()
        assert {name: float(value) for name, value in other.items()} == one
        assert list(other) == list(one)
    assert same_state(plain, whole)


@pytest.mark.parametrize("kind", ["language-model", "superposition"])
def test_clipping_watching_and_user_changes_are_those_of_an_ordinary_step(kind: str) -> None:
    plain, whole = made(kind, clip=0.01), made(kind, graphs=True, clip=0.01)
    plain.checks_async = True  # the arithmetic of a GPU
    for step in range(8):
        if step in (2, 5):
            for each in (plain, whole):
                each.adjust("lr", 0.004 * step)
                each.adjust("weight_decay", 0.3)
                each.adjust("clip", 0.02 * step)
        one, other = plain.step(), whole.step()
        assert all(float(other[name]) == float(value) for name, value in one.items())
    assert same_state(plain, whole)


def test_a_restart_of_whole_steps_is_exact_with_dropout_also_into_ordinary_steps() -> None:
    whole = made("language-model", graphs=True, clip=0.0)
    for _ in range(3):
        whole.step()
    state = {**whole.state_dict(), "model": {k: v.clone() for k, v in whole.model.state_dict().items()}}
    state["optimizer"] = {n: {k: v.clone() for k, v in m.items()} for n, m in state["optimizer"].items()}
    rows = [{name: float(value) for name, value in whole.step().items()} for _ in range(4)]
    for graphs in (True, False):
        again = made("language-model", graphs=graphs, clip=0.0)
        again.load_state_dict(state)
        assert [{name: float(value) for name, value in again.step().items()} for _ in range(4)] == rows
        assert same_state(whole, again)


def test_what_a_step_measured_is_not_overwritten_by_the_next() -> None:
    whole = made("superposition", graphs=True)
    first = whole.step()
    kept = float(first["loss"])
    whole.step()
    assert float(first["loss"]) == kept


def test_a_bad_update_within_a_whole_step_is_refused_before_the_weights_are_touched() -> None:
    whole = made("superposition", graphs=True)
    whole.step()
    before = whole.model.W.detach().clone()
    moments = whole.optimizers[0].state[whole.model.W]["exp_avg"].clone()
    hook = whole.model.W.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(NotFinite, match="step 2: the gradient of W is NaN"):
        whole.step()
    assert torch.equal(whole.model.W, before)
    assert torch.equal(whole.optimizers[0].state[whole.model.W]["exp_avg"], moments)
    assert (whole.step_count, float(whole.refused), int(whole.first_refused)) == (1, 0.0, -1)
    hook.remove()
    whole.step()
    assert not torch.equal(whole.model.W, before)


# Batches made ahead


def test_a_batch_made_ahead_is_that_of_its_update_and_another_update_has_its_own() -> None:
    asked: list[int] = []

    def make(update: int) -> tuple[Tensor]:
        asked.append(update)
        return (torch.tensor([float(update)]),)

    batches = Prefetch(make, torch.device("cpu"))
    batches.prepare(1)
    assert asked == []  # a CPU would only do it earlier
    batches.ahead = True
    for update in (1, 2, 3):
        assert batches.take(update)[0].item() == update
        batches.prepare(update + 1)
    assert asked == [1, 2, 3, 4]
    assert batches.take(9)[0].item() == 9  # a rewind: what was made ahead is of no use
    assert batches.take(9)[0].item() == 9


def test_training_with_batches_made_ahead_is_the_same_training() -> None:
    plain, ahead = made("language-model"), made("language-model")
    ahead.batches.ahead = True
    for _ in range(4):
        assert plain.step() == ahead.step()
    state = plain.state_dict()
    ahead.load_state_dict(state | {"step": 2})  # back: the batch that was made ahead belongs to update 5
    plain.load_state_dict(state | {"step": 2})
    assert plain.step() == ahead.step()


# What only a GPU has, with stand-ins


class Recording:
    """Stands in for torch's graph: replaying calls what was recorded."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def replay(self) -> None:
        self.log.append("replay")


class Stream:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def wait_stream(self, other: Stream) -> None:
        self.log.append("wait")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A StepGraph that takes the CPU for a GPU: what it would ask of CUDA, in order."""
    log: list[str] = []
    main = Stream(log)

    @contextmanager
    def stream(chosen: Stream) -> Iterator[None]:
        log.append("on the side")
        yield

    @contextmanager
    def graph(recording: Recording, stream: Stream) -> Iterator[None]:
        log.append("record")
        yield

    for name, stand_in in {
        "current_stream": lambda device=None: main,
        "stream": stream,
        "graph": graph,
        "CUDAGraph": lambda: Recording(log),
        "set_stream": lambda chosen: log.append("set_stream"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return log


def on_card(work: Any, log: list[str]) -> StepGraph:
    found = StepGraph(work, torch.device("cpu"))
    found.side = Stream(log)  # type: ignore[assignment]
    return found


def test_three_calls_warm_up_the_fourth_is_recorded_and_all_later_ones_are_replayed(card: list[str]) -> None:
    graph = on_card(lambda x: x.sum()[None], card)
    for _ in range(step_graph.WARM_UP):
        assert float(graph(torch.ones(3))) == 3.0
    assert card == ["wait", "on the side", "wait"] * step_graph.WARM_UP
    card.clear()
    graph(torch.ones(3))
    graph(torch.ones(3))
    assert card == ["record", "replay", "replay"]
    graph.forget()
    card.clear()
    graph(torch.ones(3))
    assert card == ["wait", "on the side", "wait"]


def test_tensors_of_another_shape_are_recorded_again_and_others_reuse_their_addresses(card: list[str]) -> None:
    seen: list[int] = []

    def work(x: Tensor) -> Tensor:
        seen.append(x.data_ptr())
        return x.sum()[None]

    graph = on_card(work, card)
    for number in range(step_graph.WARM_UP + 2):
        graph(torch.full((3,), float(number)))
    assert len(set(seen)) == 1
    assert graph.inputs[0].tolist() == [float(step_graph.WARM_UP + 1)] * 3
    assert graph.graph is not None
    assert float(graph(torch.ones(5))) == 5.0
    assert graph.graph is None


def test_a_step_that_cannot_be_recorded_runs_without_a_graph_and_says_why_once(
    card: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def refusing(recording: Recording, stream: Stream) -> Iterator[None]:
        yield
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refusing)
    plain, whole = made("superposition"), made("superposition", graphs=True)
    assert whole.graphed_step is not None
    whole.graphed_step.graph.side = Stream(card)
    plain.checks_async = True
    weights: list[bool] = []
    for _ in range(step_graph.WARM_UP + 3):
        plain.step()
        whole.step()
        weights.append(torch.allclose(plain.model.W, whole.model.W, rtol=1e-6))
    # The stand-in runs what it records, so the fourth update was made twice here; a graph that is recorded is not run.
    assert weights[: step_graph.WARM_UP] == [True] * step_graph.WARM_UP
    assert "set_stream" in card
    assert list(whole.notes()) == [
        "graphs off: the step cannot be recorded (operation not permitted when stream is capturing)"
    ]
    assert list(whole.notes()) == []


# Deciding


def decided(monkeypatch: pytest.MonkeyPatch, seconds: Any, **compute: Any) -> tuple[Compute, str]:
    monkeypatch.setattr(autotune, "time_launch_and_replay", seconds)
    asked = Compute.model_validate(DECIDED | {"device": "cuda:0", "cuda_graphs": "auto"} | compute)

    class NoTrial:
        scale = " (timed on 1 of 2 layers)"

    return autotune.with_graphs(asked, torch.device("cuda:0"), NoTrial)  # type: ignore[arg-type]


def test_graphs_are_taken_where_they_were_faster_and_the_reason_has_both_times(monkeypatch: pytest.MonkeyPatch) -> None:
    compute, why = decided(monkeypatch, lambda *_: (4e-3, 1e-3))
    assert compute.cuda_graphs is True
    assert why == ("graphs on: 1.00 ms a step replayed, 4.00 ms launched, both uncompiled (timed on 1 of 2 layers)")
    compute, why = decided(monkeypatch, lambda *_: (4e-3, 3.9e-3))
    assert (compute.cuda_graphs, why.split(":")[0]) == (False, "graphs off")


def test_graphs_are_off_with_a_reason_where_they_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> tuple[float, float]:
        raise RuntimeError("operation not permitted when stream is capturing")

    compute, why = decided(monkeypatch, fails)
    assert compute.cuda_graphs is False
    assert why == "graphs off: they do not work here (operation not permitted when stream is capturing)"
    shared = ParallelStrategy()
    shared.count = 2
    monkeypatch.setattr(autotune, "current_strategy", lambda: shared)
    assert decided(monkeypatch, lambda *_: (4e-3, 1e-3))[1] == "graphs off: several processes add up their gradients"
    with pytest.raises(LabError, match=r"graphs = true is not for translation: batches have many shapes; allowed"):
        kind_named("translation").resolve(
            kind_named("translation").schema.model_validate({"compute": DECIDED | {"cuda_graphs": True}})
        )


def test_the_probe_of_graphs_runs_the_same_step_both_ways_on_a_cpu_too() -> None:
    scenario = kind_named("language-model").schema.model_validate(
        {**SMALL["language-model"], "compute": DECIDED | {"cuda_graphs": False}}
    )
    from txlab.experiments.kinds.language_model.experiment import trial_of

    one, other = autotune.time_launch_and_replay(
        trial_of(scenario),  # type: ignore[arg-type]
        torch.device("cpu"),
        autotune.setting_of(scenario.compute),
    )
    assert 0 < one < 10
    assert 0 < other < 10
