"""A text and its tokens by one tokenizer: read, indexed and encoded in a worker thread, with progress.

Notable: a long text is encoded in parts that are cut where every pattern cuts, so that one can see how far it is and
stop it, and so that no single call keeps the interpreter from the screen; tokenizers whose parts might differ from the
whole are given the whole. `progress` raises `Stopped` where nobody waits for the answer any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.added_tokens import AddedTokens
from txlab.engine.tokenizers.bases import Bytes
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.offsets import Spanning, token_lengths, words
from txlab.engine.tokenizers.patterns import cut
from txlab.engine.tokenizers.tokenizer import Ids, Tokenizer, ids_of_bytes
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import kind_of, tokenizer_named
from txlab.files import open_regular

Progress = Callable[[int, int], None]
"""progress(done, all); raises Stopped."""

PARAGRAPH = 1024  # bytes: at most so many are laid out to draw one line
EDITABLE = 20_000  # bytes: beyond that a text is only looked at
PART = 1 << 17  # characters encoded between two looks whether the person still wants it
LARGEST = 64 << 20  # bytes: a text of this size takes about a gigabyte with four tokenizers


class Stopped(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, eq=False)
class TextDocument:
    """A text: its bytes, where its paragraphs start, how many characters are before each, and how many words it has."""

    name: str
    data: bytes
    starts: NDArray[np.int64]
    characters_before: NDArray[np.int64]
    characters: int = 0
    words: int = 0

    @property
    def editable(self) -> bool:
        return len(self.data) <= EDITABLE

    def paragraph_of(self, byte: int) -> int:
        return max(0, int(np.searchsorted(self.starts, byte, side="right")) - 1)

    def bounds(self, paragraph: int) -> tuple[int, int]:
        """First byte of a paragraph and the one after its last."""
        end = int(self.starts[paragraph + 1]) if paragraph + 1 < len(self.starts) else len(self.data)
        return int(self.starts[paragraph]), end

    def characters_at(self, byte: int) -> int:
        """How many characters begin before this byte."""
        paragraph = self.paragraph_of(byte)
        place, _ = self.bounds(paragraph)
        count = int(self.characters_before[paragraph])
        for character in self.data[place : byte + 4].decode(errors="surrogateescape"):  # 4: one that goes on behind it
            if place >= byte:
                break
            place += len(character.encode(errors="surrogateescape"))
            count += 1
        return count


def index(data: bytes, name: str = "", words: int = 0) -> TextDocument:
    """Find the paragraphs of a text: its lines, and pieces of at most PARAGRAPH bytes of longer ones."""
    array = np.frombuffer(data, dtype=np.uint8)
    lines = np.concatenate([[0], np.flatnonzero(array == 10) + 1]).astype(np.int64)
    lengths = np.diff(np.concatenate([lines, [len(data)]]))
    starts = lines
    if len(lengths) and int(lengths.max()) > PARAGRAPH:
        pieces = np.maximum(1, -(-lengths // PARAGRAPH))
        first = np.repeat(lines, pieces)
        place = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = first + place * PARAGRAPH
        for _ in range(3):  # not inside a character; three steps back lead out of any
            inside = (place > 0) & (array[np.minimum(starts, len(data) - 1)] & 0xC0 == 0x80)
            starts = starts - inside
    begins = (array & 0xC0) != 0x80
    try:
        data.decode()
    except UnicodeDecodeError:  # bytes that are no UTF-8 count as a character each
        begins = character_starts(data)
    before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum(begins, out=before[1:])
    return TextDocument(name, data, starts, before[starts], int(before[-1]), words)


def character_starts(data: bytes) -> NDArray[np.bool_]:
    """At which bytes a character begins, each byte that is no UTF-8 being one."""
    found = np.zeros(len(data), dtype=bool)
    points = np.frombuffer(data.decode(errors="surrogateescape").encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    stray = (points >= 0xDC80) & (points <= 0xDCFF)
    sizes = np.where(
        stray | (points < 0x80), 1, np.where(points < 0x800, 2, np.where(points < 0x10000, 3, 4))
    )  # bytes of each
    found[np.cumsum(sizes) - sizes] = True
    return found


@dataclass(frozen=True, eq=False)
class TokenLane:
    """The tokens of a document by one tokenizer: `ids`, and the byte after the last of each (`stops`).

    Some tokens stand for no byte of their own (the first hexadecimal digit of a spelled-out character); they stop
    where they start, and are shown by their label together with the token after them."""

    name: str
    tokenizer: Tokenizer
    ids: NDArray[np.uint32]
    stops: NDArray[np.int64]
    special: frozenset[int] = field(default_factory=frozenset)

    def __len__(self) -> int:
        return len(self.ids)

    def start(self, token: int) -> int:
        return int(self.stops[token - 1]) if token > 0 else 0

    def stop(self, token: int) -> int:
        return int(self.stops[token])

    def at(self, byte: int) -> int:
        """The token that has this byte; the last one for a byte beyond."""
        return max(0, min(int(np.searchsorted(self.stops, byte, side="right")), len(self.ids) - 1))


@dataclass(frozen=True)
class TokenizerChoice:
    """A tokenizer that can be put beside the others. `kind`: bytes, characters, words, trained, saved or file; `name`
    is what a saved one is called, or the path of a file."""

    kind: str
    name: str = ""

    @property
    def title(self) -> str:
        if self.kind == "file":
            return Path(self.name).name
        return self.name or self.kind


def read_text(path: str, progress: Progress) -> bytes:
    """The bytes of a file; LabError names it and says why not."""
    try:
        file = Path(path).expanduser()
        parts, size, read = [], file.stat().st_size, 0
        with os.fdopen(open_regular(file), "rb") as stream:
            while size <= LARGEST and (part := stream.read(1 << 20)):
                parts.append(part)
                read += len(part)
                size = max(size, read)
                progress(read, size)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path; ~ and the name of nobody
        raise LabError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > LARGEST:
        raise LabError(f"{path!r} has {size >> 20} MiB; a text of at most {LARGEST >> 20} MiB can be looked at")
    return b"".join(parts)


def document_of(name: str, data: bytes, progress: Progress) -> TextDocument:
    """A text with the index of its paragraphs and the number of its words."""
    count = done = 0
    for part in cut(data.decode(errors="surrogateescape"), "gpt4", PART):
        progress(done, len(data))
        count += words(part)[0]
        done += len(part.encode(errors="surrogateescape"))
    return index(data, name, count)


def specials_of(tokenizer: Tokenizer) -> dict[str, int]:
    """The special tokens that a text could name."""
    return dict(getattr(tokenizer, "special_of", {}))


def lane_of(name: str, tokenizer: Tokenizer, document: TextDocument, special: bool, progress: Progress) -> TokenLane:
    """All tokens of a document. `special`: the texts of special tokens become these tokens, else they are plain text.

    Raises Stopped through `progress`, LabError where the text cannot be encoded.
    """
    named = frozenset(specials_of(tokenizer).values()) if special else frozenset()
    if isinstance(tokenizer, Spanning):
        progress(0, 1)
        return TokenLane(name, tokenizer, *spanned(tokenizer, document.data, special), named)
    whole = document.data.decode(errors="surrogateescape")
    added = tokenizer.added_tokens if isinstance(tokenizer, BytePairTokenizer) else AddedTokens([])
    # Whether the tokens of the parts are those of the whole, whatever the text.
    in_parts = isinstance(tokenizer, ByteTokenizer | CharacterTokenizer) or (
        isinstance(tokenizer, BytePairTokenizer)
        and isinstance(tokenizer.base, Bytes)
        and tokenizer.pattern in ("gpt2", "gpt4", "cl100k")
    )
    ids: list[Ids] = [np.empty(0, dtype=np.uint32)]
    stops: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    place = 0
    for start, stop, token in added.cut(whole, special):
        for part in cut(whole[start:stop], "gpt4", PART) if in_parts and token is None else [whole[start:stop]]:
            progress(place, max(1, len(document.data)))
            data = part.encode(errors="surrogateescape")
            if token is None:
                ids.append(ids_of_bytes(tokenizer, data))
                stops.append(place + np.cumsum(token_lengths(tokenizer, ids[-1])))
                if (int(stops[-1][-1]) if len(ids[-1]) else place) != place + len(data):
                    raise LabError(
                        "this tokenizer does not keep every byte of the text, so its tokens cannot be laid beside it"
                    )
            else:
                ids.append(np.array([token], dtype=np.uint32))
                stops.append(np.array([place + len(data)], dtype=np.int64))
            place += len(data)
    progress(max(1, place), max(1, place))
    return TokenLane(name, tokenizer, np.concatenate(ids), np.concatenate(stops), named)


def spanned(tokenizer: Spanning, data: bytes, special: bool) -> tuple[Ids, NDArray[np.int64]]:
    """The tokens of a tokenizer that says itself where each lies; what it passes over belongs to the next token.

    LabError for bytes that are no text.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise LabError(f"{kind_of(tokenizer)} reads text only, and byte {error.start} is not UTF-8") from None
    array = np.frombuffer(data, dtype=np.uint8)
    byte_of = np.append(np.flatnonzero(array & 0xC0 != 0x80), len(array)).astype(np.int64)
    spans = np.array(tokenizer.spans(text, special), dtype=np.int64).reshape(-1, 3)
    following = np.append(byte_of[spans[1:, 1]], len(array))[: len(spans)]
    stops = np.maximum.accumulate(np.minimum(byte_of[spans[:, 2]], following))
    if len(stops):
        stops[-1] = len(array)
    return spans[:, 0].astype(np.uint32), stops


def tokenizer_of(choice: TokenizerChoice, corpus: str, trained: Tokenizer | None) -> Tokenizer:
    """The tokenizer that is meant; characters and words are those of the corpus that is trained on.

    LabError for a saved one that is gone and for a file that is none.
    """
    if choice.kind == "trained":
        if trained is None:
            raise LabError("nothing has been trained here yet; press t")
        return trained
    if choice.kind == "characters":
        return CharacterTokenizer.of(corpus)
    if choice.kind == "words":
        return WordTokenizer.of(corpus)
    return tokenizer_named(choice.name or choice.kind)
