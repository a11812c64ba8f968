"""The step at which each lecture was left, so that a console that died continues there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import orjson
from platformdirs import user_state_path

from txlab.files import atomic_write, read_regular
from txlab.runs.lecture import Lecture

LARGEST = 64 * 1024


def progress_file(lecture: Lecture) -> Path:
    return user_state_path("txlab", appauthor=False) / "lectures" / f"{lecture.name}.json"


def read_progress(lecture: Lecture) -> int:
    """Return the step, from 0, at which this lecture was left; 0 if it was not begun or was finished."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = orjson.loads(read_regular(progress_file(lecture), LARGEST))
        if known["file"] == str(lecture.path.absolute()) and 0 < known["step"] < len(lecture.steps):
            return int(known["step"])
    return 0


def write_progress(lecture: Lecture, step: int) -> None:
    """Keep the step; raises OSError."""
    path = progress_file(lecture)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, orjson.dumps({"format": 1, "file": str(lecture.path.absolute()), "step": step}))


def forget_progress(lecture: Lecture) -> None:
    """The lecture begins at its first step next time."""
    with suppress(OSError):
        progress_file(lecture).unlink(missing_ok=True)
