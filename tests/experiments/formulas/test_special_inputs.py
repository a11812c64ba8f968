"""Inputs of examples that small changes do not reach: nothing to look at, no pair, no text."""

from __future__ import annotations

import pytest
from test_examples import hold, recomputed

from txlab.errors import LabError
from txlab.experiments.formulas.example import example_of

SPECIAL = [
    ("T2", {"mask": "graph", "row": "1"}),  # a node that sees nothing
    ("T2", {"mask": "padding", "row": "3"}),
    ("T5", {"gated": "yes", "f": "swish"}),
    ("T6", {"x": "2,2,2; 2,2,2; 2,2,2"}),  # no variance
    ("T7", {"positions": "sinusoidal", "i": "1000", "j": "0"}),
    ("T9", {"order": "parallel", "tokens": "2,2,2"}),
    ("T10", {"hidden": "1,4"}),  # two tokens
    ("T11", {"gated": "yes", "heads": "128", "head_width": "128", "width": "8192"}),  # LaMDA's heads
    ("T13", {"examples": "0", "letters": "1", "answers": "1"}),
    ("T14", {"pooling": "mean", "image": "0,0,0,0; 0,0,0,0; 0,0,0,0; 0,0,0,0"}),
    ("H2", {"ranks": "2,2,2,2"}),  # no pair
    ("H2", {"ranks": "4,1,1,2"}),
    ("H7", {"input": ""}),
    ("H7", {"output": "größer"}),  # letters of two bytes
]


@pytest.mark.parametrize(("number", "given"), SPECIAL)
def test_special_inputs_are_recomputed_too(number: str, given: dict[str, str]) -> None:
    example = example_of(number)
    values = example.values(given)
    hold(example.explain(**values), recomputed(number, values))


def test_a_record_without_an_instruction_is_refused_in_a_sentence() -> None:
    example = example_of("H7")
    with pytest.raises(LabError, match="instruction and output must not be empty"):
        example.explain(**example.values({"instruction": ""}))
