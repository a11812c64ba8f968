"""A type checker checks a program that records: it knows the types that `txlab.record` accepts and returns."""

import subprocess
import sys
from pathlib import Path

import pytest

import txlab

PROGRAM = """
import decimal

import numpy as np

import txlab
from txlab import Recording


def train(run: Recording, losses: dict[str, float]) -> None:
    run.log(1, losses, lr=3e-4, epoch=1, half=np.float32(0.5), exact=decimal.Decimal(1))
    run.log(np.int64(2), loss=0.5)
    run.frame(2, {"pattern": np.eye(3)}, tokens={"probe": ["a"]}, facts={"mask": "causal"})
    run.sample(2, "a", "b")
    run.note(2, "so far")
    run.rewind(1, "a spike")
    run.close("stopped", "enough")


with txlab.record("mine", {"lr": 3e-4}, root="runs", title="Mine", steps=10) as run:
    reveal_type(run)
    train(run, {"loss": 1.0})
run.log("three", loss=0.5)  # wrong
run.log(3, loss="0.5")  # wrong
run.log(3, {"loss": [1.0]})  # wrong
run.close("finished")  # wrong
txlab.record()  # wrong
txlab.recorder  # wrong
"""


def test_a_program_that_records_is_checked_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # Only the modules that the program uses are analysed: the rest of txlab, and torch, would take a minute.
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = True\n"
        + "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in ("torch", "txlab.engine", "pydantic"))
        + "[mypy-txlab.*]\nfollow_imports = silent\n"
    )
    (tmp_path / "program.py").write_text(PROGRAM)
    package = Path(txlab.__file__).parent
    assert (package / "py.typed").is_file()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(tmp_path), "program.py"],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = PROGRAM.splitlines()
    said = [line.split(":", 3)[1:] for line in done.stdout.splitlines()]
    wrong = {int(number) for number, level, _ in said if level.strip() == "error"}
    assert wrong == {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}, done.stdout + done.stderr
    assert any('"txlab.runs.recording.Recording"' in text for _, level, text in said if level.strip() == "note")
