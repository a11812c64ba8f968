"""The floors of the house: imports go down only and in no circle, and what is quick does not import what is slow."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "textual", "numpy", "pydantic", "matplotlib", "rich", "safetensors"}


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has imported after running `code`."""
    program = f"import sys\n{code}\nprint('MODULES', *sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    return set(done.stdout.rpartition("MODULES")[2].split())


def command(*words: str) -> str:
    """Code that runs a command in this interpreter and survives its exit."""
    return (
        f"import txlab.cli\nsys.argv = {['txlab', *words]!r}\ntry:\n    txlab.cli.main()\nexcept SystemExit:\n    pass"
    )


def test_importing_txlab_imports_nothing_of_weight() -> None:
    assert not modules_after("import txlab") & HEAVY


def test_help_imports_nothing_of_weight() -> None:
    assert not modules_after(command("--help")) & HEAVY


@pytest.mark.parametrize("words", [["run", "--help"], ["--version"], ["rnu"], ["run"]])
def test_usage_is_printed_without_slow_imports(words: list[str]) -> None:
    # typer itself may bring pydantic to read options, and an error rich, to measure its width
    assert not modules_after(command(*words)) & (HEAVY - {"pydantic", "rich"})


@pytest.mark.parametrize("words", [["scenarios"], ["runs"], ["doctor", "--no-torch"], ["run", "no-such-scenario"]])
def test_looking_around_imports_neither_torch_nor_textual(words: list[str]) -> None:
    assert not modules_after(command(*words)) & {"torch", "textual", "matplotlib"}


@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"], ["plot", "latest"], ["attach", "latest", "--lines"]])
def test_looking_at_a_run_imports_neither_torch_nor_textual(words: list[str], tiny_run: Path) -> None:
    code = f"import os; os.environ['TXLAB_RUNS'] = {str(tiny_run.parent)!r}\n" + command(*words)
    assert not modules_after(code) & {"torch", "textual", "matplotlib"}


@pytest.mark.skipif(shutil.which("lint-imports", path=str(Path(sys.executable).parent)) is None, reason="import-linter")
def test_imports_only_go_down() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Counted with all imports: also those inside functions and those for types alone."""
    grimp = pytest.importorskip("grimp")  # import-linter's graph
    graph = grimp.build_graph("txlab", cache_dir=None)
    below = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for module, beneath in below.items():
        for other in beneath:
            path = graph.find_shortest_chain(other, module)
            assert path is None, " imports ".join((module, *path))


def test_no_class_of_txlab_is_more_than_three_levels_deep() -> None:
    import txlab

    def depth(each: type) -> int:
        return 1 + max((depth(base) for base in each.__bases__ if base.__module__.startswith("txlab")), default=0)

    for found in pkgutil.walk_packages(txlab.__path__, "txlab."):
        if found.name.startswith("txlab.integrations") or found.name == "txlab.__main__":
            continue  # whose packages may not be installed; and the program
        for each in vars(importlib.import_module(found.name)).values():
            if isinstance(each, type) and each.__module__ == found.name:
                assert depth(each) <= 3, [base.__qualname__ for base in each.__mro__]
