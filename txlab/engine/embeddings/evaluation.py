"""Word vectors against human judgement: analogy questions and pairs of words with human scores (MATH K6; Mikolov et al.
2013a, questions-words.txt; Finkelstein et al. 2002, WordSim-353; Hill et al. 2015, SimLex-999).

A question or a pair with a word that has no vector is left out, and the result comes with the number that remain.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.neighbours import cosine
from txlab.errors import LabError, prefix_errors
from txlab.files import read_regular

LARGEST = 64 << 20  # bytes of a file of questions
SCORES_AT_ONCE = 4_000_000
RESTRICTED = 300_000  # the most frequent words, as many as gensim takes


@dataclass(frozen=True)
class Pair:
    """Two words, and how similar people rate them."""

    one: str
    other: str
    score: float


@dataclass(frozen=True)
class Section:
    """Questions "a is to b as c is to d", each (a, b, c, d)."""

    name: str
    questions: list[tuple[str, ...]]


@dataclass(frozen=True)
class Accuracy:
    """Of the `questions` of a section, `known` have vectors for all four words, and `right` are answered with d."""

    name: str
    right: int
    known: int
    questions: int

    @property
    def accuracy(self) -> float:
        """#right / #known; nan if none is known."""
        return self.right / self.known if self.known else float("nan")


@dataclass(frozen=True)
class Agreement:
    """Spearman's ρ of the cosines and the human scores over the `known` of all `pairs`; nan if it is not defined."""

    rho: float
    known: int
    pairs: int


def read_evaluation(path: Path) -> list[Section] | list[Pair]:
    """Read a file of either form, recognised by its contents, also as .gz; "#" begins a comment.

    questions  sections ": name", then four words a line
    pairs      two words and a number a line, with tabs, commas or spaces between them; the first line may be a heading

    LabError, one sentence with the line, for anything else.
    """
    try:
        text = unpack(read_regular(path, LARGEST)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not UTF-8: {error.reason}") from None
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    numbered = list(enumerate(text.split("\n"), 1))
    lines = {number: line.strip() for number, line in numbered if line.strip() and not line.startswith("#")}
    with prefix_errors(path):
        if not lines:
            raise LabError("it has neither analogy questions nor pairs of words")
        first = next(iter(lines.values()))
        if first.startswith(":") or (len(parts(first)) == 4 and number_in(parts(first)) is None):
            return questions_of(lines)
        return pairs_of(lines)


def unpack(data: bytes) -> bytes:
    """The contents of a gzip file, at most LARGEST bytes, or else the data itself. OSError if it is damaged."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise OSError(0, "it is a damaged gzip file") from None
    if len(content) > LARGEST:
        raise OSError(0, f"it is larger than {LARGEST >> 20} MiB, unpacked")
    return content


def questions_of(lines: Mapping[int, str]) -> list[Section]:
    sections: list[Section] = []
    for number, line in lines.items():
        if line.startswith(":"):
            sections.append(Section(line[1:].strip(), []))
            continue
        words = tuple(line.split())
        if len(words) != 4:
            raise LabError(f"line {number} has {len(words)} words, and a question four: a is to b as c is to d")
        if not sections:
            sections.append(Section("questions", []))
        sections[-1].questions.append(words)
    return sections


def pairs_of(lines: Mapping[int, str]) -> list[Pair]:
    pairs = []
    for place, (number, line) in enumerate(lines.items()):
        fields = parts(line)
        score = number_in(fields)
        if score is not None:
            pairs.append(Pair(fields[0], fields[1], score))
        elif place:
            raise LabError(f"line {number} is not two words and a number: {line[:60]!r}")
    if not pairs:
        raise LabError("it has neither analogy questions (four words a line) nor pairs (two words and a number)")
    return pairs


def parts(line: str) -> list[str]:
    separator = next((each for each in "\t,;" if each in line), None)
    return [field.strip() for field in line.split(separator)]


def number_in(fields: Sequence[str]) -> float | None:
    """The score of a pair's fields, or None if they are not a pair's."""
    if (
        len(fields) < 3
        or not all(fields[:2])
        or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", fields[2], re.I)
    ):
        return None
    return float(fields[2])


def fold_case(words: Sequence[str], fold: bool) -> list[str]:
    """The words as they are compared: in upper case, as gensim does, or as they are."""
    return [word.upper() for word in words] if fold else list(words)


def rows_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each name, the most frequent first."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def analogies(
    embedding: Embedding, sections: Sequence[Section], fold: bool = True, most: int = RESTRICTED
) -> list[Accuracy]:
    """How many questions of each section are answered with d: argmax cos(x, b − a + c), without a, b and c (3CosAdd).

    fold  ignore case: a word means its most frequent form, and every form of d is right
    most  questions and answers are restricted to this number of the most frequent words
    """
    names = fold_case(embedding.words[:most], fold)
    rows, units = rows_by_name(names), embedding.units[:most]
    answers = []
    for section in sections:
        asked = [tuple(fold_case(question, fold)) for question in section.questions]
        known = [question for question in asked if all(word in rows for word in question)]
        right, size = 0, max(1, SCORES_AT_ONCE // max(1, len(names)))
        for start in range(0, len(known), size):
            batch = known[start : start + size]
            a, b, c = (units[[rows[question[place]][0] for question in batch]] for place in range(3))
            cosines = (b - a + c) @ units.T
            for i, question in enumerate(batch):
                for word in question[:3]:
                    cosines[i, rows[word]] = -np.inf
            best = cosines.argmax(1)
            right += sum(names[row] == question[3] for row, question in zip(best, batch, strict=True))
        answers.append(Accuracy(section.name, right, len(known), len(section.questions)))
    return answers


def total(answers: Sequence[Accuracy]) -> Accuracy:
    return Accuracy(
        "total",
        sum(each.right for each in answers),
        sum(each.known for each in answers),
        sum(each.questions for each in answers),
    )


def agreement(embedding: Embedding, pairs: Sequence[Pair], fold: bool = True, most: int = RESTRICTED) -> Agreement:
    """How well the cosines of pairs order them as people do; `fold` and `most` as in `analogies`."""
    rows = rows_by_name(fold_case(embedding.words[:most], fold))
    cosines, scores = [], []
    for pair in pairs:
        one, other = fold_case([pair.one, pair.other], fold)
        if one in rows and other in rows:
            cosines.append(cosine(embedding.vectors[rows[one][0]], embedding.vectors[rows[other][0]]))
            scores.append(pair.score)
    return Agreement(spearman(np.array(cosines), np.array(scores)), len(scores), len(pairs))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's ρ, the correlation of the ranks of x and y (n); nan if one of them is constant."""
    if len(x) < 2:
        return float("nan")
    a, b = ranks(x), ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else float("nan")


def ranks(x: np.ndarray) -> np.ndarray:
    """The ranks of numbers (n), from 1; ties get their mean rank.

    >>> ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    _, group, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[group]
