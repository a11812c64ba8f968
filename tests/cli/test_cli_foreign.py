"""Other programs' logs in the commands: listed with their origin, drawn, exported and followed by path or by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TXLAB = [sys.executable, "-m", "txlab"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two versions of Lightning's tables in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "runs"))
    for version, age in ((0, 7200), (1, 3600)):
        table = tmp_path / "lightning_logs" / f"version_{version}" / "metrics.csv"
        table.parent.mkdir(parents=True)
        rows = "".join(f"{step},{(version + 1) / (step + 1)},\n" for step in range(20))
        table.write_text(f"step,train_loss,val_loss\n{rows}19,,0.5\n")
        os.utime(table, (time.time() - age,) * 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def txlab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TXLAB, *words], capture_output=True, text=True)


def test_they_are_listed_with_their_origin_and_drawn_and_exported_by_name_or_path(here: Path) -> None:
    listed = txlab("runs", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(row["name"], row["source"], row["status"], row["step"], row["value"]) for row in rows] == [
        ("lightning_logs/version_1", "lightning", "silent", 19, 0.1),
        ("lightning_logs/version_0", "lightning", "silent", 19, 0.05),
    ]
    table = txlab("runs").stdout
    assert "silent" in table
    assert f"lightning: {here}/lightning_logs/version_0/metrics.csv" in table
    exported = txlab("export", "lightning_logs/version_0", "csv")
    assert exported.stdout.startswith("step,name,value,time\n0,train_loss,1.0,")
    assert exported.stdout.count("train_loss") == 20
    drawn = txlab("plot", "version_0", "version_1", "--metric", "train_loss")
    assert drawn.returncode == 0, drawn.stderr
    assert "version_1" in drawn.stdout


def test_following_without_a_terminal_ends_when_the_log_is_silent(here: Path) -> None:
    said = txlab("attach", "lightning_logs")
    assert said.returncode == 0
    assert "has 2 runs; this is the one written last" in said.stderr
    assert "silent at step 19" in said.stdout
    rows = [json.loads(line) for line in txlab("attach", "version_0", "--json").stdout.splitlines()]
    assert [row["step"] for row in rows] == [*range(20)]  # what was logged together is one row


def test_a_log_is_not_resumed_or_stopped(here: Path) -> None:
    for command in ("resume", "stop"):
        said = txlab(command, "version_0")
        assert said.returncode == 2
        assert "recorded by another program" in said.stderr or "silent" in said.stderr, said.stderr
