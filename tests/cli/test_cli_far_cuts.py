"""A session with another machine that is cut after any number of bytes: what was asked arrives once, or the user is
told; what is read is right, or said to be old.

Each command is cut at a few places here, and a part of what the other side can refuse is tried. All places, every
tenth byte of both directions, and all refusals take an hour:

    TXLAB_ALL_CUTS=10 pytest tests/cli/test_cli_far_cuts.py -s     # -s shows the counts; -k 'name and cold' does a part
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path

import pytest
from far_machine import FULL, READ_ONLY
from forked_machine import ENDLESS, ForkedMachine
from test_cli_far_addresses import FORMS, MIDDLE, RUNS, Machine, make_run
from waiting import wait_for

from txlab.cli import app
from txlab.errors import Guess, LabError
from txlab.runs.control import names_in
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.finding import find_run
from txlab.runs.label import read_label, write_label
from txlab.runs.remote import host, line, mirroring
from txlab.runs.remote.address import Address

pytestmark = pytest.mark.evidence

EVERY = int(os.environ.get("TXLAB_ALL_CUTS") or 900)  # bytes between two cuts
ANSWERED_WITHIN = "0.5"  # seconds; a session that is cut is not answered later, and number 0 is not cut


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedMachine]:
    folder = tmp_path_factory.mktemp("far")
    machine = ForkedMachine(folder, folder / "runs")
    yield machine
    machine.close()


@pytest.fixture
def box(machine: ForkedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setattr(line, "subprocess", machine)
    monkeypatch.setattr(host, "BACK_OFF", (0.02,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    box = Box(machine, tmp_path / "runs")
    yield box
    mirroring.close_all()
    box.close()


class Box(Machine):
    """The machine `box`, with three runs; sessions with it can be cut."""

    def __init__(self, machine: ForkedMachine, root: Path) -> None:
        super().__init__(root)
        self.machine, machine.runs = machine, root
        machine.cut(sessions=0)
        for number, name in enumerate(RUNS):
            make_run(root, name, 0.5 + number)
        write_label(root / MIDDLE, "before")
        self.run = RunDirectory(root / MIDDLE)
        self.thread = threading.Thread(target=self.answer)
        self.thread.start()

    def close(self) -> None:
        self.ended.set()
        self.thread.join()

    def change(self, number: int) -> None:
        """What a run does meanwhile: another row, another heartbeat; and it has not ended."""
        row = {"event": "metrics", "time": 1.0, "step": 4 + number, "values": {"loss": float(number)}}
        with self.run.events.open("ab") as log:
            log.write(encode_row(row))
        self.beat("running")

    def beat(self, status: str) -> None:
        info = RunInfo.load(self.run)
        info.status = status
        info.save(self.run)
        beat = {"time": time.time(), "step": 3, "status": status, "pid": 1, "host": "elsewhere"}
        self.run.write("heartbeat", json.dumps(beat).encode())


class Asks:
    """One command on the run in the middle, with what must be true of it after its session was cut."""

    def __init__(self, box: Box, given: str, folder: Path) -> None:
        self.box, self.given, self.folder = box, given, folder

    def words(self, number: int) -> list[str]:
        raise NotImplementedError

    def kept(self, mirror: Path) -> bool:
        """Whether the mirror holds what was asked."""
        raise NotImplementedError

    def arrived(self) -> int:
        """How often it is on the other side."""
        raise NotImplementedError


class Names(Asks):
    def words(self, number: int) -> list[str]:
        self.name = f"name {number}"
        return ["name", self.given, self.name]

    def kept(self, mirror: Path) -> bool:
        return read_label(mirror).name == self.name

    def arrived(self) -> int:
        return [read_label(self.box.root / run).name for run in RUNS].count(self.name)


class Controls(Asks):
    request = ["set", "lr=0.5"]

    def words(self, number: int) -> list[str]:
        self.before = Counter(self.box.ids)
        return ["control", self.given, *self.request, "--timeout", ANSWERED_WITHIN if number else "60"]

    def kept(self, mirror: Path) -> bool:
        with RunDirectory(mirror).folder("inbox") as inbox:
            return bool(names_in(inbox))

    def arrived(self) -> int:
        wait_for(lambda: not [*self.box.run.inbox.glob("[0-9]*.json")])
        new = Counter(self.box.ids) - self.before
        assert len(new) <= 1
        assert all(run == MIDDLE for run, _ in self.box.asked)
        return sum(new.values())


class Pauses(Controls):
    request = ["pause"]


class Stops(Controls):
    def words(self, number: int) -> list[str]:
        super().words(number)
        return ["stop", self.given, "--timeout", ANSWERED_WITHIN if number else "60"]


class Ranks(Asks):
    run = MIDDLE

    def words(self, number: int) -> list[str]:
        self.id = f"r{number}"
        row = {"id": self.id, "question": f"q{self.run}", "prompt": "p", "answers": ["one", "two"], "ranks": [1, 2]}
        file = self.folder / "rankings.jsonl"
        file.write_text(json.dumps({**row, "by": f"ann {number}", "time": 1.0}) + "\n")
        return ["rank", self.given, "--from", str(file)]

    def kept(self, mirror: Path) -> bool:
        return count_in(mirror / "preferences.jsonl", self.id) > 0

    def arrived(self) -> int:
        return sum(count_in(self.box.root / run / "preferences.jsonl", self.id) for run in RUNS)


def count_in(file: Path, identity: str) -> int:
    return sum(json.loads(row)["id"] == identity for row in file.read_bytes().splitlines()) if file.exists() else 0


class Cuts:
    """Cuts a command's sessions at every place, and counts what became of them."""

    def __init__(self, box: Box, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.box, self.tmp_path, self.cache, self.monkeypatch = box, tmp_path, cache, monkeypatch
        self.counts: Counter[str] = Counter()
        self.whole = 0
        find_run(self.given)
        mirroring.close_all()
        shutil.copytree(tmp_path / "cache", tmp_path / "warm")

    @property
    def given(self) -> str:
        return f"box:{self.box.run.path}"

    @property
    def mirror(self) -> Path:
        return Address("box", str(self.box.root)).mirrors / MIDDLE

    def places(self, work: Callable[[], None]) -> Iterator[tuple[int, int, int]]:
        """(number, bytes there, bytes back) of each cut; `work` has a session that is not cut."""
        lines: set[line.Line] = set()
        close = line.Line.close

        def noted(each: line.Line) -> None:
            lines.add(each)
            close(each)

        with self.monkeypatch.context() as counting:
            counting.setattr(line.Line, "close", noted)
            work()
            mirroring.close_all()
        there, back = (sum(each.sent - len(line.agent()) for each in lines), sum(each.received for each in lines))
        number = 0
        for back_too, size in ((True, back), (False, there)):
            self.whole = 0  # sessions in a row that came to their end; files grow meanwhile, and with them the session
            for at in count(0, EVERY):
                if at > size and self.whole > 1:
                    break
                number += 1
                if self.cache == "cold":
                    shutil.rmtree(self.tmp_path / "cache", ignore_errors=True)
                yield (number, ENDLESS, at) if back_too else (number, at, ENDLESS)

    def note(self, became: str) -> None:
        self.counts[became] += 1
        self.whole = self.whole + 1 if became in ("arrived", "right") else 0

    def said(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, bool]:
        """(what it printed, why not, whether it was said to be old)."""
        capsys.readouterr()
        error = ""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                app(words, standalone_mode=False)
            except LabError as refusal:
                error = str(refusal) or "no reason"
        mirroring.close_all()
        old = any(issubclass(each.category, Guess) and "from" in str(each.message) for each in warned)
        return capsys.readouterr().out, error, old


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("command", [Names, Controls, Ranks, *([Pauses, Stops] if EVERY < 100 else [])])
def test_a_request_arrives_once_or_its_loss_is_reported(
    box: Box,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: type[Asks],
    cache: str,
) -> None:
    cuts = Cuts(box, tmp_path, cache, monkeypatch)
    asks = command(box, cuts.given, tmp_path)
    for number, there, back in cuts.places(lambda: app(asks.words(0), standalone_mode=False)):
        box.change(number)
        words, place = asks.words(number), (there, back)
        box.machine.cut(there, back)
        _, why, _ = cuts.said(words, capsys)
        kept = cuts.mirror.is_dir() and asks.kept(cuts.mirror)
        box.machine.cut(sessions=0)
        if not why:
            assert asks.arrived() == 1, place
            cuts.note("arrived")
            continue
        path = find_run(cuts.given)
        assert mirroring.wait_for_delivery(path) == "", place
        mirroring.close_all()
        if asks.arrived():
            assert asks.arrived() == 1, (place, why)
            cuts.note("told, and arrived")
        else:
            assert not kept, (place, why)
            cuts.note("told, and not asked")
    print(f"\n{command.__name__} {cache}: {dict(cuts.counts)}")
    assert len(cuts.counts) > 1


REFUSED = [*product([Names, Pauses, Stops, Ranks], FORMS, ["cold", "warm"], ["read-only", "full"])]


@pytest.mark.parametrize(("command", "form", "cache", "refusal"), REFUSED if EVERY < 100 else REFUSED[::7])
def test_what_the_other_side_refuses_is_sent_later_or_said_to_be_lost(
    box: Box,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: type[Asks],
    form: str,
    cache: str,
    refusal: str,
) -> None:
    given, meant = FORMS[form](box.root)
    if cache == "warm":
        find_run(given)
        mirroring.close_all()
    asks = command(box, given, tmp_path)
    if isinstance(asks, Ranks):
        asks.run = meant
    program = zlib.compress(
        {"read-only": READ_ONLY, "full": FULL}[refusal].encode() + b"\n" + zlib.decompress(line.agent())
    )
    with monkeypatch.context() as refusing:
        refusing.setattr(line, "agent", lambda: program)
        with pytest.raises(LabError, match="box does not take") as told:
            app(asks.words(0), standalone_mode=False)
        mirroring.close_all()
    lost = isinstance(asks, Controls)
    assert ("it is not sent again" if lost else "kept here and sent with the next connection") in str(told.value)
    assert mirroring.wait_for_delivery(find_run(given)) == ""
    mirroring.close_all()
    assert box.asked == []
    if isinstance(asks, Names):
        assert [name for name in RUNS if read_label(box.root / name).name == asks.name] == [meant]
    if isinstance(asks, Ranks):
        assert [name for name in RUNS if count_in(box.root / name / "preferences.jsonl", asks.id)] == [meant]


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("command", ["export", *(["plot", "attach"] if EVERY < 100 else [])])
def test_what_is_read_is_right_or_said_to_be_old_or_refused(
    box: Box,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    cache: str,
) -> None:
    further = {"plot": ["--metric", "loss"], "export": [], "attach": ["--lines"]}[command]
    cuts = Cuts(box, tmp_path, cache, monkeypatch)
    box.beat("done")
    for _, there, back in cuts.places(lambda: app([command, cuts.given, *further], standalone_mode=False)):
        box.machine.cut(sessions=0)
        if cache == "warm":  # what is here already is not all that there is
            shutil.rmtree(tmp_path / "cache")
            shutil.copytree(tmp_path / "warm", tmp_path / "cache")
            assert "done" not in (cuts.mirror / "run.json").read_text()
        before = ""
        if cache == "warm" and command != "attach":
            before = cuts.said([command, str(cuts.mirror), *further], capsys)[0]
        right = cuts.said([command, str(box.run.path), *further], capsys)[0]
        # attach waits until the line is back, and then until the run has ended
        box.machine.cut(there, back, sessions=1 if command == "attach" else 1 << 40)
        said, why, old = cuts.said([command, cuts.given, *further], capsys)
        if why:
            assert not said, (there, back)
            cuts.note("told")
        elif old:
            assert said in (right, before), (there, back)
            cuts.note("said to be old")
        else:
            assert said == right, (there, back)
            cuts.note("right")
    print(f"\n{command} {cache}: {dict(cuts.counts)}")
    assert len(cuts.counts) > 1
