"""Threads that share a batch: the gradients of the whole, the same bits whoever is first, no half-done step."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment, experiment_of
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.batch_threads import BatchThreads
from txlab.experiments.learning.gradient import adamw
from txlab.experiments.learning.schema import Batches, Optimizer


class Train(Batches, Optimizer):
    """Both tables, as they are by default."""


SHAPE = GPTShape(layers=2, heads=2, width=8, context=6, vocabulary=11)
IDS = torch.randint(11, (5, 6), generator=torch.Generator().manual_seed(3))


def crew_of(threads: int) -> BatchThreads[GPT]:
    model = GPT(SHAPE, torch.Generator().manual_seed(1)).double()
    return BatchThreads(model, threads)


def collected(crew: BatchThreads[GPT]) -> list[torch.Tensor]:
    """The gradients of all backward passes since the last time, in order of the parameters."""
    crew.add_gradients()
    gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in crew.models[0].parameters()]
    for parameter in crew.models[0].parameters():
        parameter.grad = None
    return gradients


def learn(model: GPT, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_parts_add_up_to_the_whole(threads: int) -> None:
    crew = crew_of(threads)
    whole = GPT(SHAPE, torch.Generator().manual_seed(1)).double()
    expected = learn(whole, IDS, IDS)
    losses = crew.each(learn, IDS, IDS)
    assert len(losses) == threads
    assert sum(losses) == pytest.approx(expected, abs=1e-10)
    for gradient, parameter in zip(collected(crew), whole.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-12, rtol=0)
    assert not any(gradient.any() for gradient in collected(crew)), "gradients were taken over twice"


@pytest.mark.parametrize("sequences", [1, 2])
def test_no_thread_gets_a_part_without_a_sequence(sequences: int) -> None:
    crew, whole = crew_of(3), crew_of(1)
    losses = crew.each(learn, IDS[:sequences], IDS[:sequences])
    assert len(losses) == sequences
    assert sum(losses) == pytest.approx(sum(whole.each(learn, IDS[:sequences], IDS[:sequences])), abs=1e-10)
    torch.testing.assert_close(collected(crew), collected(whole), atol=1e-12, rtol=0)


def test_every_copy_follows_the_update() -> None:
    crew = crew_of(2)
    crew.each(learn, IDS, IDS)
    crew.add_gradients()
    adamw(crew.models[0], Train()).step()
    logits = crew.each(lambda model, inputs, targets: model(inputs).detach(), IDS, IDS)
    torch.testing.assert_close(torch.cat(logits), crew.models[0](IDS), atol=1e-12, rtol=0)


@pytest.mark.parametrize("late", [0, 1])
def test_who_is_first_makes_no_difference(late: int) -> None:
    def slowly(model: GPT, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        if model is crew.models[late]:
            time.sleep(0.05)
        return learn(model, inputs, targets)

    crew, other = crew_of(2), crew_of(2)
    assert crew.each(slowly, IDS, IDS) == other.each(learn, IDS, IDS, in_turn=True)
    assert all(map(torch.equal, collected(crew), collected(other)))


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_in_one_part_is_raised_when_all_have_ended(wrong: int) -> None:
    crew, ended = crew_of(2), []

    def work(model: GPT, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        if model is crew.models[wrong]:
            raise ValueError("no")
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(ValueError, match="no"):
        crew.each(work, IDS, IDS)
    assert ended == [True]


def experiment(text: Path, share: str, **train: Any) -> LanguageModelExperiment:
    scenario = LanguageModelScenario.model_validate(
        {
            "data": {"text": str(text)},
            "model": {"layers": 2, "heads": 2, "width": 16, "context": 24},
            "train": {"steps": 20, "batch": 4, "warmup": 5, "validation_batches": 2, **train},
            "compute": {
                "device": "cpu", "dtype": "float32", "attention": "matmul", "threads": 2, "thread_mode": share,
                "compile": False,
            },
        }
    )  # fmt: skip
    return experiment_of(scenario)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(" ".join(str(n * n % 97) for n in range(2000)))
    return path


@pytest.mark.parametrize("parts", [1, 2])
def test_sharing_the_batch_learns_what_sharing_operations_learns(text: Path, parts: int) -> None:
    one, other = experiment(text, "batch", accumulate=parts), experiment(text, "operations", accumulate=parts)
    for _ in range(3):
        ours, theirs = one.step(), other.step()
        for name in ours:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name
    assert one.evaluate()["val_loss"] == pytest.approx(other.evaluate()["val_loss"], rel=1e-4)


def test_a_resumed_run_that_shares_the_batch_continues_bit_for_bit(text: Path) -> None:
    whole, first = experiment(text, "batch"), experiment(text, "batch")
    for _ in range(4):
        whole.step()
        first.step()
    second = experiment(text, "batch")
    second.load_state_dict(first.state_dict())
    for _ in range(4):
        assert second.step() == whole.step()
    assert second.evaluate() == whole.evaluate()
    assert all(map(torch.equal, second.model.parameters(), whole.model.parameters()))


def test_with_dropout_the_model_works_on_the_batch_as_a_whole(text: Path) -> None:
    one, other = experiment(text, "batch"), experiment(text, "operations")
    for each in (one, other):
        each.adjust("dropout", 0.3)
    assert one.step() == other.step()
    assert all(map(torch.equal, one.model.parameters(), other.model.parameters()))
