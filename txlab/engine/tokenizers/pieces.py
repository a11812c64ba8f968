"""Where each token of a text lies: its characters and its bytes (MATH K1).

Notable: of a long text only what is asked for is encoded, from a place where the tokenizer may begin anew, and the
pieces are those of the whole text all the same. A token may be half of a character: then it starts where the character
starts, and its neighbour does too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.foreign import ForeignTokenizer
from txlab.engine.tokenizers.spelling import parts
from txlab.engine.tokenizers.tokenizer import Tokenizer, utf8
from txlab.engine.tokenizers.words import WordTokenizer

STRETCH = 4096  # characters at once, for tokenizers that look at nothing around a character


@dataclass(frozen=True, slots=True)
class Piece:
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


def pieces(
    tokenizer: Tokenizer, text: str, start: int = 0, stop: int | None = None, special: bool = False
) -> list[Piece]:
    """The tokens of `text` that touch its characters start … stop − 1, in order; all of them unless said otherwise.

    `special`: texts of special tokens become these tokens, as in `encode`. Raises LabError for a lone surrogate.
    """
    utf8(text)
    stop = len(text) if stop is None else stop
    if isinstance(tokenizer, ForeignTokenizer):
        return [piece for piece in of_foreign(tokenizer, text) if piece.stop > start and piece.start < stop]
    return list(between(tokenizer, text, start, stop, special))


def pieces_of_bytes(tokenizer: Tokenizer, data: bytes) -> list[Piece]:
    """The same for any bytes; each byte that is not UTF-8 counts as one character."""
    if isinstance(tokenizer, ForeignTokenizer):
        return list(of_foreign(tokenizer, decoded(tokenizer, data)))
    text = data.decode(errors="surrogateescape")
    return list(between(tokenizer, text, 0, len(text), False))


def decoded(tokenizer: ForeignTokenizer, data: bytes) -> str:
    tokenizer.encode_bytes(data)  # says what is wrong with bytes that are no text
    return data.decode()


def of_foreign(tokenizer: ForeignTokenizer, text: str) -> Iterator[Piece]:
    """Where the library says that each token lies; `data` is the text there, which a normalizer may have changed."""
    place = byte = 0
    for token, start, stop in tokenizer.spans(text):
        if start >= place:
            byte += len(text[place:start].encode())
        else:
            byte -= len(text[start:place].encode())
        data = text[start:stop].encode()
        yield Piece(token, data, start, stop, byte, byte + len(data))
        place = start


def between(tokenizer: Tokenizer, text: str, start: int, stop: int, special: bool) -> Iterator[Piece]:
    begin = byte = 0
    for part, token in cut_at_special(tokenizer, text, special):
        end = begin + len(part)
        size = len(part.encode(errors="surrogateescape"))
        if end > start and begin < stop:
            if token is None:
                yield from of_part(tokenizer, part, begin, byte, start - begin, stop - begin)
            else:
                yield Piece(token, part.encode(), begin, end, byte, byte + size, special=True)
        begin, byte = end, byte + size


def cut_at_special(tokenizer: Tokenizer, text: str, special: bool) -> Iterator[tuple[str, int | None]]:
    """The parts of a text, with the token of those that are special tokens."""
    if not (special and isinstance(tokenizer, BytePairTokenizer) and tokenizer.special):
        yield text, None
        return
    for part in tokenizer.special_cut.split(text):
        if part:
            yield part, tokenizer.special_of.get(part)


def of_part(tokenizer: Tokenizer, text: str, begin: int, byte: int, start: int, stop: int) -> Iterator[Piece]:
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
) -> Iterator[Piece]:
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
        yield Piece(token, part, place + first_character, place + last_character + 1, byte + at, byte + at + len(part))
        at += len(part)
