"""What Linux has and macOS lacks is not needed, and where txlab cannot run it says so in a sentence."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from waiting import LONGEST

import txlab
from txlab.engine import cores
from txlab.errors import PLATFORMS, LabError
from txlab.files import folder_made_whole
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import EventWriter, Row, read_rows
from txlab.runs.finding import find_run
from txlab.runs.preferences import append
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.runs.writing import writing

# By typeshed: `mypy --platform darwin`, which `make lint` runs, finds the uses of them that are not guarded.
LACKING = {
    "os": (
        *("fdatasync", "sched_getaffinity", "sched_setaffinity", "pidfd_open", "posix_fadvise", "posix_fallocate"),
        *("copy_file_range", "memfd_create", "eventfd", "getrandom", "pipe2", "splice", "getxattr", "setxattr"),
        *("listxattr", "O_TMPFILE", "O_PATH", "O_DIRECT", "O_NOATIME", "waitid"),
    ),
    "signal": ("SIGPOLL", "SIGPWR", "SIGRTMIN", "SIGRTMAX", "SIGSTKFLT", "sigtimedwait", "sigwaitinfo"),
    "select": ("epoll",),
    "resource": ("prlimit", "RUSAGE_THREAD"),
    "time": ("CLOCK_BOOTTIME", "pthread_getcpuclockid"),
}
# Run with the words of several commands as JSON. psutil alone may read /proc and /sys: on macOS it asks otherwise.
PROGRAM = f"""
import ctypes, importlib, json, os, sys

for module, names in {LACKING!r}.items():
    for name in names:
        vars(importlib.import_module(module)).pop(name, None)
import psutil


def closed(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        if arguments[0].startswith(("/proc", "/sys/", "/dev/shm", "/run")):
            frame = sys._getframe()
            while frame is not None and "psutil" not in frame.f_code.co_filename:
                frame = frame.f_back
            if frame is None:
                raise FileNotFoundError(2, "macOS has no such file", arguments[0])


class NoAllocator:
    def __init__(self, *_):
        pass


sys.addaudithook(closed)
ctypes.CDLL, whole = NoAllocator, ctypes.CDLL
import txlab.runs.writing
txlab.runs.writing.keep_freed_memory()
ctypes.CDLL = whole
import txlab.cli

for words in json.loads(sys.argv[1]):
    sys.argv = ["txlab", *words]
    try:
        txlab.cli.main()
    except SystemExit as ended:
        if ended.code:
            sys.exit(ended.code)
run = txlab.record("recorded", root=os.environ["TXLAB_RUNS"])
run.log(1, loss=2.0)
"""


@pytest.mark.evidence
def test_what_macos_lacks_is_not_needed(tmp_path: Path, tiny_scenario: Path) -> None:
    """A run to its end, the commands that look at it, and a recording."""
    runs = tmp_path / "runs"
    program = [sys.executable, "-c", "print('step 1 loss 0.5'); print('step 2 loss 0.25')"]
    commands = [
        ["run", str(tiny_scenario), "--out", str(runs / "computed")],
        ["runs"],
        ["doctor"],
        ["plot", "computed", "--out", str(tmp_path / "picture.png")],
        ["watch", "--name", "watched", "--", *program],
        ["score", "computed", "the cat"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"TXLAB_RUNS": str(runs)},
    )
    assert done.returncode == 0, done.stderr
    ends = {info.name: (info.status, info.reason) for info in map(RunInfo.load, map(RunDirectory, runs.iterdir()))}
    assert len(ends) == 3
    assert set(ends.values()) == {("done", "")}


def test_rows_are_on_disk_without_fdatasync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    writer = EventWriter(tmp_path / "events.jsonl")
    writer.write(Row({"event": "note", "time": 1.0, "step": 1, "text": "a"}))
    writer.sync()
    assert synced == [writer.descriptor]
    writer.close()


def test_a_renamed_host_continues_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a laptop does in another network. The process under the new name is not one that writes the run as well."""
    monkeypatch.setattr(socket, "gethostname", lambda: "a.home")
    run = txlab.record("mine", root=tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: "z.office")
    run.recorder._beat()
    run.log(1, loss=2.0)
    run.close()
    assert run.recorder.usurped == ""
    assert RunInfo.load(RunDirectory(run.path)).status == "done"
    assert [row["values"] for row in read_rows(RunDirectory(run.path).events)[0] if row["event"] == "metrics"]


WINDOWS = "import os, sys; sys.modules['fcntl'] = sys.modules['termios'] = sys.modules['pwd'] = None; os.name = 'nt'; "


@pytest.mark.parametrize(
    ("begun", "status"), [("from txlab.cli import main; main()", 2), ("import txlab; txlab.record('mine')", 1)]
)
def test_on_windows_a_sentence_says_where_txlab_runs(begun: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS + begun], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1].split(": ", 1)[1]) == (status, PLATFORMS)
    assert "fcntl" not in done.stderr


@pytest.mark.parametrize("module", ["txlab.runs.reader", "txlab.integrations.tensorboard"])
def test_on_windows_no_part_of_it_fails_with_what_it_lacks(module: str) -> None:
    program = [sys.executable, "-c", f"{WINDOWS}import pydantic, orjson, numpy; import {module}"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"ImportError: {PLATFORMS}")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_will_do(
    number: int, tmp_path: Path, tiny_scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network mounts, and the disks of Windows under WSL. Recording, computing, and answers of people."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with txlab.record("mine", root=tmp_path) as run:
        run.log(1, loss=2.0)
    assert RunInfo.load(RunDirectory(run.path)).status == "done"
    computed = prepare(load_scenario(tiny_scenario, ["train.steps=2"]), root=tmp_path)
    assert execute(computed).status == "done"
    append(RunDirectory(computed), "preferences.jsonl", [b"{}\n"])
    append(RunDirectory(computed), "preferences.jsonl", [b"{}\n"])
    assert (computed / "preferences.jsonl").read_bytes() == b"{}\n{}\n"
    with folder_made_whole(tmp_path / "whole") as made:
        (made / "file").touch()
    assert (tmp_path / "whole" / "file").is_file()


def test_without_locks_a_run_that_another_process_computes_is_still_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"import txlab, sys; txlab.record('mine', root={str(tmp_path)!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        run = RunDirectory(find_run("mine", tmp_path))
        for error, said in (
            (
                BlockingIOError(errno.EAGAIN, "held"),
                f"is being written by process {other.pid} on {socket.gethostname()}",
            ),
            (OSError(errno.ENOLCK, "no locks"), f"is being written by process {other.pid} on {socket.gethostname()}"),
            (OSError(errno.EIO, "broken disk"), "lock cannot be locked: broken disk"),
        ):
            monkeypatch.setattr(fcntl, "flock", Mock(side_effect=error))
            with pytest.raises(LabError, match=re.escape(said)), writing(run):
                pass
        assert other.stdin is not None
        other.stdin.close()
        other.wait(LONGEST)
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "no locks")))
    with writing(run):
        pass


def test_a_card_is_found_where_linux_and_where_wsl_show_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, known in enumerate(cores.NVIDIA):
        paths = [str(tmp_path / f"{number} {Path(each).name}") for each in cores.NVIDIA]
        monkeypatch.setattr(cores, "NVIDIA", paths)
        assert not cores.has_nvidia()
        Path(paths[number]).touch()
        assert cores.has_nvidia(), known


def test_ci_runs_on_linux_and_on_macos() -> None:
    workflow = (Path(__file__).parents[1] / ".github" / "workflows" / "ci.yml").read_text()
    assert "ubuntu-latest" in workflow
    assert "macos-latest" in workflow
