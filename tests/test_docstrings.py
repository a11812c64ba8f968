"""The examples in docstrings give the results that they show."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [path for path in sorted((ROOT / "txlab").rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_examples_of_a_module_give_what_they_show(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(name_of(path)))
    assert result.attempted, "the examples are not in docstrings"
    assert not result.failed
