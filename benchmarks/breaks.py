"""Deliberate breaks: does a test of its folder see each of these small changes?

    python benchmarks/breaks.py [--only WORD …] [--jobs 2] [--list]

`breaks.toml` lists them: a file, a text in it that occurs once, the text that replaces it, the resulting fault, and the
tests that should see it. Each change is made in a copy of the tree, in which these tests run until the first is red. A
pure function is easily tested against numbers; faults live in the lines that wire it into a step, so most breaks change
those. A surviving break points to a missing test, or changes nothing visible to the user: then it has `survives`, a
sentence that says why.

Notable: before the first break, the named tests run on the unchanged tree. A test that is red there proves nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

TREE = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
FOLDERS = ("txlab", "tests", "scenarios", "assets", "benchmarks", "docs")
COPIED = (*FOLDERS, "pyproject.toml", "README.md", "CONTRIBUTING.md")
LONGEST = 600  # seconds for the tests of one break; a change that makes them wait for ever is seen as well


@dataclass(frozen=True)
class Break:
    """One small change, and what should see it."""

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    survives: str = ""

    def apply(self, text: str) -> str:
        """The file's text with the change. ValueError if `old` does not occur exactly once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.file}: {self.old!r} occurs {count} times, not once; it should break: {self.breaks}"
            )
        return text.replace(self.old, self.new)


def breaks_of(file: Path = LIST) -> list[Break]:
    """The list. A break without `tests` is run against those of the break before it."""
    breaks: list[Break] = []
    for row in tomllib.loads(file.read_text())["break"]:
        tests = tuple(row.pop("tests", breaks[-1].tests if breaks else ()))
        breaks.append(Break(**row, tests=tests))
    return breaks


def copy_of_tree(into: Path) -> Path:
    for name in COPIED:
        source = TREE / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
        elif source.exists():
            shutil.copy(source, into / name)
    return into


def verdict(copy: Path, tests: tuple[str, ...]) -> tuple[str, str]:
    """("green" | "red" | "error", the test that is red or what went wrong)"""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    plain = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-P", "-m", "pytest", *plain, *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return "red", "it does not end"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    failure = lines[0].partition(" ")[2].partition(" - ")[0] if lines else (done.stdout + done.stderr).strip()[-200:]
    # 1: a test failed; 2: a file of tests could not be imported
    return {0: "green", 1: "red", 2: "red"}.get(done.returncode, "error"), "" if done.returncode == 0 else failure


def run(chosen: list[Break], jobs: int) -> int:
    """Print a line for each break and a summary; return how many survived without a reason."""
    with tempfile.TemporaryDirectory(prefix="txlab-breaks-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copies.put(copy_of_tree(Path(folder) / str(number)))

        def as_it_is(tests: tuple[str, ...]) -> tuple[str, str]:
            copy = copies.get()
            try:
                return verdict(copy, tests)
            finally:
                copies.put(copy)

        def run_broken(one: Break) -> tuple[str, str, float]:
            copy, began = copies.get(), time.perf_counter()
            file = copy / one.file
            text = file.read_text()
            try:
                file.write_text(one.apply(text))
                return *verdict(copy, one.tests), time.perf_counter() - began
            finally:
                file.write_text(text)
                copies.put(copy)

        groups = list(dict.fromkeys(one.tests for one in chosen))
        for tests, (result, reason) in zip(groups, pool.map(as_it_is, groups), strict=True):
            if result != "green":
                print(f"{' '.join(tests)} is {result} without any break: {reason}")
                return len(chosen)
        counts = {"caught": 0, "survived": 0, "explained": 0}
        for one, (result, reason, seconds) in zip(chosen, pool.map(run_broken, chosen), strict=True):
            name = "caught" if result == "red" else "explained" if one.survives else "survived"
            counts[name] += 1
            beside = one.survives if name == "explained" else reason.rpartition("/")[2]
            print(f"{name:9} {seconds:5.0f} s  {one.file.removeprefix('txlab/')}: {one.breaks}  [{beside}]", flush=True)
        print(f"{counts['caught']} of {len(chosen)} caught, {counts['explained']} explained, {counts['survived']} not")
        return counts["survived"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="breaks with one of these words in file or meaning")
    parser.add_argument("--jobs", type=int, default=2, help="breaks at a time, each with a copy of the tree")
    parser.add_argument("--list", action="store_true", help="list the breaks, and whether each still applies")
    options = parser.parse_args()
    chosen = [
        one for one in breaks_of() if not options.only or any(word in one.file + one.breaks for word in options.only)
    ]
    for one in chosen:
        try:
            one.apply((TREE / one.file).read_text())
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from None
        if options.list:
            print(f"{one.file.removeprefix('txlab/'):50} {one.breaks}")
    if options.list:
        print(f"{len(chosen)} breaks")
    else:
        raise SystemExit(run(chosen, options.jobs) > 0)


if __name__ == "__main__":
    main()
