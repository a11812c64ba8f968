"""Where each token of a text lies, in characters and in bytes, and how much text a token holds (MATH K1).

Of a long text only what is asked for is encoded, from a place where the tokenizer may begin anew, and the tokens are
those of the whole text all the same. A token may be half of a character: then it starts where the character starts, and
its neighbour does too. A word, for the counts, is a run of letters, marks, digits and underscores, with apostrophes,
hyphens, points and joiners inside. In scripts that put no spaces between words (Han, Hiragana, Thai, Lao, Khmer,
Burmese) each character with its marks counts as one, as the default rule of Unicode's annex 29 has it; that is more
words than a reader of these scripts would count, so `unspaced` says how many of the words are such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import regex

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import WordTokenizer
from txlab.engine.tokenizers.gpt2_files import LETTERS, name_of
from txlab.engine.tokenizers.huggingface import ForeignTokenizer
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer, parts, utf8
from txlab.engine.tokenizers.word_pieces import WordPieceTokenizer

STRETCH = 4096  # characters at once, for tokenizers that look at nothing around a character
# Those whose tokens are not made of the bytes of the text, and that say themselves where each lies.
Spanning = ForeignTokenizer | WordPieceTokenizer | SentencePieceTokenizer


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token in a text.

    data                   what it adds to the bytes; b"" for the first digit of a spelt byte
    start, stop            its characters: from the one that its first byte is in to behind the one with its last byte
    byte_start, byte_stop  its UTF-8 bytes
    """

    token: int
    data: bytes
    start: int
    stop: int
    byte_start: int
    byte_stop: int
    special: bool = False


def token_spans(
    tokenizer: Tokenizer, text: str, start: int = 0, stop: int | None = None, special: bool = False
) -> list[TokenSpan]:
    """The tokens of `text` that touch its characters start … stop − 1, in order; all of them unless said otherwise.

    `special`: texts of special tokens become these tokens, as in `encode`. Raises LabError for a lone surrogate.
    """
    utf8(text)
    stop = len(text) if stop is None else stop
    if isinstance(tokenizer, Spanning):
        whole = (start, stop) == (0, len(text))  # with those that have no character of their own
        found = of_spans(tokenizer, text, special)
        return [piece for piece in found if whole or (piece.stop > start and piece.start < stop)]
    return list(between(tokenizer, text, start, stop, special))


def token_spans_of_bytes(
    tokenizer: Tokenizer, data: bytes, special: bool = False, most: int | None = None
) -> list[TokenSpan]:
    """The same for any bytes, or the first `most` pieces; each byte that is not UTF-8 counts as one character."""
    text = data.decode(errors="surrogateescape")
    if isinstance(tokenizer, Spanning):
        if not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text):
            tokenizer.encode_bytes(data)  # says what is wrong with bytes that are no text
        found = of_spans(tokenizer, text, special)
    else:
        found = between(tokenizer, text, 0, len(text), special)
    return list(islice(found, most))


def of_spans(tokenizer: Spanning, text: str, special: bool) -> Iterator[TokenSpan]:
    """Where the tokenizer says that each token lies; `data` is the text there, which it may have normalized."""
    place = byte = 0
    named = set(tokenizer.special_of.values()) if special else set()
    for token, start, stop in tokenizer.spans(text, special):
        byte, place = byte_at(text, place, byte, start), start
        data = text[start:stop].encode()
        yield TokenSpan(token, data, start, stop, byte, byte + len(data), token in named)


def byte_at(text: str, place: int, byte: int, wanted: int) -> int:
    """The byte where the character `wanted` begins, if the character `place` begins at `byte`."""
    between = text[min(place, wanted) : max(place, wanted)].encode(errors="surrogateescape")
    return byte + len(between) if wanted >= place else byte - len(between)


def between(tokenizer: Tokenizer, text: str, start: int, stop: int, special: bool) -> Iterator[TokenSpan]:
    if not isinstance(tokenizer, BytePairTokenizer):
        yield from of_part(tokenizer, text, 0, 0, start, stop)
        return
    place = byte = 0
    named = set(tokenizer.special_of.values())
    for begin, end, token in tokenizer.added_tokens.cut(text, special):
        byte, place = byte_at(text, place, byte, begin), begin
        if end <= start or begin >= stop:
            continue
        if token is None:
            found = of_part(tokenizer, text[begin:end], begin, byte, start - begin, stop - begin)
        else:
            data = text[begin:end].encode()
            found = iter([TokenSpan(token, data, begin, end, byte, byte + len(data), token in named)])
        if tokenizer.offsets == "whole":
            yield from found
            continue
        for piece in found:
            name = name_of(piece.data) if token is None else text[begin:end]
            yield trimmed(piece, name, tokenizer.offsets == "trimmed after a prefix")


SPACES = regex.compile(rf"[{LETTERS[0x20]}\p{{White_Space}}]*")


def trimmed(piece: TokenSpan, name: str, prefixed: bool) -> TokenSpan:
    """The characters of a piece without the spaces around it; its bytes stay.

    `name`: as the library calls the token; `prefixed`: one space before the text's first token stays.
    Source: huggingface/tokenizers, pre_tokenizers/byte_level.rs (process_offsets).
    """
    start, stop = piece.start, piece.stop
    before, behind = (len(SPACES.match(each).group()) for each in (name, name[::-1]))
    if before:
        start = min(start + before, stop) if before > 1 or start or not prefixed else start
    if behind and stop >= behind:
        stop = max(stop - behind, start)
    return replace(piece, start=start, stop=stop)


def of_part(tokenizer: Tokenizer, text: str, begin: int, byte: int, start: int, stop: int) -> Iterator[TokenSpan]:
    """The pieces of one part that lies at character `begin` and byte `byte` of the whole; start, stop count from it."""
    place = 0
    if start > 0:
        local = isinstance(tokenizer, BytePairTokenizer | WordTokenizer)
        place = tokenizer.safe_start(text, start) if local else start  # type: ignore[attr-defined]
        byte += len(text[:place].encode(errors="surrogateescape"))
    for stretch, ids in stretches(tokenizer, text, place):
        if place >= stop:
            return
        data = stretch.encode(errors="surrogateescape")
        if place + len(stretch) > start:
            for piece in of_stretch(tokenizer, stretch, data, ids, begin + place, byte):
                if piece.stop > begin + start and piece.start < begin + stop:
                    yield piece
        place, byte = place + len(stretch), byte + len(data)


def stretches(tokenizer: Tokenizer, text: str, start: int) -> Iterator[tuple[str, list[int]]]:
    """Stretches of a text that become tokens by themselves, and these tokens."""
    if isinstance(tokenizer, BytePairTokenizer | WordTokenizer):
        yield from tokenizer.stretches(text, start)
        return
    for place in range(start, len(text), STRETCH):
        stretch = text[place : place + STRETCH]
        yield stretch, tokenizer.encode_bytes(stretch.encode(errors="surrogateescape"))


def of_stretch(
    tokenizer: Tokenizer, stretch: str, data: bytes, ids: list[int], place: int, byte: int
) -> Iterator[TokenSpan]:
    """The pieces of one stretch, whose first character and byte are `place` and `byte`."""
    single = len(data) == len(stretch)  # every character is one byte
    character_of: list[int] = []
    if not single:
        for i, character in enumerate(stretch):
            character_of += [i] * len(character.encode(errors="surrogateescape"))
        character_of.append(len(stretch))
    at = 0
    for token, part in zip(ids, parts(ids, tokenizer.token_bytes, getattr(tokenizer, "digits", None)), strict=True):
        last = at + max(len(part), 1) - 1
        first_character, last_character = (at, last) if single else (character_of[at], character_of[last])
        yield TokenSpan(
            token, part, place + first_character, place + last_character + 1, byte + at, byte + at + len(part)
        )
        at += len(part)


UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]"
WORD = regex.compile(
    rf"(?P<unspaced>[[{UNSPACED}]&&[\p{{L}}\p{{N}}]]\p{{M}}*)|{LETTER}+(?:['’.·\u200c\u200d-]{LETTER}+)*", regex.V1
)


@dataclass(frozen=True)
class Statistics:
    """Counts of one text under one tokenizer; a ratio is nan where there is nothing to divide by.

    unspaced  how many of the words are single characters of a script without spaces
    distinct  how many different tokens occur
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
    def characters_per_token(self) -> float:
        return ratio(self.characters, self.tokens)

    @property
    def tokens_per_word(self) -> float:
        return ratio(self.tokens, self.words)


def ratio(a: int, b: int) -> float:
    return a / b if b else float("nan")


def words(text: str) -> tuple[int, int]:
    """How many words, and how many of them are single characters of a script without spaces.

    >>> words("the cat's 2 mice"), words("猫は見る")
    ((4, 0), (4, 4))
    """
    count = unspaced = 0
    for match in WORD.finditer(text):
        count += 1
        unspaced += match["unspaced"] is not None
    return count, unspaced


def statistics(tokenizer: Tokenizer, text: str | bytes) -> Statistics:
    """Statistics of a text, or of bytes, of which each that is not UTF-8 counts as a character."""
    if isinstance(text, bytes):
        data, text = text, text.decode(errors="surrogateescape")
        ids = tokenizer.encode_bytes(data)
        tokens, distinct = len(ids), len(set(ids))
    else:
        data = utf8(text)
        array = tokenizer.encode_long(text)
        tokens, distinct = len(array), len(set(array.tolist()))
    count, unspaced = words(text)
    return Statistics(tokens, len(data), len(text), count, unspaced, distinct)
