"""The sentences about names that are not known."""

from __future__ import annotations

import pytest

from txlab.errors import choices, nearest


@pytest.mark.parametrize("given", ["sin", "x", "gpt-docs"])
def test_what_was_given_is_never_the_nearest(given: str) -> None:
    assert nearest(given, [given]) == ""
    assert nearest(given, [given, f"{given}h"]) == f" (nearest: {given}h)"
    assert choices(given, [given, "q"]) == f"; allowed: {given}, q"
