"""What passes between a running experiment and the people who answer its questions, by the files of the run.

Notable: an experiment that asks (`Asking`) may be killed at any time and is then as it was: questions are functions of
(seed, number), the answers lie in a file that only grows, and the checkpoint says which of them were taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from txlab.engine.rlhf.preferences import Line, Question, Ranking, encoded
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import PREFERENCES, QUESTIONS, Answers, append
from txlab.runs.reader import RunReader


@runtime_checkable
class Asking(Protocol):
    """An experiment that may need people's judgements.

    asked    every question so far, in order
    given    rankings that the experiment made itself (a simulated labeller), to be kept beside those of people
    waiting  what the next step waits for, in one sentence; "" = nothing. Asks what there is to ask.
    """

    @property
    def asked(self) -> Sequence[Question]: ...

    @property
    def given(self) -> Sequence[Ranking]: ...

    @property
    def waiting(self) -> str: ...

    def offer(self, lines: Sequence[Line]) -> None:
        """Lines of the preferences file, in its order, each once."""


class People:
    """The files' side of an asking experiment; used by the loop between steps."""

    def __init__(self, experiment: Asking, run: RunDirectory) -> None:
        self.experiment, self.run, self.answers = experiment, run, Answers(run)
        self.offered = 0  # lines
        self._read()

    def exchange(self) -> str:
        """Write what is asked, read what was answered; returns what the next step waits for, "" = nothing."""
        waiting = self.experiment.waiting
        there = {question.id for question in self.answers.questions}  # after a rewind the same ones are asked again
        if asked := [question for question in self.experiment.asked if question.id not in there]:
            append(self.run, QUESTIONS, map(encoded, asked))
        known = {line.id for line in self.answers.lines}
        if given := [ranking for ranking in self.experiment.given if ranking.id not in known]:
            append(self.run, PREFERENCES, map(encoded, given))
        return self.experiment.waiting if self._read() else waiting

    def _read(self) -> bool:
        """Offer the lines that are new; whether there were any."""
        self.answers.refresh()
        new = self.answers.lines[self.offered :]
        self.offered += len(new)
        self.experiment.offer(new)
        return bool(new)


def human_ranks(reader: RunReader) -> bool:
    """Whether a person ranks: what the scenario says, or what was asked of the run since."""
    section = reader.scenario.get("rankings")
    human = isinstance(section, dict) and section.get("labeller") == "human"
    for row in reader.rows("control"):
        if row.get("request") == "set" and row.get("key") == "human" and row.get("applied") is not False:
            human = row.get("to") == 1
    return human
