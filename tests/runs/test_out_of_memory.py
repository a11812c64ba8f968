"""A run that had too little memory says what its step needs by computation, what was in use, and what to lower."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from txlab.engine.transformer.costs import step_memory
from txlab.experiments.kind import kind_named
from txlab.experiments.learning.text_experiment import TextExperiment
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.out_of_memory import describe_memory
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

COMPUTE = {"device": "cpu", "attention": "matmul", "threads": 1, "thread_mode": "operations", "compile": False}
RECORD = {"evaluate_every": 0, "sample_every": 0, "frame_every": 0, "checkpoint_every": 0}


def scenario(dtype: str = "float32", **train: Any) -> Any:
    return kind_named("language-model").schema.model_validate(
        {
            "model": {"layers": 1, "heads": 2, "width": 32, "context": 64},
            "data": {"source": "induction", "vocabulary": 32},
            "sampling": {"prompts": ["ab"]},
            "train": {"steps": 4, "batch": 8} | train,
            "record": RECORD,
            "compute": COMPUTE | {"dtype": dtype, "cuda_graphs": False},
        }
    )


def run_that_raises(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any
) -> tuple[RunInfo, str, RunDirectory]:
    plain: Callable[..., Any] = TextExperiment.gradients_of

    def gradients_of(self: Any, *batch: Any) -> Any:
        if self.step_count == 2:
            if isinstance(error, torch.OutOfMemoryError):  # not before: a CUDA build without a card would look for one
                monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
            raise error
        return plain(self, *batch)

    monkeypatch.setattr(TextExperiment, "gradients_of", gradients_of)
    run = RunDirectory(prepare(LoadedScenario(scenario(**asked), "memory", "a test"), root=tmp_path))
    info = execute(run)
    assert info.status == "failed"
    return info, run.log.read_text(), run


def test_a_full_card_names_the_shape_the_budget_what_was_in_use_and_what_to_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1_000_000_000, 80_000_000_000))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 70_000_000_000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 76_000_000_000)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 77_000_000_000)
    info, log, _ = run_that_raises(
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), tmp_path, monkeypatch
    )
    shape = scenario().model.shape(32)
    needed = step_memory(shape, 8, pattern=True)
    assert info.reason.startswith("step 2: out of memory (CUDA out of memory. Tried to allocate 2.00 GiB); a step (")
    assert "(8 × 64 positions, width 32, float32, matmul attention)" in info.reason
    assert f"computed to need {needed.total / 1e6:.1f} MB: weights {needed.weights / 1e6:.1f} MB" in info.reason
    assert f"activations {needed.activations / 1e6:.1f} MB" in info.reason
    assert (
        "tensors of this run 70.0 GB, at most so far 76.0 GB, held by torch 77.0 GB, by all else 2.0 GB" in info.reason
    )
    assert "of 80.0 GB; to need less: lower train.batch, raise train.accumulate, lower model.context" in info.reason
    assert 'set compute.dtype to "bfloat16", set compute.attention to "sdpa"' in info.reason
    assert info.reason.endswith("there is no checkpoint yet")
    assert "\n" not in info.reason
    line = next(line for line in log.splitlines() if line.startswith("  activations"))
    assert line.split() == ["activations", f"{needed.activations / 1e6:.1f}", "MB"]
    assert "OutOfMemoryError" in log


def test_main_memory_that_is_full_says_what_the_process_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, _, _ = run_that_raises(MemoryError(), tmp_path, monkeypatch, dtype="bfloat16", accumulate=8)
    assert info.reason.startswith("step 2: out of memory; a step (1 × 64 positions, width 32, bfloat16")
    assert "weights in bfloat16 " in info.reason
    assert "; in use in main memory: this process " in info.reason
    assert "to need less: lower model.context, set compute.attention" in info.reason  # no smaller part of a batch


def test_a_report_that_cannot_be_made_is_left_out() -> None:
    def fails() -> None:
        raise MemoryError

    sentence, _ = describe_memory(MemoryError(), SimpleNamespace(budget=fails))
    assert sentence.startswith("out of memory; in use in main memory: this process")


CHILD = """
import resource, sys
import torch
from txlab.runs.process import execute
torch.set_num_threads(1)
torch.randn(2, 1024, 1024)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (600 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(execute(sys.argv[1]).reason)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_process_that_reaches_its_limit_ends_with_the_report(tmp_path: Path) -> None:
    run = prepare(LoadedScenario(scenario(batch=40_000), "memory", "a test"), root=tmp_path)
    said = subprocess.run(
        [sys.executable, "-c", CHILD, str(run)], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    needed = step_memory(scenario().model.shape(32), 40_000, pattern=True)
    assert said.startswith("step 0: out of memory (")
    assert f"computed to need {needed.total / 1e9:.1f} GB" in said
    assert "addresses that it may use" in said
    assert "lower train.batch" in said
