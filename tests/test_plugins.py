"""Modules that are imported when they are needed, by several threads."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from txlab.plugins import import_in_turn


class SlowSearch:
    """Packages are found after a while, in which another thread begins to import."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("package"):
            time.sleep(0.05)


def test_threads_that_import_a_package_and_a_module_of_it_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One imports the package, whose file imports its module `part`; the other imports `part`, and so the package."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [SlowSearch, *sys.meta_path])
    for number in range(5):
        package = tmp_path / f"package{number}"
        package.mkdir()
        (package / "__init__.py").write_text(f"from package{number}.part import PART\n")
        (package / "part.py").write_text("PART = 1\n")
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(import_in_turn, [f"package{number}", f"package{number}.part"]))
