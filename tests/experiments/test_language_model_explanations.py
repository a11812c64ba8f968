"""A reason comes out at the number that was recorded (MATH T1, T9, F3)."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, explain_scenario
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.explanations import explain_attention
from txlab.experiments.protocol import Frame

SETTINGS = {
    "kind": "language-model",
    "model": {"layers": 2, "heads": 2, "width": 16, "context": 16, "positions": "rotary"},
    "train": {"steps": 110, "warmup": 10, "batch": 4, "learning_rate": 1e-3, "final": 0.1, "clip": 1.0},
    "probe": {"positions": 12, "next_tokens": 5},
    "compute": {"device": "cpu", "dtype": "float32", "attention": "matmul", "threads": 1, "compile": False},
}


@pytest.fixture(scope="module")
def frame() -> Frame:
    """As a reader gives it: NumPy arrays."""
    experiment = KIND.build(LanguageModelScenario.model_validate(SETTINGS))
    for _ in range(3):
        experiment.step()
    live = experiment.frame()
    return Frame(
        live.step, {name: tensor.numpy() for name, tensor in live.tensors.items()}, live.tokens, {}, live.facts
    )


def test_every_explained_weight_is_the_recorded_one(frame: Frame) -> None:
    recorded = frame.tensors["attention/pattern"]
    for layer, head, i, j in [(0, 0, 0, 0), (0, 1, 7, 3), (1, 0, 11, 11), (1, 1, 11, 0), (1, 1, 2, 9)]:
        why = explain_attention(frame, "attention/pattern", (layer, head, i, j))
        # The frame keeps half precision: 2⁻¹¹ of the number.
        assert why.result == pytest.approx(float(recorded[layer, head, i, j]), rel=2**-11, abs=1e-7)
        assert list(why.labels) == list(frame.tokens["probe"])
    assert explain_attention(frame, "attention/pattern", (1, 1, 2, 9)).result == 0  # the future


def test_a_next_token_is_explained_by_its_probability(frame: Frame) -> None:
    why = explain_attention(frame, "next/probability", (4, 2))
    p = float(frame.tensors["next/probability"][4, 2])
    assert why.result == p
    assert why.labels == list(frame.tokens["next"])[20:25]
    steps = {step.name: step.result for step in why.meaning}
    assert steps["−ln p"] == pytest.approx(-math.log(p))
    assert steps["−log₂ p"] == pytest.approx(-math.log2(p))


def test_an_unexplainable_number_is_reported(frame: Frame) -> None:
    with pytest.raises(LabError, match=r"allowed: attention/pattern, next/probability"):
        explain_attention(frame, "attention/query", (0, 0, 0, 0))
    with pytest.raises(LabError, match="recorded without attention/query"):
        explain_attention(Frame(0, {"attention/pattern": np.ones((1, 1, 1, 1))}), "attention/pattern", (0, 0, 0, 0))


@pytest.mark.parametrize(("step", "rate"), [(4, 4e-4), (10, 1e-3), (60, 5.5e-4), (110, 1e-4)])
def test_a_learning_rate_is_its_schedule(step: int, rate: float) -> None:
    why = explain_metric(SETTINGS, "lr", step, {"lr": rate})
    assert why.result == rate
    assert why.operands[0].value == pytest.approx(1e-3)
    assert why.steps[0].result * why.operands[0].value == pytest.approx(rate)


def test_a_learning_rate_changed_by_the_user_is_reported_as_changed() -> None:
    why = explain_metric(SETTINGS, "lr", 60, {"lr": 0.55 * 3e-4})
    assert why.operands[0].value == pytest.approx(1e-3)
    assert why.steps[-2].result == pytest.approx(0.55e-3)
    assert why.result == pytest.approx(0.55 * 3e-4)
    assert "changed while it ran" in why.steps[-1].note


def test_metrics_come_out_at_their_numbers() -> None:
    facts = {
        "tokenizer": {"bytes_per_token": 2.5, "vocabulary": 1024},
        "peak_flops": 1e12, "flops_per_step": 4e9, "units_per_step": 800,
    }  # fmt: skip
    bits = 2.0 / math.log(2) / 2.5
    for known in (facts, None):
        why = explain_metric(SETTINGS, "val_bits_per_byte", 5, {"val_bits_per_byte": bits, "val_loss": 2.0}, known)
        assert why.operands[1].value == pytest.approx(2.5)
        assert why.steps[1].result == pytest.approx(bits)
    clipped = explain_metric(SETTINGS, "grad_norm", 5, {"grad_norm": 4.0})
    assert clipped.meaning[0].result == pytest.approx(0.25, rel=1e-5)
    assert explain_metric(SETTINGS, "grad_norm", 5, {"grad_norm": 0.4}).meaning[0].result == 1
    speed = {"share_of_peak": 0.25, "tokens_per_second": 50_000}
    assert explain_metric(SETTINGS, "share_of_peak", 5, speed, facts).steps[-1].result == pytest.approx(0.25)
    loss = explain_metric(SETTINGS, "loss", 5, {"loss": 2.0}, facts)
    assert {step.name: step.result for step in loss.meaning}["ln V"] == pytest.approx(math.log(1024))


def test_explanations_have_no_empty_parts() -> None:
    assert explain_metric(SETTINGS, "steps", 5, {"steps": 400}) is None
    assert explain_metric(SETTINGS, "loss", 5, {"loss": math.nan}) is None
    assert explain_metric(SETTINGS, "share_of_peak", 5, {"share_of_peak": 0.2}) is None
    assert explain_metric({"kind": "recorded"}, "loss", 5, {"loss": 1.0}) is None


def test_asking_what_a_metric_means_imports_no_torch() -> None:
    code = (
        "import sys; from txlab.experiments.kind import explain_metric; "
        "assert explain_metric({'kind': 'language-model'}, 'lr', 50, {'lr': 5e-4}); assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


@pytest.mark.parametrize("change", [{}, {"tied": False, "bias": False}, {"positions": "learned", "norm": "post"}])
def test_the_size_of_a_scenario_is_that_of_its_model(change: dict[str, object]) -> None:
    scenario = LanguageModelScenario.model_validate({**SETTINGS, "model": {**SETTINGS["model"], **change}})
    why = explain_scenario(scenario, seconds=10.0)
    assert why is not None
    steps = {step.name: step.result for step in why.steps}
    experiment = KIND.build(scenario)
    assert steps["parameters"] == sum(parameter.numel() for parameter in experiment.model.parameters())
    assert why.result == steps["FLOPs a step"] == experiment.facts()["flops_per_step"]
    assert why.meaning[-1].result == pytest.approx(110 * why.result / 10)


def test_a_size_that_depends_on_the_text_is_not_guessed() -> None:
    with pytest.raises(LabError, match="characters"):
        explain_scenario(LanguageModelScenario.model_validate({**SETTINGS, "data": {"tokenizer": "characters"}}))


@pytest.mark.parametrize(
    ("kind", "facts", "equation", "math_item", "among"),
    [
        ("language-model", {"tokenizer": {"vocabulary": 256}}, "p(xₜ | x₁ … xₜ₋₁)", "T9, R1", 256),
        ("masked-language-model", {"tokenizer": {"vocabulary": 259}}, "p(xₜ | the text with its gaps)", "T10", 259),
        ("translation", {"tokenizer": {"vocabulary": 90}}, "p(yₜ | y₁ … yₜ₋₁, x)", "T8, R1", 90),
        ("image-classification", {"classes": ["circle", "ring"]}, "p(class | image)", "T14", 2),
    ],
)
def test_a_loss_is_explained_by_what_its_kind_guesses(
    kind: str, facts: dict[str, object], equation: str, math_item: str, among: int
) -> None:
    why = explain_metric({"kind": kind}, "val_loss", 5, {"val_loss": 0.5}, facts)
    assert why is not None
    assert equation in why.equation
    assert why.math == math_item
    assert {step.name: step.result for step in why.meaning}["ln V"] == pytest.approx(math.log(among))


@pytest.mark.parametrize(("predicts", "words"), [("next", "after"), ("place", "in the place of"), ("class", "by")])
def test_a_prediction_is_described_by_its_relation_to_its_position(predicts: str, words: str) -> None:
    frame = Frame(
        1,
        {"next/probability": np.array([[0.7, 0.2]])},
        {"probe": ["x"], "next": ["a", "b"]},
        {},
        {"predicts": predicts},
    )
    assert f"0.2 for 'b' {words} 'x'?" in explain_attention(frame, "next/probability", (0, 1)).question
