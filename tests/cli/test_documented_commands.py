"""What README.md and the manual say one can type: all of it is understood, and what a block does not exclude is run, in
the order of the page, with small trainings."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from documents import SOURCES, blocks
from tensorboardX import SummaryWriter

from txlab.cli import app

WITH_TEXT = [
    *("data.text=notes.txt", "data.tokenizer=bytes", "model.width=16", "model.heads=2", "model.layers=2"),
    *("model.context=16", "train.steps=120", "train.batch=2", "train.warmup=2", "train.validation_batches=1"),
    *("sampling.tokens=4", "probe.positions=12", "record.frame_every=20", "record.checkpoint_every=20"),
    *("record.evaluate_every=50", "record.sample_every=100"),
]
COMPUTED = [f"compute.{given}" for given in ("device=cpu", "dtype=float32", "attention=matmul", "threads=1")]
SMALL: dict[str, list[str]] = {
    "gpt-docs": [*WITH_TEXT, *COMPUTED, "compute.compile=false"],
    "gpt-tiny": [*WITH_TEXT, *COMPUTED, "compute.compile=false", "train.steps=4"],
    "gpt-copy": ["train.steps=4", "train.batch=4", "train.validation_batches=1", *COMPUTED, "compute.compile=false"],
    "words-docs": ["train.epochs=1", "compute.device=cpu", "compute.threads=1"],
    "random-walk-19": ["predict.runs=2"],
    "cliff": ["control.runs=2"],
    "tictactoe": ["learn.games=500"],
    "td-gammon": [
        *("learn.games=40", "learn.units=4", "learn.games_per_step=20"),
        *("match.games=4", "match.copies=[0, 20]"),
    ],
    "feedback-reviews": [
        *("task.tokens=10", "model.layers=1", "model.heads=2", "model.width=16", "model.context=32"),
        *("demonstrations.steps=5", "demonstrations.batch=4", "demonstrations.count=20", "rankings.steps=4"),
        *("rankings.settling=2", "rankings.answers=3", "policy.steps=4", "policy.batch=8", "policy.minibatches=2"),
        *("probe.prompts=2", "probe.held_out=4", "compute.device=cpu", "compute.threads=1"),
    ],
    "newton-root": [],
    "descent": ["descent.steps=20"],
    "playground-spiral": ["train.steps=4"],
    "conv-shapes": ["train.steps=2", "train.batch=2", "train.validation_batches=1"],
}
SCRIPT = "for step in range(3):\n    print('step', step, 'loss', 1 / (step + 1))\n"
LIGHTNING = "epoch,step,train_loss\n0,1,2.5\n0,2,2.0\n"


def commands(source: str, *, run: bool) -> list[str]:
    """The commands of the blocks that are run, or of all blocks."""
    chosen = [block for block in blocks(source) if block.language == "sh" and not (run and block.note)]
    return [command for block in chosen for command in block.commands]


ALL = [pytest.param(line, id=f"{name} {line}"[:90]) for name in SOURCES for line in commands(SOURCES[name], run=False)]
SEVERAL = "docs/processes.md"  # whose commands start several processes
RUN = [
    pytest.param(name, marks=[pytest.mark.evidence] if name == SEVERAL else [])
    for name in SOURCES
    if commands(SOURCES[name], run=True)
]


@pytest.mark.parametrize("line", ALL)
def test_every_command_is_understood(line: str) -> None:
    """Its options and arguments are parsed; nothing is run."""
    words = shlex.split(line, comments=True)[1:]
    group: Any = typer.main.get_command(app)
    if not words or words[0].startswith("-"):
        assert set(words) <= {option for parameter in group.params for option in parameter.opts}
    elif words != ["$what"]:  # of a shell script: one of two commands
        _, command, rest = group.resolve_command(group.make_context("txlab", list(words)), words)
        command.make_context(command.name, rest)


def test_the_manual_shows_every_command() -> None:
    lines = [shlex.split(line, comments=True) for source in SOURCES.values() for line in commands(source, run=False)]
    shown = {words[1] for words in lines if len(words) > 1}
    assert set(typer.main.get_command(app).commands) <= shown  # type: ignore[attr-defined]


def small(name: str) -> list[str]:
    return [word for setting in SMALL[name] for word in ("--set", setting)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with what the examples find in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("The cat sat on the mat, and the value of the list is true or false.\n" * 80)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "questions-words.txt").write_text(": kinds\nlist lists string strings\n")
    with SummaryWriter(str(tmp_path / "board" / "train")) as writer:
        for step in range(3):
            writer.add_scalar("train_loss", 1 / (step + 1), step)
    (tmp_path / "lightning_logs" / "version_0").mkdir(parents=True)
    (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").write_text(LIGHTNING)
    return tmp_path


@pytest.fixture
def do(ask: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run one line; a scenario whose run it names is trained before, if it was not."""
    monkeypatch.setenv("TXLAB_RUNS", str(folder / "runs"))
    trained: set[str] = set()

    def call(*words: str) -> None:
        answer = ask(*words)
        assert answer.status == 0, (words, answer.error)

    def done(line: str) -> None:
        words = shlex.split(line, comments=True)[1:]
        scenario = words[1] if words[0] == "run" and words[1] in SMALL else ""
        if not scenario:
            for name in SMALL.keys() & {word.partition("@")[0] for word in words[1:]} - trained:
                if words[0] != "scenarios":
                    call("run", name, *small(name))
                    trained.add(name)
        else:
            trained.add(scenario)
            words = [*words[:2], *small(scenario), *words[2:]]
        call(*words)

    return done


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run(name: str, do: Callable[[str], None]) -> None:
    for line in commands(SOURCES[name], run=True):
        do(line)
