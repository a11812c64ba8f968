"""Before and after every test of the console: no screen is prepared unasked, and nothing may keep running."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import parsed_once  # noqa: F401 - a sixth of a console's start
import pilots  # noqa: F401 - how a pilot waits
import pytest
from recorded import still_open

from txlab.errors import LabError
from txlab.tui.screen_registry import ScreenEntry, installed_screens


@pytest.fixture(autouse=True)
def screens_are_prepared_only_where_that_is_tested(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing all screens in idle moments takes most of the processor time of a test that looks at one."""
    if request.node.get_closest_marker("prepared") is None:
        monkeypatch.setattr("txlab.tui.preload.prepare_screens", add_installed_screens)


async def add_installed_screens(app: Any, add: Callable[[Sequence[ScreenEntry]], None], report: Any) -> None:
    try:
        add(list(installed_screens()))
    except LabError as error:
        report(error)


@pytest.fixture(autouse=True)
def nothing_is_recorded_on() -> Iterator[None]:
    """A run that a test left open would keep its heartbeat thread until the end of all tests."""
    yield
    while still_open:
        still_open.pop().close("stopped")
