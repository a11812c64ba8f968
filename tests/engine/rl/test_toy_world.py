"""A world in one file of another package is found, learnt in and offered like one of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txlab.engine.rl import worlds
from txlab.errors import LabError

TOY = """
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld, Option


def toy(paces):
    return parse_map("step: -1\\n\\nS" + "." * paces + "G\\n")


WORLD = NamedWorld("toy", "A toy row", "nowhere", toy, {"paces": Option(3, "cells between", 1, 9)})
"""


def package(folder: Path, value: str = "toy_world:WORLD") -> Path:
    """What pip would have put there."""
    (folder / "toy_world.py").write_text(TOY)
    info = folder / "toy-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[txlab.worlds]\ntoy = {value}\n")
    return folder


def test_a_world_of_another_package_runs_by_its_name_and_its_options(tmp_path: Path) -> None:
    few = ["control.runs=2", "control.episodes=3", "control.sync_every=1", "control.score=1"]
    sets = ["world.name=toy", "world.paces=5", *few]
    words = ["run", "cliff", "--out", str(tmp_path / "run"), *(word for each in sets for word in ("--set", each))]
    environment = os.environ | {"PYTHONPATH": str(package(tmp_path)), "OMP_NUM_THREADS": "1"}
    txlab = [sys.executable, "-m", "txlab"]
    done = subprocess.run([*txlab, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["facts"]
    assert (facts["world"], facts["states"]) == ("A toy row", 7)
    assert "paces = 5" in (tmp_path / "run" / "scenario.toml").read_text()
    wrong = [word.replace("paces=5", "pace=5") for word in words]
    done = subprocess.run([*txlab, *wrong], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "world.pace is not a key" in done.stderr


def test_it_is_offered_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package(tmp_path)))
    assert worlds.worlds()["toy"].title == "A toy row"
    assert {"cliff", "four-rooms"} < set(worlds.worlds())
    assert worlds.world_named("toy", paces=2).process.size == 4
    with pytest.raises(LabError, match="paces = 10 is not possible; allowed: a whole number from 1 to 9"):
        worlds.world_named("toy", paces=10)


@pytest.mark.parametrize(
    ("value", "said"),
    [("toy_world:toy", "is not a NamedWorld"), ("nothing_here:WORLD", "cannot be imported"), ("toy_world:X", "X")],
)
def test_an_entry_point_that_gives_no_world_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(package(tmp_path, value)))
    assert worlds.world_named("cliff").name == "cliff"  # which asks no other rule
    with pytest.raises(LabError, match=said):
        worlds.world_named("toy")
