"""A live run is polled as often as configured, unless that costs the machine too much."""

from __future__ import annotations

import pytest

from txlab.tui import run_watch


@pytest.mark.parametrize(
    ("wall", "used", "may"),
    [
        (0.25, 0.003, True),  # 1.2 % of a core, where 1.6 % are allowed
        (0.25, 0.010, False),  # 4 %
        (0.60, 0.010, False),
        (0.70, 0.010, True),  # the same look, spread over more time
        (2.10, 1.900, True),  # however much it costs, something is seen
    ],
)
def test_what_the_console_used_since_the_last_look_decides(
    wall: float, used: float, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"monotonic": 100.0, "process_time": 7.0}
    monkeypatch.setattr(run_watch.time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(run_watch.time, "process_time", lambda: now["process_time"])
    monkeypatch.setattr(run_watch, "cores", lambda: 2)
    watched = run_watch.LookBudget()
    now["monotonic"] += wall
    now["process_time"] += used
    assert watched.may_look() is may
    watched.note_read()
    assert watched.may_look()
