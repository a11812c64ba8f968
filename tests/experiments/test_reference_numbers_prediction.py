"""The reference numbers of prediction hold, at the run counts of `verify` where that takes a second or two."""

import pytest

from txlab.experiments.reference_numbers import rl_prediction
from txlab.experiments.reference_numbers.rl_prediction import FIGURES


@pytest.mark.parametrize("name", ["walk-19", "baird"])
def test_the_reference_numbers_hold(name: str) -> None:
    figure = next(each for each in FIGURES if each.name == name)
    measured = figure.measure(lambda text: None)
    wrong = [number.label for number, found in zip(figure.numbers, measured, strict=True) if not number.holds(found)]
    assert not wrong
    assert all(found.runs == (rl_prediction.WALK_19_RUNS if found.error else 0) for found in measured)


def test_the_five_state_walk_holds_with_a_tenth_of_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl_prediction, "WALK_5_RUNS", 200)
    figure = next(each for each in FIGURES if each.name == "walk-5")
    said: list[str] = []
    measured = figure.measure(said.append)
    assert all(number.holds(found) for number, found in zip(figure.numbers, measured, strict=True))
    assert said[-1] == "episode 100 of 100, 200 runs"
    assert not figure.numbers[0].holds(measured[1]), "a step size of twice that is within the margin: nothing is tested"
