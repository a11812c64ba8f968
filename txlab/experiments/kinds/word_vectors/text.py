"""A text as a stream of sentences, and as word ids on disk, so that its size is not limited by memory (MATH K5).

It is read twice: once to count its words, once to write their ids, four bytes a word, into an anonymous temporary file
that is mapped into memory. A planted text comes from here as well; its synonyms and analogies are known.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from txlab.engine.embeddings.vocabulary import Vocabulary, count_words
from txlab.engine.embeddings.windows import BOUNDARY
from txlab.errors import LabError
from txlab.experiments.corpora import EMBEDDED, begins_as_text, load_corpus, relative_files
from txlab.experiments.kinds.word_vectors.schema import WordText
from txlab.experiments.randomness import generator
from txlab.files import expand_path, open_regular

PATTERNS = {
    "letters": re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*"),
    "identifiers": re.compile(r"[^\W\d]\w*"),
    "spaces": re.compile(r"\S+"),
}
LONGEST_WORD = 200  # characters; anything longer is data, not a word
LONGEST_LINE = 1 << 20  # characters; a longer one is cut
BASES, FEATURES, SYNONYMS, MARKERS = 60, 4, 2, 3


@dataclass(frozen=True)
class EncodedText:
    """`ids` (n) int32, BOUNDARY after each sentence; `fingerprint` is a digest of the words and the ids."""

    vocabulary: Vocabulary
    ids: np.ndarray
    fingerprint: str


def encode_words(section: WordText, seed: int) -> EncodedText:
    """Count and encode the text. LabError if it cannot be read, is not UTF-8, or has fewer than two words."""
    vocabulary = count_words(
        (word for sentence in sentences_of(section, seed) for word in sentence), section.minimum, section.most
    )
    number = vocabulary.ids
    digest = sha256("\n".join(vocabulary.words).encode())
    with tempfile.TemporaryFile(prefix="txlab-words-") as file:
        for sentence in sentences_of(section, seed):
            ids = [number[word] for word in sentence if word in number]
            if len(ids) > 1:
                data = np.array([*ids, BOUNDARY], dtype=np.int32).tobytes()
                digest.update(data)
                file.write(data)
        file.flush()
        if not file.tell():
            raise LabError(f"data.text = {section.text!r} has no {section.sentences} with two words of the vocabulary")
        ids_on_disk = np.memmap(file, dtype=np.int32, mode="r")
    return EncodedText(vocabulary, ids_on_disk, digest.hexdigest())


def sentences_of(section: WordText, seed: int) -> Iterator[list[str]]:
    """The sentences of the text, each as its words."""
    if section.source == "planted":
        return planted_sentences(section.tokens, seed)
    lines = lines_of(section.text)
    pattern, lower = PATTERNS[section.words], section.words == "letters"
    pieces = lines if section.sentences == "line" else paragraphs(lines)
    return (
        [word for word in pattern.findall(piece.lower() if lower else piece) if len(word) <= LONGEST_WORD]
        for piece in pieces
    )


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines up to an empty one; a paragraph of more than 1000 lines is cut, to limit memory."""
    held: list[str] = []
    for line in lines:
        if line.strip():
            held.append(line)
        if held and (not line.strip() or len(held) >= 1000):
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


def lines_of(text: str) -> Iterator[str]:
    if text in EMBEDDED or text == "-":
        for document in load_corpus(text).documents:
            yield from document.splitlines()
            yield ""
        return
    try:
        path = expand_path(text)
        if path.is_dir():
            names = [name for name in relative_files(path) if (path / name).is_file() and begins_as_text(path / name)]
            if not names:
                raise LabError(f"data.text = {text!r} is a folder without any UTF-8 text file")
        else:
            names = [""]
        for name in names:
            yield from lines_of_file(path / name)
            yield ""
    except (FileNotFoundError, ValueError):  # a path with a NUL in it
        raise LabError(f"data.text = {text!r} does not exist; allowed: {', '.join(EMBEDDED)}, a path, or -") from None
    except OSError as error:
        raise LabError(f"data.text = {text!r} cannot be read: {error.strerror or error}") from None


def lines_of_file(path: Path) -> Iterator[str]:
    with os.fdopen(open_regular(path), encoding="utf-8") as file:
        try:
            while line := file.readline(LONGEST_LINE):
                yield line.rstrip("\n")
        except UnicodeDecodeError as error:
            raise LabError(f"data.text = {str(path)!r} is not UTF-8: {error.reason}; save it as UTF-8") from None


# A language whose synonyms and analogies are known


@dataclass(frozen=True)
class PlantedWord:
    """A word of the planted language: two words of one base and one feature are synonyms."""

    base: int
    feature: int
    synonym: int

    @property
    def text(self) -> str:
        """
        >>> PlantedWord(0, 1, 0).text, PlantedWord(0, 1, 1).text, PlantedWord(0, 2, 0).text
        ('babai', 'babuai', 'babao')
        """
        return f"{stem(self.base)}{'u' if self.synonym else ''}{'a' + 'eiou'[self.feature]}"


def stem(number: int) -> str:
    """
    >>> stem(0), stem(17), stem(59)
    ('bab', 'dun', 'lur')
    """
    first, last = "bdfgklmnprst"[number // 10 % 12], "bdfgklmnpr"[number % 10]
    return f"{first}{'aiu'[number % 3]}{last}"


def planted_words() -> list[PlantedWord]:
    return [PlantedWord(b, f, s) for b in range(BASES) for f in range(FEATURES) for s in range(SYNONYMS)]


def planted_sentences(tokens: int, seed: int) -> Iterator[list[str]]:
    """Sentences of seven words: a planted word, two of the markers of its base, two of its feature, two common ones.

    Only the base and the feature decide a word's neighbours, so synonyms are used in the same way, and the difference
    between two features is the same for all bases.
    """
    words = planted_words()
    draws = generator(seed, "planted text", 0)
    for _ in range(-(-tokens // 7)):
        word = words[int(draws.integers(len(words)))]
        near = [f"{stem(word.base)}{'xyz'[i]}" for i in draws.choice(MARKERS, 2, replace=False)]
        form = [f"form{word.feature + 1}{'xyz'[i]}" for i in draws.choice(MARKERS, 2, replace=False)]
        common = [f"the{i}" for i in draws.integers(0, 10, 2)]
        sentence = [word.text, *near, *form, *common]
        yield [sentence[i] for i in draws.permutation(len(sentence))]
