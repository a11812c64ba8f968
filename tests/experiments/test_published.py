"""When a measured number holds beside a published one."""

import pytest

from txlab.errors import LabError
from txlab.experiments.published.catalogue import figures
from txlab.experiments.published.figure import Measured, Number


@pytest.mark.parametrize(
    ("measured", "holds"), [(8.1234, True), (8.15, True), (8.1501, False), (8.0499, False), (float("nan"), False)]
)
def test_an_exact_number_holds_to_the_digits_published(measured: float, holds: bool) -> None:
    assert Number("V", 8.1, 1).holds(Measured(measured)) is holds


@pytest.mark.parametrize(("error", "own", "holds"), [(0.1, 0.0, False), (0.12, 0.0, True), (0.1, 0.1, True)])
def test_a_simulated_number_holds_within_three_standard_errors(error: float, own: float, holds: bool) -> None:
    """1.35 from 1.0, half a last digit being .005: 3 · .1 + .005 is less, 3 · .12 + .005 is more, so is 3 · .1 · √2."""
    assert Number("mean", 1.0, 2, own).holds(Measured(1.35, error, 100)) is holds


def test_an_area_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(LabError, match="'lr' is no area"):
        figures("lr")
