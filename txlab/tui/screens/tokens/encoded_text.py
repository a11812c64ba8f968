"""A text and its tokens by one tokenizer: read, indexed and encoded in a worker thread, with progress.

Notable: a long text is encoded in parts, cut where every pattern cuts, so that progress can be shown, the work can be
stopped, and no single call keeps the interpreter from the screen; tokenizers whose parts might differ from the whole
get the whole text. `progress` raises `Stopped` when the answer is no longer wanted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from txlab.engine.explain import Explanation
from txlab.engine.tokenizers.added_tokens import AddedTokens
from txlab.engine.tokenizers.bases import Bytes
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.characters import explain_character, grapheme_around, why_no_merge
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer, WordTokenizer
from txlab.engine.tokenizers.offsets import Spanning, token_lengths, token_spans_of_bytes, words
from txlab.engine.tokenizers.patterns import chunks, cut
from txlab.engine.tokenizers.tokenizer import Ids, Tokenizer, ids_of_bytes, specials_of
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import kind_of, tokenizer_named
from txlab.files import open_regular

Progress = Callable[[int, int], None]
"""progress(done, total); raises Stopped."""

PARAGRAPH = 1024  # bytes: the most that is laid out to draw one line
EDITABLE = 20_000  # bytes: longer texts are read-only
PART = 1 << 17  # characters encoded between two checks whether the result is still wanted
QUICK = 1 << 20  # bytes of a training text that is searched for a pair while the cursor moves: 1 ms for half of that
LARGEST = 64 << 20  # bytes: a text of this size takes about a gigabyte with four tokenizers


class Stopped(Exception):
    """The answer is no longer wanted."""


@dataclass(frozen=True, eq=False)
class TextDocument:
    """A text: its bytes, the starts of its paragraphs, the characters before each, and the number of words."""

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
        """Return the first byte of a paragraph and the one after its last."""
        end = int(self.starts[paragraph + 1]) if paragraph + 1 < len(self.starts) else len(self.data)
        return int(self.starts[paragraph]), end

    def characters_at(self, byte: int) -> int:
        """Return how many characters begin before this byte."""
        paragraph = self.paragraph_of(byte)
        place, _ = self.bounds(paragraph)
        count = int(self.characters_before[paragraph])
        for character in self.data[place : byte + 4].decode(errors="surrogateescape"):  # 4: one that extends beyond it
            if place >= byte:
                break
            place += len(character.encode(errors="surrogateescape"))
            count += 1
        return count


def index(data: bytes, name: str = "", words: int = 0) -> TextDocument:
    """Find the paragraphs of a text: its lines, longer ones split into pieces of at most PARAGRAPH bytes."""
    array = np.frombuffer(data, dtype=np.uint8)
    lines = np.concatenate([[0], np.flatnonzero(array == 10) + 1]).astype(np.int64)
    lengths = np.diff(np.concatenate([lines, [len(data)]]))
    starts = lines
    if len(lengths) and int(lengths.max()) > PARAGRAPH:
        pieces = np.maximum(1, -(-lengths // PARAGRAPH))
        first = np.repeat(lines, pieces)
        place = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = first + place * PARAGRAPH
        for _ in range(3):  # not inside a character; three steps back are always enough
            inside = (place > 0) & (array[np.minimum(starts, len(data) - 1)] & 0xC0 == 0x80)
            starts = starts - inside
    begins = (array & 0xC0) != 0x80
    try:
        data.decode()
    except UnicodeDecodeError:  # bytes that are not UTF-8 count as one character each
        begins = character_starts(data)
    before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum(begins, out=before[1:])
    return TextDocument(name, data, starts, before[starts], int(before[-1]), words)


def character_starts(data: bytes) -> NDArray[np.bool_]:
    """Return at which bytes a character begins; each byte that is not UTF-8 counts as one."""
    starts = np.zeros(len(data), dtype=bool)
    points = np.frombuffer(data.decode(errors="surrogateescape").encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    stray = (points >= 0xDC80) & (points <= 0xDCFF)
    sizes = np.where(
        stray | (points < 0x80), 1, np.where(points < 0x800, 2, np.where(points < 0x10000, 3, 4))
    )  # bytes of each
    starts[np.cumsum(sizes) - sizes] = True
    return starts


@dataclass(frozen=True, eq=False)
class TokenLane:
    """The tokens of a document by one tokenizer: `ids`, and the byte after the last of each (`stops`).

    Some tokens have no bytes (the first hexadecimal digit of a spelt-out character); they stop where they start, and
    their label is shown together with the next token. `own`: the bytes of each token, if the tokenizer normalises its
    text; None if they are the bytes of the text at its place. `corpus`: what the tokenizer was learnt from, if known.
    """

    name: str
    tokenizer: Tokenizer
    ids: NDArray[np.uint32]
    stops: NDArray[np.int64]
    special: frozenset[int] = field(default_factory=frozenset)
    own: tuple[bytes, ...] | None = None
    corpus: bytes | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def start(self, token: int) -> int:
        return int(self.stops[token - 1]) if token > 0 else 0

    def stop(self, token: int) -> int:
        return int(self.stops[token])

    def data(self, document: TextDocument, token: int) -> bytes:
        """Return the token's own bytes."""
        return document.data[self.start(token) : self.stop(token)] if self.own is None else self.own[token]

    def at(self, byte: int) -> int:
        """Return the token that contains this byte; the last one for a byte beyond the end."""
        return max(0, min(int(np.searchsorted(self.stops, byte, side="right")), len(self.ids) - 1))


def chunk_starts(document: TextDocument, tokenizer: Tokenizer, byte: int) -> list[int]:
    """Return where the chunks begin of the paragraph that has this byte, and its end: no merge crosses these bytes.
    Tokenizers without a pattern are given GPT-4's, which separates words."""
    pattern = tokenizer.pattern if isinstance(tokenizer, BytePairTokenizer) else "gpt4"
    start, stop = document.bounds(document.paragraph_of(byte))
    starts = [start]
    with suppress(LabError):  # a pattern that takes too long
        for chunk in chunks(document.data[start:stop].decode(errors="surrogateescape"), pattern):
            starts.append(starts[-1] + len(chunk.encode(errors="surrogateescape")))
    return starts if starts[-1] == stop else [*starts, stop]


def why_apart(lane: TokenLane, left: int, cut: bool = False) -> tuple[str, str]:
    """Return why a token and the next one of a lane of byte pairs were not merged, as `why_no_merge`; a large training
    text is not searched between two keys, only for `w`."""
    assert isinstance(lane.tokenizer, BytePairTokenizer)
    pair = int(lane.ids[left]), int(lane.ids[left + 1])
    if not cut and pair not in lane.tokenizer.ranks and len(lane.corpus or b"") > QUICK:
        return "never learnt", "w counts it in the training text"
    return why_no_merge(lane.tokenizer, pair, lane.corpus, cut)


def explain_character_of(document: TextDocument, lane: TokenLane, token: int) -> Explanation | None:
    """Return why the first character of more than one byte, of which a token has a part, is so many tokens; None if it
    has none."""
    start, stop = lane.start(token), lane.stop(token)
    if int(lane.ids[token]) in lane.special:
        return None
    while start < stop:
        low, high = grapheme_around(document.data, start)
        if high - low > 1:
            first, last = lane.at(low), lane.at(high - 1)
            starts = set(chunk_starts(document, lane.tokenizer, low))
            cuts = [at - first for at in range(first + 1, last + 1) if lane.start(at) in starts]
            ids = [int(each) for each in lane.ids[first : last + 1]]
            return explain_character(lane.tokenizer, document.data[low:high], ids, lane.corpus, cuts)
        start = high
    return None


@dataclass(frozen=True)
class TokenizerChoice:
    """A tokenizer to choose. `kind`: bytes, characters, words, trained, saved or file; `name` is the name of a saved
    one, or the path of a file."""

    kind: str
    name: str = ""

    @property
    def title(self) -> str:
        if self.kind == "file":
            return Path(self.name).name
        return self.name or self.kind


def read_text(path: str, progress: Progress) -> bytes:
    """Return the bytes of a file; LabError with its name and the reason if it cannot be read."""
    try:
        file = Path(path).expanduser()
        parts, size, read = [], file.stat().st_size, 0
        with os.fdopen(open_regular(file), "rb") as stream:
            while size <= LARGEST and (part := stream.read(1 << 20)):
                parts.append(part)
                read += len(part)
                size = max(size, read)
                progress(read, size)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path; ~ with an unknown user
        raise LabError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > LARGEST:
        raise LabError(f"{path!r} has {size >> 20} MiB; a text of at most {LARGEST >> 20} MiB can be looked at")
    return b"".join(parts)


def document_of(name: str, data: bytes, progress: Progress) -> TextDocument:
    """Return a text with the index of its paragraphs and its number of words."""
    count = done = 0
    for part in cut(data.decode(errors="surrogateescape"), "gpt4", PART):
        progress(done, len(data))
        count += words(part)[0]
        done += len(part.encode(errors="surrogateescape"))
    return index(data, name, count)


def lane_of(name: str, tokenizer: Tokenizer, document: TextDocument, special: bool, progress: Progress) -> TokenLane:
    """Encode a document. `special`: spellings of special tokens become these tokens; otherwise they are plain text.

    Raises Stopped through `progress`, and LabError if the text cannot be encoded.
    """
    named = frozenset(specials_of(tokenizer).values()) if special else frozenset()
    if isinstance(tokenizer, Spanning):
        progress(0, 1)
        return TokenLane(name, tokenizer, *lane_of_spans(tokenizer, document.data, special))
    whole = document.data.decode(errors="surrogateescape")
    added = tokenizer.added_tokens if isinstance(tokenizer, BytePairTokenizer) else AddedTokens([])
    # Whether the parts give the same tokens as the whole, for any text.
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
                        "this tokenizer does not keep every byte of the text, so its tokens cannot be aligned with it"
                    )
            else:
                ids.append(np.array([token], dtype=np.uint32))
                stops.append(np.array([place + len(data)], dtype=np.int64))
            place += len(data)
    progress(max(1, place), max(1, place))
    return TokenLane(name, tokenizer, np.concatenate(ids), np.concatenate(stops), named)


def lane_of_spans(
    tokenizer: Spanning, data: bytes, special: bool
) -> tuple[Ids, NDArray[np.int64], frozenset[int], tuple[bytes, ...]]:
    """Return the lane of a tokenizer that reports the places of its tokens, and their own bytes, which differ from the
    text there if it is normalised; skipped bytes belong to the next token.

    Raises LabError for bytes that are not text.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise LabError(f"{kind_of(tokenizer)} reads text only, and byte {error.start} is not UTF-8") from None
    spans = token_spans_of_bytes(tokenizer, data, special)
    ends = np.array([span.byte_stop for span in spans], dtype=np.int64)
    following = np.array([*(span.byte_start for span in spans[1:]), len(data)], dtype=np.int64)[: len(spans)]
    stops = np.maximum.accumulate(np.minimum(ends, following))
    if len(stops):
        stops[-1] = len(data)
    named = frozenset(specials_of(tokenizer).values()) if special else frozenset()
    ids = np.array([span.token for span in spans], dtype=np.uint32)
    return ids, stops, named, tuple(span.data for span in spans)


def tokenizer_of(choice: TokenizerChoice, corpus: str, trained: Tokenizer | None) -> Tokenizer:
    """Return the chosen tokenizer; characters and words are taken from the training corpus.

    Raises LabError if a saved one is gone or a file is not a tokenizer.
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
