"""Readings of other machines over the stand-in for ssh: three with a pretended NVML, one that dies, and liars."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from lying_machine import LIES_OF_BOX, RUN, script
from peak_memory import PEAK
from pretended_boxes import Boxes
from waiting import LONGEST

import txlab
from txlab.cli import app
from txlab.drawing.box import Lines
from txlab.errors import RunFailed
from txlab.runs.remote import line, machine, mirroring, reading
from txlab.runs.remote.address import Address
from txlab.runs.remote.machine import Machines, Seen

A, B = Address("a"), Address("b")


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boxes]:
    yield Boxes(tmp_path, monkeypatch)
    mirroring.close_all()


def look_until(machines: Machines, reached: Callable[[Sequence[Seen]], bool]) -> list[Seen]:
    deadline = time.monotonic() + LONGEST
    while not reached(seen := machines.look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen


def test_each_machine_is_read_with_its_own_cards_and_runs(boxes: Boxes) -> None:
    machines = Machines([A, B, Address("c")])
    with txlab.record("there", root=boxes.runs) as run:
        run.log(1, loss=1.0)
        seen = look_until(machines, machines.settled)
        for each, name in zip(seen, ("a", "b", "c"), strict=True):
            assert (each.name, each.stale, each.why) == (name, False, "")
            assert each.reading is not None
            there = boxes.cards.get(name, [])
            assert [card.gpu_busy for card in each.reading.cards] == [card["percent"] / 100 for card in there]
            assert [card.gpu_used_mb for card in each.reading.cards] == [card["used"] / 1e6 for card in there]
            assert [process.run for process in each.reading.processes if process.pid == os.getpid()] == [run.path.name]
    assert seen[1].reading is not None
    assert seen[1].reading.cards[0].slowed == "temperature (hardware)"


def test_a_machine_that_dies_keeps_its_last_values_with_their_age(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "KEEP_EVERY", 0.0)
    machines = Machines([A, B])
    look_until(machines, machines.settled)
    boxes.kill(B)
    monkeypatch.setattr(machine, "STALE_AFTER", 1.0)
    seen = look_until(machines, lambda seen: seen[1].stale and "No route" in seen[1].why)
    assert seen[0].reading is not None
    assert seen[1].reading is not None
    assert len(seen[1].reading.cards) == 2
    rows = [row for row in Lines(119).rows(seen, seen[1].seen + 300) if row.machine.name == "b" and row.parts]
    title = "".join(text for text, _ in rows[0].parts)
    assert title == "b  as it was 5 min ago: the connection to b ended: b: No route to host"
    assert {style for row in rows[1:] for _, style in row.parts} == {"quiet"}

    mirroring.close_all()  # another process, later
    app(["box", "--hosts", "b", "--json"], standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert (said["machine"], said["stale"]) == ("b", True)
    assert "No route to host" in said["why"]
    assert said["seen"] == pytest.approx(seen[1].seen)
    assert [card["gpu_slowed"] for card in said["reading"]["cards"]] == [64.0, 64.0]


def test_a_machine_that_was_never_reached_is_an_error(boxes: Boxes, capsys: pytest.CaptureFixture[str]) -> None:
    (boxes.folder / "dead-b").touch()
    with pytest.raises(RunFailed, match="b cannot be read"):
        app(["box", "--hosts", "b"], standalone_mode=False)
    assert "b  never seen: the connection to b ended: b: No route to host" in capsys.readouterr().out


def test_a_machine_without_a_folder_of_runs_is_read_too(boxes: Boxes) -> None:
    boxes.runs.rmdir()
    machines = Machines([A])
    seen = look_until(machines, machines.settled)
    assert seen[0].reading is not None
    assert len(seen[0].reading.cards) == 8
    host = mirroring.host_at(A)
    host.want_list()  # a list still needs it
    deadline = time.monotonic() + LONGEST
    while host.line != "lost":
        assert time.monotonic() < deadline
        time.sleep(0.02)
        host.want_list()
    assert "a has no folder of runs" in host.why


ASKS = f"""{PEAK}
import time
from txlab.cli import app
from txlab.errors import LabError
from txlab.runs.remote import mirroring
import txlab.cli.box
txlab.cli.box.WITHIN = 3.0
for words in (["box", "--hosts", "liar"], ["box", "--hosts", "liar", "--json"]):
    try:
        app(words, standalone_mode=False)
    except LabError as error:
        print("refused", error)
mirroring.close_all()
print(peak_memory(), time.process_time())
"""


@pytest.mark.evidence
@pytest.mark.parametrize("lie", LIES_OF_BOX)
def test_a_lying_machine_takes_little_and_reaches_no_terminal(tmp_path: Path, lie: str) -> None:
    environment = {**os.environ, "TXLAB_SSH": script(tmp_path, lie), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment |= {"TXLAB_RUNS": str(tmp_path / "here"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASKS], env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for sign in ("\x1b", "\x07", "\x9b", "\u202e"):
        assert sign not in done.stdout + done.stderr
    peak, seconds = done.stdout.splitlines()[-1].split()
    assert int(peak) < 300 << 20
    assert float(seconds) < 8.0
    assert ("refused" in done.stdout) == (lie not in ("odd reading", "readings")), done.stdout
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 1 << 20
    assert RUN not in {path.name for path in kept}


def test_a_run_named_by_a_liar_opens_nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page opens `HOST:RUN`, whose name is checked as everywhere."""
    from txlab.errors import LabError

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", script(tmp_path, "odd reading"))
    monkeypatch.setattr(mirroring, "OPENS_WITHIN", 3.0)
    with pytest.raises(LabError):
        mirroring.open_run(Address("liar", "", "../../etc"))
    mirroring.close_all()


def test_the_programs_that_are_sent_define_no_name_twice() -> None:
    """Both run in one name space."""
    names = []
    for part in (line.agent(), line.box()):
        parsed = ast.parse(zlib.decompress(part)).body
        defined = {each.name for each in parsed if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        targets = [target for each in parsed if isinstance(each, ast.Assign) for target in each.targets]
        names.append(defined | {target.id for target in targets if isinstance(target, ast.Name)})
    assert names[0] & names[1] == set()
