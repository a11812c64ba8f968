"""The area `tokenizers` of `verify`, on fixtures of CS336's form that are made here by counting everything anew."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import regex

from txlab.engine.tokenizers.gpt2_files import LETTERS
from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.errors import LabError
from txlab.experiments.corpora import python_docs
from txlab.experiments.reference_numbers import figures
from txlab.experiments.reference_numbers.tokenizers import MERGES, SPECIAL, TEXTS

Word = tuple[bytes, ...]


def learnt(text: str, merges: int) -> list[tuple[bytes, bytes]]:
    """The most frequent pair, of those the greatest, again and again: the assignment's sentence as a loop."""
    pieces = [piece for part in text.split(SPECIAL) for piece in regex.findall(PATTERNS["gpt2"], part)]
    words = Counter(tuple(bytes([byte]) for byte in piece.encode()) for piece in pieces)
    found = []
    for _ in range(merges):
        counts: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                counts[pair] += count
        best = max(counts, key=lambda pair: (counts[pair], pair))
        found.append(best)
        words = Counter({joined(word, best): count for word, count in words.items()})
    return found


def joined(word: Word, pair: tuple[bytes, bytes]) -> Word:
    out: list[bytes] = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return tuple(out)


def named(data: bytes) -> str:
    return "".join(LETTERS[byte] for byte in data)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cs336")
    fixtures = folder / "tests" / "fixtures"
    fixtures.mkdir(parents=True)
    text = python_docs().text[:6000] + SPECIAL + "naïve Größe — ok\n" * 3
    (fixtures / "corpus.en").write_text(text, encoding="utf-8")
    merges = learnt(text, MERGES)
    vocab = {name: token for token, name in enumerate([SPECIAL, *LETTERS.values()])}
    vocab |= {named(left + right): 257 + rank for rank, (left, right) in enumerate(merges)}
    lines = [f"{named(left)} {named(right)}" for left, right in merges]
    (fixtures / "train-bpe-reference-merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (fixtures / "train-bpe-reference-vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    # GPT-2's own file has the special token at the end.
    last = {name: token - 1 for name, token in vocab.items() if name != SPECIAL} | {SPECIAL: 256 + MERGES}
    (fixtures / "gpt2_merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (fixtures / "gpt2_vocab.json").write_text(json.dumps(last), encoding="utf-8")
    for number, name in enumerate(TEXTS):
        (fixtures / name).write_text(text[500 * number :], encoding="utf-8")
    return folder


def wrong(folder: Path) -> list[str]:
    """The numbers that do not hold."""
    return [
        number.label
        for figure in figures("tokenizers", folder=folder)
        for number, found in zip(figure.numbers, figure.measure(lambda text: None), strict=True)
        if not number.holds(found)
    ]


def test_all_merges_tokens_and_texts_are_those_of_the_files(checkout: Path) -> None:
    assert wrong(checkout) == []
    assert wrong(checkout / "tests" / "fixtures") == []


def test_one_merge_out_of_place_does_not_hold(checkout: Path, tmp_path: Path) -> None:
    for file in (checkout / "tests" / "fixtures").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    merges = tmp_path / "train-bpe-reference-merges.txt"
    lines = merges.read_text(encoding="utf-8").splitlines()
    lines[100], lines[101] = lines[101], lines[100]
    merges.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert wrong(tmp_path) == ["merges that are the file's, in order"]


@pytest.mark.parametrize("name", ["corpus.en", "train-bpe-reference-vocab.json", "gpt2_merges.txt", "address.txt"])
def test_a_file_that_is_not_there_or_not_text_is_named(checkout: Path, tmp_path: Path, name: str) -> None:
    for file in (checkout / "tests" / "fixtures").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(LabError, match=name):
        wrong(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(LabError, match=name):
        wrong(tmp_path)


def test_without_a_folder_the_area_says_what_it_needs() -> None:
    assert all("--folder" in figure.needs for figure in figures("tokenizers"))
