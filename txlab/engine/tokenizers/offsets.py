"""The position of each token in a text, in characters and in bytes, and how much text a token covers (MATH K1).

A token may be half of a character: it then starts where the character starts, as its neighbour does. Its bytes are not
shared: the place of a token is not its content, which the tokenizer may have normalised. A word, for the counts, is a
run of letters, marks, digits and underscores, possibly with apostrophes, hyphens, points and joiners inside. In scripts
without spaces between words (Han, Hiragana, Thai, Lao, Khmer, Burmese) each character with its marks counts as a word,
by the default rule of Unicode's annex 29; that is more than a reader of these scripts would count, so
`unspaced` is the number of such words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import regex
from numpy.typing import NDArray

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import WordTokenizer
from txlab.engine.tokenizers.gpt2_files import LETTERS, name_of
from txlab.engine.tokenizers.huggingface import ForeignTokenizer
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
from txlab.engine.tokenizers.tokenizer import DIGITS, Ids, Tokenizer, clusters, first_digit, parts, utf8
from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer

STRETCH = 4096  # characters per call, for tokenizers that encode each character separately
# Tokenizers whose tokens are not made of the bytes of the text, and that report each token's position themselves.
Spanning = ForeignTokenizer | WordPieceTokenizer | SentencePieceTokenizer


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token in a text.

    data                   its own bytes, of the text as the tokenizer normalises it, with a space put before the text;
                           b"" for the first digit of a spelt byte
    start, stop            its characters: from the one with its first byte up to and including the one with its last
    byte_start, byte_stop  its place in the text's UTF-8 bytes: all of these characters, or only the token's own bytes
                           where these are what the text has there
    """

    token: int
    data: bytes
    start: int
    stop: int
    byte_start: int
    byte_stop: int
    special: bool = False


def token_spans(tokenizer: Tokenizer, text: str, special: bool = False) -> list[TokenSpan]:
    """The tokens of a text in order. `special`: texts of special tokens become these tokens, as in `encode`.

    Raises LabError for a lone surrogate.
    """
    return token_spans_of_bytes(tokenizer, utf8(text), special)


def token_spans_of_bytes(
    tokenizer: Tokenizer, data: bytes, special: bool = False, most: int | None = None
) -> list[TokenSpan]:
    """The same for any bytes, or the first `most` tokens; each byte that is not UTF-8 counts as one character."""
    text = data.decode(errors="surrogateescape")
    if isinstance(tokenizer, Spanning):
        if not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text):
            tokenizer.encode_bytes(data)  # raises a LabError for bytes that are not text
        spans = of_spans(tokenizer, text, special)
    else:
        spans = between(tokenizer, text, special)
    return list(islice(spans, most))


def of_spans(tokenizer: Spanning, text: str, special: bool) -> Iterator[TokenSpan]:
    """The tokens with their places and bytes as the tokenizer reports them."""
    place = byte = 0
    named = set(tokenizer.special_of.values()) if special else set()
    pieces = tokenizer.spans(text, special)
    for begin, end in clusters(pieces):
        shared = pieces[begin:end]
        start, stop = min(piece.start for piece in shared), max(piece.stop for piece in shared)
        byte, place = byte_at(text, place, byte, start), start
        here = text[start:stop].encode()
        joined = b"".join(piece.data for piece in shared)
        before = joined.find(here)
        # The text as it is, except for spaces that the tokenizer puts there or leaves out of the place.
        exact = before >= 0 and not (joined[:before] + joined[before + len(here) :]).strip(b" ")
        at = -before
        for token, first, last, data in shared:
            bounds = (at, at + len(data))
            if not exact:
                bounds = (len(text[start:first].encode()), len(text[start:last].encode()))
            low, high = (byte + min(max(bound, 0), len(here)) for bound in bounds)
            yield TokenSpan(token, data, first, last, low, high, token in named)
            at += len(data)


def byte_at(text: str, place: int, byte: int, wanted: int) -> int:
    """The byte where the character `wanted` begins, if the character `place` begins at `byte`."""
    between = text[min(place, wanted) : max(place, wanted)].encode(errors="surrogateescape")
    return byte + len(between) if wanted >= place else byte - len(between)


def between(tokenizer: Tokenizer, text: str, special: bool) -> Iterator[TokenSpan]:
    if not isinstance(tokenizer, BytePairTokenizer):
        yield from of_part(tokenizer, text, 0, 0)
        return
    place = byte = 0
    named = set(tokenizer.special_of.values())
    for begin, end, token in tokenizer.added_tokens.cut(text, special):
        byte, place = byte_at(text, place, byte, begin), begin
        if token is None:
            spans = of_part(tokenizer, text[begin:end], begin, byte)
        else:
            data = text[begin:end].encode()
            spans = iter([TokenSpan(token, data, begin, end, byte, byte + len(data), token in named)])
        if tokenizer.offsets == "whole":
            yield from spans
            continue
        for span in spans:
            name = name_of(span.data) if token is None else text[begin:end]
            yield trim(span, name, tokenizer.offsets == "trimmed after a prefix")


SPACES = regex.compile(rf"[{LETTERS[0x20]}\p{{White_Space}}]*")


def trim(span: TokenSpan, name: str, prefixed: bool) -> TokenSpan:
    """The characters of a token without the spaces around it; its bytes are unchanged.

    `name`: the library's name of the token; `prefixed`: one space before the text's first token is kept.
    Source: huggingface/tokenizers, pre_tokenizers/byte_level.rs (process_offsets).
    """
    start, stop = span.start, span.stop
    before, behind = (len(SPACES.match(each).group()) for each in (name, name[::-1]))
    if before:
        start = min(start + before, stop) if before > 1 or start or not prefixed else start
    if behind and stop >= behind:
        stop = max(stop - behind, start)
    return replace(span, start=start, stop=stop)


def of_part(tokenizer: Tokenizer, text: str, place: int, byte: int) -> Iterator[TokenSpan]:
    """The spans of the part of a text that begins at character `place` and byte `byte`."""
    for stretch, ids in stretches(tokenizer, text):
        data = stretch.encode(errors="surrogateescape")
        yield from of_stretch(tokenizer, stretch, data, ids, place, byte)
        place, byte = place + len(stretch), byte + len(data)


def stretches(tokenizer: Tokenizer, text: str) -> Iterator[tuple[str, list[int]]]:
    """Stretches of a text that are tokenized independently, each with its tokens."""
    if isinstance(tokenizer, BytePairTokenizer | WordTokenizer):
        yield from tokenizer.stretches(text)
        return
    for place in range(0, len(text), STRETCH):
        stretch = text[place : place + STRETCH]
        yield stretch, tokenizer.encode_bytes(stretch.encode(errors="surrogateescape"))


def of_stretch(
    tokenizer: Tokenizer, stretch: str, data: bytes, ids: list[int], place: int, byte: int
) -> Iterator[TokenSpan]:
    """The spans of one stretch, whose first character and byte are `place` and `byte`."""
    single = len(data) == len(stretch)  # every character is one byte
    character_of: list[int] = []
    if not single:
        for i, character in enumerate(stretch):
            character_of += [i] * len(character.encode(errors="surrogateescape"))
        character_of.append(len(stretch))
    at = 0
    for token, part in zip(ids, parts(ids, tokenizer.token_bytes, first_digit(tokenizer)), strict=True):
        last = at + max(len(part), 1) - 1
        first, end = (at, last) if single else (character_of[at], character_of[last])
        yield TokenSpan(token, part, place + first, place + end + 1, byte + at, byte + at + len(part))
        at += len(part)


UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]"
WORD = regex.compile(
    rf"(?P<unspaced>[[{UNSPACED}]&&[\p{{L}}\p{{N}}]]\p{{M}}*)|{LETTER}+(?:['’.·\u200c\u200d-]{LETTER}+)*", regex.V1
)


@dataclass(frozen=True)
class Statistics:
    """Counts of one text under one tokenizer; a ratio is nan if its denominator is zero.

    unspaced  the number of words that are single characters of a script without spaces
    distinct  the number of different tokens
    """

    tokens: int
    bytes: int
    characters: int
    words: int
    unspaced: int
    distinct: int

    @property
    def bytes_per_token(self) -> float:
        return ratio(self.bytes, self.tokens)

    @property
    def tokens_per_word(self) -> float:
        return ratio(self.tokens, self.words)


def ratio(a: int, b: int) -> float:
    return a / b if b else float("nan")


def words(text: str) -> tuple[int, int]:
    """The number of words, and how many of them are single characters of a script without spaces.

    >>> words("the cat's 2 mice"), words("猫は見る")
    ((4, 0), (4, 4))
    """
    count = unspaced = 0
    for match in WORD.finditer(text):
        count += 1
        unspaced += match["unspaced"] is not None
    return count, unspaced


def statistics(data: bytes, ids: Ids) -> Statistics:
    """Statistics of bytes and their tokens; each byte that is not UTF-8 counts as a character."""
    text = data.decode(errors="surrogateescape")
    count, unspaced = words(text)
    return Statistics(len(ids), len(data), len(text), count, unspaced, len(np.unique(ids)))


def token_lengths(tokenizer: Tokenizer, ids: Ids) -> NDArray[np.int64]:
    """The number of bytes that each token of a text adds; a byte spelt by two digits is added by the second."""
    used = np.flatnonzero(np.bincount(ids)) if len(ids) else ids
    length_of = np.zeros(int(ids.max()) + 1 if len(ids) else 0, dtype=np.int64)
    length_of[used] = [len(tokenizer.token_bytes(int(token))) for token in used]
    lengths = length_of[ids]
    digits = first_digit(tokenizer)
    if digits is not None:
        spelling = (ids >= digits) & (ids < digits + DIGITS)
        lengths = np.where(spelling, np.cumsum(spelling) % 2 == 0, lengths).astype(np.int64)
    return lengths
