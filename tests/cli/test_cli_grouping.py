"""Numbers for people have spaces between thousands, as on the screens."""

from __future__ import annotations

import pytest

from txlab.cli.progress import answer, format_row
from txlab.drawing.update_lines import compact


@pytest.mark.parametrize("event", ["note", "alert", "rewind", "control"])
def test_the_step_of_a_line_is_grouped(event: str) -> None:
    assert "step 123 456" in format_row({"event": event, "step": 123456, "text": "", "applied": True})


def test_a_number_of_steps_is_grouped() -> None:
    assert answer({"request": "step", "count": 20000, "applied": True}) == "step 20 000"


@pytest.mark.parametrize(
    ("value", "text"), [(123456.0, "123 456"), (-10000.0, "−10 000"), (1000.0, "1 000"), (999.0, "999")]
)
def test_the_numbers_of_the_arena_are_grouped(value: float, text: str) -> None:
    assert compact(value) == text
