"""A foreign run directory cannot destroy anything, and reading it neither hangs nor runs out of memory.

Each file and folder of a run in turn is a link, a FIFO, a device, a socket, of another kind, huge, garbage or malicious
(see hostile.py), for everything that reads a run and everything that writes one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import hostile
import pytest

pytestmark = pytest.mark.evidence

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """group → {(place, kind): outcome}; the cases of a group run once, in a separate process."""

    memory = Path("/dev/shm")  # thousands of small files come and go
    base = (
        memory if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30 else tmp_path_factory.mktemp("hostile")
    )

    @cache
    def of(group: str) -> dict[tuple[str, str], dict[str, Any]]:
        with tempfile.TemporaryDirectory(dir=base) as folder:
            command = [sys.executable, str(HERE / "hostile.py"), group, folder]
            ended = subprocess.run(command, capture_output=True, text=True)
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        found = {tuple(case): said for case, said in zip(lines[::2], lines[1::2], strict=False)}
        if ended.returncode:  # killed by its watchdog, or a bug
            found["the end"] = {
                "how": f"ended with {ended.returncode} at {lines[-1:]}",
                "outcome": ended.stderr[-2000:],
            }
        return found

    return of


def check(said: dict[str, Any] | None, end: Any) -> dict[str, Any]:
    assert said is not None, end
    assert said["how"] in ("done", "refused"), said["outcome"]
    assert said["same"], "something outside the directory has changed"
    assert "\n" not in said["outcome"]
    return said


@pytest.mark.parametrize(("place", "kind"), hostile.CASES)
def test_every_reader_answers_and_changes_nothing(outcomes: Any, place: str, kind: str) -> None:
    said = check(outcomes("read").get((place, kind)), outcomes("read").get("the end"))
    if place in hostile.FILES + hostile.FOLDERS and kind in hostile.WRONG:
        assert said["outcome"] == "unreadable"
    elif place != "run.json":
        assert said["outcome"] == "stopped"


@pytest.mark.parametrize(("place", "kind"), hostile.CASES)
def test_a_resume_changes_nothing_outside_and_leaves_alone_what_is_not_its_own(
    outcomes: Any, place: str, kind: str
) -> None:
    said = check(outcomes("resume").get((place, kind)), outcomes("resume").get("the end"))
    if kind in hostile.WRONG and "/state." not in place and place != "inbox/rejected":
        assert said["how"] == "refused"
        assert f"{place} is a" in said["outcome"]
    elif said["how"] == "done":
        assert said["outcome"] == "done "
    if place in ("checkpoints", "frames") and kind == "garbage":
        assert said["letters"] == [f"{place}/{name}letter" for name in (".config/", "00000005/", "")]


@pytest.mark.parametrize(("place", "kind"), hostile.GROUPS["exchanged"][1])
def test_what_is_exchanged_for_a_link_after_the_check_is_not_followed_either(
    outcomes: Any, place: str, kind: str
) -> None:
    check(outcomes("exchanged").get((place, kind)), outcomes("exchanged").get("the end"))


@pytest.mark.parametrize(("place", "kind"), hostile.GROUPS["ask"][1])
def test_control_a_detached_start_and_deleting_change_nothing_outside(outcomes: Any, place: str, kind: str) -> None:
    said = check(outcomes("ask").get((place, kind)), outcomes("ask").get("the end"))
    ask, detach, delete = said["outcome"].split(" / ")
    assert delete == "deleted"
    if place in hostile.FILES + hostile.FOLDERS and kind in hostile.WRONG:
        assert f"refused: {place} is a" in ask.replace(ask.partition(": ")[2].partition(": ")[0] + ": ", "")
        assert "refused" in detach
