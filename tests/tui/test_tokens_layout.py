"""Tokens on the screen: every byte is shown, the letters of all tokenizers are aligned, and no line is too long."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.drawing.text import width
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.tokenizers.offsets import token_spans_of_bytes
from txlab.engine.tokenizers.patterns import cut
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.tui.screens.tokens.encoded_text import PARAGRAPH, PART, Stopped, TokenLane, document_of, index, lane_of
from txlab.tui.screens.tokens.token_layout import layout, show_bytes, tints, units

BPE = train_tokenizer(["the cat that the mat, naïve 日本 the e\u0301 \r\n\n  def"] * 4, 320)
KINDS = [BPE, ByteTokenizer(), CharacterTokenizer.of("the cat")]

TEXTS = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=60).map(lambda text: text.encode(errors="replace")),
    st.text("the cat\n é\u0301日\u200d👩🏽\u1161", max_size=80).map(str.encode),
)


def never(done: int, total: int) -> None:
    assert 0 <= done <= max(1, total)


def lanes_of(data: bytes, special: bool = False) -> list[TokenLane]:
    document = index(data)
    return [lane_of(str(number), kind, document, special, never) for number, kind in enumerate(KINDS)]


def test_the_invisible_is_visible() -> None:
    expected = [
        (b" ", "·"), (b"\n", "↵"), (b"\t", "⇥"), (b"\0", "␀"), (b"\x1b", "␛"), (b"\xff", "\\xff"), (b"\xc3", "\\xc3"),
        ("\u0301".encode(), "◌\u0301"), ("e\u0301".encode(), "e\u0301"), ("\u0378".encode(), "\\u0378"),
        ("\u00a0".encode(), "\\xa0"), ("\u202e".encode(), "\\u202e"), ("\u200d".encode(), "\\u200d"),
        ("\ufe0f".encode(), "\\ufe0f"), ("\ue000".encode(), "\\ue000"), ("日".encode(), "日"), (b"[/x]", "[/x]"),
    ]  # fmt: skip
    for data, shown in expected:
        assert show_bytes(data) == shown
        assert show_bytes(data, ascii=True).isascii()


@given(TEXTS)
def test_units_are_all_of_the_bytes_and_nothing_reaches_the_terminal(data: bytes) -> None:
    for ascii in (False, True):
        found = units(data, ascii)
        assert [unit.start for unit in found] == np.cumsum([0, *(unit.size for unit in found)])[:-1].tolist()
        assert sum(unit.size for unit in found) == len(data)
        for unit in found:
            assert unit.width == width(unit.shown) > 0
            assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") for c in unit.shown)
            assert unit.shown.isascii() or not ascii


@settings(max_examples=60)
@given(TEXTS, st.permutations(range(3)), st.integers(4, 60), st.booleans(), st.booleans(), st.booleans())
def test_letters_of_all_lanes_are_in_the_same_columns(
    data: bytes, order: list[int], cells: int, borders: bool, ids: bool, ascii: bool
) -> None:
    document, lanes = index(data), [lanes_of(data)[place] for place in order]
    whole: list[list[int]] = [[] for _ in lanes]
    reached = 0
    for paragraph in range(len(document.starts)):
        for row in layout(document, lanes, paragraph, cells, borders, ids, ascii):
            assert row.start == reached
            reached = row.stop
            places: dict[int, int] = {}
            for number, spans in enumerate(row.lanes):
                column = 0
                for span in spans:
                    assert span.column >= column + (borders and span.begins)
                    assert width(span.text) == span.width
                    column = span.column + span.width
                    seen = set()
                    for byte, place, _ in span.units:
                        if byte not in seen:  # the first thing shown at a byte
                            seen.add(byte)
                            if not lanes[number].start(span.token) == lanes[number].stop(span.token - 1) == byte:
                                assert places.setdefault(byte, place) == place or lanes[number].ids[span.token] < 16
                    whole[number] += [span.token] * span.begins
    assert reached == len(data)
    for number, lane in enumerate(lanes):
        assert whole[number] == list(range(len(lane)))


def test_lines_fit_where_no_sign_is_wider_than_the_line() -> None:
    text = ("the cat that chased the mat, " * 40).encode()
    document, lanes = index(text), lanes_of(text)
    for cells in (12, 30, 77):
        for paragraph in range(len(document.starts)):
            for row in layout(document, lanes, paragraph, cells):
                assert all(span.column + span.width <= cells for spans in row.lanes for span in spans)


@settings(max_examples=60)
@given(TEXTS)
def test_tokens_are_where_the_engine_says(data: bytes) -> None:
    for lane in lanes_of(data):
        expected = token_spans_of_bytes(lane.tokenizer, data)
        assert lane.ids.tolist() == [piece.token for piece in expected]
        assert lane.stops.tolist() == [piece.byte_stop for piece in expected]


def test_a_long_text_in_pieces_has_the_tokens_of_the_whole() -> None:
    words = ("x" + "that" * 300 + " the  cat\n\n 123 naïve 日本") * 600
    text, whole = words.encode(), BPE.encode(words)
    torn = [BPE.encode(words[start : start + PART]) for start in range(0, len(words), PART)]
    assert sum(torn, []) != whole  # noqa: RUF017
    parts = list(cut(words, "gpt4", PART))
    assert len(parts) > 3
    assert "".join(parts).encode() == text
    assert lane_of("bpe", BPE, index(text), False, never).ids.tolist() == whole


@given(TEXTS)
def test_paragraphs_are_lines_or_pieces_of_them_and_characters_are_counted(data: bytes) -> None:
    document = index(data * 40)
    data = data * 40
    ends = [*document.starts[1:].tolist(), len(data)]
    for start, end in zip(document.starts.tolist(), ends, strict=True):
        assert 0 <= end - start <= PARAGRAPH + 3
        assert b"\n" not in data[start : end - 1]
    text = data.decode(errors="surrogateescape")
    assert document.characters == len(text)
    place = 0
    for at, character in enumerate(text[:200]):
        assert document.characters_at(place) == at
        place += len(character.encode(errors="surrogateescape"))


def test_special_tokens_are_plain_text_unless_allowed() -> None:
    tokenizer = BytePairTokenizer([(97, 98)], "gpt4", ["<|end|>"])
    document = index(b"ab<|end|>ab")
    plain = lane_of("", tokenizer, document, False, never)
    allowed = lane_of("", tokenizer, document, True, never)
    assert 257 not in plain.ids
    assert allowed.ids.tolist() == [256, 257, 256]
    assert allowed.stops.tolist() == [2, 9, 11]
    assert allowed.special == {257}


def test_a_long_text_says_how_far_it_is() -> None:
    text = b"the cat that " * 60_000
    for kind in KINDS:
        said: list[int] = []
        lane_of("", kind, index(text), False, lambda done, total: said.append(done))  # noqa: B023
        assert said == sorted(said)
        assert len(said) > len(text) // (2 * PART)
        assert said[-1] == len(text)


def test_encoding_stops_when_it_is_no_longer_wanted() -> None:
    def stop(done: int, total: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        lane_of("", BPE, index(b"the cat"), False, stop)
    with pytest.raises(Stopped):
        document_of("", b"the cat", stop)


def test_neighbours_never_have_the_same_tint() -> None:
    for colours in ("truecolor", "256", "16"):
        for dark in (True, False):
            known = tints(colours, dark)  # type: ignore[arg-type]
            assert len(set(known)) == len(known) > 2
