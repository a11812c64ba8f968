"""Connect Four's figures: the exact ones hold and no neighbour of them does; what has not learnt does not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from txlab.experiments.reference_numbers import Figure, games_connect_four

pytestmark = pytest.mark.evidence

FIGURES: dict[str, Figure] = {figure.name: figure for figure in games_connect_four.FIGURES}


@pytest.mark.parametrize("name", ["connect-four-counts", "connect-four-solver"])
def test_an_exact_figure_holds_in_every_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games_connect_four, "COUNTS", games_connect_four.COUNTS[:8])
    figure = FIGURES[name]
    for number, found in zip(figure.numbers, figure.measure(lambda text: None), strict=False):
        assert number.holds(found), f"{number.label}: {found.value}"
        assert not replace(number, value=number.value + 2 * 10.0**-number.digits).holds(found)


@pytest.mark.parametrize(("rate", "held"), [(2e-3, True), (0.0, False)])
def test_a_network_that_does_not_learn_does_not_hold(monkeypatch: pytest.MonkeyPatch, rate: float, held: bool) -> None:
    small = {**games_connect_four.SMALL, "judge": {"searched": 1, "visits": 1}}
    train = {**games_connect_four.SMALL["train"], "learning_rate": max(rate, 1e-12)}
    monkeypatch.setattr(games_connect_four, "SMALL", {**small, "train": train})
    monkeypatch.setattr(games_connect_four, "SEEDS", 1)
    monkeypatch.setattr(games_connect_four, "STEPS", 16)
    alone, _ = FIGURES["connect-four-learning"].measure(lambda text: None)
    assert np.isfinite(alone.value)
    assert bool(alone.value) == held
    assert alone.runs == 1
