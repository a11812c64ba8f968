"""Kind modular-addition: the waves in an embedding, summed explicitly; which pairs are seen; exact restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from txlab.engine.explain import Explanation
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.modular_addition.experiment import AdditionExperiment, energies
from txlab.runs.scenario import load_scenario

SMALL = ["data.modulus=11", "model.width=16", "model.heads=2", "train.steps=3"]


def made(*settings: str) -> AdditionExperiment:
    scenario: Any = load_scenario("grokking", [*SMALL, *settings]).scenario
    experiment = kind_named("modular-addition").build(scenario)
    assert isinstance(experiment, AdditionExperiment)
    return experiment


def summed_energies(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The definition, with a cosine and a sine for every frequency and number."""
    p = len(rows)
    centred = rows - rows.mean(axis=0)
    found = []
    for k in range(1, p // 2 + 1):
        cosine = sum(np.cos(2 * np.pi * k * a / p) * centred[a] for a in range(p))
        sine = sum(np.sin(2 * np.pi * k * a / p) * centred[a] for a in range(p))
        found.append(float((cosine**2).sum() + (sine**2).sum()))
    return np.array(found) / sum(found)


def test_the_energy_of_a_frequency_is_that_of_its_cosines_and_sines() -> None:
    experiment = made()
    expected = summed_energies(experiment.numbers.detach().numpy().astype(np.float64))
    assert len(expected) == 5
    np.testing.assert_allclose(energies(experiment.numbers).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(experiment.frame().tensors["curve/energy"], expected, rtol=1e-10)


@pytest.mark.parametrize("p", [23, 24])
def test_fourier_is_the_share_of_the_five_strongest(p: int) -> None:
    experiment = made(f"data.modulus={p}")
    expected = np.sort(summed_energies(experiment.numbers.detach().numpy().astype(np.float64)))[-5:].sum()
    assert float(experiment.evaluate()["fourier"]) == pytest.approx(expected, rel=1e-10)


def test_an_embedding_of_two_waves_has_all_its_energy_in_them() -> None:
    a = torch.arange(59.0, dtype=torch.float64)[:, None]
    turn = 2 * torch.pi * a / 59
    waves = torch.cat([torch.cos(3 * turn), torch.sin(3 * turn), 2 * torch.cos(17 * turn)], 1) + 5.0
    share = energies(waves)
    assert float(share[2]) == pytest.approx(1 / 3)
    assert float(share[16]) == pytest.approx(2 / 3)
    assert float(share.sum()) == pytest.approx(1)


def test_every_pair_is_seen_or_asked_for_and_never_both() -> None:
    experiment = made("data.share=0.4")
    (seen, sums), (unseen, others) = experiment.seen, experiment.unseen
    assert len(seen) == round(0.4 * 121)
    pairs = {tuple(row) for row in torch.cat([seen, unseen])[:, :2].tolist()}
    assert len(pairs) == len(seen) + len(unseen) == 121
    for ids, wanted in ((seen, sums), (unseen, others)):
        assert all((a + b) % 11 == c and equals == 11 for (a, b, equals), c in zip(ids.tolist(), wanted, strict=True))
    assert not torch.equal(seen, made("seed=2").seen[0])


def test_the_metrics_are_those_of_every_pair_alone() -> None:
    experiment = made()
    losses, right = [], []
    with torch.no_grad():
        for ids, wanted in zip(*experiment.unseen, strict=True):
            z = experiment.model(ids[None])[0, -1].double().numpy()
            losses.append(float(np.log(np.exp(z - z.max()).sum()) - (z - z.max())[int(wanted)]))
            right.append(z.argmax() == int(wanted))
    found = experiment.evaluate()
    assert float(found["val_loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(found["val_accuracy"]) == pytest.approx(np.mean(right))


def test_a_resumed_run_continues_bit_for_bit() -> None:
    straight, first = made(), made()
    for _ in range(2):
        straight.step()
    first.step()
    second = made()
    second.load_state_dict(first.state_dict())
    second.step()
    for mine, theirs in zip(second.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert second.evaluate() == straight.evaluate()


def test_a_frame_shows_an_unseen_pair_and_its_weights_are_explained() -> None:
    experiment = made()
    seen = experiment.frame()
    frame = replace(seen, tensors={name: np.asarray(tensor) for name, tensor in seen.tensors.items()})  # as it is read
    a, b, equals = frame.tokens["probe"]
    assert [int(a), int(b)] in experiment.unseen[0][:, :2].tolist()
    assert equals == "="
    weights = np.asarray(frame.tensors["attention/pattern"][0, 1, 2], dtype=np.float64)
    told = kind_named("modular-addition").explain_frame(frame, "attention/pattern", (0, 1, 2, 0))
    assert isinstance(told, Explanation)
    assert told.result == pytest.approx(weights[0], abs=1e-3)


def test_it_knows_the_pairs_by_heart_before_it_can_add() -> None:
    experiment = made(
        "data.modulus=23", "data.share=0.6", "model.width=32", "model.heads=4", "train.learning_rate=0.01",
        "train.steps=1500",
    )  # fmt: skip
    by_heart = 0
    for _ in range(experiment.steps):
        right = float(experiment.step()["accuracy"])
        if not by_heart and right == 1.0:
            by_heart, early = experiment.step_count, experiment.evaluate()
        late = experiment.evaluate() if experiment.step_count % 50 == 0 else {"val_accuracy": 0.0}
        if late["val_accuracy"] >= 0.99:
            break
    assert early["val_accuracy"] < 0.8
    assert late["val_accuracy"] >= 0.99
    assert experiment.step_count > 2 * by_heart
    assert late["fourier"] > early["fourier"] + 0.1
