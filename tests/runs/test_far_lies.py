"""What a lying far machine can take of this one: little memory, nothing outside of the mirror, nothing raw on a
terminal, and it does not keep anybody waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lying_machine import LIES, RUN, script
from peak_memory import PEAK

LARGEST = 300 << 20  # bytes of the whole process, some 90 MB of which are Python and NumPy
ASKS = f"""{PEAK}
import sys, time
from txlab.errors import LabError
from txlab.runs.far import mirroring
from txlab.runs.finding import find_run
began = time.monotonic()
try:
    path = find_run(sys.argv[1])
    mirroring.exact_frame(path, 1)
    said = "opened"
except LabError as error:
    said = str(error)
mirroring.close_all()
print(peak_memory(), round(time.monotonic() - began, 1), ascii(said))
"""


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_takes_little_memory_and_ends_in_a_sentence(tmp_path: Path, lie: str) -> None:
    asked = "box:latest" if lie in ("endless list", "large list", "other runs") else f"box:{RUN}"
    if lie in ("endless names", "long names"):
        asked = "box:model"
    environment = {**os.environ, "TXLAB_SSH": script(tmp_path, lie), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment |= {"TXLAB_RUNS": str(tmp_path / "here"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    program = [sys.executable, "-P", "-c", ASKS, asked]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    peak, _, said = done.stdout.split(maxsplit=2)
    assert int(peak) < LARGEST, said
    assert said.strip() != "'opened'"
    assert {path.name for path in tmp_path.iterdir()} <= {"lying-ssh", "cache"}
    kept = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert kept < 300 << 20, "what a list or a beginning may leave here"
