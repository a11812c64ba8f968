"""What Tab completes, asked as the shells ask: by environment variables, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_python import WarmPython

ASK = """
import sys
sys.argv = ["txlab"]
from txlab.cli import main
try:
    main()
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


warm: WarmPython


@pytest.fixture(scope="module", autouse=True)
def warm_python() -> Iterator[None]:
    global warm
    # It looks at the shell that asks when it is imported; zsh is asked in an interpreter of its own.
    shell = "import os; os.environ['_TXLAB_COMPLETE'] = 'complete_bash'"
    once = f"import sys; sys.path.append({str(Path(__file__).parent.parent)!r}); import commands_once"
    built = "import txlab.cli, txlab.runs.scenario; commands_once.typer.main.get_command(txlab.cli.app)"
    warm = WarmPython(f"{shell}; {once}; {built}")
    yield
    warm.close()


def in_bash(folder: Path, *words: str) -> list[str]:
    """The completions of the last word. bash takes "=" for a word of its own."""
    question = {"_TXLAB_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return asked(folder, question)


def asked(folder: Path, question: dict[str, str]) -> list[str]:
    known = {"TXLAB_RUNS": str(folder / "runs"), "TXLAB_TOKENIZERS": str(folder / "tokenizers")}
    environment = os.environ | known | question
    if question["_TXLAB_COMPLETE"] == "complete_bash":
        done = warm.run(ASK, environment)
    else:
        command = [sys.executable, "-c", ASK]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "False", "torch was imported, or something was said: " + done.stderr
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["txlab", "exp"], ["export", "explain"]),
        (["txlab", "run", "gpt-t"], ["gpt-tiny"]),
        (["txlab", "scenarios", "gpt-m"], ["gpt-mixture"]),
        (["txlab", "presets", "gpt2-l"], ["gpt2-large"]),
        (["txlab", "tokenize", "--tokenizer", "py"], ["python-docs"]),
        (["txlab", "verify", "tr"], ["transformer"]),
        (["txlab", "run", "gpt-tiny", "--device", "c"], ["cpu", "cuda"]),
        (["txlab", "control", "latest", "pau"], ["pause"]),
        (["txlab", "play", "conn"], ["connect-four"]),
        (["txlab", "play", "tictactoe", "--against", "per"], ["perfect"]),
        (["txlab", "play", "backgammon", "--against", "per"], []),
        (["txlab", "match", "random", "t"], ["td"]),
        (["txlab", "match", "perfect", "random", "--game", "b"], ["backgammon"]),
        (["txlab", "analyse", "games.txt", "--judge", "sea"], ["search"]),
        (["txlab", "rank", "latest", "--against", "per"], []),
        (["txlab", "run", "gpt-tiny", "--set", "model.norm"], ["model.norm=", "model.normalisation="]),
        (
            ["txlab", "run", "gpt-tiny", "--set", "model.normal"],
            ["model.normalisation=layer", "model.normalisation=rms"],
        ),
        (["txlab", "run", "gpt-tiny", "--set", "model.norm", "=", "po"], ["post"]),
        (["txlab", "run", "gpt-tiny", "--set", "model.tied", "="], ["true", "false"]),
        (["txlab", "run", "gpt-tiny", "--set", "train.steps", "="], ["400"]),
        (["txlab", "run", "gpt-tiny", "--seed", "3", "--set", "data.text", "=", "python-d"], ["python-docs"]),
        (["txlab", "run", "cliff", "--set", "world.name", "=", "wi"], ["windy", "wind-tunnel"]),
        (
            ["txlab", "run", "cliff", "--set", "learners.sarsa.a"],
            ["learners.sarsa.alpha=0.5"],
        ),
        (
            ["txlab", "run", "cliff", "--set", "learners.expected-sarsa.ep"],
            ["learners.expected-sarsa.epsilon=0.1"],
        ),
        (
            ["txlab", "run", "cliff", "--set", "learners.sarsa.t"],
            ["learners.sarsa.traces=", "learners.sarsa.temperature="],
        ),
        (["txlab", "run", "cliff", "--set", "learners.sarsa.traces", "=", "re"], ["replacing"]),
        (["txlab", "run", "cliff", "--set", "learners.sarsa.rule", "=", "dyna"], ["dyna-q"]),
        (["txlab", "run", "bandits", "--set", "agents.greedy.eps"], ["agents.greedy.epsilon=0.0"]),
        (["txlab", "run", "bandits", "--set", "agents.2.epsilon", "="], ["0.1"]),
        (["txlab", "run", "no-such-scenario", "--set", "tr"], []),
        (["txlab", "run", "gpt-tiny", "--set", "no.such", "="], []),
    ],
)
def test_tab_completes_names_and_settings_without_torch(tmp_path: Path, words: list[str], found: list[str]) -> None:
    assert in_bash(tmp_path, *words) == found


def test_tab_completes_runs_by_name_and_directory(tmp_path: Path) -> None:
    from txlab.runs.label import write_label
    from txlab.runs.process import prepare
    from txlab.runs.scenario import load_scenario

    run = prepare(load_scenario("bandits"), out=tmp_path / "runs" / "2026-01-02_030405_bandits")
    assert run.name == "2026-01-02_030405_bandits"
    assert in_bash(tmp_path, "txlab", "attach", "") == ["latest", "bandits", run.name]
    assert in_bash(tmp_path, "txlab", "generate", "ba") == ["bandits"]
    write_label(run, "patient")
    assert in_bash(tmp_path, "txlab", "attach", "") == ["latest", "patient", "bandits", run.name]
    assert in_bash(tmp_path, "txlab", "run", "--like", "2026") == [run.name]


def test_zsh_gets_the_whole_setting_with_its_description(tmp_path: Path) -> None:
    line = "txlab run gpt-tiny --set model.pos"
    said = asked(tmp_path, {"_TXLAB_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line})
    assert "model.positions=rotary" in "".join(said)
    line = "txlab run gpt-tiny --set train.w"
    said = asked(
        tmp_path,
        {"_TXLAB_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        | {"_TYPER_COMPLETE_ARGS": line},
    )
    assert any("train.warmup=" in row and "\t" in row for row in said)


def test_the_presets_that_tab_knows_are_those_there_are() -> None:
    from txlab.cli.completing import PRESETS
    from txlab.engine.transformer import presets

    assert list(PRESETS) == list(presets.PRESETS)


def test_the_help_groups_every_command_and_ends_with_three_examples(ask) -> None:
    from txlab.cli import COMMANDS

    said = ask("--help").out
    for heading, members in COMMANDS.items():
        listed = said.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in listed.splitlines()] == list(members)
    examples = said.partition("\nExamples:\n")[2].splitlines()
    assert len(examples) == 3
    assert all(line.startswith("  txlab") for line in examples)


def test_a_command_declares_no_options_but_its_own() -> None:
    """Declaring all of them takes most of the time of `txlab --help` and of every short command."""
    script = (
        "import sys, txlab.cli as cli; group = cli.typer.main.get_command(cli.app); group.get_command(None, 'stop');"
    )
    script += "print([name for name, each in group.commands.data.items() if isinstance(each, cli.Command)])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "['stop']\n"
