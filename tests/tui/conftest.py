"""What every test of the console leaves behind: nothing that goes on."""

from collections.abc import Iterator

import pytest
from recorded import still_open


@pytest.fixture(autouse=True)
def nothing_is_recorded_on() -> Iterator[None]:
    """A run that a test left open has a thread that beats every two seconds, to the end of all tests."""
    yield
    while still_open:
        still_open.pop().close("stopped")
