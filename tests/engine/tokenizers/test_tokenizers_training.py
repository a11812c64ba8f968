"""The trainer forwards and backwards, over both base vocabularies, against recounting everything (MATH K2)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.engine.tokenizers.bases import GPT2, Alphabet, Base
from txlab.engine.tokenizers.byte_pairs import LONGEST_TOKEN, BytePairTokenizer
from txlab.engine.tokenizers.plain import merge_pair
from txlab.engine.tokenizers.training import Merge, Ties, Trainer, count_chunks, train_merges, train_tokenizer
from txlab.errors import LabError

TEXTS = st.lists(st.text("ab cé\n", max_size=40), max_size=6)


class Recounter:
    """The same by counting everything anew, for what a user may ask a trainer."""

    def __init__(self, chunks: Counter[bytes], base: Base, ties: Ties = "first") -> None:
        self.base, self.new, self.ties = base, base.after, ties
        self.spelt = dict(base.tokens)
        self.rows = [(list(base.symbols(chunk)), count) for chunk, count in chunks.items()]

    def pairs(self) -> list[tuple[tuple[int, int], int]]:
        counts: Counter[tuple[int, int]] = Counter()
        for row, count in self.rows:
            for pair in pairwise(row):
                if min(pair) >= self.base.fixed:
                    counts[pair] += count
        found = sorted(counts.items())
        if self.ties == "greatest":
            found.sort(key=lambda entry: tuple(self.spelt[token] for token in entry[0]), reverse=True)
        return sorted(found, key=lambda entry: -entry[1])

    def length(self) -> int:
        return sum(len(row) * count for row, count in self.rows)

    def merge(self, pair: tuple[int, int]) -> None:
        self.rows = [(merge_pair(row, pair, self.new), count) for row, count in self.rows]
        self.spelt[self.new] = self.spelt[pair[0]] + self.spelt[pair[1]]
        self.new += 1


def bases(texts: list[str]) -> list[Base]:
    return [GPT2, Alphabet.of(texts)]


@given(TEXTS, st.sampled_from([0, 1]), st.integers(1, 25), st.sampled_from(["first", "greatest"]))
def test_every_step_tells_what_recounting_tells(texts: list[str], which: int, steps: int, ties: Ties) -> None:
    base = bases(texts)[which]
    chunks = count_chunks(texts)
    trainer, recounter = Trainer(chunks, base, ties), Recounter(chunks, base, ties)
    for _ in range(steps):
        pairs = recounter.pairs()
        assert trainer.runners_up(1000) == pairs
        assert trainer.length() == recounter.length()
        merge = trainer.step()
        if not pairs or pairs[0][1] < 2:
            assert merge is None
            return
        assert merge is not None
        assert (merge.pair, merge.count) == pairs[0]
        recounter.merge(merge.pair)
    assert trainer.lengths[-1] == recounter.length()


def test_a_tie_goes_to_the_lowest_ids_or_to_the_greatest_bytes() -> None:
    """A B, A C, B A and B Z occur twice each."""
    chunks = Counter({b"AB": 2, b"AC": 2, b"BZ": 2, b"BA": 2})
    assert [Trainer(chunks, ties=ties).step() for ties in ("first", "greatest")] == [
        Merge(256, (65, 66), 2),
        Merge(256, (66, 90), 2),
    ]
    # A longer left side is greater than what it begins with: ("ab", "c") before ("a", "zz").
    longer = Counter({b"ab": 9, b"abc": 2, b"zz": 9, b"azz": 2})
    trainer = Trainer(longer, ties="greatest")
    assert [trainer.spelt[merge.token] for merge in iter(trainer.step, None)][:3] == [b"zz", b"ab", b"abc"]


@given(TEXTS, st.lists(st.sampled_from(["step", "step", "step", "back"]), max_size=40), st.booleans())
def test_a_trainer_that_went_back_is_one_that_never_went_further(texts: list[str], walk: list[str], up: bool) -> None:
    chunks, ties = count_chunks(texts), cast("Ties", "greatest" if up else "first")
    trainer = Trainer(chunks, ties=ties)
    done = 0
    for move in walk:
        merge = trainer.step() if move == "step" else trainer.back()
        done += (merge is not None) * (1 if move == "step" else -1)
    fresh = Trainer(chunks, ties=ties)
    for _ in range(done):
        fresh.step()
    assert trainer.merges == fresh.merges
    assert trainer.lengths == fresh.lengths
    assert trainer.vocabulary == 256 + done
    assert trainer.runners_up(1000) == fresh.runners_up(1000)
    while (merge := fresh.step()) is not None:
        assert trainer.step() == merge


def test_going_back_all_the_way_leaves_the_beginning() -> None:
    trainer = Trainer(Counter({b"aaabdaaabac": 3, b"aaaa": 2}))
    before = trainer.runners_up(99), trainer.lengths[:]
    merges = [trainer.step() for _ in range(5)]
    assert [trainer.back() for _ in range(5)] == merges[::-1]
    assert trainer.back() is None
    assert (trainer.runners_up(99), trainer.lengths) == before
    assert trainer.token_bytes(256) == b""


def test_to_and_fro_for_a_long_time_does_not_grow() -> None:
    trainer = Trainer(count_chunks(["the cat sat on the mat " * 5]))
    for _ in range(3000):
        trainer.step()
        trainer.back()
    assert len(trainer.heap) < 2000
    assert sum(map(len, trainer.where.values())) < 200


def test_the_work_of_training_on_one_endless_chunk_does_not_grow_with_its_square() -> None:
    def touched(repeats: int) -> int:
        # "none": the whole text is one chunk. What a merge touches are the places of its pair.
        trainer = Trainer(count_chunks(["abcdefgh " * repeats], "none"))
        places = sum(map(len, trainer.where.values()))
        for _ in range(8):
            places += len(trainer.where[trainer.runners_up(1)[0][0]])
            trainer.step()
        return places

    assert touched(20_000) == pytest.approx(10 * touched(2_000), rel=0.01)


def test_a_long_chunk_is_not_cut_at_hidden_places() -> None:
    # Cut anywhere into two, the pair would be counted 599 times at most.
    trainer = Trainer(Counter({b"ab" * 600: 1}))
    assert trainer.runners_up(1) == [((97, 98), 600)]


def test_no_token_grows_beyond_what_our_files_take() -> None:
    trainer = train_merges(count_chunks(["a" * 100_000], "none"), 400)
    assert max(len(trainer.token_bytes(token)) for token in range(trainer.vocabulary)) == LONGEST_TOKEN
    assert trainer.tokenizer("none").decode(trainer.tokenizer("none").encode("a" * 1000)) == "a" * 1000


def test_the_alphabet_is_becker_kahns() -> None:
    # V₀: the letters' byte strings, an end of words and an end of artefacts; neither merges, none reaches across one.
    texts = ["the cat★the mouse", "thé cat"]
    base = Alphabet.of(texts)
    assert base.letters == "acehmostué"
    tokenizer = train_tokenizer(texts, 60, "none", base=base)
    assert tokenizer.special == ("★",)
    learnt = [tokenizer.token_bytes(token) for token in range(base.size, tokenizer.vocabulary)]
    assert learnt == [b"th", b"at", b"cat", b"the"]
    assert not any(b" " in data or "★".encode() in data for data in learnt)
    assert tokenizer.label(0) == " "
    assert [tokenizer.label(token) for token in tokenizer.encode("the cat★é", special=True)] == [
        *("the", " ", "cat", "★", "é")
    ]
    typed = tokenizer.encode("★")
    assert typed == [2 + digit for digit in (0xE, 2, 9, 8, 8, 5)]
    assert tokenizer.decode(typed) == "★"


@settings(max_examples=50)
@given(st.binary(max_size=60) | st.text("ab é★漢\n").map(str.encode))
def test_an_alphabet_gives_every_byte_string_back(data: bytes) -> None:
    tokenizer = train_tokenizer(["abba ab é", "ab ab"], 50, base=Alphabet.of(["ab é"]))
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data
    text = data.decode(errors="replace")
    assert tokenizer.encode(text) == tokenizer.encode_long(text).tolist() == tokenizer.encode_bytes(text.encode())


def test_progress_is_reported_and_stops_the_training() -> None:
    told: list[int] = []

    def progress(done: int) -> bool:
        told.append(done)
        return len(told) < 3

    text = " ".join(f"word{i} word{i}" for i in range(500))
    assert len(train_merges(count_chunks([text]), 1000, progress=progress).merges) == 300
    assert told == [100, 200, 300]


def test_counts_travel_with_the_tokenizer() -> None:
    tokenizer = Trainer(Counter({b"aaab": 2})).tokenizer()
    assert (tokenizer.merges, tokenizer.counts) == ([], ())
    trainer = Trainer(Counter({b"aaab": 2}))
    trainer.step()
    assert trainer.tokenizer().counts == (4,)
    with pytest.raises(LabError, match="1 merges but 2 counts"):
        BytePairTokenizer([(97, 97)], counts=[1, 2])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Alphabet("ba"), "sorted by code point"),
        (lambda: Alphabet("a b"), "sorted by code point"),
        (lambda: Alphabet("a", ""), "needs a text"),
        (lambda: Alphabet("\ud800"), "lone surrogate"),
        (lambda: train_merges(Counter(), 18, Alphabet("a")), "starts from the 19 tokens of its base"),
        (lambda: BytePairTokenizer([(0, 18)], base=Alphabet("a")), "of which one never merges"),
    ],
)
def test_a_mistake_in_a_base_is_reported(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LabError, match=said):
        make()
