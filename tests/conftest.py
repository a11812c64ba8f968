"""What every test relies on: a home of its own, one thread for torch, and one finished run to look at."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

# Set before any test module is imported: what they import may look at the environment at once. Nothing a test does
# reaches the user's own runs, caches or settings.
HOME = Path(tempfile.mkdtemp(prefix="txlab-tests-"))
REPOSITORY = Path(__file__).resolve().parent.parent
EVIDENCE_ALONE = REPOSITORY / "tests" / "parity"
SHARED = Path(os.environ.setdefault("TXLAB_TESTS_SHARED", str(HOME)))  # by all workers: the HOME of what started them
os.environ |= {
    "HOME": str(HOME),
    "XDG_CONFIG_HOME": str(HOME / "config"),
    "XDG_CACHE_HOME": str(HOME / "cache"),
    "XDG_DATA_HOME": str(HOME / "data"),
    "XDG_STATE_HOME": str(HOME / "state"),
    "MPLCONFIGDIR": str(HOME / "matplotlib"),
    "TXLAB_RUNS": str(HOME / "runs"),
    # Also for child processes: two busy pools of threads on two cores make everything several times slower.
    "OMP_NUM_THREADS": "1",
    # Child processes test this checkout as well, wherever they are started and whatever else is installed.
    "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])),
}
# Bytecode is written, once for all workers and the programs they start: compiling txlab and rewriting the assertions of
# all tests takes each of them half a minute.
for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TXLAB_ASCII", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False  # in this process, where one file is tested without workers

import commands_once  # noqa: E402, F401 - the environment is set; most of a short command's time
from waiting import wait_for  # noqa: E402

# A suite that nohup or a shell's & started inherits ignored signals, and would pass them on to programs that are to be
# stopped by them.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

# No wall clock decides about a test: a machine under load is not a broken program. Where a change is judged, the same
# examples judge each time; on a developer's machine they are others each time, and find unforeseen cases.
settings.register_profile("txlab", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("txlab")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers a core: the tests of screens mostly wait for threads and timers, and use a third of a core each."""
    from txlab.engine.cores import cores

    return 2 * cores()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """As many workers as there are cores collect first; the others then find the bytecode that these have written."""
    from txlab.engine.cores import cores

    worker = getattr(session.config, "workerinput", {}).get("workerid", "")
    if not worker:
        return (yield)
    if int(worker.removeprefix("gw")) >= cores():
        wait_for(lambda: list(SHARED.glob("collected-*")))
    try:
        return (yield)
    finally:
        (SHARED / f"collected-{worker}").touch()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which no test is chosen is not imported, unless it is named."""
    if collection_path == EVIDENCE_ALONE:
        return config.option.markexpr == "not evidence" or None
    is_test = collection_path.name.startswith("test_") and collection_path.is_file()
    return (config.option.markexpr == "evidence" and is_test and not may_be_evidence(collection_path)) or None


def may_be_evidence(path: Path) -> bool:
    return EVIDENCE_ALONE in path.parents or "mark.evidence" in path.read_text(encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for path in {item.path for item in items if item.get_closest_marker("evidence")}:
        if not may_be_evidence(path):
            raise pytest.UsageError(f"{path}: -m evidence imports only files in which pytest.mark.evidence is written")


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make only, and less often.

    Thousands of collected tests and the imports are a million objects that stay: looking through them took a sixth of
    the processor time of the console's tests.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    end_processes_of_the_suite()
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """After a test that failed, end what it had started: it may not have come to the line that would have done so."""
    report = yield
    if report.failed and report.when == "call":
        end_processes_of_the_suite(since=call.start)
    return report


def end_processes_of_the_suite(since: float = 0.0) -> None:
    """Kill the processes that tests started, children or not (detached ones have no parent, but our HOME)."""
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            started = process.create_time() >= since - 0.02  # which is known in hundredths of a second
            of_tests = process.pid in ours or process.environ().get("HOME") == str(HOME)
            if started and of_tests and process.pid != os.getpid():
                process.kill()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """One thread for torch, if it is there; tests that do not use torch do not import it."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_run_left_open() -> Iterator[None]:
    """A run that a test leaves open watches how this process ends: `sys.exit` and the signals, for all later tests."""
    yield
    ending = sys.modules.get("txlab.runs.ending")
    for run in list(ending._open) if ending else ():
        ending.forget(run)


TINY = """
kind = "language-model"
seed = 3
[about]
title = "A few steps, to be looked at"
[data]
source = "text"
text = "{text}"
tokenizer = "bytes"
[model]
layers = 2
heads = 2
width = 16
context = 16
[train]
steps = 12
batch = 4
warmup = 4
validation_batches = 2
[sampling]
prompts = ["The "]
tokens = 12
[probe]
positions = 12
[record]
evaluate_every = 4
sample_every = 6
frame_every = 2
checkpoint_every = 6
[compute]
device = "cpu"
dtype = "float32"
attention = "matmul"
threads = 1
compile = false
"""


@pytest.fixture(scope="session")
def tiny_scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario file of a few very small steps; nothing in it is left to the probe."""
    folder = tmp_path_factory.mktemp("scenario")
    words = ["the cat sees a mouse", "a mouse eats the corn", "the bird sings", "corn grows in the field"]
    text = "\n".join(words[i * 7 % 4] + " " + words[i * 5 % 3] + "." for i in range(200))
    (folder / "text.txt").write_text(text)
    path = folder / "tiny.toml"
    path.write_text(TINY.format(text=folder / "text.txt"))
    return path


@pytest.fixture(scope="session")
def tiny_run(tiny_scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of twelve steps with samples, frames and checkpoints. To be read, not changed: copy it first."""
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    run = prepare(load_scenario(tiny_scenario), root=tmp_path_factory.mktemp("runs"))
    info = execute(run)
    assert info.status == "done", info.reason
    return run
