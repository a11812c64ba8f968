"""Questions to labellers and their answers, as lines of JSON that are easy to read, edit, reuse and share (MATH H2).

    {"id": "q0001", "prompt": "…", "answers": ["…", "…"]}                              a question, and its answers:
    {"id": "9f…", "question": "q0001", "prompt": "…", "answers": ["…", "…"], "ranks": [2, 1], "by": "ann", …}
    {"id": "a0…", "question": "q0001", "skipped": true, "by": "ann", "time": 1e9}
    {"id": "b1…", "undo": "9f…", "by": "ann", "time": 1e9}

ranks[i] is the place of answers[i]: 1 is the best, equal numbers are ties, and only their order counts. A ranking
carries its texts, so a file of rankings is complete without the questions; there, `ranks` and the texts are enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from txlab.errors import LabError
from txlab.files import expand_path, open_regular

FEWEST, MOST = 2, 9  # answers to a question: one digit key each
LONGEST_TEXT = 20_000  # characters
LONGEST_LINE = 1 << 20  # bytes
LARGEST_TIME = 1e12
MOST_LINES, MOST_BYTES = 250_000, 32 << 20  # of a file; its lines take up to six times as much memory


@dataclass(frozen=True, slots=True)
class Question:
    """K answers to a prompt, to be ranked."""

    id: str
    prompt: str
    answers: tuple[str, ...]

    def as_row(self) -> dict[str, Any]:
        return {"id": self.id, "prompt": self.prompt, "answers": list(self.answers)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Question:
        """LabError for anything that is not a question."""
        return cls(name_of(row, "id"), text_of(row, "prompt"), answers_of(row))


@dataclass(frozen=True, slots=True)
class Ranking:
    """An answer to a question; `question` and `by` are "" in a file from elsewhere."""

    id: str
    question: str
    prompt: str
    answers: tuple[str, ...]
    ranks: tuple[int, ...]
    by: str = ""
    time: float = 0.0

    def pairs(self) -> list[tuple[int, int]]:
        """(winner, loser) of every two answers that are not tied.

        >>> Ranking("", "", "", ("a", "b", "c"), (2, 1, 2)).pairs()
        [(1, 0), (1, 2)]
        """
        places = range(len(self.ranks))
        return [(i, j) for i in places for j in places if self.ranks[i] < self.ranks[j]]

    def as_row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "question": self.question,
            "prompt": self.prompt,
            "answers": list(self.answers),
            "ranks": list(self.ranks),
            "by": self.by,
            "time": self.time,
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Ranking:
        """LabError for anything that is not a ranking."""
        answers, ranks = answers_of(row), row.get("ranks")
        whole = isinstance(ranks, list) and all(type(rank) is int and 1 <= rank <= 1000 for rank in ranks)
        if not whole or len(ranks) != len(answers):  # type: ignore[arg-type]
            raise LabError(f"ranks = {quote(ranks)}: {len(answers)} whole numbers from 1 are needed, one an answer")
        id = name_of(row, "id", "") or digest(row)
        return cls(
            id, name_of(row, "question", ""), text_of(row, "prompt"), answers, tuple(ranks), by_of(row), time_of(row)  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Skip:
    """Somebody would not rank this question."""

    id: str
    question: str
    by: str = ""
    time: float = 0.0

    def as_row(self) -> dict[str, Any]:
        return {"id": self.id, "question": self.question, "skipped": True, "by": self.by, "time": self.time}


@dataclass(frozen=True, slots=True)
class Undo:
    """The retraction of a line by its author."""

    id: str
    undo: str
    by: str = ""
    time: float = 0.0

    def as_row(self) -> dict[str, Any]:
        return {"id": self.id, "undo": self.undo, "by": self.by, "time": self.time}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Undo:
        return cls(name_of(row, "id"), name_of(row, "undo"), by_of(row), time_of(row))


Line: TypeAlias = Ranking | Skip | Undo


def row_of(data: bytes) -> dict[str, Any]:
    """The JSON object of one line. LabError, one sentence, for anything else."""
    if len(data) > LONGEST_LINE:
        raise LabError(f"a line has at most {LONGEST_LINE >> 20} MiB; this one has {len(data)} bytes")
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise LabError(f"{quote(data.decode(errors='replace'))} is not JSON") from None
    if not isinstance(row, dict):
        raise LabError(f"{quote(row)} is not a JSON object")
    return row


def line_of(data: bytes) -> Line:
    """The ranking, skip or undo of one line. LabError, one sentence, for anything else."""
    row = row_of(data)
    if "undo" in row:
        return Undo.of_row(row)
    if "skipped" in row:
        if row["skipped"] is not True:
            raise LabError(f"skipped = {quote(row['skipped'])}: only true is possible")
        return Skip(name_of(row, "id"), name_of(row, "question"), by_of(row), time_of(row))
    return Ranking.of_row(row)


def require_bounded(path: object, lines: int, size: int) -> None:
    """Raise LabError if a file with this number of lines and bytes is too large to be kept in memory."""
    if lines > MOST_LINES or size > MOST_BYTES:
        raise LabError(f"{path} is too large: at most {MOST_LINES} lines and {MOST_BYTES >> 20} MiB are possible")


def encode_line(line: Line | Question) -> bytes:
    """One line of JSON with its newline."""
    return orjson.dumps(line.as_row(), option=orjson.OPT_APPEND_NEWLINE)


def standing(lines: Iterable[Line]) -> list[Ranking]:
    """The rankings that count, in order: a line counts once by its id, and not if its author retracted it."""
    kept: dict[str, Line] = {}
    for line in lines:
        if isinstance(line, Undo):
            if line.undo in kept and kept[line.undo].by == line.by:
                del kept[line.undo]
        else:
            kept.setdefault(line.id, line)
    return [line for line in kept.values() if isinstance(line, Ranking)]


def read_file(path: str | Path) -> Iterator[Line]:
    """The lines of a file, read as a stream. LabError with file and line for whatever is not one,
    and for a file that is too large."""
    try:
        file = os.fdopen(open_regular(expand_path(path)), "rb")
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        number = size = 0
        while data := file.readline(LONGEST_LINE + 2):
            number, size = number + 1, size + len(data)
            require_bounded(path, number, size)
            if data.strip():
                try:
                    yield line_of(data)
                except LabError as error:
                    raise LabError(f"{path}, line {number}: {error}") from None


def ranks_of(order: str, count: int) -> list[int]:
    """The place of each of `count` answers, from their numbers in order, ties joined by "=".

    >>> ranks_of("3 1=4 2", 4), ranks_of("31=42", 4)
    ([2, 4, 1, 2], [2, 4, 1, 2])

    LabError, one sentence, unless every answer is named once.
    """
    allowed = f"each number from 1 to {count} once, the best first, = between equal ones; for example 2 1=3"
    ranks, place, tied = [0] * count, 0, False
    for sign in "".join(order.split()):
        if sign == "=" and place and not tied:
            tied = True
        elif sign in "123456789"[:count] and not ranks[int(sign) - 1]:
            place += 1
            ranks[int(sign) - 1] = max(ranks) if tied else place
            tied = False
        else:
            raise LabError(f"{quote(order)} is not an order; allowed: {allowed}")
    if tied or 0 in ranks:
        missing = ", ".join(str(i) for i, rank in enumerate(ranks, 1) if not rank)
        raise LabError(f"{quote(order)} is not complete{f': {missing} is missing' * bool(missing)}; allowed: {allowed}")
    return ranks


def digest(row: Mapping[str, Any]) -> str:
    """16 hex digits of a row that has no id: the same ranking twice counts once."""
    return blake2b(orjson.dumps(dict(row), option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


# Fields


def text_of(row: Mapping[str, Any], name: str, otherwise: str | None = None, longest: int = LONGEST_TEXT) -> str:
    value = row.get(name, otherwise)
    if not isinstance(value, str):
        raise LabError(f"{name} = {quote(value)}: a string is needed")
    if len(value) > longest:
        raise LabError(f"{name} has {len(value)} characters; at most {longest} are possible")
    return value


def name_of(row: Mapping[str, Any], name: str, otherwise: str | None = None) -> str:
    value = text_of(row, name, otherwise, 100)
    if not value and otherwise is None:
        raise LabError(f"{name} is empty")
    return value


def by_of(row: Mapping[str, Any]) -> str:
    return text_of(row, "by", "", 100)


def time_of(row: Mapping[str, Any]) -> float:
    value = row.get("time", 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_TIME:
        raise LabError(f"time = {quote(value)}: seconds since 1970 are needed")
    return float(value)


def answers_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    answers = row.get("answers")
    if not isinstance(answers, list) or not FEWEST <= len(answers) <= MOST:
        raise LabError(f"answers = {quote(answers)}: a list of {FEWEST} to {MOST} strings is needed")
    for number, answer in enumerate(answers, 1):
        text_of({f"answer {number}": answer}, f"answer {number}")
    return tuple(answers)


def quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
