"""When a measured number agrees with a reference, and what the provenance of a reference says."""

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from txlab.errors import LabError
from txlab.experiments.reference_numbers import AREAS, Figure, Measured, claimed, computed, derived, figures, printed
from txlab.experiments.reference_numbers.rl_planning import FIGURES as PLANNING
from txlab.experiments.reference_numbers.rl_prediction import WALK_19
from txlab.experiments.reference_numbers.transformer import FIGURES as TRANSFORMER
from txlab.runs.scenario import load_scenario


@pytest.mark.parametrize(
    ("measured", "holds"), [(8.1234, True), (8.15, True), (8.1501, False), (8.0499, False), (float("nan"), False)]
)
def test_an_exact_number_holds_to_the_digits_printed(measured: float, holds: bool) -> None:
    assert printed("V", 8.1, 1).holds(Measured(measured)) is holds
    assert derived("V", 8.1, 1).holds(Measured(measured)) is holds


@pytest.mark.parametrize(("measured", "holds"), [(-1.75, True), (-1.7, True), (-1.8, False), (-1.699, False)])
def test_a_number_whose_digits_were_cut_holds_where_ours_cut_is_the_same(measured: float, holds: bool) -> None:
    assert printed("V", -1.7, 1, cut=True).holds(Measured(measured)) is holds


@pytest.mark.parametrize(("measured", "holds"), [(335.2, True), (344.9, True), (345.1, False), (334.9, False)])
def test_a_number_rounded_to_tens_holds_within_five(measured: float, holds: bool) -> None:
    assert printed("millions", 340, -1).holds(Measured(measured)) is holds


@pytest.mark.parametrize(("error", "own", "holds"), [(0.1, 0.0, False), (0.12, 0.0, True), (0.1, 0.1, True)])
def test_a_simulated_number_holds_within_three_standard_errors_of_both(error: float, own: float, holds: bool) -> None:
    """1.35 from 1.0, half a last digit being .005: 3 · .1 + .005 is less, 3 · .12 + .005 is more, so is 3 · .1 · √2."""
    assert computed("mean", 1.0, 2, own, 100).holds(Measured(1.35, error, 100)) is holds


def test_a_claim_holds_if_it_is_true_for_every_seed() -> None:
    claim = claimed("the policy gets better", 5)
    assert claim.holds(Measured(5.0))
    assert not claim.holds(Measured(4.0))


def test_an_area_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(LabError, match="'lr' is not an area"):
        figures("lr")


@pytest.mark.parametrize("area", AREAS)
def test_only_what_was_computed_here_has_runs_and_its_error_with_them(area: str) -> None:
    for figure in figures(area):
        for number in figure.numbers:
            simulated = number.provenance == "computed here"
            assert (number.runs > 0) is simulated, (figure.name, number.label)
            is_exact = any(words in number.label for words in ("% of greedy paths", "scores are bitbully's"))
            assert (number.error > 0) is (simulated and not is_exact), (
                figure.name,
                number.label,
            )
            assert not number.cut or number.provenance == "printed", (figure.name, number.label)


def test_curves_of_the_book_are_not_called_printed() -> None:
    """Sutton and Barto draw the walks, the cliff, the wind and the bias; the text has no digits of them."""
    of = {figure.name: Counter(number.provenance for number in figure.numbers) for figure in figures("rl")}
    assert {name: of[name]["printed"] for name in ("walk-19", "walk-5", "cliff", "windy", "bias", "baird")} == {
        "walk-19": 0, "walk-5": 0, "cliff": 0, "windy": 0, "bias": 0, "baird": 0,
    }  # fmt: skip
    assert "6.3" not in load_scenario("cliff").scenario.about.source, (
        "its curves are of episodes 1 to 100 and to 100 000"
    )
    assert of["gridworld-even"] == of["gridworld-best"] == {"printed": 25}
    assert all(number.digits <= 1 for figure in PLANNING for number in figure.numbers
               if number.provenance == "printed" and "Sutton" in figure.source)  # fmt: skip


@pytest.mark.parametrize("figure", TRANSFORMER, ids=lambda figure: figure.name)
def test_every_count_of_parameters_holds_and_no_neighbour_of_it(figure: Figure) -> None:
    for number, found in zip(figure.numbers, figure.measure(lambda text: None), strict=True):
        assert number.holds(found), f"{number.label}: {found.value}"
        for step in (-2, 2):
            assert not number.holds(Measured(found.value + step * 10.0**-number.digits)), number.label


def script() -> ModuleType:
    path = Path(__file__).with_name("independent_simulations.py")
    spec = importlib.util.spec_from_file_location("independent_simulations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_independent_simulation_agrees_with_a_closed_form() -> None:
    """TD(0) with α = 1, one episode of the 5-state walk: only the last state moves, from .5 to 0 or 1."""
    right = np.sqrt(np.mean((np.array([0.5, 0.5, 0.5, 0.5, 1.0]) - np.arange(1, 6) / 6) ** 2))
    errors = script().walk_errors(5, "td", 0.0, 1.0, 400, 1, 0.0, 0.5, 3)[:, 0]
    assert np.allclose(errors, right)  # by symmetry the left end gives the same


@pytest.mark.parametrize(("method", "lam", "alpha", "value", "error"), WALK_19)
def test_the_values_of_the_walk_come_out_of_the_script_again(
    method: str, lam: float, alpha: float, value: float, error: float
) -> None:
    found = script().walk_errors(19, method, lam, alpha, 150, 10, -1.0, 0.0, 77).mean(axis=1)
    measured = Measured(float(found.mean()), float(found.std(ddof=1) / np.sqrt(150)), 150)
    assert computed(method, value, 4, error, 5000).holds(measured)
