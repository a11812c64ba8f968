"""What the README says one can type, one can type; and CI finds its commands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import typer.main

from txlab.cli import app
from txlab.experiments.reference_numbers import Provenance, figures

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every line that begins with `txlab` in a block of shell, without its comment."""
    blocks = re.findall(r"```sh\n(.+?)```", README, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("txlab")]


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_tour_is_understood(line: str) -> None:
    words = shlex.split(line.partition(">")[0], comments=True)[1:]
    group = typer.main.get_command(app)
    context = group.make_context("txlab", list(words))
    if not words:
        return
    _, command, rest = group.resolve_command(context, words)  # type: ignore[attr-defined]
    command.make_context(command.name, rest)  # parses options and arguments, runs nothing


def test_the_tour_shows_every_command() -> None:
    shown = {shlex.split(line)[1] for line in commands() if len(line.split()) > 1 and line.split()[1] != "#"}
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} <= shown


def test_the_reference_numbers_are_as_many_as_it_says_of_each_provenance() -> None:
    said = re.search(
        r"computes (\d+) reference numbers.*?(\d+) are \*printed.*?(\d+) are \*derived"
        r".*?(\d+) are \*computed.*?(\d+) are \*claimed",
        README,
        re.DOTALL,
    )
    assert said
    numbers = [number.provenance for figure in figures() if not figure.needs for number in figure.numbers]
    assert list(map(int, said.groups())) == [len(numbers), *map(numbers.count, get_args(Provenance))]


@pytest.mark.parametrize("marker", ["run", "test"])
def test_the_two_commands_are_one_line_each_between_their_markers(marker: str) -> None:
    found = re.search(rf"<!-- {marker} command -->\s*```[a-z]*\n(.+?)\n```\s*<!-- end -->", README, re.DOTALL)
    assert found
    assert "\n" not in found[1]
    assert found[1].startswith("python3 -m venv ")
    assert " && " in found[1]


def test_ci_takes_the_test_command_word_for_word() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    program = re.search(r"<<'PY'\n(.+?)\nPY\n", script, re.DOTALL)
    assert program
    said = subprocess.run(
        [sys.executable, "-", str(REPOSITORY / "README.md")],
        input=program[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() in README
    assert said.stdout.strip().endswith("-m pytest -n auto --maxprocesses 8 --dist worksteal")


def test_the_world_that_is_drawn_there_is_one() -> None:
    from txlab.experiments.tabular.world import WorldSection, world_of

    drawn = re.search(r"```toml\n(\[world\].+?)```", README, re.DOTALL)
    assert drawn
    world = world_of(WorldSection.model_validate(tomllib.loads(drawn[1])["world"]))
    assert world.process.size == 24
    assert not world.notes
