"""A kind, a rule, a world, a screen and reference numbers of somebody else's package, one file each, are found
everywhere where ours are: in the catalogue, the shell, the console, in answers to `w`, and by `verify`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tui"))

from picture import text_of
from recorded import settle

from txlab.experiments.kind import explain_metric, kind_named, kind_names
from txlab.tui.app import TxlabApp

FILES = {
    "kind.py": '''
"""Halving: the number x is halved at every step."""
from typing import Literal

from pydantic import Field

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kind import Kind
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Frame
from txlab.experiments.schema import Compute, Scenario, Section


class Halving(Section):
    start: float = Field(8.0, description="x at first")
    steps: int = Field(3, ge=1, description="how often it is halved")


class HalvingScenario(Scenario):
    kind: Literal["toy-halving"] = "toy-halving"
    compute: Compute = Field(default_factory=lambda: Compute(device="cpu", dtype="float32", threads=1))
    halving: Halving = Field(default_factory=Halving)

    def length(self):
        return self.halving.steps


class HalvingExperiment:
    def __init__(self, scenario):
        self.step_count, self.steps, self.x = 0, scenario.halving.steps, scenario.halving.start

    def step(self):
        self.x, self.step_count = self.x / 2, self.step_count + 1
        return {"x": self.x}

    def evaluate(self):
        return {}

    def verify(self):
        pass

    def frame(self):
        return Frame(self.step_count, texts={"x": str(self.x)})

    def samples(self):
        return ()

    def facts(self):
        return {"unit": "halvings", "units_per_step": 1, "compute": {"device": "cpu"}}

    def adjustable(self):
        return {}

    def adjust(self, name, value):
        pass

    def state_dict(self):
        return {"step": self.step_count, "x": self.x}

    def load_state_dict(self, state):
        self.step_count, self.x = state["step"], state["x"]


class HalvingKind(Kind):
    name = "toy-halving"
    title = "Halving a number"
    schema = HalvingScenario
    METRICS = (Metric("x", "toys", "the toy", "halved", primary=True),)
    screen = "toy"

    def build(self, scenario):
        return HalvingExperiment(scenario)

    def explain_metric(self, scenario, name, step, values, facts):
        steps = [Step("x", f"{scenario.halving.start:g} / 2^{step}", values["x"])]
        return Explanation("why x?", "xₙ = x₀ / 2ⁿ", "F1", "toy", [Operand("n", step, "steps")], steps)


KIND = HalvingKind()
''',
    "rule.py": '''
"""Like Q-learning, and afraid of the worst."""
from txlab.engine.rl.rules.one_step import OneStepRule


class Pessimist(OneStepRule):
    name, title, source = "toy-rule", "A toy rule", "nobody"
    letters = "minₐ′ Q(s′,a′)"

    @staticmethod
    def target(after, best, k, exploration):
        return min(after)

    def targets(self, now, step):
        return now.xp.bottom(now.xp.rows(now.table["q"], now.base + step.next))


RULE = Pessimist()
''',
    "world.py": '''
"""A row of cells."""
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import NamedWorld, Option


def row(cells):
    return parse_map("step: -1\\n\\nS" + "." * cells + "G\\n")


WORLD = NamedWorld("toy-row", "A toy row", "nowhere", row, {"cells": Option(3, "cells between", 1, 9)})
''',
    "screen.py": '''
"""A screen that says one thing."""
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.words import Words


class ToyScreen(BenchScreen):
    def compose_body(self):
        yield Words("a toy on the bench")


SCREEN = ScreenEntry("11", "toy", "Toy", "toybox.screen:ToyScreen", "something to play with")
''',
    "figures.py": '''
"""What half of eight is."""
from txlab.experiments.reference_numbers import Figures, exactly, printed

FIGURES = Figures()


@FIGURES.measured_by("toy-half", "Half of eight", "nowhere", [printed("8 / 2", 4.0, 1)])
def half(say):
    return exactly([8 / 2])
''',
    "scenarios/toy-halving.toml": """
kind = "toy-halving"
[about]
title = "A toy is halved"
chapter = "F"
minutes = 0.1
""",
}
ENTRY_POINTS = """
[txlab.kinds]
toy-halving = toybox.kind:KIND
[txlab.rules]
toy-rule = toybox.rule:RULE
[txlab.worlds]
toy-row = toybox.world:WORLD
[txlab.screens]
toy = toybox.screen:SCREEN
[txlab.figures]
toy = toybox.figures
[txlab.scenarios]
toy = toybox.scenarios
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would have put into site-packages."""
    folder = tmp_path_factory.mktemp("site")
    for name, content in FILES.items():
        file = folder / "toybox" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    info = folder / "toybox-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toybox\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in [name for name in sys.modules if name.partition(".")[0] == "toybox"]:
        del sys.modules[name]


def txlab(site: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "txlab", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shell_lists_and_runs_them(site: Path, tmp_path: Path) -> None:
    assert "toy-halving" in txlab(site, "scenarios")
    assert "[halving]" in txlab(site, "scenarios", "toy-halving")
    run = tmp_path / "halved"
    txlab(site, "run", "toy-halving", "--set", "halving.steps=2", "--out", str(run))
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [row["values"]["x"] for row in rows if row["event"] == "metrics" and "x" in row["values"]] == [4.0, 2.0]
    few = ["control.runs=2", "control.episodes=3", "control.together=1", "control.score=1"]
    sets = ["world.name=toy-row", "world.cells=4", 'learners=[{rule="toy-rule"}]', *few]
    run = tmp_path / "walked"
    txlab(site, "run", "cliff", "--out", str(run), *(word for each in sets for word in ("--set", each)))
    facts = json.loads((run / "run.json").read_text())["facts"]
    assert (facts["world"], facts["states"]) == ("A toy row", 6)


def test_verify_finds_its_figures(site: Path) -> None:
    assert "Half of eight" in txlab(site, "verify", "toy")
    assert "toy-half" in txlab(site, "verify", "--list")


def test_its_kind_answers_for_its_numbers(installed: Path) -> None:
    assert "toy-halving" in kind_names()
    assert kind_named("toy-halving").metric("x").unit == "toys"
    answer = explain_metric({"kind": "toy-halving"}, "x", 3, {"x": 1.0})
    assert answer is not None
    assert answer.result == 1.0


async def test_the_console_shows_its_scenario_its_run_and_its_screen(installed: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "halved"
    txlab(installed, "run", "toy-halving", "--out", str(run))
    app = TxlabApp(root=tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "toy-halving" in text_of(app) and "F11" in text_of(app))
        await pilot.press("tab")
        await settle(pilot, lambda: "x 1.000" in text_of(app))
        await pilot.press("enter")  # its kind says on which screen
        await settle(pilot, lambda: "a toy on the bench" in text_of(app))
        await pilot.press("3")
        await settle(pilot, lambda: "the toy" in text_of(app))
        await pilot.press("w")
        await settle(pilot, lambda: "x₀ / 2ⁿ" in text_of(app))
