"""A session of forty rankings at a real terminal, killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import orjson
import pytest
from feedback_runs import answers_of, feedback_run
from test_pty import PATIENCE, Terminal

from txlab.engine.rlhf.preferences import Question, encode_line
from txlab.runs.control import asker
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import PREFERENCES, QUESTIONS, append, shown_order

pytestmark = pytest.mark.evidence

WANTED = 40
KILLED_AFTER = 17
RANKS = {"3142": [2, 4, 1, 3], "43=21": [4, 2, 2, 1], "12=34": [1, 2, 2, 4]}  # of the answers from 1 on


def valid(file: Path) -> int:
    """How many lines the file has; each is whole."""
    data = file.read_bytes() if file.exists() else b""
    assert not data or data.endswith(b"\n")
    return sum(isinstance(orjson.loads(line), dict) for line in data.splitlines())


def keyed(terminal: Terminal, file: Path, keys: str) -> None:
    """Type key by key; the file is valid after each."""
    for key in keys:
        terminal.type(key)
        terminal.read(0.01)
        valid(file)


def ranked(terminal: Terminal, file: Path, keys: str) -> None:
    """Type one ranking, and wait until its line is there and the next question is shown."""
    before = valid(file)
    keyed(terminal, file, keys)
    end = time.monotonic() + PATIENCE
    while valid(file) == before:
        assert time.monotonic() < end, "\n".join(terminal.screen.display)
        terminal.read(0.05)


def test_forty_rankings_at_a_terminal_that_is_killed_on_the_way_lose_nothing(tmp_path: Path) -> None:
    run = feedback_run(tmp_path / "runs", questions=WANTED)
    file = run / PREFERENCES
    typed: list[str] = []
    terminal = Terminal(run.parent)
    try:
        terminal.until("people")
        terminal.type("7")
        for number in range(1, WANTED + 1):
            if number == KILLED_AFTER + 1:
                keyed(terminal, file, "21")  # half a ranking
                os.kill(terminal.pid, signal.SIGKILL)
                terminal.close()
                assert valid(file) == KILLED_AFTER
                terminal = Terminal(run.parent)
                terminal.until("people")
                terminal.type("7")
            terminal.until(f"film: heat {number} ")
            keys = list(RANKS)[number % 3]
            ranked(terminal, file, keys + "\r")
            typed.append(keys)
        terminal.until("40 of 40")
    finally:
        terminal.close()
    found = answers_of(run)
    assert found.garbled == 0
    assert [each.question for each in found.rankings] == [f"q{number:04d}" for number in range(1, WANTED + 1)]
    for question, ranking, keys in zip(found.questions, found.rankings, typed, strict=True):
        order = shown_order(question, asker())
        assert [ranking.ranks[index] for index in order] == RANKS[keys], keys


OBEYED = (b"\x1b]0;owned", b"\x1b]52;c;", b"\x1b[2Jowned", b"\x9b2J", b"\xc2\x9b", b"owned\x07", "\u202e".encode())
HOSTILE = ("\x1b]0;owned\x07", "\x1b]52;c;b3duZWQ=\x07", "\x1b[2Jowned", "\x9b2J owned\u202edenwo", "[red]owned[/]")


@pytest.mark.parametrize("command", ["rank", "console"])
def test_escape_sequences_in_answers_never_reach_the_terminal(command: str, tmp_path: Path) -> None:
    run = feedback_run(tmp_path / "runs", questions=0, prompt=HOSTILE[0], texts=HOSTILE[:3])
    append(RunDirectory(run), QUESTIONS, [encode_line(Question("q1", f"film: owned{HOSTILE[1]}", HOSTILE))])
    terminal = Terminal(run.parent, command=("rank", str(run)) if command == "rank" else ())
    try:
        if command == "rank":
            terminal.until("5  ")
        else:
            terminal.until("people")
            terminal.type("7")
            terminal.until("film: owned")
            terminal.read(0.5)
        shown = "\n".join(terminal.screen.display)
        assert shown.count("owned") >= 4, shown
        assert "[red]owned[/]" in shown
        for obeyed in OBEYED:
            assert obeyed not in terminal.raw, obeyed
        assert "owned" not in terminal.screen.title
    finally:
        terminal.close()
