"""Several processes that train one model together compute what one does: every metric of every step, and the weights.

The trained models have rows with different numbers of scored targets, batches that the processes do not divide, and a
vocabulary that they do not divide either; the processes are real, on gloo.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_once import made_once
from program_ranks import CASES, COMPUTE

from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

pytestmark = pytest.mark.evidence

torch = pytest.importorskip("torch")

PROGRAM = Path(__file__).with_name("program_ranks.py")
LONG = ("gpt", "translation", "feedback")  # 100 updates each
SHORT = ("ddp:accumulated", "ddp:vision", "fsdp:masked", "fsdp:dpo")
TOGETHER = {
    2: [*(f"{parallel}:{case}" for parallel in ("ddp", "fsdp") for case in LONG), *SHORT],
    3: [f"{parallel}:{case}" for parallel in ("ddp", "fsdp") for case in LONG[:2]] + ["ddp:feedback"],
}
WITHIN = {"float64": 1e-9, "float32": 1e-5}
# The share of tokens whose value was clipped: at its first reading a value has not moved, and whether rounding says
# that it has is chance.
CHANCE = {"metric/value_clip_fraction"}


@pytest.fixture(scope="module")
def trained() -> Path:
    """The folder in which one, two and three processes have saved what they computed."""
    return made_once("ranks", train)


def train(out: Path) -> None:
    alone = [sys.executable, str(PROGRAM), str(out), *(f"one:{case}" for case in CASES)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    commands = [alone, *([*launcher, f"--nproc-per-node={n}", str(PROGRAM), str(out), *TOGETHER[n]] for n in TOGETHER)]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("count", "parallel", "case"), [(n, *each.split(":")) for n, chosen in TOGETHER.items() for each in chosen]
)
def test_several_processes_compute_what_one_does(trained: Path, count: int, parallel: str, case: str) -> None:
    for dtype, within in WITHIN.items():
        if (case, dtype) == ("vision", "float64"):
            continue
        one = np.load(trained / f"one-1-{case}-{dtype}.npz")
        several = np.load(trained / f"{parallel}-{count}-{case}-{dtype}.npz")
        assert set(one.files) == set(several.files)
        assert {"metric/loss", "metric/grad_norm"} <= set(one.files)
        for name in set(one.files) - CHANCE:
            np.testing.assert_allclose(several[name], one[name], rtol=within, atol=within, err_msg=f"{dtype} {name}")


def test_a_mean_of_means_would_be_seen() -> None:
    """The batches of the case "gpt" are such that the mean of two processes' means is another number."""
    said = CASES["gpt"][1]
    kind = kind_named(said["kind"])
    scenario = kind.schema.model_validate({**said, "seed": 3, "compute": COMPUTE})
    targets = [kind.build(scenario).data.train_batch(n).targets for n in range(20)]  # type: ignore[attr-defined]
    for count in (2, 3):
        scored = [[int((part != NOT_SCORED).sum()) for part in each.tensor_split(count)] for each in targets]
        # Of a loss that is 1 on the first process's targets and 0 elsewhere:
        right = np.array([parts[0] / sum(parts) for parts in scored])
        wrong = np.array([1 / count for _ in scored])
        assert np.abs(right - wrong).max() > 0.05


@pytest.mark.parametrize(
    ("scenario", "changes", "said"),
    [
        ("cliff", [], "cannot be split between processes; allowed: 1"),
        ("ppo-cliff", [], "cannot be split between processes; allowed: 1"),
        ("gpt-tiny", ["train.batch=1"], "a batch of 1 (train.batch / train.accumulate) cannot be split between them"),
        ("gpt-tiny", ["train.batch=12", "train.accumulate=12"], "allowed: at most 1"),
        ("feedback-demonstrations", ["demonstrations.batch=1"], "a batch of 1 (demonstrations.batch) cannot be split"),
        ("gpt-tiny", ["compute.parallel=fsdp", "compute.thread_mode=batch"], "allowed: auto, operations"),
    ],
)
def test_what_cannot_be_split_is_refused_with_an_error(
    tmp_path: Path, scenario: str, changes: list[str], said: str
) -> None:
    loaded = load_scenario(scenario, [*changes, "compute.processes=2"])
    with pytest.raises(LabError) as refused:
        prepare(loaded, out=tmp_path / "run")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_only_one_package_knows_that_there_are_several_processes() -> None:
    package = PROGRAM.parents[2] / "txlab"
    users = set()
    for path in package.rglob("*.py"):
        text = path.read_text()
        tree = ast.parse(text)
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        if any(name and name.startswith(("torch.distributed", "torch._C._distributed")) for name in names):
            users.add(path.parent.relative_to(package).as_posix())
        if path.is_relative_to(package / "engine"):
            used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | {
                node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
            }
            assert not used & {"world_size", "all_reduce", "present_share", "DTensor", "to_local", "fully_shard"}, path
            assert not any(name and "share" in name for name in names), path
    assert users == {"runs/ranks"}


def test_importing_the_command_line_imports_no_distributed_torch() -> None:
    code = "import sys, txlab.cli.run, txlab.runs.process, txlab.runs.ranks.launch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0
