"""A segment again and again, and what the context is worth: the score compared with a loop over its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from decided import DECIDED

from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment
from txlab.experiments.kinds.language_model.symbols import InductionData, in_context_scores
from txlab.runs.scenario import load_scenario


def made(name: str, *settings: str) -> LanguageModelExperiment:
    scenario: Any = load_scenario(name, [*settings]).scenario
    compute = scenario.compute.model_copy(update=DECIDED)
    module = kind_named("language-model").mathematics()  # type: ignore[attr-defined]
    experiment = module.experiment_of(scenario.model_copy(update={"compute": compute}))
    assert isinstance(experiment, LanguageModelExperiment)
    return experiment


def test_the_in_context_score_is_the_late_loss_minus_the_early_one() -> None:
    experiment = made("induction-two-layers", "train.batch=3", "train.validation_batches=2")
    for _ in range(2):
        experiment.step()
    scores = []
    for batch in experiment.data.validation_batches():
        with torch.no_grad():
            logits = experiment.model(batch.inputs).double().numpy()
        for row, wanted in zip(logits, batch.targets.numpy(), strict=True):
            losses = [float(np.log(np.exp(z).sum()) - z[x]) for z, x in zip(row, wanted, strict=True)]
            scores.append(sum(losses[24:32]) / 8 - losses[4])
    assert len(scores) == 6
    found = float(experiment.evaluate()["in_context_score"])
    assert found == pytest.approx(sum(scores) / 6, rel=1e-4, abs=1e-7)


def test_a_model_that_copies_perfectly_scores_the_logarithm_of_the_vocabulary() -> None:
    targets = torch.randint(32, (4, 32), generator=torch.Generator().manual_seed(0))
    logits = torch.zeros(4, 32, 32)
    logits[:, 16:] = 100.0 * torch.nn.functional.one_hot(targets[:, 16:], 32)
    assert in_context_scores(targets, logits).tolist() == pytest.approx([-np.log(32)] * 4)


def test_a_segment_comes_again_until_the_sequence_ends_and_every_symbol_is_scored() -> None:
    data = made("induction-two-layers").data
    assert isinstance(data, InductionData)
    rows, scored = data.sequences(np.random.default_rng(0), 500)
    assert rows.shape == (500, 33)
    assert scored.all()
    lengths = set()
    for row in rows:
        n = len(set(row))
        lengths.add(n)
        assert all(row[t] == row[t - n] for t in range(n, 33))
    assert lengths == set(range(5, 16))


def test_only_such_sequences_have_a_score_and_others_are_as_before() -> None:
    experiment = made("gpt-copy", "train.batch=2", "train.validation_batches=1")
    assert "copy_accuracy" in experiment.step()
    assert "in_context_score" not in experiment.evaluate()
    assert experiment.data.fingerprint == "induction/1/32/32"


@pytest.mark.evidence
def test_two_layers_jump_where_one_does_not() -> None:
    scores = {}
    for name in ("induction-one-layer", "induction-two-layers"):
        experiment = made(name, "train.validation_batches=2")
        for _ in range(220):
            experiment.step()
        scores[name] = float(experiment.evaluate()["in_context_score"])
    assert -2.0 < scores["induction-one-layer"] < -0.8
    assert scores["induction-two-layers"] < -3.2
