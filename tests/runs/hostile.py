"""Run directories that were tampered with, and everything that reads and writes them.

Run as a program, `hostile.py GROUP FOLDER` goes through all cases of a group in one process, with limits on memory and
on the time of each case, and prints the outcome of each as a JSON object on one line. It needs neither torch nor a
terminal.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

MEMORY = 500 << 20  # bytes beyond what the process uses at the start
SECONDS = 5  # of processor time, for a case
PATIENCE = 120  # seconds until a case counts as hanging, even on a busy machine

STEPS = 30  # of the run to tamper with, which was interrupted at 20
FILES = ("run.json", "scenario.toml", "events.jsonl", "heartbeat", "lock", "log.txt", ".reserve")
FOLDERS = ("checkpoints", "frames", "inbox")
INNER_FILES = (
    "checkpoints/00000020/state.json",
    "checkpoints/00000020/state.safetensors",
    "frames/00000020.safetensors",
    "frames/pack-00000000-00000009.safetensors",
)
INNER_FOLDERS = ("checkpoints/00000020", "inbox/rejected")
PLACES = (*FILES, *FOLDERS, *INNER_FILES, *INNER_FOLDERS)
WRONG = ("link to a file", "link to a folder", "dangling link", "link to /dev/zero", "FIFO", "socket", "other kind")
ODD = ("missing", "empty", "garbage", "huge", "unreadable", "hard link", "lie")
BELIEVED = ("run.json", "events.jsonl", "heartbeat", "lock", *INNER_FILES)  # their contents are acted upon


def means_something(place: str, kind: str) -> bool:
    is_folder = place in FOLDERS + INNER_FOLDERS
    return not (kind == "lie" and place not in BELIEVED) and not (is_folder and kind in ("huge", "hard link"))


CASES = [case for case in product(PLACES, (*WRONG, *ODD)) if means_something(*case)]


def home_at(folder: Path) -> Path:
    """A user's home directory, with names that a run might take for its own."""
    texts = {
        ".bashrc": "alias ls=ls", ".profile": "umask 077", ".ssh/id_ed25519": "a key", ".config/app/settings": "x = 1",
        "documents/thesis.tex": "\\chapter{One}", "events.jsonl": '{"event":"note","time":1,"step":3}\n{"torn',
        "run.json": '{"name": "mine"}', ".00000010.77/letter": "dear", ".00000010.old/letter": "dear",
        "00000003/state.json": "{}", "00000003/diary": "today", "00000010/state.json": "{}", "notes.json": "{}",
        "00000020/state.json": "{}", "00000004.safetensors": "a picture", "model.safetensors": "weights",
        ".00000004.safetensors.1.2": "half", "pack-00000000-00000063.safetensors": "holiday", "1-a.json": '{"a": 1}',
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def fingerprint(folder: Path) -> str:
    """Names, kinds, permissions, contents and times of all files in it."""
    digest = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        digest.update(f"{path} {about.st_mode} {about.st_size} {about.st_mtime_ns}".encode())
        if stat.S_ISREG(about.st_mode):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def tampered(sound: Path, folder: Path, home: Path, place: str, kind: str, lists: int = 1000) -> Path:
    """A copy of a sound run with one file or folder replaced; `lists` sets how much memory a malicious JSON takes."""
    folder.parent.mkdir()
    run = shutil.copytree(sound, folder)
    path = run / place
    is_folder = place in FOLDERS + INNER_FOLDERS
    there = path.exists()
    if there and kind not in ("unreadable", "garbage", "lie"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.parent.mkdir(exist_ok=True)
    if kind == "unreadable":
        if there:
            path.chmod(0)
    elif kind == "lie":
        lie(path, place, lists)
    elif is_folder and kind in ("other kind", "empty", "garbage"):
        make_wrong_folder(path, kind)
    else:
        make_wrong_file(path, place, kind, home)
    return run


def make_wrong_folder(path: Path, kind: str) -> None:
    """Something else where a folder should be, or a folder with what does not belong there."""
    if kind == "other kind":
        path.write_bytes(b"a file")
        return
    path.mkdir(exist_ok=True)
    if kind == "garbage":  # foreign files, one of them with a name that runs use
        for letter in ("letter", "00000005/letter", ".config/letter"):
            (path / letter).parent.mkdir(exist_ok=True)
            (path / letter).write_text("dear")


def make_wrong_file(path: Path, place: str, kind: str, home: Path) -> None:
    """Something else where a file should be, or a file of nonsense; links of any place are among them."""
    match kind:
        case "link to a file":
            path.symlink_to(home / Path(place).name if (home / Path(place).name).exists() else home / ".bashrc")
        case "link to a folder":
            path.symlink_to(home)
        case "dangling link":
            path.symlink_to(home / "new")
        case "link to /dev/zero":
            path.symlink_to("/dev/zero")
        case "FIFO":
            os.mkfifo(path)
        case "socket":
            with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:  # a path of at most 100 bytes
                made.bind(path.name)
        case "other kind":
            path.mkdir()
            (path / "letter").write_text("dear")
        case "empty":
            path.touch()
        case "garbage":
            path.write_bytes(bytes(range(256)) * 300)
        case "huge":
            with path.open("wb") as file:
                file.truncate(10 << 30)
        case "hard link":
            os.link(home / ".bashrc", path)


def lie(path: Path, place: str, lists: int) -> None:
    """A file of the right form whose contents take much memory, if they are believed."""
    if place.endswith(".safetensors"):
        entry = {"dtype": "U8", "shape": [9 << 30], "data_offsets": [0, 9 << 30]}
        header = json.dumps({"__metadata__": {"00000020": "{}", "9" * 30: "{}"}, "x": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header)
    elif place == "events.jsonl":
        row = b'{"event":"note","time":1,"step":5,"text":"'
        with path.open("wb") as file:
            file.write(row)
            for _ in range(200):
                file.write(b"x" * (1 << 20))
            file.write(b'"}\n' + row + b'short"}\n')
    else:  # JSON: lists in lists
        path.write_bytes(b'{"step": [' + b"[]," * lists + b"0]}")


def executed(run: Path) -> str:
    from txlab.runs.process import execute

    info = execute(run)
    return f"{info.status} {info.reason}"


def asked(run: Path) -> str:
    from txlab.runs.control import Request, send

    return send(run, Request("pause")) and "sent"


def deleted(run: Path) -> str:
    from txlab.runs.folder import delete_run

    delete_run(run, run.parent)
    return "still there" if run.exists() else "deleted"


def detached(run: Path) -> str:
    """Everything in start_detached except the process."""
    import subprocess

    from txlab.runs.process import start_detached

    real, subprocess.Popen = subprocess.Popen, _NoProcess  # type: ignore[misc, assignment]
    try:
        return f"process {start_detached(run)}"
    finally:
        subprocess.Popen = real  # type: ignore[misc]


class _NoProcess:
    pid = 0

    def __init__(self, *_: Any, stdout: Any, **__: Any) -> None:
        stdout.write(b"said\n")

    def wait(self) -> None:
        return


def read(run: Path) -> str:
    """Everything that reads a run, each by itself."""
    from txlab.cli.control import end_of
    from txlab.cli.runs import facts_and_summary
    from txlab.runs import checkpoints
    from txlab.runs.directory import RunDirectory, info_of, state_of
    from txlab.runs.events import read_rows
    from txlab.runs.export import write_csv
    from txlab.runs.finding import find_run
    from txlab.runs.folder import list_runs
    from txlab.runs.reader import RunReader
    from txlab.runs.summary import RunsUnder
    from txlab.tui.history import history
    from txlab.tui.train_snapshot import Look, snapshot

    directory = RunDirectory(run)

    def screen(light: bool) -> object:
        reader = RunReader(run, light=light, background=False)
        reader.poll()
        reader.catch_up()
        for step in reader.frames.steps.tolist():
            with contextlib.suppress(LabError):
                reader.frames.read(step)
        history(reader)
        return snapshot(reader, Look(), RunReader)

    from txlab.errors import LabError

    ways: list[Callable[[], object]] = [
        lambda: screen(False), lambda: screen(True), lambda: state_of(run), lambda: info_of(directory),
        lambda: list_runs(run.parent), lambda: find_run(str(run)), lambda: facts_and_summary(run)[0],
        lambda: read_rows(directory.events), lambda: end_of(directory.events),
        lambda: write_csv(run, run.parent / "out.csv"), lambda: checkpoints.sound(directory),
        lambda: checkpoints.read_newest(directory),
        lambda: RunsUnder(run.parent).look({run.name}),
    ]  # fmt: skip
    for way in ways:
        with contextlib.suppress(LabError, OSError):
            way()
    return f"{facts_and_summary(run)[0]['status']}"


def asked_and_deleted(run: Path) -> str:
    """All other writers, one after another on the same directory; their messages are collected."""
    from txlab.errors import LabError

    said = []
    for way in (asked, detached, deleted):
        try:
            said.append(way(run))
        except LabError as error:
            said.append(f"refused: {error}")
    return " / ".join(said)


LINKS = ("link to a file", "link to a folder", "dangling link", "hard link")
GROUPS: dict[str, tuple[Callable[[Path], str], list[tuple[str, str]]]] = {
    "read": (read, CASES),
    "resume": (executed, CASES),
    # Without the initial check of all entries, as if they had been replaced after it.
    "exchanged": (executed, [case for case in CASES if case[1] in LINKS]),
    "ask": (asked_and_deleted, [case for case in CASES if case[1] in (*WRONG, "hard link", "garbage")]),
}


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """End the process if a case computes too much or hangs."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def sound_run(root: Path) -> Path:
    """A run of the regression, interrupted at step 20: two checkpoints, a pack of frames and single ones, requests."""
    from regression_kind import RegressionScenario, Train, register

    from txlab.experiments.schema import Record
    from txlab.runs import frames
    from txlab.runs.control import Request, send
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import LoadedScenario

    register()
    record = Record(evaluate_every=10, sample_every=10, frame_every=1, checkpoint_every=10, checkpoints_kept=1)
    scenario = RegressionScenario(record=record, train=Train(steps=STEPS))
    run = prepare(LoadedScenario(scenario, "regression", "a test"), root=root)

    def stop(row: dict[str, Any]) -> None:
        if row["event"] == "metrics" and row["step"] == 20:
            send(run, Request("stop"))

    frames.PACKED = 10
    send(run, Request("step", count=20))
    execute(run, observer=stop)
    (run / "inbox" / "1-a.json").write_text('{"request": "nonsense"}')
    return run


def main(group: str, folder: Path) -> None:
    from txlab.errors import LabError
    from txlab.runs import writing
    from txlab.runs.directory import RunDirectory

    sys.path.insert(0, str(Path(__file__).parent))
    writing.versions = dict  # looking them up takes as long as everything else
    os.fsync = os.fdatasync = lambda descriptor: None  # type: ignore[assignment]  # no power is cut here
    sound = sound_run(folder / "sound")
    for way, _ in GROUPS.values():  # so that all imports happen now
        way(shutil.copytree(sound, folder / "warming" / "run"))
        shutil.rmtree(folder / "warming")
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    way, cases = GROUPS[group]
    if group == "exchanged":
        RunDirectory.find_misplaced = lambda self: ""  # type: ignore[method-assign]
    for number, (place, kind) in enumerate(cases):
        here = folder / str(number)
        home = home_at(here / "home")
        run = tampered(sound, here / "runs" / "run", home, place, kind, 1 << 18 if group == "read" else 1000)
        before = fingerprint(home)
        print(json.dumps([place, kind]), flush=True)
        with bounded():
            try:
                outcome, how = way(run), "done"
            except LabError as error:
                outcome, how = str(error), "refused"
            except BaseException as error:
                outcome, how = f"{type(error).__name__}: {error}", "raised"
        letters = sorted(str(path.relative_to(run)) for path in run.rglob("letter"))
        said = {"how": how, "outcome": outcome, "same": fingerprint(home) == before, "letters": letters}
        print(json.dumps(said), flush=True)
        shutil.rmtree(here)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
