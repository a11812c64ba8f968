"""Whatever a run records, `w` explains: every metric of every kind, what the machine says of each, and the numbers of
its frames. The computation ends in the number that was recorded, and each line of it can be checked."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pytest
from calculator import contradictions, miscalculated

from txlab.engine.card import READINGS
from txlab.errors import LabError
from txlab.experiments.kind import Kind, explain_metric, kind_named, kind_names
from txlab.experiments.learning.kind import GradientKind
from txlab.runs.loop import Speed
from txlab.runs.scenario import catalogue, load_scenario

SMALL_MODEL = ["model.width=16", "model.heads=2", "train.steps=2", "train.batch=2", "train.validation_batches=1"]
SMALL_TEXT = [*SMALL_MODEL, "model.layers=1", "model.context=16", "data.tokenizer=bytes", "data.text={text}"]
# One scenario for each way in which a kind measures, made small.
SMALL: dict[str, list[str]] = {
    "gpt-tiny": SMALL_TEXT,
    "gpt-mixture": [*SMALL_TEXT[:-1], 'data.mixture=[{text="{text}"},{text="{text}",weight=2}]'],
    "gpt-copy": [*SMALL_MODEL, "model.layers=1"],
    "gpt-copy-attention": SMALL_MODEL,
    "few-shot": [*SMALL_MODEL, "model.layers=1"],
    "attention-graph": SMALL_MODEL,
    "bert-docs": [*SMALL_TEXT, "sampling.prompts=[]"],
    "reviews-labels": [
        "start.run=",
        *SMALL_MODEL,
        "model.layers=1",
        "data.reviews=20",
        "data.held_out=10",
        "data.shares=[0.2,1]",
    ],
    "translate": [*SMALL_MODEL, "data.pairs=50", "model.encoder_layers=1", "model.decoder_layers=1"],
    "translate-recurrent": ["model.width=16", "data.pairs=50", *SMALL_MODEL[2:]],
    "vit-shapes": [*SMALL_MODEL, "model.layers=1"],
    "conv-shapes": ["train.steps=2", "train.batch=2", "train.validation_batches=1"],
    "bandits": ["testbed.runs=5"],
    "cliff": ["control.runs=3"],
    "maximisation-bias": ["control.runs=3"],
    "gridworld": [],
    "gambler": [],
    "four-by-three": [],
    "random-walk": [],
    "random-walk-n-step": [],
    "td-lambda": [],
    "td-network": [],
    "baird": [],
    "words-planted": [],
    "words-softmax": ["data.tokens=7000"],
    "tictactoe": [],
    "connect-four": [
        "play.games=8",
        "train.batch=16",
        "network.channels=4",
        "network.blocks=1",
        "judge.positions=20",
        "judge.visits=5",
    ],
    "feedback-reviews": ["model.layers=1", "model.width=16", "model.heads=2", "demonstrations.batch=4"],
    "newton-root": [],
    "linear-regression": [],
    "playground-spiral": [],
    "playground-xor": ["data.name=bumps"],
    "ppo-cliff": ["train.environments=4"],
    "recurrent-docs": [
        "model.width=16",
        "model.context=16",
        "train.batch=2",
        "train.validation_batches=1",
        "data.text={text}",
    ],
    "vanishing-gradient": ["data.length=6", "train.batch=2", "train.validation_batches=1"],
    "grokking": ["data.modulus=11", "model.width=16", "model.heads=2"],
    "superposition": ["model.restarts=2", "train.batch=4", "train.validation_batches=1"],
    "induction-two-layers": [*SMALL_MODEL, "model.layers=1"],
    "tictactoe-q": [],
    "tictactoe-lambda": ["learn.seeds=2"],
    "td-gammon": ["learn.units=4", "learn.games_per_step=2", "match.games=4", "match.copies=[0, 1]"],
    "td-gammon-300k": ["learn.units=2", "learn.games_per_step=1", "match.games=2", "match.two_plies_games=2"],
}


def built(name: str, overrides: list[str]) -> tuple[Kind, Any, Any]:
    """The scenario's kind, the scenario, and its experiment."""
    scenario = load_scenario(name, [*overrides]).scenario
    compute = scenario.compute.model_copy(update={"thread_mode": "operations", "threads": 1, "attention": "matmul"})
    if hasattr(scenario.compute, "dtype"):
        compute = compute.model_copy(update={"dtype": "float32", "compile": False})
    scenario = scenario.model_copy(update={"compute": compute})
    kind = kind_named(scenario.kind)
    experiment = kind.mathematics().experiment_of(scenario) if isinstance(kind, GradientKind) else kind.build(scenario)
    return kind, scenario, experiment


def recorded(experiment: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """The values of its next step with all that the machine says, and its facts."""
    facts = {"peak_flops": 1e11, **experiment.facts()}
    speed = Speed(facts, steps=1)
    speed.begin(0)
    values = {name: float(value) for name, value in experiment.step().items()}
    values |= {name: float(value) for name, value in experiment.evaluate().items()}
    values |= getattr(experiment, "take_speeds", dict)()
    values |= speed.look(1) | {"host_memory_mb": 100.0, "seconds_left": 3.0}
    return values, facts


# The declaration of a kind by which a screen opens its runs, for the tensors that this screen draws. Curves of a kind
# with a screen of its own are drawn there.
SCREEN_OF = {"attention": "attends", "state": "remembers", "curve": "draws", "points": "draws"}


def undeclared(kind: Kind, tensors: list[str]) -> list[str]:
    """The tensors of a frame whose screen would refuse the runs of the kind."""
    declared = [SCREEN_OF.get(name.partition("/")[0], "") for name in tensors]
    own = kind.screen not in ("train", "figure")
    return [name for name, word in zip(tensors, declared, strict=True) if word and not own and not getattr(kind, word)]


# Tensors of frames whose explanation is of something else than the number itself.
OF_ANOTHER = {"points": "how much of a dimension a feature has"}


@pytest.mark.parametrize("name", SMALL)
def test_every_why_computes_the_number_that_was_recorded(name: str, tmp_path: Any) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    kind, scenario, experiment = built(name, [word.replace("{text}", str(text)) for word in SMALL[name]])
    values, facts = recorded(experiment)
    asked = scenario.model_dump(mode="json")
    told = {name: explain_metric(asked, name, 1, values, facts) for name in values if isfinite(values[name])}
    assert [metric for metric, why in told.items() if why is None] == []
    for metric, why in told.items():
        assert why is not None
        assert why.result == pytest.approx(values[metric]), metric
        assert why.equation, metric
        assert contradictions(why) == [], metric
        assert miscalculated([*why.steps, *why.meaning], within=0.01) == [], metric
    frame = experiment.frame()
    for tensor, there in frame.tensors.items():
        frame.tensors[tensor] = np.asarray(there)
    assert undeclared(kind, list(frame.tensors)) == []
    for tensor, numbers in frame.tensors.items():
        for part in (1, 2, 3):
            index = tuple(size * part // 4 for size in numbers.shape)
            try:
                why = kind.explain_frame(frame, tensor, index)
            except LabError:  # it says which tensors, or which entries, have an explanation
                continue
            if tensor.partition("/")[0] not in OF_ANOTHER:  # a frame keeps half precision
                assert why.result == pytest.approx(float(numbers[index]), rel=2**-9, abs=1e-6), tensor
            assert contradictions(why) == [], tensor
            assert miscalculated([*why.steps, *why.meaning], within=0.01) == [], tensor


def test_every_reading_of_a_gpu_is_explained_with_its_limit() -> None:
    values = {"memory_reserved_mb": 3000.0, "gpu_slowed": 36.0, "gpu_used_mb": 40_000.0, "gpu_total_mb": 80_000.0}
    values |= {"gpu_busy": 0.97, "gpu_celsius": 61.0, "gpu_watts": 312.0, "gpu_watts_limit": 400.0}
    assert set(READINGS) < set(values)
    for name, value in values.items():
        why = explain_metric({"kind": "language-model"}, name, 1, values, {})
        assert why is not None
        assert why.result == value
    watts = explain_metric({"kind": "language-model"}, "gpu_watts", 1, values, {})
    slowed = explain_metric({"kind": "language-model"}, "gpu_slowed", 1, values, {})
    assert watts is not None
    assert slowed is not None
    assert watts.meaning[0].result == pytest.approx(0.78)
    assert "power limit, temperature" in slowed.steps[0].note


def test_the_share_of_a_data_sheet_is_computed_from_its_facts() -> None:
    facts = {"unit": "tokens", "units_per_step": 100, "flops_per_step": 4e9, "data_sheet_flops": 1e12}
    values = {"share_of_data_sheet": 0.2, "tokens_per_second": 5000.0}
    why = explain_metric({"kind": "language-model"}, "share_of_data_sheet", 1, values, facts)
    assert why is not None
    assert why.steps[-1].result == pytest.approx(0.2)
    assert "data sheet" in why.question


def test_no_kind_is_left_out() -> None:
    named = {load_scenario(name).scenario.kind for name in SMALL}
    ours = {name for name in kind_names() if type(kind_named(name)).__module__.startswith("txlab.")}
    assert named == {entry.scenario.kind for entry in catalogue()} == ours
