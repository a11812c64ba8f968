"""HOST:RUN means one run: every command × every form of an address × cold and warm cache, with three runs there."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from forked_machine import ForkedMachine

from txlab.cli import app
from txlab.cli.loading import load_like
from txlab.errors import LabError
from txlab.files import shipped_path
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.finding import find_run
from txlab.runs.label import read_label, write_label
from txlab.runs.remote import mirroring
from txlab.runs.remote.address import mirrors_root

FIRST, MIDDLE, NEWEST = RUNS = [f"2026-01-01_00000{second}_feedback" for second in (1, 2, 3)]
SCENARIO = shipped_path("scenarios") / "feedback-rewards.toml"


def make_run(root: Path, name: str, loss: float, status: str = "running") -> None:
    """A run of human feedback, as its files; every file says which run it is of."""
    run = RunDirectory(root / name)
    for folder in (run.frames, run.checkpoints, run.inbox):
        folder.mkdir(parents=True)
    info = RunInfo(name, "feedback", "human-feedback", status=status, created=time.time(), started=time.time(), step=3)
    info.save(run)
    beat = {"time": time.time(), "step": 3, "status": status, "pid": 1, "host": "elsewhere"}
    run.write("heartbeat", json.dumps(beat).encode())
    run.scenario_file.write_bytes(SCENARIO.read_bytes())
    rows = [{"event": "metrics", "time": 1.0, "step": step, "values": {"loss": loss}} for step in range(4)]
    run.events.write_bytes(b"".join(map(encode_row, rows)))
    question = {"id": f"q{name}", "prompt": f"asked by {name}", "answers": ["one", "two"], "kind": "comparison"}
    (run.path / "questions.jsonl").write_text(json.dumps(question) + "\n")


@dataclass
class Machine:
    """The runs on the machine `box`, and a thread that answers what is asked of them."""

    root: Path
    asked: list[tuple[str, str]] = field(default_factory=list)  # (run, request)
    ids: list[str] = field(default_factory=list)  # of these requests
    ended: threading.Event = field(default_factory=threading.Event)

    def answer(self) -> None:
        while not self.ended.wait(0.05):
            for name in RUNS:
                run = RunDirectory(self.root / name)
                for file in run.inbox.glob("[0-9]*.json"):
                    request = json.loads(file.read_bytes())
                    self.asked.append((name, request["request"]))
                    self.ids.append(request["id"])
                    file.unlink()
                    row = {"event": "control", "time": 1.0, "step": 3, "applied": True, "to": 0.5, "from": 1.0}
                    with run.events.open("ab") as log:
                        log.write(encode_row({**row, "id": request["id"], "request": request["request"]}))
                    if request["request"] == "stop":
                        info = RunInfo.load(run)
                        info.status = "stopped"
                        info.save(run)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the runs of the machine, and a cache in which earlier commands have left mirrors of all of them."""
    place = tmp_path_factory.mktemp("far")
    machine = ForkedMachine(place, place / "runs")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("txlab.runs.remote.line.subprocess", machine)
        make_machine(place, monkeypatch, "warm")
        for name in (FIRST, MIDDLE, NEWEST):  # by both forms, the newest one last
            find_run(f"box:{place / 'runs' / name}")
            find_run(f"box:{name}")
        mirroring.close_all()
        yield place
    machine.close()


def make_machine(place: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> Path:
    shutil.rmtree(root := place / "runs", ignore_errors=True)
    for number, name in enumerate(RUNS):
        make_run(root, name, 0.5 + number)
    write_label(root / MIDDLE, "mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / cache))
    monkeypatch.setenv("TXLAB_RUNS", str(place / "here"))
    return root


@pytest.fixture
def box(place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    shutil.rmtree(place / "cache", ignore_errors=True)
    if request.getfixturevalue("cache") == "warm":
        shutil.copytree(place / "warm", place / "cache")
    root = make_machine(place, monkeypatch, "cache")
    machine = Machine(root)
    thread = threading.Thread(target=machine.answer)
    thread.start()
    yield machine
    mirroring.close_all()
    machine.ended.set()
    thread.join()


FORMS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "path": lambda root: (f"box:{root / MIDDLE}", MIDDLE),
    "name": lambda root: (f"box:{MIDDLE}", MIDDLE),
    "latest": lambda root: ("box:latest", NEWEST),
}
FORMS_OF_OTHERS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "path of the oldest": lambda root: (f"box:{root / FIRST}", FIRST),
    "path of the newest": lambda root: (f"box:{root / NEWEST}", NEWEST),
    "name of the oldest": lambda root: (f"box:{FIRST}", FIRST),
    "name of the newest": lambda root: (f"box:{NEWEST}", NEWEST),
}
OTHER_FORMS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "path with a slash": lambda root: (f"box:{root / MIDDLE}/", MIDDLE),
    "path through another run": lambda root: (f"box:{root}/{FIRST}/../{MIDDLE}", MIDDLE),
    "its given name": lambda root: ("box:mine", MIDDLE),
    "folder and given name": lambda root: (f"box:{root}/mine", MIDDLE),
    "folder and scenario": lambda root: (f"box:{root}/feedback", NEWEST),
    "folder and latest": lambda root: (f"box:{root}/latest", NEWEST),
    "folder": lambda root: (f"box:{root}", NEWEST),
    "nothing": lambda root: ("box:", NEWEST),
    "the oldest": lambda root: (f"box:{root / FIRST}", FIRST),
}


def say(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    app(list(words), standalone_mode=False)
    return capsys.readouterr().out


def labels(root: Path) -> dict[str, str]:
    return {name: read_label(root / name).name for name in RUNS}


Check = Callable[[Machine, str, str, pytest.CaptureFixture[str]], None]


def name_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = labels(box.root)
    say(capsys, "name", given, "chosen")
    assert labels(box.root) == before | {meant: "chosen"}


def note_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, "name", given, "--note", "seen")
    mirroring.close_all()
    assert [name for name in RUNS if read_label(box.root / name).note] == [meant]


def ask_it(*words: str) -> Check:
    def check(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert meant in say(capsys, words[0], given, *words[1:])
        assert box.asked == [(meant, words[1] if words[0] == "control" else words[0])]

    return check


def rank_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = box.root.parent / "rankings.jsonl"
    row = {"id": "r1", "question": f"q{meant}", "prompt": "p", "answers": ["one", "two"], "ranks": [1, 2], "by": "ann"}
    file.write_text(json.dumps({**row, "time": 1.0, "placed": [[0], [1]], "order": [[0], [1]]}) + "\n")
    assert re.match(r"\d+ ", say(capsys, "rank", given, "--from", str(file)))
    mirroring.close_all()
    assert [name for name in RUNS if (box.root / name / "preferences.jsonl").exists()] == [meant]


def plot_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{0.5 + RUNS.index(meant):g}" in say(capsys, "plot", given, "--metric", "loss")


def export_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = say(capsys, "export", given).splitlines()[1:]
    assert [row.split(",")[2] for row in rows] == [str(0.5 + RUNS.index(meant))] * 4


def attach_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in RUNS:
        info = RunInfo.load(box.root / name)
        info.status = "done"
        info.save(RunDirectory(box.root / name))
    assert f"{meant} done" in say(capsys, "attach", given, "--lines")


def alert_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in RUNS:
        row = {"event": "alert", "time": 1.0, "step": 3, "level": "warn", "title": f"of {name}", "text": ""}
        with (box.root / name / "events.jsonl").open("ab") as log:
            log.write(encode_row(row))
    (line,) = say(capsys, "alerts", given).splitlines()
    assert f"of {meant}" in line


def repeat_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, name in enumerate(RUNS, start=71):
        file = box.root / name / "scenario.toml"
        file.write_text(file.read_text().replace("seed = 1", f"seed = {seed}", 1))
    loaded = load_like(given, [], None, None)
    assert loaded.scenario.seed == 71 + RUNS.index(meant)
    assert f"like {meant}: seed {loaded.scenario.seed}" in capsys.readouterr().err


def continue_it(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LabError, match=f"{meant} is a run of box, .* ssh box txlab resume .*{meant} continues it"):
        app(["resume", given], standalone_mode=False)


def read_with_it(*words: str) -> Check:
    """A command that fetches the checkpoint of the run."""

    def check(box: Machine, given: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
        said = say(capsys, words[0], given, *words[1:], "--json")
        (fetched,) = mirrors_root().glob("*/*/*/checkpoints/00000012/state.json")
        assert fetched.parents[2].name == meant
        for file in (box.root / meant / "checkpoints" / "00000012").iterdir():
            assert fetched.with_name(file.name).read_bytes() == file.read_bytes()
        assert meant in said

    return check


COMMANDS: dict[str, Check] = {
    "name": name_it,
    "name --note": note_it,
    "control pause": ask_it("control", "pause"),
    "control resume": ask_it("control", "resume"),
    "control step": ask_it("control", "step", "2"),
    "control set": ask_it("control", "set", "lr=0.5"),
    "control scale": ask_it("control", "scale", "lr=0.5"),
    "control checkpoint": ask_it("control", "checkpoint"),
    "control sample": ask_it("control", "sample"),
    "stop": ask_it("stop"),
    "rank": rank_it,
    "plot": plot_it,
    "export": export_it,
    "attach": attach_it,
    "alerts": alert_it,
    "run --like": repeat_it,
    "resume": continue_it,
}
MODEL_COMMANDS: dict[str, Check] = {
    "score": read_with_it("score", "the cat"),
    "generate": read_with_it("generate", "the cat", "--tokens", "2"),
    "attend": read_with_it("attend", "the cat"),
    "explain": read_with_it("explain", "the cat", "--next", "s"),
}


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize(
    "form", [*FORMS, *(pytest.param(form, marks=pytest.mark.evidence) for form in FORMS_OF_OTHERS)]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_about_the_run_that_was_named(
    box: Machine, capsys: pytest.CaptureFixture[str], command: str, form: str, cache: str
) -> None:
    given, meant = (FORMS | FORMS_OF_OTHERS)[form](box.root)
    COMMANDS[command](box, given, meant, capsys)


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize(
    "form", [*FORMS, *(pytest.param(form, marks=pytest.mark.evidence) for form in FORMS_OF_OTHERS)]
)
@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_the_model_is_that_of_the_run_that_was_named(
    box: Machine, capsys: pytest.CaptureFixture[str], tiny_run: Path, command: str, form: str, cache: str
) -> None:
    for number, name in enumerate(RUNS):
        run = RunDirectory(box.root / name)
        run.scenario_file.write_bytes((tiny_run / "scenario.toml").read_bytes())
        state = checkpoints.load(RunDirectory(tiny_run), 12)
        state["model"] = {name: tensor * (1 + number / 4) for name, tensor in state["model"].items()}
        checkpoints.save(run, 12, state)
        info = RunInfo.load(run)
        info.kind = "language-model"
        info.save(run)
    given, meant = (FORMS | FORMS_OF_OTHERS)[form](box.root)
    MODEL_COMMANDS[command](box, given, meant, capsys)


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_renamed_run_and_a_deleted_one(box: Machine, cache: str) -> None:
    new = "2026-01-01_000002_renamed"
    (box.root / MIDDLE).rename(box.root / new)
    for given in (f"box:{MIDDLE}", f"box:{box.root / MIDDLE}"):
        with pytest.raises(LabError, match=f"{MIDDLE}.* on box"):
            find_run(given)
        mirroring.close_all()
    for given in (f"box:{new}", f"box:{box.root / new}", "box:mine"):
        found = find_run(given)
        assert (found.name, read_label(found).name) == (new, "mine")
    mirroring.close_all()
    shutil.rmtree(box.root / NEWEST)
    with pytest.raises(LabError, match=f"{NEWEST}.* on box"):
        find_run(f"box:{NEWEST}")
    assert find_run("box:latest").name == new
    mirroring.close_all()
    shutil.rmtree(box.root / new)
    assert find_run("box:latest").name == FIRST


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_every_form_of_an_address_finds_its_run(box: Machine, cache: str) -> None:
    for address in OTHER_FORMS.values():
        given, meant = address(box.root)
        found = find_run(given)
        assert found.name == meant, given
        assert (found / "events.jsonl").read_bytes() == (box.root / meant / "events.jsonl").read_bytes()
