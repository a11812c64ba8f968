"""`txlab help`: lists the pages, prints one, finds words in them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from txlab.manual import pages


def test_without_a_topic_it_lists_the_pages_each_with_a_sentence(ask: Callable[..., Any]) -> None:
    lines = ask("help").out.splitlines()
    assert [line.split()[0] for line in lines[1 : len(pages()) + 1]] == list(pages())
    assert lines[1].endswith(pages()["console"].about)


@pytest.mark.parametrize("topic", [["slurm"], ["processes"], ["SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"]])
def test_a_page_is_printed_as_it_is_written_without_its_comments(ask: Callable[..., Any], topic: list[str]) -> None:
    said = ask("help", *topic).out
    assert said.startswith("# Many processes\n")
    assert "```sh no-run Slurm\n" in said


def test_words_that_occur_on_several_pages_are_listed_with_their_sections(ask: Callable[..., Any]) -> None:
    said = ask("help", "learning", "rate").out
    rows = [line.split(maxsplit=1) for line in said.splitlines()]
    assert ["console", "Time"] in rows
    assert ["runs", "On the Train screen"] in rows


def test_what_is_nowhere_is_refused_with_the_nearest_word(ask: Callable[..., Any]) -> None:
    assert "'tokenzier' (nearest: tokenizer); txlab help lists its pages" in ask("help", "tokenzier").refused


def test_a_terminal_gets_it_laid_out(ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    said = ask("help", "runs", columns=60).out
    assert "txlab resume gpt-docs" in said
    assert "`" not in said.replace("```", "")
    assert "](" not in said
    assert max(map(len, said.splitlines())) < 60


def test_ascii_is_kept_to(ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLAB_ASCII", "1")
    for name in pages():
        assert ask("help", name).out.isascii(), name
