"""`txlab lecture`: the list, preparing, and what is refused before a console opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from txlab.runs.directory import RunInfo
from txlab.runs.lecture import shipped_lectures

TALK = """\
title = "The root of two"
[[run]]
name = "newton"
scenario = "newton-root"
set = ["descent.steps=3"]
[[step]]
say = "The tangent."
screen = "descent"
run = "newton"
"""


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.toml"
    path.write_text(TALK)
    return path


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", "as for textual-serve")


def test_the_list_has_the_tour_first_and_every_lecture(ask) -> None:
    lines = ask("lecture").out.splitlines()
    assert lines[1].split()[0] == "first-steps"
    assert {line.split()[0] for line in lines if line.strip()} >= set(shipped_lectures())


@pytest.mark.usefixtures("on_a_terminal")
def test_a_lecture_is_prepared_by_the_command_that_the_refusal_names(ask, talk: Path) -> None:
    refused = ask("lecture", str(talk)).refused
    assert f"(newton); compute them first: txlab lecture {talk} --prepare" in refused
    first = ask("lecture", str(talk), "--prepare")
    assert first.status == 0, first.error
    assert RunInfo.load(talk.parent / "talk" / "newton").status == "done"
    assert "newton: done before" in ask("lecture", str(talk), "--prepare").out


@pytest.mark.usefixtures("on_a_terminal")
def test_the_console_begins_with_the_lecture_at_the_step(ask, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("lecture", str(talk), "--prepare", "--folder", str(talk.parent / "carried"))
    played = []

    class App:
        def play_lecture(self, *arguments: object) -> None:
            played.append(arguments)

    def launch(ascii: bool, begin) -> int:
        begin(App())
        return 0

    monkeypatch.setattr("txlab.tui.launch.launch", launch)
    ask("lecture", str(talk), "--folder", str(talk.parent / "carried"), "--from", "1", "--notes")
    assert played == [(str(talk), talk.parent / "carried", 0, True)]
    assert "--from 2 is not a step" in ask(
        "lecture", str(talk), "--folder", str(talk.parent / "carried"), "--from", "2"
    ).refused  # fmt: skip


def test_what_cannot_be_is_refused_in_a_sentence(ask, talk: Path) -> None:
    assert "nearest: yang" in ask("lecture", "yan").refused
    assert "needs a terminal" in ask("lecture", str(talk)).refused
    assert "exists already" in ask("lecture", "--record", str(talk)).refused
    assert "needs a terminal" in ask("lecture", "--record", str(talk.with_name("new.toml"))).refused
    assert "leave wang out" in ask("lecture", "wang", "--record", str(talk.with_name("new.toml"))).refused
