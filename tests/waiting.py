"""Waiting in tests: for what another thread or process does, with a bound that only ends a test that hangs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

LONGEST = 300.0  # seconds: at a load of twenty, a process needs a minute to import torch


def wait_for(happened: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Wait until `happened` returns something true; `process` must not end before."""
    end = time.monotonic() + LONGEST
    while not happened():
        assert process is None or process.poll() is None, "it ended too early"
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.01)


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls, Python's and C's: a measure of time that no other process changes."""
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
