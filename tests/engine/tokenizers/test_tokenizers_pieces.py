"""Where tokens lie, what they were made of, how much they hold; words as tokens (MATH K1, K2)."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.tokenizers.bases import Alphabet
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, passes
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.offsets import Statistics, statistics, token_spans, token_spans_of_bytes, words
from txlab.engine.tokenizers.patterns import O200K, cut
from txlab.engine.tokenizers.tokenizer import Tokenizer, ids_of_bytes
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.tokenizers.trees import explain_token, merge_tree
from txlab.errors import LabError

LEARN = "the cat's mat\n\n  the é hat, the 漢 cats 123 /the\n" * 3
TOKENIZERS: dict[str, Tokenizer] = {
    "bytes": ByteTokenizer(),
    "characters": CharacterTokenizer.of("the cat\n"),
    "words": WordTokenizer.of(LEARN),
    "alphabet": train_tokenizer([LEARN], 80, base=Alphabet.of(["the cats\n"])),
} | {
    pattern[:5]: train_tokenizer([LEARN], 290, pattern, ["<|end|>"])
    for pattern in ("none", "gpt2", "gpt4", O200K, r"[a-s]+|\s")
}
TEXTS = st.text("the cat's\n\r /é漢🙂!1\u0301\u3000", max_size=60) | st.text(max_size=20)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS)
def test_the_pieces_are_the_tokens_in_their_places(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    found = token_spans(tokenizer, text)
    assert [piece.token for piece in found] == tokenizer.encode(text) == tokenizer.encode_long(text).tolist()
    data = text.encode()
    assert b"".join(piece.data for piece in found) == data
    place = 0
    for piece in found:
        assert piece.byte_start == place
        assert data[piece.byte_start : piece.byte_stop] == piece.data
        # The characters from start to stop are those that have at least one of its bytes.
        assert len(text[: piece.start].encode()) <= piece.byte_start
        assert len(text[: piece.stop].encode()) >= piece.byte_stop
        assert len(text[: piece.start + 1].encode()) > piece.byte_start
        if piece.data:
            assert len(text[: piece.stop - 1].encode()) < piece.byte_stop
        place = piece.byte_stop


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS, most=st.integers(0, 20))
def test_the_first_pieces_are_those_of_the_whole(name: str, text: str, most: int) -> None:
    tokenizer = TOKENIZERS[name]
    assert token_spans_of_bytes(tokenizer, text.encode(), most=most) == token_spans(tokenizer, text)[:most]


@pytest.mark.parametrize("pattern", ["none", "gpt2", "gpt4", "cl100k", O200K])
@given(text=TEXTS, size=st.integers(1, 20))
def test_the_tokens_of_the_parts_are_those_of_the_whole(pattern: str, text: str, size: int) -> None:
    # GPT-4o's pattern has one chunk for a sign, a line's end and a slash; the others cut before the slash.
    tokenizer = BytePairTokenizer([(10, 47), (32, 32), (116, 104)], pattern)
    parts = cut(text, pattern, size)
    assert [token for part in parts for token in tokenizer.encode(part)] == tokenizer.encode(text)


def test_the_first_pieces_of_a_long_text_look_only_at_its_beginning() -> None:
    class Counted(WordTokenizer):
        asked = 0

        def by_character(self, text: str) -> list[int]:
            self.asked += 1
            return super().by_character(text)

    tokenizer = Counted.of(LEARN)
    assert len(token_spans_of_bytes(tokenizer, ("unknown " * 100_000).encode(), most=50)) == 50
    assert tokenizer.asked < 10  # type: ignore[attr-defined]


@given(st.binary(max_size=60))
def test_any_bytes_have_pieces(data: bytes) -> None:
    for tokenizer in TOKENIZERS.values():
        found = token_spans_of_bytes(tokenizer, data)
        assert [piece.token for piece in found] == tokenizer.encode_bytes(data)
        assert b"".join(piece.data for piece in found) == data


def test_half_a_character_starts_where_the_character_does() -> None:
    found = token_spans(BytePairTokenizer([]), "aé漢")
    assert [(piece.start, piece.stop, piece.byte_start) for piece in found] == [
        *[(0, 1, 0), (1, 2, 1), (1, 2, 2), (2, 3, 3), (2, 3, 4), (2, 3, 5)]
    ]


def test_special_tokens_are_pieces_only_when_allowed() -> None:
    tokenizer = TOKENIZERS["gpt4"]
    text = "é<|end|>the<|end|>"
    assert not any(piece.special for piece in token_spans(tokenizer, text))
    allowed = token_spans(tokenizer, text, special=True)
    assert [(piece.start, piece.stop, piece.byte_start) for piece in allowed if piece.special] == [
        (1, 8, 2),
        (11, 18, 12),
    ]
    assert [piece.token for piece in allowed] == tokenizer.encode(text, special=True)  # type: ignore[call-arg]


def test_a_lone_surrogate_is_one_clear_sentence_everywhere() -> None:
    text = "a\udc80"
    for tokenizer in TOKENIZERS.values():
        for ask in (tokenizer.encode, tokenizer.encode_long, partial(token_spans, tokenizer)):
            with pytest.raises(LabError, match=r"lone surrogate U\+DC80"):
                ask(text)


def test_words_and_what_is_between_them_are_tokens_and_the_rest_falls_back() -> None:
    tokenizer = WordTokenizer.of("one two, one two, three")
    assert tokenizer.texts == (*sorted(set("one two, three")), ", ", "one", "two", "three")
    assert [tokenizer.label(token) for token in tokenizer.encode("two, one")] == ["two", ", ", "one"]
    labels = [tokenizer.label(token) for token in tokenizer.encode("tone é")]
    assert labels == ["t", "o", "n", "e", " ", "⟨c⟩", "⟨3⟩", "⟨a⟩", "⟨9⟩"]
    small = WordTokenizer.of("one two, one two, three", 16 + 9 + 1)
    assert small.texts[9:] == (", ",)
    with pytest.raises(
        LabError, match="vocabulary of 20 is too small: the digits and the characters of the text are 25"
    ):
        WordTokenizer.of("one two, three", 20)


@given(st.text(), st.binary())
def test_words_give_every_text_and_every_byte_string_back(text: str, data: bytes) -> None:
    tokenizer = TOKENIZERS["words"]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("The cat's well-known mouse, 3.14!", (5, 0)),
        ("naïve e\u0301tude", (2, 0)),
        ("کتاب\u200cها", (1, 0)),
        ("नमस्ते दुनिया", (2, 0)),
        ("안녕 세상", (2, 0)),
        ("猫は見る。", (4, 4)),
        ("カタカナ", (1, 0)),
        ("แมว", (3, 3)),
        ("... --- !!", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_words_are_counted_as_documented(text: str, counted: tuple[int, int]) -> None:
    assert words(text) == counted


def test_statistics_are_counts_and_their_ratios() -> None:
    def counted(tokenizer: Tokenizer, data: bytes) -> Statistics:
        return statistics(data, ids_of_bytes(tokenizer, data))

    found = counted(BytePairTokenizer([(97, 97), (256, 98)]), "aaab é aaab".encode())
    assert (found.tokens, found.bytes, found.characters, found.words, found.distinct) == (10, 12, 11, 3, 6)
    assert (found.bytes_per_token, found.tokens_per_word) == (12 / 10, 10 / 3)
    assert math.isnan(counted(ByteTokenizer(), b"").bytes_per_token)
    assert counted(ByteTokenizer(), b"\xff a") == counted(ByteTokenizer(), b"\x00 a")


def test_a_token_is_explained_by_its_merges_in_the_order_in_which_they_were_learnt() -> None:
    tokenizer = train_tokenizer(["aaab aaab cc"], 262, "gpt4", ["<|end|>"])
    assert tokenizer.merges[:3] == [(97, 97), (97, 98), (256, 257)]
    found = explain_token(tokenizer, 258)
    assert [(step.name, step.expression, step.result, step.note) for step in found.steps] == [
        ("'aa'", "'a' + 'a'", 256, "merge 0, found 4 times"),
        ("'ab'", "'a' + 'b'", 257, "merge 1, found 2 times"),
        ("'aaab'", "'aa' + 'ab'", 258, "merge 2, found 2 times"),
    ]
    assert (found.result, found.math) == (258, "K2")
    assert merge_tree(tokenizer, 258).count == 2
    assert "special" in explain_token(tokenizer, tokenizer.special_of["<|end|>"]).operands[0].note
    assert "beginning" in explain_token(tokenizer, 97).operands[0].note


def test_a_tree_as_deep_as_a_token_is_long_works() -> None:
    tokenizer = BytePairTokenizer([(97, 97)] + [(256 + i, 97) for i in range(510)])
    tree = merge_tree(tokenizer, 256 + 510)
    assert (len(list(tree.nodes())), len(list(tree.leaves())), len(tree.data)) == (1023, 512, 512)
    assert len(explain_token(tokenizer, 766).steps) == 511


def test_the_glass_box_says_which_merge_each_step_was() -> None:
    tokenizer = BytePairTokenizer([(97, 97), (256, 98)])
    assert list(passes(b"aaab", tokenizer.ranks, tokenizer.made)) == [(0, [256, 97, 98])]
    assert list(passes(b"aab", tokenizer.ranks, tokenizer.made)) == [(0, [256, 98]), (1, [257])]
