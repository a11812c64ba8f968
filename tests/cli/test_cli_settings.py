"""The options of a command stay with the command and the processes that it starts: nothing is passed through the
environment of the process, and a program that computes a run with txlab keeps its own settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txlab.cli import terminal
from txlab.runs import root
from txlab.runs.root import choose_root, default_root, environment_of_child

COMPUTES = """
import ctypes, gc, json, os, signal, sys, warnings
import torch
def settings():
    own = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}  # torch sets it
    return [own, sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count(), sys.exit,
            sys.excepthook, warnings.showwarning, [signal.getsignal(n) for n in signal.valid_signals()], os.getcwd()]
from txlab.runs import writing
called = []
writing.keep_freed_memory = lambda: called.append("mallopt")
before, filters = settings(), list(warnings.filters)
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
info = execute(prepare(load_scenario(sys.argv[1], ["train.steps=2"]), root=sys.argv[2]))
print(json.dumps([info.status, [i for i, (a, b) in enumerate(zip(before, settings())) if a != b], called]))
"""


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "_chosen", None)
    monkeypatch.setattr(terminal, "_ascii", False)


def test_computing_a_run_changes_nothing_of_the_process(tiny_scenario: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", COMPUTES, str(tiny_scenario), str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=True, env=environment)
    assert json.loads(done.stdout.splitlines()[-1]) == ["done", [], []]


def test_the_folder_of_runs_is_told_to_commands_and_to_what_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", "elsewhere")
    before = dict(os.environ)
    assert (default_root(), environment_of_child()) == (Path("elsewhere"), before)
    monkeypatch.chdir(tmp_path)
    choose_root(Path("mine"))
    assert default_root() == tmp_path / "mine"
    assert environment_of_child() == before | {"TXLAB_RUNS": str(tmp_path / "mine")}
    choose_root(None)
    assert default_root() == Path("elsewhere")
    assert dict(os.environ) == before


def test_runs_and_ascii_are_for_one_command(ask, tmp_path: Path, tiny_run: Path) -> None:
    """And the next command in the same process is not asked for them."""
    before = dict(os.environ)
    assert "no runs in" in ask("--runs", str(tmp_path), "--ascii", "runs").out
    assert tiny_run.name in ask("runs").out
    assert ask("--ascii", "formulas", "T1").out.isascii()
    assert not ask("formulas", "T1").out.isascii()
    assert {name: os.environ[name] for name in before if name != "COLUMNS"} == {
        name: value for name, value in before.items() if name != "COLUMNS"
    }
    assert "TXLAB_ASCII" not in os.environ


def test_a_program_that_is_watched_records_where_the_command_was_told(tmp_path: Path) -> None:
    """And so does one that it starts itself."""
    script = "import txlab; txlab.record('inner').log(1, loss=2.0)"
    words = ["--runs", str(tmp_path / "told"), "watch", "--", sys.executable, "-c", script]
    command = [sys.executable, "-m", "txlab", *words]
    environment = os.environ | {"TXLAB_RUNS": str(tmp_path / "not told")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "inner" in {path.name.rpartition("_")[2] for path in (tmp_path / "told").iterdir()}
    assert not (tmp_path / "not told").exists()
