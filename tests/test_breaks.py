"""The deliberate breaks of `benchmarks/breaks.toml` are changes of the code as it is now."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from breaks import Break, breaks_of  # noqa: E402

BREAKS = breaks_of()


def test_there_are_at_least_a_hundred_and_no_two_are_the_same() -> None:
    assert len(BREAKS) >= 100
    assert [each for each, count in Counter((one.file, one.old, one.new) for one in BREAKS).items() if count > 1] == []


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: f"{Path(one.file).stem}: {one.breaks}")
def test_a_break_still_applies_and_its_tests_exist(one: Break) -> None:
    text = (ROOT / one.file).read_text()
    assert one.apply(text) != text
    assert one.tests
    for test in one.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test
    if one.file.endswith(".py"):
        compile(one.apply(text), one.file, "exec")


def test_a_break_that_no_longer_applies_is_named() -> None:
    gone = Break("a.py", "x = 1", "x = 2", "the number", ("tests",))
    with pytest.raises(ValueError, match=r"a\.py: 'x = 1' occurs 0 times, not once"):
        gone.apply("y = 1")
    with pytest.raises(ValueError, match="occurs 2 times"):
        gone.apply("x = 1\nx = 1")
