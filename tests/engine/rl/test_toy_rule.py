"""A rule in one file outside the package: found by its entry point, run, swept and explained."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

# The rule that CONTRIBUTING.md shows, under a name of its own; without its last method it has no form for arrays.
PRINTED = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
RULE = dedent(re.search(r"^    class Pessimist.*?(?=^\S)", PRINTED, re.M | re.S)[0])  # type: ignore[index]
IMPORTED = "from txlab.engine.rl.rules.one_step import OneStepRule\n\n\n"
WITH_ARRAYS = IMPORTED + RULE.replace('"pessimist"', '"toy"')
TOY = WITH_ARRAYS.partition("    def targets")[0]

LOOK = """
import json
from dataclasses import replace
import numpy as np
from txlab.engine.rl.rules import make_agent, rule_names
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import sweep_in
from txlab.engine.rl.worlds import world_named

agent = make_agent(world_named("cliff").process, Settings(rule="toy", alpha=0.5), 3)
agent.run(400)
told = agent.last
sweep = sweep_in(world_named("cliff"), [Settings(rule="toy", alpha=0.5)], [3])
returns, _ = sweep.run_episodes(3)
same = {}
for name in ("cliff", "gambler", "car-rental", "four-by-three"):  # gambler, car-rental: not every action is allowed
    world, each = world_named(name), [Settings(rule="toy", alpha=0.5, gamma=0.9, initial=x) for x in (0.0, -3.0)]
    world = world if world.process.limit else replace(world, process=replace(world.process, limit=50))
    many = sweep_in(world, each, [3, 5])
    many.run_episodes(2)
    for m, seed in enumerate((3, 5)):
        alone = make_agent(world.process, each[m], seed)
        alone.run(int(many.steps[m]))
        q = many.q(np.arange(2))[m]
        same[f"{name} {m}"] = np.array_equal(q, alone.q(), equal_nan=True) and not np.isinf(q).any()
print(json.dumps({
    "names": rule_names(), "equation": told.explanation.equation, "source": told.explanation.source,
    "made": [told.before, told.after, told.delta, told.explanation.result], "alone": agent.returns[:3],
    "batch": returns[0].tolist(), "sweep": type(sweep).__name__, "same": same,
}))
"""


def installed(folder: Path, source: str) -> dict[str, str]:
    """The surroundings in which a distribution named toy is installed."""
    (folder / "toy_rule.py").write_text(source + "\n\nRULE = Pessimist()\n", encoding="utf-8")
    about = folder / "toy-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[txlab.rules]\ntoy = toy_rule:RULE\n")
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(("source", "kind"), [(WITH_ARRAYS, "Sweep"), (TOY, "OneByOne")])
def test_a_rule_of_another_distribution_learns_is_swept_and_explained(tmp_path: Path, source: str, kind: str) -> None:
    surroundings = installed(tmp_path, source)
    done = subprocess.run([sys.executable, "-c", LOOK], env=surroundings, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["names"][-1] == "toy"
    assert found["equation"] == "Q(s,a) ← Q(s,a) + α [ r + γ minₐ′ Q(s′,a′) − Q(s,a) ]"
    assert found["source"] == "pessimistic learning: nobody"
    before, after, delta, result = found["made"]
    assert after == result == before + 0.5 * delta
    assert found["sweep"] == kind
    assert found["same"] == dict.fromkeys(found["same"], True)
    assert len(found["batch"]) == 3
    if found["alone"]:
        assert found["alone"] == found["batch"][: len(found["alone"])]


def test_it_is_run_by_a_scenario_and_named_where_a_name_is_wrong(tmp_path: Path) -> None:
    surroundings = installed(tmp_path, WITH_ARRAYS)
    run = [sys.executable, "-m", "txlab", "run", "cliff", "--device", "cpu", "--out", str(tmp_path / "run")]
    few = ["--set", "control.episodes=2", "--set", "control.runs=3"]

    def with_rule(name: str) -> subprocess.CompletedProcess[str]:
        learners = ["--set", f'learners=[{{rule="{name}"}}]']
        return subprocess.run([*run, *few, *learners], env=surroundings, capture_output=True, text=True, check=False)

    done = with_rule("toy")
    assert done.returncode == 0, done.stderr
    assert "return/toy" in (tmp_path / "run" / "events.jsonl").read_text()
    wrong = with_rule("toi")
    assert wrong.returncode != 0
    assert "no rule is called 'toi' (nearest: toy)" in wrong.stderr
