"""SentencePiece, as Marian's translation models read it: a .spm cuts texts, a vocab.json numbers pieces (MATH K1).

Notable: the library is an optional extra, imported only here; the numbers inside the .spm are not the model's, so every
piece is looked up by name, and one that is not there is <unk>. A text may begin with the language it is to be
translated into, >>de<<, which is one token. Texts are normalised (NFKC), so the round trip is not promised.
Source: Kudo & Richardson 2018.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from txlab.engine.tokenizers.json_files import read_bytes, read_json
from txlab.engine.tokenizers.named_merges import vocabulary_of
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.errors import LabError, one_line

UNKNOWN, END, PADDING = "<unk>", "</s>", "<pad>"
SPACE = "▁"
MISSING = "needs the library sentencepiece: install the extra, pip install 'txlab[sentencepiece]'"
LARGEST_MODEL = 32 << 20  # of real ones the largest has 5 MB


class SentencePieceTokenizer:
    """`inner`: the library's processor; `token_of`: piece → id."""

    def __init__(self, inner: Any, token_of: Mapping[str, int]) -> None:
        self.inner, self.token_of = inner, dict(token_of)
        if UNKNOWN not in self.token_of:
            raise LabError(f"its vocabulary has no {UNKNOWN}, which stands for pieces that it lacks")
        self.special_of = {name: self.token_of[name] for name in (UNKNOWN, END, PADDING) if name in self.token_of}
        self.special = tuple(self.special_of)

    @cached_property
    def vocabulary(self) -> int:
        return max(self.token_of.values()) + 1

    @cached_property
    def special_cut(self) -> re.Pattern[str]:
        return re.compile(f"({'|'.join(map(re.escape, self.special))})")

    @cached_property
    def names(self) -> dict[int, str]:
        return {token: name for name, token in self.token_of.items()}

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: the texts of special tokens become them; </s> is never added."""
        utf8(text)
        if special:
            ids: list[int] = []
            for part in self.special_cut.split(text):
                ids += [self.special_of[part]] if part in self.special_of else self.encode(part)
            return ids
        pieces: list[str] = []
        if text.startswith(">>") and "<<" in text:
            language, _, text = text.partition("<<")
            pieces.append(language + "<<")
        pieces += self.inner.encode(text, out_type=str)
        return [self.token_of.get(piece, self.token_of[UNKNOWN]) for piece in pieces]

    def encode_bytes(self, data: bytes) -> list[int]:
        """LabError for bytes that are not UTF-8: such a tokenizer reads text only."""
        try:
            return self.encode(data.decode())
        except UnicodeDecodeError as error:
            raise LabError(f"byte {error.start} is not UTF-8, and SentencePiece reads text only") from None

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a piece: "▁the" is " the"."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.names.get(token, "").replace(SPACE, " ").encode()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of pieces; special tokens as they are written, with a space after each."""
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

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()

    def label(self, token: int) -> str:
        return legible(self.token_bytes(token))


def read_sentence_pieces(model: Path, vocab: Path) -> SentencePieceTokenizer:
    """A .spm and the vocab.json that numbers its pieces; LabError names the file, or the missing library."""
    try:
        import sentencepiece
    except ImportError:
        raise LabError(f"{model.name} {MISSING}") from None
    try:
        token_of = vocabulary_of(read_json(vocab))
    except LabError as error:
        raise LabError(f"{vocab.name}: {error}") from None
    try:
        inner = sentencepiece.SentencePieceProcessor(model_proto=read_bytes(model, LARGEST_MODEL))
        inner.encode("", out_type=str)  # one that was not loaded says so only here
    except LabError as error:
        raise LabError(f"{model.name}: {error}") from None
    except Exception as error:  # the library raises RuntimeError, OSError, or what its binding makes of them
        raise LabError(f"{model.name} is not a SentencePiece model: {one_line(error)[:120]}") from None
    return SentencePieceTokenizer(inner, token_of)
