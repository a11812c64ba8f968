"""The maps that come with txlab, by name: files that a person can open, change and keep."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from txlab.engine.rl.worlds.drawn import Map
from txlab.engine.rl.worlds.parsing import parse_map
from txlab.errors import LabError


def folder() -> Path:
    """Inside the installed package, or at the top of the repository."""
    package = Path(str(files("txlab")))
    installed = package / "_shipped" / "maps"
    return installed if installed.is_dir() else package.parent / "assets" / "maps"


@cache
def shipped_maps() -> dict[str, Map]:
    """The maps by the stem of their file, in alphabetical order; none where the files are missing."""
    found = {}
    for path in sorted(folder().glob("*.txt")):
        try:
            found[path.stem] = parse_map(path.read_text(encoding="utf-8"))
        except LabError as error:
            raise LabError(f"{path}: {error}") from None
    return found
