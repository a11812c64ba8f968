"""What every kind of experiment that learns has in common: its updates, its state, and how it is computed (MATH F3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from decided import DECIDED
from torch import Tensor, nn

from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.learning.gradient import GradientExperiment, Measured, adamw
from txlab.experiments.learning.schema import Batches, Optimizer
from txlab.experiments.protocol import NotFinite
from txlab.experiments.schema import Compute


class Train(Batches, Optimizer):
    """Both tables, as they are by default."""


class Line(nn.Module):
    """y = W x, with dropout of x."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 3, generator=generator))
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x) @ self.weight.T

    def set_dropout(self, p: float) -> None:
        self.dropout.p = p


@dataclass(frozen=True)
class Shape:
    dropout: float = 0.0


@dataclass(frozen=True)
class Fitting:
    """A scenario, as far as a learner reads it."""

    seed: int = 3
    train: Train = field(default_factory=lambda: Train(steps=20, warmup=2, batch=4, learning_rate=0.1, clip=0.0))
    model: Shape = Shape()
    compute: Compute = field(default_factory=lambda: Compute.model_validate(DECIDED))

    def model_dump_json(self) -> str:
        return "a line"


X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5]])


class LineExperiment(GradientExperiment[Line]):
    parts = 1

    def gradients(self, update: int) -> Measured:
        def work(model: Line, x: Tensor, y: Tensor) -> Measured:
            loss = ((model(x) - y) ** 2).sum() / 4
            loss.backward()
            return {"loss": loss.detach(), "rows": torch.tensor(float(len(x)))}

        return self.accumulate(work, zip(X.chunk(self.parts), Y.chunk(self.parts), strict=True))


def learner(**turned: float) -> LineExperiment:
    found = LineExperiment(Fitting(), Line, {"warmth": (0.5, 3.0)})
    for name, value in turned.items():
        found.adjust(name, value)
    return found


def test_what_is_measured_is_added_up_over_the_parts() -> None:
    whole, parts = learner(), learner()
    parts.parts = 4
    for _ in range(3):
        one, other = whole.step(), parts.step()
        assert other == pytest.approx(one, rel=1e-5)
        assert list(one) == ["loss", "lr", "grad_norm", "rows"]
        assert one["rows"] == 4.0
    assert whole.step_count == 3


def test_the_weights_are_a_function_of_the_seed_and_the_global_generator_stays() -> None:
    state = torch.random.get_rng_state()
    assert torch.equal(learner().model.weight, learner().model.weight)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_dropout_is_a_function_of_seed_and_update() -> None:
    one, other = learner(dropout=0.5), learner(dropout=0.5)
    losses = [one.step()["loss"] for _ in range(6)]
    for update in range(6):
        torch.manual_seed(update)  # whatever was drawn before
        assert other.step()["loss"] == losses[update]
    still = learner(dropout=0.5, lr=0.0)
    assert len({still.step()["loss"] for _ in range(6)}) > 1  # other masks every time


def test_a_restored_state_continues_bit_for_bit_with_changed_parameters() -> None:
    one, other = learner(warmth=2.5, lr=0.2, weight_decay=0.3, dropout=0.2), learner()
    for _ in range(4):
        one.step()
    one.why = ["because"]
    other.load_state_dict(one.state_dict())
    assert other.adjusted == one.adjusted
    assert (other.step_count, other.why, other.model.dropout.p) == (4, ["because"], 0.2)
    assert other.optimizers[0].param_groups[0]["weight_decay"] == 0.3
    assert other.step() == one.step()
    assert torch.equal(other.model.weight, one.model.weight)


def test_what_may_be_turned_has_bounds_and_a_name_that_is_none_its_nearest() -> None:
    found = learner().adjustable()
    assert list(found) == ["lr", "clip", "weight_decay", "dropout", "warmth"]
    assert (found["warmth"].low, found["warmth"].value, found["warmth"].high) == (0.0, 0.5, 3.0)
    with pytest.raises(LabError, match=r"'warmt' cannot be changed while this runs.*nearest: warmth"):
        learner().adjust("warmt", 1.0)


@pytest.mark.parametrize("late", [False, True])
def test_a_bad_update_is_refused_immediately_or_late_and_named(late: bool) -> None:
    bad = learner()
    bad.checks_async = late
    bad.step()
    kept = bad.model.weight.detach().clone()
    bad.model.weight.register_hook(lambda gradient: gradient * float("nan"))

    def go_on() -> None:
        for _ in range(3):
            bad.step()
        bad.verify()

    with pytest.raises(NotFinite, match="step 2: the gradient of weight is NaN"):
        go_on()
    assert torch.equal(bad.model.weight, kept)
    assert bad.step_count == 1


def test_quiet_is_without_dropout_and_puts_the_mode_back_also_after_an_error() -> None:
    found = learner(dropout=0.5)
    with found.quiet():
        assert torch.equal(found.model(X), found.model(X))
    assert found.model.training
    with pytest.raises(ValueError, match="looked"), found.quiet():
        raise ValueError("looked")
    assert found.model.training


# Deciding, alike for every kind

SMALL = {
    "masked-language-model": {"model": {"layers": 1, "heads": 2, "width": 8, "context": 8}, "train": {"batch": 2}},
    "translation": {"model": {"heads": 2, "width": 8}, "train": {"batch": 4}},
    "image-classification": {"model": {"layers": 1, "heads": 2, "width": 8}, "train": {"batch": 4}},
}


@pytest.mark.parametrize("kind", SMALL)
def test_every_kind_decides_all_that_is_open_and_leaves_the_generator(kind: str) -> None:
    from txlab.experiments.learning.autotune import reasons

    of_kind = kind_named(kind)
    asked = of_kind.schema.model_validate(SMALL[kind] | {"compute": {"device": "cpu"}})
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    decided = of_kind.resolve(asked)
    assert "auto" not in decided.compute.model_dump().values()
    assert decided.compute.compile is False
    assert any("ms a step" in reason for reason in reasons(decided))
    assert any(reason.startswith("compile off: ") for reason in reasons(decided))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert of_kind.resolve(decided) is decided


@pytest.mark.parametrize("kind", ["masked-language-model", "image-classification"])
def test_every_large_model_is_timed_in_part(kind: str) -> None:
    if kind == "masked-language-model":
        from txlab.experiments.kinds.masked_language_model.experiment import trial_of
    else:
        from txlab.experiments.kinds.image_classification.experiment import trial_of
    large = {"model": {"layers": 12, "heads": 12, "width": 768}, "train": {"batch": 64}}
    trial: Any = trial_of(kind_named(kind).schema.model_validate(large))  # type: ignore[arg-type]
    assert trial.model.shape.layers == 1
    assert trial.model.shape.width == 768
    assert "1 of 12 layers" in trial.scale
    assert trial.steps > 5 * 1000


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.5, 2.0, 50.0])
def test_clipping_is_torchs_clipping_and_never_makes_a_gradient_larger(clip: float, late: bool) -> None:
    gradient = torch.tensor([[1.0, -2.0, 2.0]])  # ‖g‖ = 3
    experiment = learner(clip=clip)
    experiment.checks_async = late
    experiment.model.weight.register_hook(lambda _: gradient)
    assert float(experiment.step()["grad_norm"]) == pytest.approx(3.0)
    expected = nn.Parameter(torch.zeros(1, 3))
    expected.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_([expected], clip or float("inf"))
    used = experiment.model.weight.grad
    assert used is not None
    assert torch.allclose(used, expected.grad, rtol=1e-6)
    assert float(used.norm()) <= 3.0


# Other learners: several models, any optimizer of torch, data of their own making, no dropout


@dataclass(frozen=True)
class NoModel:
    """A scenario that says nothing of dropout."""

    seed: int = 5
    train: Train = field(default_factory=lambda: Train(steps=20, warmup=2, batch=4, learning_rate=0.05, clip=1.0))
    compute: Compute = field(default_factory=lambda: Compute.model_validate(DECIDED))

    def model_dump_json(self) -> str:
        return "actor and critic"


class ActorCritic(GradientExperiment[nn.ModuleDict]):
    """Draws its own data, then makes two updates of both models with each draw."""

    def __init__(self) -> None:
        def make(generator: torch.Generator) -> nn.ModuleDict:
            return nn.ModuleDict({"actor": Line(generator), "critic": Line(generator)})

        super().__init__(NoModel(), make)

    def make_optimizers(self) -> list[torch.optim.Optimizer]:
        actor = adamw(self.model["actor"], self.scenario.train)
        groups = [{"params": list(self.model["critic"].parameters()), "lr_scale": 0.5}]
        return [actor, torch.optim.SGD(groups, lr=0.1, momentum=0.9)]

    def step(self) -> dict[str, float | Tensor]:
        draw = torch.randn(4, 3, generator=torch.Generator().manual_seed(self.step_count))

        def gradients(update: int) -> Measured:
            value, action = self.model["critic"](draw), self.model["actor"](draw)
            loss = ((action - value.detach()) ** 2).mean() + ((value - draw.sum(1, keepdim=True)) ** 2).mean()
            loss.backward()
            return {"loss": loss.detach()}

        self.update(gradients)
        return {**self.update(gradients)}


def test_two_models_with_an_optimizer_each_resume_bit_for_bit() -> None:
    whole, first, second = ActorCritic(), ActorCritic(), ActorCritic()
    for _ in range(3):
        whole.step()
        first.step()
    assert set(first.state_dict()["optimizer"]["actor.weight"]) == {"step", "exp_avg", "exp_avg_sq"}
    assert set(first.state_dict()["optimizer"]["critic.weight"]) == {"momentum_buffer"}
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        assert second.step() == whole.step()
    assert second.step_count == whole.step_count == 12
    assert all(map(torch.equal, second.model.parameters(), whole.model.parameters()))
    fresh = ActorCritic()
    assert not any(map(torch.equal, fresh.model.parameters(), whole.model.parameters()))


def test_each_optimizer_has_its_learning_rate_and_clips_by_its_own_norm() -> None:
    experiment = ActorCritic()
    metrics = experiment.step()
    rates = [optimizer.param_groups[0]["lr"] for optimizer in experiment.optimizers]
    assert rates == [metrics["lr"], 0.5 * metrics["lr"]]
    norms = [float(parameter.grad.norm()) for parameter in experiment.model.parameters() if parameter.grad is not None]
    assert max(norms) <= 1.0 + 1e-6
    assert metrics["grad_norm"] > 1.0


def test_without_dropout_it_cannot_be_changed() -> None:
    assert list(ActorCritic().adjustable()) == ["lr", "clip", "weight_decay"]
