"""The example of G1 for positions that are typed: of both sides, won, drawn, and impossible."""

from __future__ import annotations

import pytest
from recomputed_games import G1
from test_examples import hold

from txlab.errors import LabError
from txlab.experiments.formulas.example import example_of


@pytest.mark.parametrize(
    "position", ["X.O/.X./..O", "X../.../...", "XX./OO./..X", "OXXXO.O..", "XXX/OO./...", "XOX/XOO/OXX", "XXOOO.XX."]
)
def test_every_number_of_a_typed_position_is_recomputed(position: str) -> None:
    hold(example_of("G1").explain(position, 0.2, 0.1), G1(position, 0.2, 0.1, misprint=""))


@pytest.mark.parametrize("position", ["", "XX", "XXX/.../...", "XXX/OOO/...", "abcdefghi"])
def test_what_is_no_position_is_refused_in_a_sentence(position: str) -> None:
    with pytest.raises(LabError, match=r"position|come up"):
        example_of("G1").explain(position, 0.2, 0.1)
