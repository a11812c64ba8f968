"""However a recording program ends, the run says so, and only that program ends the run."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LONGEST
from warm_python import WarmPython

import txlab
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import Row, read_rows
from txlab.runs.finding import find_run

WAITING = """
async def waiting(run):
    with run:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(9)
"""


warm: WarmPython


@pytest.fixture(scope="module", autouse=True)
def warm_python() -> Iterator[None]:
    global warm
    warm = WarmPython("import numpy, signal, threading, txlab, txlab.runs.recording")
    yield
    warm.close()


def ended(
    root: Path, script: str, begins: str = "run = txlab.record('mine', root=ROOT)\nrun.log(1, loss=2.0)"
) -> RunInfo:
    """run.json of a program; the program's own status is in `.facts["returncode"]`."""
    # A shell makes its background jobs ignore ctrl-c.
    begins = f"signal.signal(signal.SIGINT, signal.default_int_handler)\n{WAITING}\n{begins}"
    lines = f"import os, signal, sys, txlab\nROOT = {str(root)!r}\n{begins}\n{textwrap.dedent(script)}\n"
    program = warm.run(lines)
    info = RunInfo.load(find_run("mine", root))
    info.facts |= {"returncode": program.returncode, "stderr": program.stderr}
    return info


def rows_of(path: Path, event: str = "metrics") -> list[Row]:
    return [row for row in read_rows(RunDirectory(path).events)[0] if row["event"] == event]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("sys.exit(3)", "failed", "the program ended with exit status 3"),
        ("sys.exit('no data left')", "failed", "the program ended with exit status 1: no data left"),
        ("sys.exit()", "done", ""),
        ("try: sys.exit(3)\nexcept SystemExit as error: assert error.code == 3", "done", ""),
        ("raise KeyboardInterrupt", "interrupted", "KeyboardInterrupt"),
        ("raise ValueError('a bad batch')", "failed", "ValueError: a bad batch"),
        ("with run: sys.exit(0)", "done", ""),
        ("with run: raise SystemExit(3)", "failed", "the program ended with exit status 3"),
        ("with run: raise KeyboardInterrupt", "interrupted", "KeyboardInterrupt"),
        ("import asyncio\nasyncio.run(waiting(run))", "interrupted", "CancelledError"),
        ("def steps():\n    with run: yield 1\nfor _ in steps(): break", "interrupted", "GeneratorExit"),
    ],
)
def test_how_the_program_ended_is_how_the_run_ended(tmp_path: Path, script: str, status: str, reason: str) -> None:
    info = ended(tmp_path, script)
    assert (info.status, info.reason, info.step) == (status, reason, 1)


def test_the_status_that_the_program_gives_is_still_its_own(tmp_path: Path) -> None:
    assert ended(tmp_path, "sys.exit(3)").facts["returncode"] == 3
    told = ended(tmp_path, "sys.exit('no data left')").facts
    assert (told["returncode"], told["stderr"]) == (1, "no data left\n")
    before = sys.exit
    with txlab.record("mine", root=tmp_path):
        assert sys.exit is not before
        with pytest.raises(SystemExit) as left:
            sys.exit(7)
        assert left.value.code == 7
    assert sys.exit is before


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_run_as_interrupted_and_the_program_as_before(tmp_path: Path, name: str) -> None:
    info = ended(tmp_path, f"os.kill(os.getpid(), signal.{name})\nrun.log(2, loss=1.0)")
    assert (info.status, info.reason, info.step) == ("interrupted", name, 1)
    assert info.facts["returncode"] == -getattr(signal, name)


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    begins = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nrun = txlab.record('mine', root=ROOT)"
    info = ended(tmp_path, "os.kill(os.getpid(), signal.SIGHUP)\nrun.log(2, loss=1.0)", begins)
    assert (info.status, info.step) == ("done", 2)


def test_a_handler_of_the_program_is_called_and_decides(tmp_path: Path) -> None:
    called: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    mine = signal.getsignal(signal.SIGTERM)
    try:
        with txlab.record("mine", root=tmp_path) as run:
            os.kill(os.getpid(), signal.SIGTERM)
            run.log(5, loss=1.0)  # it continues to the end of its step
        assert called == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    info = RunInfo.load(run.path)
    assert (info.status, info.reason, info.step) == ("interrupted", "SIGTERM", 5)
    assert "SIGTERM came" in rows_of(run.path, "note")[0]["text"]


def test_a_handler_that_came_later_is_not_taken_away(tmp_path: Path) -> None:
    default = signal.getsignal(signal.SIGTERM)
    run = txlab.record("mine", root=tmp_path)
    try:
        later = lambda number, frame: None  # noqa: E731
        signal.signal(signal.SIGTERM, later)
        run.close()
        assert signal.getsignal(signal.SIGTERM) is later
    finally:
        signal.signal(signal.SIGTERM, default)


def test_two_runs_of_one_program_both_end_and_leave_no_hooks(tmp_path: Path) -> None:
    before = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP), sys.exit)
    first, second = txlab.record("one", root=tmp_path), txlab.record("two", root=tmp_path)
    first.log(1, loss=1.0)
    second.log(2, loss=2.0)
    first.close()
    second.log(3, loss=3.0)
    second.close()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP), sys.exit) == before
    assert [row["values"] for row in rows_of(second.path)] == [{"loss": 2.0}, {"loss": 3.0}]
    begins = "runs = [txlab.record(name, root=ROOT) for name in ('mine', 'other')]"
    info = ended(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)", begins)
    assert (info.status, RunInfo.load(find_run("other", tmp_path)).status) == ("interrupted", "interrupted")


def test_a_run_begun_in_another_thread_does_not_keep_the_signals_from_one_of_the_main_thread(tmp_path: Path) -> None:
    begins = """
import threading
thread = threading.Thread(target=lambda: txlab.record('other', root=ROOT))
thread.start()
thread.join()
run = txlab.record('mine', root=ROOT)
"""
    info = ended(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)", begins)
    assert (info.status, RunInfo.load(find_run("other", tmp_path)).status) == ("interrupted", "interrupted")


THREAD = """
import threading
def steps(error):
    run.log(2, loss=1.0)
    raise error
def work(error):
    thread = threading.Thread(target=steps, args=(error,))
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("work(ValueError('a bad batch'))", "failed", "ValueError: a bad batch"),
        ("work(ValueError('a bad batch'))\nrun.close()", "failed", "ValueError: a bad batch"),
        ("with run: work(ValueError('a bad batch'))", "failed", "ValueError: a bad batch"),
        ("work(ValueError('a bad batch'))\nrun.close('stopped', 'enough')", "stopped", "enough"),
        ("work(ValueError('a bad batch'))\nrun.log(3, loss=0.5)", "done", ""),
        ("work(SystemExit(3))", "done", ""),
        ("thread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()", "done", ""),
    ],
)
def test_an_exception_that_ends_the_thread_of_the_loop_ends_the_run(
    tmp_path: Path, script: str, status: str, reason: str
) -> None:
    """And not one of a thread that only loads data, or is replaced by another."""
    info = ended(tmp_path, f"{THREAD}{script}")
    assert (info.status, info.reason, info.facts["returncode"]) == (status, reason, 0)
    assert ("Traceback" in info.facts["stderr"]) == ("SystemExit" not in script)


def test_os_exit_leaves_a_run_that_is_lost_and_not_done(tmp_path: Path) -> None:
    info = ended(tmp_path, "os._exit(3)")
    assert info.facts["returncode"] == 3
    state = state_of(RunDirectory(find_run("mine", tmp_path)), info)
    assert (state.status, info.ended) == ("lost", None)


SETTINGS = """
import faulthandler, gc, locale, signal, sys, threading, warnings
def settings():
    return {
        "sys": {name: getattr(sys, name) for name in ("exit", "excepthook", "unraisablehook", "displayhook", "stdout")},
        "interpreter": (sys.getswitchinterval(), sys.getrecursionlimit(), sys.gettrace(), sys.getprofile()),
        "threading": (threading.excepthook, threading.gettrace(), threading.getprofile(), threading.stack_size()),
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), len(gc.callbacks)),
        "warnings": (warnings.showwarning, warnings.formatwarning, list(warnings.filters)),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "environment": dict(os.environ),
        "rest": (faulthandler.is_enabled(), locale.setlocale(locale.LC_ALL), os.getcwd(), list(sys.path), sys.argv[:]),
    }
def changed(before, after):
    return {f"{k}.{n}" for k in before for n in before[k] if isinstance(before[k], dict) and before[k][n] != after[k][n]
           } | {k for k in before if not isinstance(before[k], dict) and before[k] != after[k]}
"""


@pytest.mark.parametrize("before", ["import numpy", "import torch"])  # which filter warnings of their own
def test_a_recording_changes_nothing_of_the_process(tmp_path: Path, before: str) -> None:
    """What ending.py needs while a run is open is listed there, and back afterwards."""
    script = f"""
import os, sys
{SETTINGS}
{before}
import json
before = settings()
import txlab
imported = changed(before, settings())
run = txlab.record("mine", root={str(tmp_path)!r})
run.log(1, loss=2.0)
open_ = changed(before, settings())
run.close()
print(json.dumps([sorted(imported), sorted(open_), sorted(changed(before, settings()))]))
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    imported, while_open, afterwards = json.loads(told.stdout)
    assert (imported, afterwards) == ([], [])
    hooks = {"sys.exit", "threading", f"signals.{signal.SIGTERM:d}", f"signals.{signal.SIGHUP:d}"}
    assert {name.replace("Signals.SIGTERM", "15").replace("Signals.SIGHUP", "1") for name in while_open} == hooks


def test_hooks_of_the_program_are_called_and_kept(tmp_path: Path) -> None:
    begins = """
import threading
calls = []
def report(kind, error, trace):
    print("mine", error, file=sys.stderr)
def leave(status):
    print("leaving", status, file=sys.stderr)
    raise SystemExit(status)
sys.excepthook, sys.exit = report, leave
threading.excepthook = lambda what: print("thread", what.exc_value, file=sys.stderr)
run = txlab.record('mine', root=ROOT)
run.log(1, loss=2.0)
"""
    told = ended(tmp_path / "one", "raise ValueError('a bad batch')", begins)
    assert (told.status, told.reason, told.facts["stderr"]) == (
        "failed",
        "ValueError: a bad batch",
        "mine a bad batch\n",
    )
    told = ended(tmp_path / "two", "sys.exit(4)", begins)
    assert (told.status, told.facts["returncode"], told.facts["stderr"]) == ("failed", 4, "leaving 4\n")
    told = ended(tmp_path / "three", f"{THREAD}work(ValueError('a bad batch'))", begins)
    assert (told.status, told.facts["stderr"]) == ("failed", "thread a bad batch\n")
    told = ended(tmp_path / "four", "run.close()\nassert (sys.exit, sys.excepthook) == (leave, report)", begins)
    assert (told.status, told.facts["returncode"]) == ("done", 0)


def test_python_tells_no_hook_the_status_of_system_exit() -> None:
    """Why `sys.exit` is replaced while a run is open. Where this fails, it need not be any more."""
    script = """
import atexit, sys
sys.excepthook = lambda *what: print("hook", what)
atexit.register(lambda: print(getattr(sys, "last_value", None), sys.exc_info()))
sys.exit(3)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert (told.returncode, told.stdout) == (3, "None (None, None, None)\n")


def test_a_signal_in_the_middle_of_a_row_waits_for_its_end(tmp_path: Path) -> None:
    script = """
    write = run.recorder.events.write
    def interrupted(row):
        if row.get("step") == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):
                pass
        write(row)
    run.recorder.events.write = interrupted
    run.log(2, loss=1.0)
    run.log(3, loss=1.0)
    """
    info = ended(tmp_path, script)
    assert (info.status, info.step, info.facts["returncode"]) == ("interrupted", 2, -signal.SIGTERM)
    assert [row["step"] for row in rows_of(find_run("mine", tmp_path))] == [1, 2]


FORKED = """
child = os.fork()
if not child:
    {}
os.waitpid(child, 0)
assert "running" in open(run.path / "run.json").read()
run.log(2, loss=1.0)
"""


@pytest.mark.parametrize(
    "child",
    [
        "sys.exit(0)",
        "sys.exit(3)",
        "os._exit(0)",
        "run.close(); os._exit(0)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "raise ValueError",
        "run.log(9, loss=9.0)",
    ],
)
def test_a_fork_neither_ends_the_run_of_its_parent_nor_writes_into_it(tmp_path: Path, child: str) -> None:
    info = ended(tmp_path, FORKED.format(child))
    assert (info.status, info.step) == ("done", 2), info.facts["stderr"]
    path = find_run("mine", tmp_path)
    assert [row["step"] for row in rows_of(path)] == [1, 2]
    assert [row["event"] for row in read_rows(RunDirectory(path).events)[0]].count("end") == 1


def test_the_end_of_a_with_block_in_a_fork_is_not_the_end_of_the_run(tmp_path: Path) -> None:
    script = """
    with run:
        child = os.fork()
    if not child:
        os._exit(0)
    """
    begins = "run = txlab.record('mine', root=ROOT)"
    assert ended(tmp_path, script, begins).status == "done"
    assert len(rows_of(find_run("mine", tmp_path), "end")) == 1


def test_a_worker_that_records_gets_an_error_naming_the_owner(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:

        class Numbers(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
            def __len__(self) -> int:
                return 2

            def __getitem__(self, index: int) -> int:
                if index:
                    run.log(index, loss=float(index))
                return index

        loader = torch.utils.data.DataLoader(Numbers(), num_workers=1, multiprocessing_context="fork")
        with pytest.raises(LabError, match=rf"recorded by process {os.getpid()}, and this is a fork"):
            list(loader)
        run.log(1, loss=0.0)
    assert RunInfo.load(run.path).status == "done"
    assert [row["values"] for row in rows_of(run.path)] == [{"loss": 0.0}]


def test_a_fork_in_the_middle_of_another_threads_row_does_not_hang(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        inside, go_on = threading.Event(), threading.Event()
        write = run.recorder.events.write

        def slow(row: Row) -> None:
            inside.set()
            go_on.wait(LONGEST)
            write(row)

        run.recorder.events.write = slow  # type: ignore[method-assign]
        thread = threading.Thread(target=run.log, args=(1, {"loss": 1.0}))
        thread.start()
        inside.wait(LONGEST)
        child = os.fork()
        if not child:
            try:
                run.log(2, loss=2.0)
            except LabError:
                os._exit(5)
            os._exit(6)
        go_on.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert [row["step"] for row in rows_of(run.path)] == [1]
