"""What the Tokens screen does in worker threads: read a text, find its lines, make its tokens, with progress.

Notable: a long text is encoded in pieces that are cut where every pattern cuts, so that one can see how far it is and
stop it, and so that no single call keeps the interpreter from the screen; tokenizers whose pieces might differ from
the whole are given the whole. `Stopped` is raised where the person stopped it or wants something else by now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.added_tokens import AddedTokens
from txlab.engine.tokenizers.bases import Bytes
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer, CharacterTokenizer
from txlab.engine.tokenizers.offsets import Spanning
from txlab.engine.tokenizers.tokenizer import DIGITS, Ids, Tokenizer
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import kind_of
from txlab.files import open_regular
from txlab.tui.screens.tokens.layout import Document, Lane, index

Progress = Callable[[int, int], None]
"""progress(done, all); raises Stopped."""

PIECE = 1 << 17  # characters encoded between two looks whether the person still wants it
LARGEST = 64 << 20  # bytes: a text of this size takes about a gigabyte with four tokenizers


class Stopped(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Choice:
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


def document_of(name: str, data: bytes, progress: Progress) -> Document:
    """A text with the index of its lines and the number of its words."""
    found = index(data, name)
    words = 0
    for done, piece in pieces(data):
        progress(done, len(data))
        words += words_of(piece)
    return replace(found, words=words)


def words_of(text: str) -> int:
    """How many words a text has, as the engine counts them."""
    from txlab.engine.tokenizers.offsets import words

    return words(text)[0]


def pieces(data: bytes) -> Iterator[tuple[int, str]]:
    """(bytes before it, piece) of a text, cut before a space that follows something else; no piece of an empty text."""
    text = data.decode(errors="surrogateescape")
    start = done = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        limit = min(end + PIECE, len(text))  # a text without spaces is cut less often, not in other places
        while end < limit and not (text[end] == " " and not text[end - 1].isspace()):
            end += 1
        if end == limit < len(text):
            while end < len(text) and not (text[end] == " " and not text[end - 1].isspace()):
                end += 1
        yield done, text[start:end]
        done += len(text[start:end].encode(errors="surrogateescape"))
        start = end


def cuttable(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of the pieces are those of the whole, whatever the text."""
    if isinstance(tokenizer, BytePairTokenizer):
        return isinstance(tokenizer.base, Bytes) and tokenizer.pattern in ("gpt2", "gpt4", "cl100k")
    return isinstance(tokenizer, (ByteTokenizer, CharacterTokenizer))


def encoded(tokenizer: Tokenizer, text: str) -> Ids:
    """The ids of one piece; bytes that are no UTF-8 have come as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return np.array(tokenizer.encode_bytes(text.encode(errors="surrogateescape")), dtype=np.uint32)
    return tokenizer.encode_long(text)


def specials_of(tokenizer: Tokenizer) -> dict[str, int]:
    """The special tokens that a text could name."""
    found: dict[str, int] = dict(getattr(tokenizer, "special_of", {}))
    return found


def lane_of(name: str, tokenizer: Tokenizer, document: Document, special: bool, progress: Progress) -> Lane:
    """All tokens of a document. `special`: the texts of special tokens become these tokens, else they are plain text.

    Raises Stopped through `progress`, LabError where the text cannot be encoded.
    """
    if isinstance(tokenizer, Spanning):
        progress(0, 1)
        return foreign_lane(name, tokenizer, document, special)
    named = specials_of(tokenizer) if special else {}
    whole = document.data.decode(errors="surrogateescape")
    total = max(1, len(document.data))
    added = tokenizer.added_tokens if isinstance(tokenizer, BytePairTokenizer) else AddedTokens([])
    ids: list[Ids] = []
    stops: list[NDArray[np.int64]] = []
    before = 0
    for start, stop, token in added.cut(whole, special):
        part = whole[start:stop]
        data = part.encode(errors="surrogateescape")
        if token is not None:
            ids.append(np.array([token], dtype=np.uint32))
            stops.append(np.array([before + len(data)], dtype=np.int64))
        else:
            own: list[Ids] = []
            for done, piece in pieces(data) if cuttable(tokenizer) else [(0, part)]:
                progress(before + done, total)
                own.append(encoded(tokenizer, piece))
            ids += own
            stops.append(before + stops_of(tokenizer, np.concatenate(own), data))
        before += len(data)
    progress(total, total)
    found = np.concatenate(ids) if ids else np.empty(0, dtype=np.uint32)
    ends = np.concatenate(stops) if stops else np.empty(0, dtype=np.int64)
    return Lane(name, tokenizer, found, ends, frozenset(named.values()))


def foreign_lane(name: str, tokenizer: Spanning, document: Document, special: bool) -> Lane:
    """The tokens of a library's tokenizer, laid where it says they are; what it passes over belongs to the next one.

    LabError for bytes that are no text.
    """
    try:
        text = document.data.decode()
    except UnicodeDecodeError as error:
        raise LabError(f"{kind_of(tokenizer)} reads text only, and byte {error.start} is not UTF-8") from None
    found = tokenizer.spans(text, special)
    array = np.frombuffer(document.data, dtype=np.uint8)
    byte_of = np.append(np.flatnonzero(array & 0xC0 != 0x80), len(array)).astype(np.int64)
    spans = np.array(found, dtype=np.int64).reshape(-1, 3)
    following = np.append(byte_of[spans[1:, 1]], len(array))[: len(spans)]
    stops = np.maximum.accumulate(np.minimum(byte_of[spans[:, 2]], following))
    if len(stops):
        stops[-1] = len(array)
    named = frozenset(specials_of(tokenizer).values()) if special else frozenset()
    return Lane(name, tokenizer, spans[:, 0].astype(np.uint32), stops, named)


def stops_of(tokenizer: Tokenizer, ids: Ids, data: bytes) -> NDArray[np.int64]:
    """The byte after each token; LabError if they do not make up the text, as with one that loses some."""
    used = np.flatnonzero(np.bincount(ids)) if len(ids) else ids
    length_of = np.zeros(int(ids.max()) + 1 if len(ids) else 0, dtype=np.int64)
    length_of[used] = [len(tokenizer.token_bytes(int(token))) for token in used]
    lengths = length_of[ids]
    stops = np.cumsum(lengths)
    if (int(stops[-1]) if len(stops) else 0) != len(data):
        digits = digits_of(tokenizer)
        if digits is not None:  # a byte is spelled by two digits: the second of them stands for it
            spelling = (ids >= digits) & (ids < digits + DIGITS)
            lengths = np.where(spelling, np.cumsum(spelling) % 2 == 0, lengths).astype(np.int64)
            stops = np.cumsum(lengths)
    if (int(stops[-1]) if len(stops) else 0) != len(data):
        raise LabError("this tokenizer does not keep every byte of the text, so its tokens cannot be laid beside it")
    return stops


def digits_of(tokenizer: Tokenizer) -> int | None:
    """The id of the first of the sixteen digits that spell what a tokenizer has no token for."""
    if isinstance(tokenizer, CharacterTokenizer):
        return 0
    found = getattr(tokenizer, "digits", getattr(getattr(tokenizer, "base", None), "digits", None))
    return found if isinstance(found, int) else None


def tokenizer_of(choice: Choice, corpus: Callable[[], str], trained: Tokenizer | None) -> Tokenizer:
    """The tokenizer that is meant; characters and words are those of the text that is trained on.

    LabError for a saved one that is gone and for a file that is none.
    """
    if choice.kind == "bytes":
        return ByteTokenizer()
    if choice.kind == "characters":
        return CharacterTokenizer.of(corpus())
    if choice.kind == "words":
        from txlab.engine.tokenizers.elementary import WordTokenizer

        return WordTokenizer.of(corpus())
    if choice.kind == "trained":
        if trained is None:
            raise LabError("nothing has been trained here yet; press t")
        return trained
    from txlab.experiments.tokenizer_store import tokenizer_named

    return tokenizer_named(choice.name)


@dataclass(frozen=True)
class Counts:
    """What one tokenizer makes of a text: `words` 0 where there is none."""

    tokens: int
    bytes: int
    words: int

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens if self.tokens else float("nan")

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / self.words if self.words else float("nan")


def by_language(tokenizers: Sequence[Tokenizer], progress: Progress) -> list[tuple[str, str, list[Counts]]]:
    """(language, script, counts by each tokenizer) for the sentences that say the same in every language."""
    from txlab.experiments.sentences import languages

    found: list[tuple[str, str, list[Counts]]] = []
    known: list[Any] = languages()
    for done, language in enumerate(known):
        progress(done, len(known))
        size, words = len(language.text.encode()), words_of(language.text)
        counts = [Counts(len(tokenizer.encode_long(language.text)), size, words) for tokenizer in tokenizers]
        found.append((language.name, language.script, counts))
    return found
