"""README.md and the pages of the manual, for tests: their sources, links, and blocks of code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PATHS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SOURCES = {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}


@dataclass(frozen=True)
class Block:
    """A block of code: its language, what else its first line says ("no-run ssh"), and its lines."""

    language: str
    note: str
    code: str

    @property
    def commands(self) -> list[str]:
        """The lines that begin with `txlab`; of a longer line with torchrun, what follows -m."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [found[1] for line in lines if (found := re.search(r"(?:^|\.venv/bin/|-m )(txlab( .*)?)$", line))]


def blocks(source: str) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w*) ?(.*)\n((?:.*\n)*?)```$", source, re.M)]


def links(source: str) -> list[str]:
    """The targets of the links and pictures, without those of the web."""
    text = re.sub(r"^```(?:.*\n)*?```$", "", source, flags=re.M)
    return [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("http")]
