"""The processes that txlab starts: they import nothing from the folder that a command happens to be used in."""

from __future__ import annotations

import ast
import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from far_machine import stand_in

from txlab.runs.directory import ALIVE, RunDirectory, RunInfo
from txlab.runs.writing import search_path

REPOSITORY = Path(__file__).resolve().parent.parent
ISOLATED = ("-P", "-I")
# Where processes are started, and what they run. None of these programs is Python, unless a user says so.
STARTED = {
    ("cli/doctor.py", "tmux_option"): "tmux",
    ("cli/served.py", "_open_app_process"): "the command of cli/serve.py, with python_module",
    ("cli/watch.py", "__init__"): "the person's program",
    ("runs/alerts.py", "tell"): "the person's alert command",
    ("runs/remote/line.py", "__init__"): "ssh; the Python at its other end has -I",
    ("runs/origin.py", "_differs"): "git",
    ("runs/ranks/launch.py", "main"): "torch's launcher, with python_module",
    ("runs/writing.py", "start_module"): "python_module",
}
STARTING = {
    "subprocess": ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "asyncio": ("create_subprocess_exec", "create_subprocess_shell"),
    "os": ("system", "popen", "fork", *(name for name in dir(os) if name.startswith(("exec", "posix_s", "spawn")))),
    "pty": ("spawn", "fork"),
    "runpy": ("run_module", "run_path"),
}


def walked(tree: ast.AST, within: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes, with the function that they are in."""
    for node in ast.iter_child_nodes(tree):
        yield node, within
        named = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else within
        yield from walked(node, named)


def starts_a_process(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return name in STARTING.get(module, ())
        case ast.Call(func=ast.Name(id="elastic_launch")):
            return True
        case ast.Import(names=names):
            return any(each.name in ("multiprocessing", "torch.multiprocessing") for each in names)
        case ast.ImportFrom(module=module, names=names):
            pools = module in ("multiprocessing", "multiprocessing.pool", "torch.multiprocessing", "concurrent.futures")
            harmless = ("ThreadPool", "ThreadPoolExecutor", "Future", "wait", "as_completed")
            starting = STARTING.get(module or "", ())
            return any(each.name in starting or (pools and each.name not in harmless) for each in names)
    return False


def test_processes_are_started_in_known_places_only() -> None:
    """A new place belongs in STARTED; if it runs Python, it runs what `python_module` returns."""
    found = set()
    for file in (REPOSITORY / "txlab").rglob("*.py"):
        for node, function in walked(ast.parse(file.read_text(encoding="utf-8"))):
            if starts_a_process(node):
                found.add((file.relative_to(REPOSITORY / "txlab").as_posix(), function))
    assert found == set(STARTED)


@pytest.mark.evidence
@pytest.mark.parametrize("folder", ["txlab", "benchmarks", "assets"])
def test_python_is_started_with_a_safe_path(folder: str) -> None:
    """Each `sys.executable` is followed by -P or -I, and so is each "python" of a command line in a text."""
    for file in (REPOSITORY / folder).rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr == "executable" and ast.unparse(node) == "sys.executable":
                parent = parents[node]
                if isinstance(parent, ast.FormattedValue):  # it is shown
                    continue
                if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "os.execve":
                    continue  # the arguments name it once more
                where = f"{file.relative_to(REPOSITORY)}:{node.lineno}"
                assert isinstance(parent, ast.List | ast.Tuple), f"{where}: sys.executable outside of a command"
                behind = parent.elts[parent.elts.index(node) + 1]
                assert isinstance(behind, ast.Constant), where
                assert behind.value in ISOLATED, where
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "python3 -" in node.value:
                assert "python3 -I " in node.value, f"{file}:{node.lineno}"


MARKED = "import os\nopen({mark!r}, 'a').write(__name__ + '\\n')\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a module by each name that can be imported here: one that runs leaves its name in `mark`."""
    folder = tmp_path / "somebody's repository"
    folder.mkdir()
    names = set(sys.stdlib_module_names) | set(packages_distributions()) | {"txlab", "sitecustomize", "usercustomize"}
    program = MARKED.format(mark=str(tmp_path / "mark"))
    for name in names - set(sys.builtin_module_names):
        if name.isidentifier() and not name.startswith("__"):
            (folder / f"{name}.py").write_text(program)
    for name in ("txlab", "torch"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(program)
    about = folder / "hostile-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
    groups = ("kinds", "worlds", "rules", "screens", "figures", "scenarios")
    (about / "entry_points.txt").write_text("".join(f"[txlab.{group}]\nhostile = torch:NAME\n" for group in groups))
    (folder / "matplotlibrc").write_text("backend: module://torch\ntext.usetex: True\n")
    return folder


def mark(folder: Path) -> str:
    file = folder.parent / "mark"
    return file.read_text() if file.exists() else ""


@pytest.fixture
def txlab(tmp_path: Path) -> Path:
    """The script that pip installs as `txlab`."""
    script = tmp_path / "bin" / "txlab"
    script.parent.mkdir()
    script.write_text("from txlab.cli import main\nmain()\n")
    return script


def used_in(folder: Path, script: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(script), "--runs", str(folder.parent / "runs"), *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert mark(folder) == "", words
    assert done.returncode == 0, done.stderr
    return done


def test_the_hostile_folder_is_one(hostile: Path) -> None:
    """Python itself, used in it without a safe path, runs what is in it."""
    subprocess.run([sys.executable, "-c", "import torch"], cwd=hostile, check=True, timeout=600)
    assert "torch" in mark(hostile).split()


@pytest.mark.evidence
def test_a_run_imports_nothing_from_the_current_folder(hostile: Path, txlab: Path, tiny_scenario: Path) -> None:
    """In the foreground, detached, and by several processes; and the commands that look at it."""
    runs = hostile.parent / "runs"
    one = [str(tiny_scenario), "--set", "train.steps=4"]
    used_in(hostile, txlab, "run", *one, "--out", str(runs / "alone"))
    used_in(hostile, txlab, "run", *one, "--set", "compute.processes=2", "--out", str(runs / "ranks"))
    used_in(hostile, txlab, "run", *one, "--detach", "--out", str(runs / "detached"))
    end = time.monotonic() + 600
    while RunInfo.load(RunDirectory(runs / "detached")).status in ("created", *ALIVE) and time.monotonic() < end:
        time.sleep(0.05)
    for name in ("alone", "ranks", "detached"):
        assert RunInfo.load(RunDirectory(runs / name)).status == "done"
    used_in(hostile, txlab, "plot", "alone", "--out", str(runs / "picture.png"))
    used_in(hostile, txlab, "doctor")
    assert mark(hostile) == ""


@pytest.mark.evidence
def test_python_dash_m_takes_the_current_folder_out_again(hostile: Path, tiny_scenario: Path) -> None:
    """Of what Python has not imported by then: a txlab/ or a module that runpy needs is found there before."""
    (hostile.parent / "first.py").write_text("import sys, typing\nprint(*sys.modules)\n")
    first = [sys.executable, "-m", "first"]
    found = subprocess.run(first, cwd=hostile.parent, capture_output=True, text=True, timeout=600, check=True)
    for name in found.stdout.split():
        (hostile / f"{name}.py").unlink(missing_ok=True)
    (hostile / "txlab.py").unlink()
    shutil.rmtree(hostile / "txlab")
    words = ["run", str(tiny_scenario), "--set", "train.steps=2", "--out", str(hostile.parent / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "txlab", *words], cwd=hostile, capture_output=True, text=True, timeout=600, check=False
    )
    assert (mark(hostile), done.returncode) == ("", 0), done.stderr


def test_the_program_on_another_machine_imports_nothing_from_its_home(
    hostile: Path, txlab: Path, tiny_run: Path
) -> None:
    ssh = stand_in(hostile.parent, before=f"cd {shlex.quote(str(hostile))}", runs=tiny_run.parent)
    rows = used_in(hostile, txlab, "export", f"box:{tiny_run.name}", "csv", TXLAB_SSH=ssh).stdout
    assert "val_loss" in rows


async def test_a_served_console_imports_nothing_from_the_current_folder(hostile: Path, txlab: Path) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    pytest.importorskip("textual_serve")
    server = subprocess.Popen(
        [sys.executable, str(txlab), "--runs", str(hostile.parent / "runs"), "serve", "--port=0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=hostile,
    )
    try:
        assert server.stdout is not None
        url = (await asyncio.to_thread(server.stdout.readline)).split()[-1]
        origin = url.partition("/?")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as answer:
                headers = {"Cookie": f"txlab={answer.cookies['txlab'].value}", "Origin": origin}
            async with session.ws_connect(f"{origin}/ws?width=100&height=30", headers=headers) as page:
                shown = b""
                while b"filter" not in shown:
                    message = await page.receive(timeout=240)
                    assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), mark(hostile)
                    shown += message.data if isinstance(message.data, bytes) else message.data.encode()
    finally:
        server.terminate()
        await asyncio.to_thread(server.communicate, timeout=240)
    assert mark(hostile) == ""


def test_the_path_handed_on_has_no_current_folder_and_no_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "beside", "/absolute", ""]))
    assert search_path().split(os.pathsep) == [str(REPOSITORY), str(tmp_path / "beside"), "/absolute"]
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(REPOSITORY))
    monkeypatch.delenv("PYTHONPATH")
    assert search_path() == ""
