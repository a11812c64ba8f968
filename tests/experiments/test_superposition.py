"""Kind superposition: its gradient and finite differences in NumPy, models that do not touch each other, angles."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.superposition.experiment import SuperpositionExperiment, smallest_angle
from txlab.runs.scenario import load_scenario

SMALL = ["data.sparsities=[0.0, 0.6]", "model.restarts=3", "train.steps=3", "train.batch=7"]


def made(*settings: str) -> SuperpositionExperiment:
    scenario: Any = load_scenario("superposition", [*SMALL, *settings]).scenario
    experiment = kind_named("superposition").build(scenario)
    assert isinstance(experiment, SuperpositionExperiment)
    return experiment


def loss_of(W: Any, b: Any, x: Any, r: float) -> float:
    """The definition, one example and one feature at a time. W (m, n), b (n), x (B, n)."""
    total = 0.0
    for row in x:
        hidden = [sum(W[d][j] * row[j] for j in range(len(row))) for d in range(len(W))]
        for i in range(len(row)):
            back = max(0.0, sum(W[d][i] * hidden[d] for d in range(len(W))) + b[i])
            total += r**i * (row[i] - back) ** 2
    return total / len(x)


def test_loss_and_gradient_are_those_of_finite_differences() -> None:
    experiment = made("data.importance=0.7")
    experiment.model.b.data.uniform_(-0.1, 0.3, generator=torch.Generator().manual_seed(0))
    experiment.gradients(1)
    examples = experiment.examples("train", 1, 7)
    step = 1e-6
    for k, r in ((0, 2), (1, 0)):
        W, b = (p.detach().double().numpy()[k, r] for p in (experiment.model.W, experiment.model.b))
        x = examples[k, 0].double().numpy()
        loss = loss_of(W, b[0], x, 0.7)
        assert float(experiment.losses(examples)[k, r].detach()) == pytest.approx(loss, rel=1e-5)
        for values, gradient in ((W, experiment.model.W.grad), (b, experiment.model.b.grad)):
            assert gradient is not None
            for place in np.ndindex(values.shape):
                kept, moved = values[place], []
                for sign in (1, -1):
                    values[place] = kept + sign * step
                    moved.append(loss_of(W, b[0], x, 0.7))
                values[place] = kept
                expected = (moved[0] - moved[1]) / (2 * step)
                assert float(gradient[k, r][place]) == pytest.approx(expected, rel=1e-3, abs=1e-5), place


def test_a_model_learns_the_same_whichever_others_train_with_it() -> None:
    """Given the same initial weights; the loss of one does not affect another's."""
    together, alone = made(), made("data.sparsities=[0.6]")
    with torch.no_grad():
        alone.model.W.copy_(together.model.W[1:])
    for _ in range(3):
        together.step()
        alone.step()
    torch.testing.assert_close(alone.model.W[0], together.model.W[1], rtol=1e-6, atol=1e-7)


def test_a_feature_is_zero_as_often_as_the_sparsity_says() -> None:
    x = made("data.sparsities=[0.0, 0.3, 0.99]").examples("train", 5, 20_000)[:, 0]
    assert x.shape == (3, 20_000, 5)
    assert [float((each == 0).float().mean()) for each in x] == pytest.approx([0, 0.3, 0.99], abs=0.01)
    assert float(x[1][x[1] > 0].mean()) == pytest.approx(0.5, abs=0.01)
    assert float(x.max()) < 1
    assert not torch.equal(x[0, :7], made().examples("train", 6, 7)[0, 0])


def test_angles_are_those_of_vectors_that_are_long_enough() -> None:
    def on_a_circle(*degrees: float, length: float = 1.0) -> torch.Tensor:
        turns = torch.tensor(degrees).deg2rad()
        return length * torch.stack([turns.cos(), turns.sin()], 1)

    assert smallest_angle(on_a_circle(0, 72, 144, 216, 288)) == pytest.approx(72, abs=1e-4)
    assert smallest_angle(on_a_circle(10, 100, 190, 280)) == pytest.approx(90, abs=1e-4)
    short = torch.cat([on_a_circle(0, 120), on_a_circle(5, length=0.4)])
    assert smallest_angle(short) == pytest.approx(120, abs=1e-4)
    assert smallest_angle(on_a_circle(0, 5, length=0.4)) == 180.0


def test_what_is_shown_is_the_model_of_least_loss() -> None:
    experiment = made()
    losses = experiment.losses(experiment._validation).detach()
    found = experiment.evaluate()
    for k, name in enumerate(("0", "0.6")):
        best = int(losses[k].argmin())
        assert float(found[f"loss/{name}"]) == float(losses[k, best])
        shown = np.asarray(experiment.frame().tensors[f"points/{name}"])
        np.testing.assert_array_equal(shown, experiment.model.W[k, best].T.detach().numpy())


def test_a_resumed_run_continues_bit_for_bit() -> None:
    straight, first = made(), made()
    for _ in range(2):
        straight.step()
    first.step()
    second = made()
    second.load_state_dict(first.state_dict())
    second.step()
    assert torch.equal(second.model.W, straight.model.W)
    assert torch.equal(second.model.b, straight.model.b)
    assert second.evaluate() == straight.evaluate()


def test_a_feature_of_a_pentagon_has_two_fifths_of_a_dimension() -> None:
    experiment = made()
    turns = torch.arange(5) * (2 * torch.pi / 5)
    with torch.no_grad():
        experiment.model.W[0] = torch.stack([turns.cos(), turns.sin()])
    told = kind_named("superposition").explain_frame(experiment.frame(), "points/0", (3, 0))
    assert told.result == pytest.approx(2 / 5, abs=1e-6)


def test_sparser_features_share_two_dimensions_as_a_cross_then_as_a_pentagon() -> None:
    experiment = made(
        "data.sparsities=[0.0, 0.7, 0.95]", "data.importance=0.8", "train.steps=800", "train.batch=512",
        "train.validation_batches=8", "model.restarts=6",
    )  # fmt: skip
    for _ in range(experiment.steps):
        experiment.step()
    found = experiment.evaluate()
    assert [found[f"features/{S}"] for S in ("0", "0.7", "0.95")] == [2, 4, 5]
    assert float(found["angle/0"]) == pytest.approx(90, abs=5)
    assert float(found["angle/0.7"]) == pytest.approx(90, abs=2)
    points = np.asarray(experiment.frame().tensors["points/0.95"])
    turned = np.sort(np.rad2deg(np.arctan2(points[:, 1], points[:, 0])))
    gaps = [after - before for before, after in pairwise([*turned, turned[0] + 360])]
    assert gaps == pytest.approx([72] * 5, abs=5)
