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

from txlab.errors import LabError
from txlab.runs.finding import find_run
from txlab.runs.remote import mirroring

pytestmark = pytest.mark.evidence

LARGEST = 300 << 20  # bytes of the whole process, some 90 MB of which are Python and NumPy
LONGEST = 5.0  # seconds of processor time, of which half a second are the start; the slowest takes two
ASKS = f"""{PEAK}
import sys, time, warnings
warnings.simplefilter("ignore")
from txlab.errors import LabError
from txlab.runs.remote import mirroring
from txlab.runs.finding import find_run
try:
    path = find_run(sys.argv[1])
    if sys.argv[2] == "odd rows":
        from txlab.cli import app
        for words in (["export", str(path)], ["plot", str(path)], ["--runs", str(path.parent), "runs"]):
            app(words, standalone_mode=False)
    mirroring.exact_frame(path, 1)
    said = "opened"
except LabError as error:
    said = str(error)
mirroring.close_all()
print(peak_memory(), time.process_time(), ascii(said))
"""


@pytest.mark.parametrize("lie", LIES)
def test_a_hostile_message_takes_little_memory_and_ends_with_an_error(tmp_path: Path, lie: str) -> None:
    asked = "box:latest" if lie in ("endless list", "large list", "other runs") else f"box:{RUN}"
    if lie in ("endless names", "long names"):
        asked = "box:model"
    environment = {**os.environ, "TXLAB_SSH": script(tmp_path, lie), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment |= {"TXLAB_RUNS": str(tmp_path / "here"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    program = [sys.executable, "-P", "-c", ASKS, asked, lie]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    peak, seconds, said = done.stdout.splitlines()[-1].split(maxsplit=2)
    assert int(peak) < LARGEST, said
    assert float(seconds) < LONGEST, said
    assert said.strip() != "'opened'"
    assert {path.name for path in tmp_path.iterdir()} <= {"lying-ssh", "cache"}
    kept = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert kept < 300 << 20, "what a list or a beginning may leave here"


def test_a_machine_that_speaks_a_byte_at_a_time_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", script(tmp_path, "trickle"))
    monkeypatch.setattr(mirroring, "OPENS_WITHIN", 2.0)
    for asked in (f"box:{RUN}", "box:latest"):
        with pytest.raises(LabError, match="box has not said within 2 s which runs it has"):
            find_run(asked)
    mirroring.close_all()
