"""The manual's script for Slurm, run by a shell with stand-ins for srun and scontrol: two nodes, which are processes of
this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from documents import SOURCES, blocks
from far_machine import free_port
from test_loop import metrics_of
from test_runs_exactness import SCENARIO, last_step
from waiting import LONGEST, wait_for

from txlab.runs.directory import RunDirectory, RunInfo

pytestmark = pytest.mark.evidence

pytest.importorskip("torch")

# As the manuals of Slurm describe them: the names of a list of nodes, one a line; a command on each node, with the
# status of the worst.
SCONTROL = """#!/bin/sh
[ "$1 $2 $3" = "show hostnames node[1-2]" ] || { echo "scontrol: invalid: $*" >&2; exit 1; }
printf 'localhost\\nnode2\\n'
"""
SRUN = """#!/bin/sh
worst=0
SLURM_NODEID=0 SLURM_PROCID=0 "$@" & first=$!
SLURM_NODEID=1 SLURM_PROCID=1 "$@" & second=$!
for task in $first $second; do wait $task || worst=$?; done
exit $worst
"""
TORCHRUN = '#!/bin/sh\nexec {python} -m torch.distributed.run "$@"\n'


@pytest.fixture
def job(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The jobs of a test; their processes end with it."""
    jobs: list[subprocess.Popen[bytes]] = []
    yield jobs
    for process in jobs:
        if process.poll() is None:
            for child in [*psutil.Process(process.pid).children(recursive=True), process]:
                child.kill()


def submit(folder: Path) -> subprocess.Popen[bytes]:
    """Start the script, for a small scenario, one process on each of the two nodes, and a free port."""
    (script,) = (block.code for block in blocks(SOURCES["docs/processes.md"]) if block.note == "no-run Slurm")
    for given, here in (
        ("gpt2-124m", str(folder / "small.toml --set train.steps=80")),
        ("/shared/runs", str(folder)),
        ("--nproc-per-node=8", "--nproc-per-node=1"),
        (":29500", f":{free_port()}"),
    ):
        assert given in script
        script = script.replace(given, here)
    tools = {"scontrol": SCONTROL, "srun": SRUN, "torchrun": TORCHRUN.format(python=sys.executable)}
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[1-2]"}
    return subprocess.Popen(["sh", "-c", script], env=environment)


def test_the_script_runs_a_scenario_and_after_the_signal_it_continues_the_run(
    tmp_path: Path, job: list[subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "small.toml").write_text(SCENARIO)
    run = RunDirectory(tmp_path / "gpt2")
    job.append(first := submit(tmp_path))
    wait_for(lambda: run.events.exists() and last_step(run) >= 12, first)
    for child in psutil.Process(first.pid).children(recursive=True):
        if "torch.distributed.run" in child.cmdline():  # Slurm signals the tasks, not the shell of the job
            child.terminate()
    assert first.wait(timeout=LONGEST) != 0
    info = RunInfo.load(run)
    assert info.status == "interrupted", info.reason
    assert 12 <= info.step < 80
    job.append(second := submit(tmp_path))  # as the queue starts it again
    assert second.wait(timeout=LONGEST) == 0
    info = RunInfo.load(run)
    assert (info.status, info.step) == ("done", 80), info.reason
    assert [row[0] for row in metrics_of(run) if "loss" in row[1]] == list(range(1, 81))


def test_the_directives_are_options_of_sbatch() -> None:
    (line,) = re.findall(r"^#SBATCH (.*)$", SOURCES["docs/processes.md"], re.M)
    assert {word.partition("=")[0] for word in line.split()} == {
        *("--nodes", "--ntasks-per-node", "--gpus-per-node", "--signal", "--requeue")
    }
