"""questions.jsonl and preferences.jsonl of a run: written by the run and by any number of people concurrently.

The run asks, people answer, and neither needs the other to be alive: a question is on disk before the run waits for it,
and an answer is on disk, under the file's lock, when `give` returns. A torn line of a killed writer is ended by the
next writer, so it spoils no other line; readers skip and count invalid lines.

Notable: people on other machines append to the same file. flock works across hosts on NFS since Linux 2.6.12, and
O_APPEND alone keeps whole lines apart on a local disk even where it does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

from txlab.engine.rlhf.preferences import (
    Line,
    Question,
    Ranking,
    Skip,
    Undo,
    encode_line,
    line_of,
    require_bounded,
    row_of,
    standing,
)
from txlab.errors import LabError, convert_os_errors
from txlab.files import closing, lock, write_whole
from txlab.runs.directory import RunDirectory
from txlab.runs.events import LineCursor, Replaced

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

QUESTIONS, PREFERENCES = "questions.jsonl", "preferences.jsonl"


class RankedMeanwhile(LabError):
    """Another rater has ranked the question since it was shown."""


def append(run: RunDirectory, name: str, lines: Iterable[bytes], check: Callable[[], object] = lambda: None) -> None:
    """Append whole lines under the file's lock, on disk when it returns.

    LabError if the disk refuses, or the file would be larger than readers accept.

    check  is called under the lock; if it raises, nothing is written
    """
    with (
        convert_os_errors(f"{run.path / name} cannot be written"),
        run.folder() as top,
        closing(top.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)) as descriptor,
    ):
        lock(descriptor, wait=True)
        check()
        size = os.fstat(descriptor).st_size
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + b"".join(lines)
        require_bounded(run.path / name, 0, size + len(data))
        write_whole(descriptor, data)
        os.fsync(descriptor)


def new_id() -> str:
    return uuid4().hex[:16]


class HasId(Protocol):
    @property
    def id(self) -> str: ...


Read = TypeVar("Read", bound=HasId)


class SharedLines(Generic[Read]):
    """The lines of a file that several programs append to, each id once, as far as they have been read.

    parse    makes one of the file's lines; LabError for anything else
    lines    in the order of the file          garbled  how many lines could not be read
    """

    def __init__(self, run: RunDirectory, name: str, parse: Callable[[bytes], Read]) -> None:
        self.path, self.parse = run.path / name, parse
        self.lines: list[Read] = []
        self.garbled = 0
        self._ids: set[str] = set()
        self._cursor = LineCursor(self.path)

    def refresh(self) -> list[Read]:
        """Read on; returns the new lines. LabError if the file is too large to be kept in memory."""
        before = len(self.lines)
        try:
            self._read()
        except Replaced:  # the file was edited: read it again, and skip known lines
            self._cursor = LineCursor(self.path)
            self._read()
        return self.lines[before:]

    def _read(self) -> None:
        while lines := self._cursor.read():
            require_bounded(self.path, len(self.lines) + self.garbled, self._cursor.offset)
            for data in lines:
                try:
                    line = self.parse(data)
                except LabError:
                    self.garbled += bool(data.strip(b"\0 \t"))
                    continue
                if line.id not in self._ids:
                    self._ids.add(line.id)
                    self.lines.append(line)


class Answers:
    """People's answers in a run, as far as they have been read: call `refresh` for more.

    lines    rankings, skips and undos in the order of the file
    garbled  how many lines of both files could not be read
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._questions = SharedLines(run, QUESTIONS, lambda data: Question.of_row(row_of(data)))
        self._preferences: SharedLines[Line] = SharedLines(run, PREFERENCES, line_of)
        self.questions, self.lines = self._questions.lines, self._preferences.lines

    def refresh(self) -> list[Line]:
        """Read on; returns the new lines, each id once."""
        self._questions.refresh()
        return self._preferences.refresh()

    @property
    def garbled(self) -> int:
        return self._questions.garbled + self._preferences.garbled

    @property
    def rankings(self) -> list[Ranking]:
        """The rankings that were not undone, in file order."""
        return standing(self.lines)

    def open_for(self, by: str) -> list[Question]:
        """The questions that are not ranked and not skipped by this rater, in order."""
        undone = {(line.undo, line.by) for line in self.lines if isinstance(line, Undo)}
        closed = {ranking.question for ranking in self.rankings}
        closed |= {
            line.question
            for line in self.lines
            if isinstance(line, Skip) and line.by == by and (line.id, line.by) not in undone
        }
        return [question for question in self.questions if question.id not in closed]

    def last_of(self, by: str) -> Ranking | Skip | None:
        """The last line of a rater that can be taken back."""
        undone = {(line.undo, line.by) for line in self.lines if isinstance(line, Undo)}
        theirs = (line for line in reversed(self.lines) if line.by == by and not isinstance(line, Undo))
        return next((line for line in theirs if (line.id, line.by) not in undone), None)  # type: ignore[return-value]

    # The rater's side

    def rank(self, question: Question, ranks: Sequence[int], by: str) -> Ranking:
        """Keep a ranking; it is on disk when this returns. RankedMeanwhile if the question has another ranking."""
        ranking = Ranking(new_id(), question.id, question.prompt, question.answers, tuple(ranks), by, time.time())

        def check() -> None:
            self.refresh()
            before = next((each for each in self.rankings if each.question == question.id), None)
            if before is not None:
                who = "you" if before.by == by else before.by or "another user"
                raise RankedMeanwhile(f"{question.id} was ranked by {who} meanwhile; your ranking of it is not counted")

        self._keep(ranking, check)
        return ranking

    def skip(self, question: Question, by: str) -> Skip:
        skip = Skip(new_id(), question.id, by, time.time())
        self._keep(skip)
        return skip

    def undo(self, by: str) -> Ranking | Skip | None:
        """Take back a rater's last line; None if there is none."""
        self.refresh()
        last = self.last_of(by)
        if last is not None:
            self._keep(Undo(new_id(), last.id, by, time.time()))
        return last

    def _keep(self, line: Line, check: Callable[[], object] = lambda: None) -> None:
        append(self.run, PREFERENCES, [encode_line(line)], check)
        self.refresh()


def shown_order(question: Question, by: str) -> list[int]:
    """The order in which a rater sees the answers: drawn from question and rater, so that no position is favoured."""
    order = list(range(len(question.answers)))
    Random(f"{question.id}\0{by}").shuffle(order)
    return order


# The run's side


@runtime_checkable
class Asking(Protocol):
    """An experiment that may need people's judgements. It may be killed at any time and restores exactly: questions are
    functions of (seed, number), and the checkpoint has the answers used so far.

    asked    every question so far, in order
    given    rankings made by the experiment itself (a simulated labeller), kept in addition to people's
    waiting  what the next step waits for, in one sentence; "" = nothing. Asks pending questions.
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
        """Write new questions and read answers; returns what the next step waits for, "" = nothing."""
        waiting = self.experiment.waiting
        there = {question.id for question in self.answers.questions}  # after a rewind the same ones are asked again
        if asked := [question for question in self.experiment.asked if question.id not in there]:
            append(self.run, QUESTIONS, map(encode_line, asked))
        known = {line.id for line in self.answers.lines}
        if given := [ranking for ranking in self.experiment.given if ranking.id not in known]:
            append(self.run, PREFERENCES, map(encode_line, given))
        return self.experiment.waiting if self._read() else waiting

    def _read(self) -> bool:
        """Offer new lines; returns whether there were any."""
        self.answers.refresh()
        new = self.answers.lines[self.offered :]
        self.offered += len(new)
        self.experiment.offer(new)
        return bool(new)


def human_ranks(reader: RunReader) -> bool:
    """Whether people rank: as set in the scenario, or by a later request."""
    section = reader.scenario.get("rankings")
    human = isinstance(section, dict) and section.get("labeller") == "human"
    for row in reader.rows("control"):
        if row.get("request") == "set" and row.get("key") == "human" and row.get("applied") is not False:
            human = row.get("to") == 1
    return human
