"""Clean-up after every test of the console: nothing may keep running."""

from collections.abc import Iterator

import pytest
from recorded import still_open


@pytest.fixture(autouse=True)
def nothing_is_recorded_on() -> Iterator[None]:
    """A run that a test left open would keep its heartbeat thread until the end of all tests."""
    yield
    while still_open:
        still_open.pop().close("stopped")
