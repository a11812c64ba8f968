"""Scenarios, maps, worlds and texts with mistakes in them: each loads, or is refused in one sentence.

The test suite always runs the same few. To run a thousand of each:

    TXLAB_MUTATED=1000 python -m pytest tests/runs/test_mutated_files.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import parse_map
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.kind import explain_scenario
from txlab.experiments.tabular.world import world_of
from txlab.files import shipped_path
from txlab.runs.scenario import load_scenario, shipped_scenarios

pytestmark = pytest.mark.evidence

COUNT = int(os.environ.get("TXLAB_MUTATED", "60"))
ODD = [
    b"\0", b"\xff", b"\r", b"\n\n", b"\t", b"\x1b[2J", "\u202e".encode(), "日".encode(), b'"""', b"'''", b"[", b"]",
    b"[[",
    b"{", b"=", b".", b"#", b"-1", b"0", b"1e999", b"nan", b"inf", b"9" * 30, b"9" * 5000, b"0x" + b"f" * 400, b"true",
    b"[]",
    b"{}", b'""', b"1979-05-27", b"a.b.c = 1\n", b"x" * 3000, b"S", b"G", b"C", b"\\", b"\\u0000", b"-",
    b"reward", b"wind",
]  # fmt: skip


def mutated(data: bytes, choice: random.Random) -> bytes:
    """Change one to four things: bytes, pieces, lines or values."""
    for _ in range(choice.randint(1, 4)):
        lines = data.split(b"\n")
        place = choice.randrange(len(data) + 1)
        line = choice.randrange(len(lines))
        match choice.randrange(8):
            case 0:
                data = data[:place] + bytes([choice.randrange(256)]) + data[place + 1 :]
            case 1:
                data = data[:place] + choice.choice(ODD) + data[place:]
            case 2:
                data = data[:place] + data[place + choice.randint(1, 40) :]
            case 3:
                data = data[:place]
            case 4:
                data = b"\n".join(lines[:line] + [lines[line]] * choice.choice([2, 3, 500]) + lines[line + 1 :])
            case 5:
                data = b"\n".join(lines[:line] + lines[line + 1 :])
            case 6:
                other = choice.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                data = b"\n".join(lines)
            case _:
                name, equals, _ = lines[line].partition(b"=")
                lines[line] = name + b"= " + choice.choice(ODD) if equals else choice.choice(ODD)
                data = b"\n".join(lines)
    return data


def scenario(path: Path) -> None:
    explain_scenario(load_scenario(path).scenario, 60.0)


def world(path: Path) -> None:
    world_of(load_scenario(path).scenario.world)  # type: ignore[attr-defined]


def world_map(path: Path) -> None:
    compile_map(parse_map(path.read_bytes().decode(errors="replace")))


def map_file(path: Path) -> None:
    world_of(load_scenario("gridworld", ["world.name=", f"world.file={path}"]).scenario.world)  # type: ignore[attr-defined]


def with_world() -> list[Path]:
    return [path for path in shipped_scenarios().values() if b"\n[world]" in path.read_bytes()]


READERS: dict[str, tuple[Callable[[], list[Path]], Callable[[Path], object]]] = {
    "scenarios": (lambda: list(shipped_scenarios().values()), scenario),
    "worlds": (with_world, world),
    "maps": (lambda: sorted(shipped_path("maps").glob("*.txt")), world_map),
    "files of maps": (lambda: sorted(shipped_path("maps").glob("*.txt")), map_file),
    "texts": (lambda: sorted(shipped_path("maps").glob("*.txt")), lambda path: load_corpus(str(path))),
}


@pytest.mark.parametrize("what", READERS)
def test_a_mistake_in_a_file_is_a_readable_error(what: str, tmp_path: Path) -> None:
    find, read = READERS[what]
    sources = [path.read_bytes() for path in find()]
    path = tmp_path / ("mutated.toml" if what in ("scenarios", "worlds") else "mutated.txt")
    refused = 0
    for seed in range(COUNT):
        choice = random.Random(f"{what} {seed}")
        path.write_bytes(mutated(choice.choice(sources), choice))
        try:
            read(path)
        except LabError as error:
            refused += 1
            said = str(error)
            assert said.isprintable(), (seed, said)
            assert len(said) < 1000, (seed, said)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert refused > COUNT // 10
