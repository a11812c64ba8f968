"""What the suite itself promises: it leaves no process behind, and holds when its parent ignores signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from made_once import made_once

TESTS = Path(__file__).parent

FAILING = """
import subprocess, sys

def test_that_fails_with_processes_at_work(tmp_path):
    long = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    for new_session in (False, True):
        child = subprocess.Popen(long, stdout=subprocess.PIPE, start_new_session=new_session)
        child.stdout.readline()
        print("pid", child.pid)
    starter = f"import subprocess; print('pid', subprocess.Popen({long!r}, start_new_session=True, stdout=-3).pid)"
    print(subprocess.run([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True).stdout)
    assert False
"""


def test_no_two_files_of_tests_share_a_name() -> None:
    """They are modules without a package, of which Python imports the first of a name."""
    files = [path for path in sorted(TESTS.rglob("*.py")) if path.name != "conftest.py"]
    names = [path.name for path in files]
    assert [str(path.relative_to(TESTS)) for path in files if names.count(path.name) > 1] == []


def suite_on(folder: Path, test: str) -> str:
    """Run a test file with this suite's conftest in a process that ignores signals, and return what was printed."""
    (folder / "test_it.py").write_text(test)

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-rA", "test_it.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ['PYTHONPATH']}"},
        preexec_fn=ignore,
        capture_output=True,
        text=True,
    ).stdout


def test_a_failing_test_leaves_no_process_behind(tmp_path: Path) -> None:
    said = suite_on(tmp_path, FAILING)
    pids = [int(line.split()[1]) for line in said.splitlines() if line.startswith("pid ")]
    assert len(pids) == 3, said
    left = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_programs_can_be_stopped_though_the_parent_of_the_suite_ignores_the_signal(tmp_path: Path, name: str) -> None:
    said = suite_on(
        tmp_path,
        f"""
import signal, subprocess, sys

def test_it():
    child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], stdout=-1)
    child.stdout.readline()
    child.send_signal(signal.{name})
    assert child.wait() != 0
""",
    )
    assert "1 passed" in said, said


def test_what_workers_share_is_made_by_one_of_them_and_again_if_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_TESTS_SHARED", str(tmp_path))
    together, made = threading.Barrier(4), []

    def make(folder: Path) -> None:
        made.append(folder)
        if len(made) == 1:
            raise RuntimeError("once")
        (folder / "it").touch()

    def ask() -> Path | None:
        together.wait()
        try:
            return made_once("thing", make)
        except RuntimeError:
            return None

    with ThreadPoolExecutor(4) as workers:
        found = [future.result() for future in [workers.submit(ask) for _ in range(4)]]
    assert found.count(None) == 1
    assert found.count(tmp_path / "thing") == 3
    assert len(made) == 2
    assert [each.name for each in (tmp_path / "thing").iterdir()] == ["it"]
