"""Readings of this machine: from a pretended NVML and from /proc, with the runs that processes compute."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pretended_nvml import PretendedNvml, a_card, install
from pydantic import ValidationError
from waiting import LONGEST

import txlab
from txlab.drawing.box import Lines
from txlab.runs.remote import box as box_module
from txlab.runs.remote import reading as reading_module
from txlab.runs.remote.box import Box
from txlab.runs.remote.machine import Machines, Seen
from txlab.runs.remote.reading import Kept, Reading, keep, load_kept

HIDDEN = 2**22 + 7  # no process of Linux has this number
NAP = "import sys, time; time.sleep(600)"


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> PretendedNvml:
    """Eight cards: this process on the first two, one that cannot be seen on the last."""
    ours = os.getpid()
    nvml = PretendedNvml([a_card(n, percent=10 * n, used=(n + 1) * 10**9, milliwatts=90_000 * n) for n in range(8)])
    nvml.cards[0].update(compute={ours: 3_000_000_000}, samples=[(ours, 5, 25)])
    nvml.cards[1].update(compute={ours: 4_000_000_000}, graphics={ours: 4_500_000_000}, slowed=0x24)
    nvml.cards[7].update(compute={HIDDEN: 7_000_000_000})
    monkeypatch.setattr(ctypes, "CDLL", ctypes.CDLL)
    install(nvml)
    return nvml


@pytest.fixture
def naps() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts; they are ended after it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        each.kill()
        each.wait(LONGEST)


def nap(naps: list[subprocess.Popen[bytes]], *words: str) -> int:
    naps.append(subprocess.Popen([sys.executable, "-S", "-c", NAP, *words]))
    return naps[-1].pid


def beat(root: Path, name: str, **values: Any) -> None:
    """The heartbeat of a run, as its process writes it."""
    (root / name).mkdir(parents=True, exist_ok=True)
    beat = {"time": time.time(), "step": 3, "status": "running", "pid": os.getpid(), "host": socket.gethostname()}
    (root / name / "heartbeat").write_text(json.dumps(beat | values))


def read(root: Path) -> Reading:
    return Reading.model_validate(Box(str(root)).read())


def run_of(reading: Reading, pid: int) -> str:
    """The run of a process; "" for one that is not listed."""
    return next((each.run for each in reading.processes if each.pid == pid), "")


def test_a_reading_has_what_nvml_says_of_each_card_and_process(cards: PretendedNvml, tmp_path: Path) -> None:
    reading = read(tmp_path)
    assert len(reading.cards) == 8
    for n, card in enumerate(reading.cards):
        there = cards.cards[n]
        assert (card.index, card.uuid, card.name) == (n, there["uuid"], there["name"])
        assert card.gpu_busy == there["percent"] / 100
        assert card.gpu_used_mb == there["used"] / 1e6
        assert (card.gpu_watts, card.gpu_watts_limit) == (there["milliwatts"] / 1e3, there["limit"] / 1e3)
        assert card.slowed == ("power limit, temperature" if n == 1 else "")
    ours = next(each for each in reading.processes if each.pid == os.getpid())
    assert [(use.index, use.mb, use.busy) for use in ours.cards] == [(0, 3000.0, 0.25), (1, 4000.0, None)]
    assert ours.gpu_mb == 7000.0
    assert ours.user
    assert ours.command.split()[0] == Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    assert ours.started is not None
    assert ours.started == pytest.approx(psutil.Process().create_time(), abs=1.5)  # /proc counts in ticks from the boot
    assert reading.owners() == {ours.user: (7000.0, [0, 1]), "": (7000.0, [7])}


def test_a_process_that_cannot_be_seen_keeps_its_memory_and_says_so(cards: PretendedNvml, tmp_path: Path) -> None:
    reading = read(tmp_path)
    hidden = next(each for each in reading.processes if each.pid == HIDDEN)
    assert (hidden.user, hidden.command, hidden.started, hidden.gpu_mb) == ("", "", None, 7000.0)
    rows = Lines(119).rows([Seen("box", reading, time.time())], time.time())
    text = next("".join(text for text, _ in row.parts) for row in rows if row.process == hidden)
    assert text.split()[:4] == [str(HIDDEN), "?", "7", "7.0"]
    assert "not visible" in text


def test_a_machine_without_a_card_has_its_processors_memory_and_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", ctypes.CDLL)
    install(None)
    disk = next(iter(sorted(each.name for each in Path("/sys/block").iterdir() if (each / "device").exists())), "")
    line = f"8 0 {disk} 1 0 8 1 1 0 8 1 0 %d 9"
    files = {
        "/proc/stat": ["cpu 100 0 100 700 100 0 0 0 0 0\n", "cpu 150 10 120 710 110 0 0 0 0 0\n"],
        "/proc/meminfo": ["MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 250000 kB\n"] * 2,
        "/proc/diskstats": [line % 1000, line % 1500],
    }
    there = box_module.read_text
    monkeypatch.setattr(box_module, "read_text", lambda path, most=1 << 16: (files.get(path) or [there(path, most)])[0])
    box = Box(str(tmp_path))
    first = Reading.model_validate(box.read())
    assert (first.busy, first.disk_busy, first.cards) == (None, None, [])
    assert first.trouble == "no NVIDIA driver is installed"
    assert (first.memory_mb, first.total_mb) == (768.0, 1024.0)  # (1000000 - 250000) * 1024 bytes
    files = {path: contents[1:] for path, contents in files.items()}
    monkeypatch.setattr(box_module.time, "time", lambda: first.time + 2.0)
    second = Reading.model_validate(box.read())
    assert second.busy == pytest.approx(80 / 100)  # of 100 ticks 20 were idle or waited for a disk
    assert second.disk_busy == (pytest.approx(0.25) if disk else None)  # 500 ms of 2 s
    assert {each.path for each in second.disks} <= {str(tmp_path), "/"}
    assert "no card" in Lines(119).rows([Seen("", second, time.time())], time.time())[0].parts[-1][0]
    heads = Lines(119).head([Seen("", second, time.time())])
    assert not any(head.startswith("gpu") for head in heads), "a head of cards that are not there"
    assert len(heads) == bool(second.processes)


def test_the_run_of_a_process_is_found_by_its_number_and_start(
    tmp_path: Path, naps: list[subprocess.Popen[bytes]]
) -> None:
    ours, child = os.getpid(), nap(naps)
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=1.0)
        reading = read(tmp_path)
        assert run_of(reading, ours) == run.path.name
    assert run_of(read(tmp_path), ours) == ""  # the run has ended, the process has not
    beat(tmp_path, "child", pid=child)
    assert run_of(read(tmp_path), child) == "child"
    started = Box("").processes()[child]["started"]
    beat(tmp_path, "child", pid=child, time=started - 60)  # of another process, which had the number before
    assert run_of(read(tmp_path), child) == ""
    beat(tmp_path, "child", pid=child, host="elsewhere")
    assert run_of(read(tmp_path), child) == ""
    beat(tmp_path, "child", pid=child, status="done")
    assert run_of(read(tmp_path), child) == ""
    beat(tmp_path, "older", pid=child, time=time.time() - 1e-3)
    beat(tmp_path, "newer", pid=child, time=time.time() + 1e-3)
    assert run_of(read(tmp_path), child) == "newer"


def test_a_heartbeat_that_is_no_heartbeat_names_no_process(tmp_path: Path) -> None:
    for n, text in enumerate((b"", b"{", b"[]", b"null", b'{"pid": "x"}', b"\xff", b'{"pid": 1e999}', b"9" * 5000)):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "heartbeat").write_bytes(text)
    (tmp_path / "link").symlink_to("/")
    beat(tmp_path / "outside", "run")
    (tmp_path / "run").symlink_to(tmp_path / "outside" / "run")
    assert Box(str(tmp_path)).runs(Box("").processes()) == {}


def test_workers_and_ranks_belong_to_the_run_and_others_do_not(
    cards: PretendedNvml, tmp_path: Path, naps: list[subprocess.Popen[bytes]]
) -> None:
    for name in ("torchrun", "make"):
        script = tmp_path / name
        starts = f'"{sys.executable}" -S -c "{NAP}" & echo $!'
        script.write_text(f"{starts}\n{starts}\nwait\n")
        naps.append(subprocess.Popen(["/bin/sh", str(script)], stdout=subprocess.PIPE))
    pids = [int(each.stdout.readline()) for each in naps for _ in range(2) if each.stdout]  # two of each
    worker = nap(naps)
    beat(tmp_path / "runs", "ranks", pid=pids[0])
    beat(tmp_path / "runs", "made", pid=pids[2])
    beat(tmp_path / "runs", "ours")
    cards.cards[3]["compute"] = dict.fromkeys((*pids, worker), 1)
    reading = read(tmp_path / "runs")
    try:
        # The pytest process is an ancestor of them all, but a nearer run counts.
        assert [run_of(reading, pid) for pid in pids] == ["ranks", "ranks", "made", "ours"]
        assert run_of(reading, worker) == "ours"
    finally:
        for pid in pids:
            os.kill(pid, 9)


def test_a_card_that_does_not_answer_holds_up_nothing(
    cards: PretendedNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    box, answers = Box(str(tmp_path)), threading.Event()
    first = box.latest()
    assert box.reading is not None
    box.reading.join(LONGEST)
    first = box.latest()
    monkeypatch.setattr(box.cards, "read", lambda: ([], {}) if answers.wait(LONGEST) else None)
    box.due = 0.0
    assert box.latest() is first
    thread = box.reading
    assert box.latest() is first
    assert box.reading is thread  # no second one waits for the card
    answers.set()
    thread.join(LONGEST)
    assert box.newest is not first


def test_a_machine_without_proc_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = os.path.exists
    monkeypatch.setattr(box_module.os.path, "exists", lambda path: path != "/proc/stat" and there(path))
    machines = Machines([None], tmp_path)
    seen = machines.look()
    assert seen[0].why == "processes are read from Linux's /proc, which is not there"
    assert machines.settled(seen)


@pytest.mark.parametrize(
    "change",
    [
        {"time": float("nan")},
        {"load": float("inf")},
        {"memory_mb": -1.0},
        {"memory_mb": 1e300},
        {"cores": "2"},
        {"host": "x" * 1000},
        {"count": 2**63},
        {"cards": [{}]},
        {"cards": [{"index": 0, "uuid": "a", "name": "b"}] * 65},
        {"processes": [{"pid": 1}] * 301},
        {"processes": [{"pid": 1, "cards": [{"index": 0}] * 65}]},
        {"processes": [{"pid": -1}]},
    ],
)
def test_a_reading_that_is_out_of_bounds_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    reading = Box(str(tmp_path)).read()
    Reading.model_validate(reading)
    with pytest.raises(ValidationError):
        Reading.model_validate(reading | change)


def test_what_a_terminal_would_interpret_is_escaped_and_can_be_kept(tmp_path: Path) -> None:
    odd = "\x1b]0;owned\x07\x9b2J\u202e" + "\x1b" * 180
    process = {"pid": 1, "user": odd, "name": odd, "command": odd, "run": odd}
    card = {"index": 0, "uuid": odd, "name": odd, "trouble": odd}
    reading = Box(str(tmp_path)).read() | {"host": odd, "trouble": odd, "processes": [process], "cards": [card]}
    kept = Kept(seen=1e9, reading=Reading.model_validate(reading))
    keep(tmp_path, kept)
    again = load_kept(tmp_path)
    assert again is not None
    for checked in (kept, again):
        assert checked.model_dump_json().isprintable()
        for row in Lines(119).rows([Seen("", checked.reading, time.time())], time.time()):
            assert all(text.isprintable() for text, _ in row.parts)
    (tmp_path / reading_module.FILE).write_bytes(b"x" * (reading_module.LARGEST + 1))
    assert load_kept(tmp_path) is None


def test_this_machine_is_read_at_once_and_is_not_stale(tmp_path: Path) -> None:
    machines = Machines([None], tmp_path)
    seen = machines.look()
    deadline = time.monotonic() + LONGEST
    while not machines.settled(seen):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        seen = machines.look()
    assert seen[0].reading is not None
    assert seen[0].reading.host == socket.gethostname()
    assert seen[0].reading.count > 1
