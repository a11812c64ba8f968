"""SentencePiece, as Marian's translation models use it: a .spm cuts texts, a vocab.json numbers pieces (MATH K1).

The library is an optional extra, imported only here. The ids inside the .spm are not the model's, so every piece is
looked up by name, and a missing one is <unk>. A text may begin with the target language of the translation, >>de<<,
which is one token. Texts are normalised (NFKC), so the round trip is not promised.
Source: Kudo & Richardson 2018.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import regex

from txlab.engine.tokenizers.added_tokens import AddedToken
from txlab.engine.tokenizers.folders import beside
from txlab.engine.tokenizers.gpt2_files import vocabulary_of
from txlab.engine.tokenizers.json_files import read_bytes, read_json
from txlab.engine.tokenizers.tokenizer import Piece, TextOnly, unknown_token, utf8
from txlab.errors import LabError, one_line, prefix_errors

UNKNOWN = "<unk>"
SPECIAL = (UNKNOWN, "</s>", "<pad>")
SPACE = "▁"
MISSING = "needs the library sentencepiece: install the extra, pip install 'txlab[sentencepiece]'"
LARGEST_MODEL = 32 << 20  # the largest real one has 5 MB


class SentencePieceTokenizer(TextOnly):
    """`inner`: the library's processor; `token_of`: piece → id; `added`: further tokens, or flags of these."""

    called = "SentencePiece"

    def __init__(self, inner: Any, token_of: Mapping[str, int], added: Iterable[AddedToken] = ()) -> None:
        self.inner, self.token_of = inner, dict(token_of)
        if UNKNOWN not in self.token_of:
            raise LabError(f"its vocabulary has no {UNKNOWN}, which stands for pieces that it lacks")
        named = {name: AddedToken(name, self.token_of[name]) for name in SPECIAL if name in self.token_of}
        self.added = named | {token.content: token for token in added}
        self.names = {token: name for name, token in self.token_of.items()}
        for token in self.added.values():
            if self.names.setdefault(token.id, token.content) != token.content:
                raise LabError(f"the added token {token.content[:60]!r} has the id {token.id}, which is another's")
        self.special_of = {name: token.id for name, token in self.added.items() if token.special}
        self.special = tuple(self.special_of)

    @cached_property
    def vocabulary(self) -> int:
        return max(self.names) + 1

    @cached_property
    def pattern(self) -> regex.Pattern[str]:
        return regex.compile(r"\L<texts>", texts=list(self.added))

    def parts(self, text: str, special: bool) -> Iterator[tuple[int, str, int | None]]:
        """The start, text and token of each part of a text; the token is None unless the part is an added token.

        The flags of added tokens work as in transformers' Python tokenizers (tokenization_python.py), which differs
        from `added_tokens`: only the text next to a token is stripped, and a single word has spaces around it.
        """
        parts: list[tuple[int, str, AddedToken | None]] = []
        token: AddedToken | None
        end = 0
        for match in self.pattern.finditer(text):
            token = self.added[match.group()]
            if token.special and not special:
                continue
            if end < match.start():
                parts.append((end, text[end : match.start()], None))
            parts.append((match.start(), match.group(), token))
            end = match.end()
        if end < len(text):
            parts.append((end, text[end:], None))
        for i, (start, part, token) in enumerate(parts):
            if token is None:
                continue
            left = parts[i - 1] if i else None
            right = parts[i + 1] if i + 1 < len(parts) else None
            if token.rstrip and right and right[2] is None:
                parts[i + 1] = (right[0] + len(right[1]) - len(right[1].lstrip()), right[1].lstrip(), None)
            if token.lstrip and left and left[2] is None:
                parts[i - 1] = (left[0], left[1].rstrip(), None)
            if token.single_word and left and left[1] and left[1][-1] != " ":
                parts[i - 1], parts[i] = (left[0], left[1] + part, None), (start, "", None)
            elif token.single_word and right and right[1] and right[1][0] != " ":
                parts[i + 1], parts[i] = (start, part + right[1], None), (start, "", None)
        for start, part, token in parts:
            if token is None and part.startswith(">>") and "<<" in part:
                stop = part.index("<<") + 2
                yield start, part[:stop], self.token_of.get(part[:stop], self.token_of[UNKNOWN])
                start, part = start + stop, part[stop:]
            if part:
                yield start, part, token.id if token else None

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: texts of special tokens become these tokens; </s> is never added."""
        utf8(text)
        unknown = self.token_of[UNKNOWN]
        ids: list[int] = []
        for _, part, token in self.parts(text, special):
            names = self.inner.encode(part, out_type=str) if token is None else ()
            ids += [self.token_of.get(name, unknown) for name in names] if token is None else [token]
        return ids

    def spans(self, text: str, special: bool = False) -> list[Piece]:
        """The tokens of `encode`, each with its place and the bytes of its piece; <unk> has those that it replaces."""
        utf8(text)
        unknown = self.token_of[UNKNOWN]
        pieces: list[Piece] = []
        for start, part, token in self.parts(text, special):
            if token is not None:
                pieces.append(Piece(token, start, start + len(part), part.encode()))
                continue
            for name, first, last in self.places(part):
                token = self.token_of.get(name, unknown)
                pieces.append(Piece(token, start + first, start + last, self.data(name)))
        return pieces

    def places(self, text: str) -> list[tuple[str, int, int]]:
        """The pieces of a text, each with the start and end of its characters.

        The library gives only the last byte of a character its place; here the others have the same."""
        pieces = places(self.inner, text)
        for i in reversed(range(len(pieces) - 1)):
            (name, first, last), (_, following, end) = pieces[i], pieces[i + 1]
            if first == last == following and name in self.byte_of:
                pieces[i] = (name, first, end)
        return pieces

    @cached_property
    def byte_of(self) -> dict[str, bytes]:
        """The pieces that are single bytes, such as <0xF0>, of models with byte fallback."""
        bytes_ = (token for token in range(self.inner.get_piece_size()) if self.inner.is_byte(token))
        return {name: bytes([int(name[3:5], 16)]) for name in map(self.inner.id_to_piece, bytes_)}

    def data(self, name: str) -> bytes:
        """The bytes of a piece: "▁the" is " the", <0xF0> is a byte."""
        return self.byte_of[name] if name in self.byte_of else name.replace(SPACE, " ").encode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a piece; an added token has those of its text."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        name = self.names.get(token, "")
        return name.encode() if name in self.added else self.data(name)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the tokens; special tokens are written out, with a space after each."""
        text = ""
        pieces: list[str] = []
        for token in ids:
            self.token_bytes(token)
            name = self.names.get(token, UNKNOWN)
            if name in self.special_of:
                text += str(self.inner.decode_pieces(pieces)) + name + " "
                pieces = []
            else:
                pieces.append(name)
        return (text + str(self.inner.decode_pieces(pieces))).replace(SPACE, " ").strip()


def places(inner: Any, text: str) -> list[tuple[str, int, int]]:
    """The pieces of a text, each with the start and end of its characters (some versions of the library give bytes)."""
    try:
        pieces = inner.encode(text, return_type="proto").pieces
    except (TypeError, ValueError):
        pieces = inner.encode(text, out_type="immutable_proto").pieces
    data = text.encode()
    if not text.isascii() and all(data[piece.begin : piece.end] == piece.surface.encode() for piece in pieces):
        return [(piece.piece, len(data[: piece.begin].decode()), len(data[: piece.end].decode())) for piece in pieces]
    return [(piece.piece, piece.begin, piece.end) for piece in pieces]


def read_sentence_model(path: Path) -> SentencePieceTokenizer:
    """Read a SentencePiece model alone, with the ids that it gives its pieces; LabError does not name the file."""
    inner = processor(path)
    token_of: dict[str, int] = {}
    for token in range(inner.get_piece_size()):
        token_of.setdefault(inner.id_to_piece(token), token)
    special = [token for token in range(inner.get_piece_size()) if inner.is_control(token) or inner.is_unknown(token)]
    return SentencePieceTokenizer(inner, token_of, [AddedToken(inner.id_to_piece(token), token) for token in special])


def processor(path: Path) -> Any:
    """The library's processor for a model; LabError names the file only if the library is missing."""
    try:
        import sentencepiece
    except ImportError:
        raise LabError(f"{path.name} {MISSING}") from None
    data = read_bytes(path, LARGEST_MODEL)
    try:
        inner = sentencepiece.SentencePieceProcessor(model_proto=data)
        inner.encode("", out_type=str)  # raises if the model was not loaded
    except Exception as error:  # the library raises RuntimeError, OSError, or what its binding turns them into
        raise LabError(f"it is not a SentencePiece model: {one_line(error)[:120]}") from None
    return inner


def read_sentence_pieces(model: Path, vocab: Path) -> SentencePieceTokenizer:
    """Read a .spm and the vocab.json with the ids of its pieces; LabError names the file or the missing library."""
    try:
        inner = processor(model)
    except LabError as error:
        raise LabError(str(error) if MISSING in str(error) else f"{model.name}: {error}") from None
    with prefix_errors(vocab.name):
        token_of = vocabulary_of(read_json(vocab))
    known = [AddedToken(name, token_of[name]) for name in SPECIAL if name in token_of]
    return SentencePieceTokenizer(inner, token_of, beside(model.parent, known, token_of))
