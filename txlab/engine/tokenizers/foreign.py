"""Tokenizers that only Hugging Face's library can run: WordPiece, Unigram, byte pairs that normalize their text.

Notable: the library is an optional extra, imported only here. What it decodes need not be what it encoded, because
such tokenizers lower cases, drop accents or add spaces; so here, alone, the round trip is not promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from txlab.engine.tokenizers.json_files import shown
from txlab.engine.tokenizers.named_merges import bytes_named
from txlab.engine.tokenizers.tokenizer import Ids, legible, unknown_token, utf8
from txlab.errors import LabError

MISSING = (
    "it {why}, which needs the library tokenizers: install the extra, pip install 'txlab[tokenizers]'; "
    "without it byte-level byte pair encodings are read"
)


def foreign_tokenizer(content: dict[str, Any], why: str) -> ForeignTokenizer:
    """`why`: what the file is or does that is not read here. LabError without the library, or where it refuses."""
    try:
        import tokenizers
    except ImportError:
        raise LabError(MISSING.format(why=why)) from None
    # A length to pad to is a claim on memory, and neither changes what the text's own tokens are.
    content = content | {"truncation": None, "padding": None}
    try:
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library panics with an exception that is no Exception
        raise LabError(f"it {why}, and the library tokenizers cannot read it: {shown(str(error))}") from None
    byte_level = '"ByteLevel"' in json.dumps([content.get("decoder"), content.get("pre_tokenizer")])
    return ForeignTokenizer(inner, str(content["model"].get("type", "BPE")), byte_level)


class ForeignTokenizer:
    """`inner`: the library's tokenizer; `kind`: its model's type; `byte_level`: names are of letters for bytes."""

    def __init__(self, inner: Any, kind: str, byte_level: bool) -> None:
        self.inner, self.kind, self.byte_level = inner, kind, byte_level
        inner.encode_special_tokens = True  # the texts of special tokens are text

    @cached_property
    def with_special(self) -> Any:
        """The same, in which the texts of special tokens are these tokens."""
        inner = type(self.inner).from_str(self.inner.to_str())
        inner.encode_special_tokens = False
        return inner

    @cached_property
    def names(self) -> dict[int, str]:
        return {token: name for name, token in self.inner.get_vocab(with_added_tokens=True).items()}

    @cached_property
    def vocabulary(self) -> int:
        return max(self.names, default=-1) + 1

    @cached_property
    def special_of(self) -> dict[str, int]:
        added = self.inner.get_added_tokens_decoder().items()
        return {token.content: number for number, token in added if token.special}

    @property
    def special(self) -> tuple[str, ...]:
        return tuple(self.special_of)

    @cached_property
    def added(self) -> frozenset[str]:
        """The texts of added tokens, special or not."""
        return frozenset(token.content for token in self.inner.get_added_tokens_decoder().values())

    def encoding(self, text: str, special: bool = False) -> Any:
        utf8(text)
        try:
            return (self.with_special if special else self.inner).encode(text, add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise LabError(f"the library tokenizers cannot encode this text: {shown(str(error))}") from None

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: turn the texts of special tokens into these tokens."""
        return list(self.encoding(text, special).ids)

    def spans(self, text: str, special: bool = False) -> list[tuple[int, int, int]]:
        """Token, first character and the one behind the last, as the library says."""
        found = self.encoding(text, special)
        return [(token, start, stop) for token, (start, stop) in zip(found.ids, found.offsets, strict=True)]

    def encode_bytes(self, data: bytes) -> list[int]:
        """LabError for bytes that are not UTF-8: such a tokenizer reads text only."""
        try:
            return self.encode(data.decode())
        except UnicodeDecodeError as error:
            raise LabError(
                f"byte {error.start} is not UTF-8, and a tokenizer of the kind {self.kind} reads text only"
            ) from None

    def encode_long(self, text: str) -> Ids:
        return np.array(self.encode(text), dtype=np.uint32)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token's name: "▁the" is " the", "##ing" is "ing", <0x0A> is a line's end."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        name = self.names.get(token, "")
        if name in self.added:
            return name.encode()
        if self.byte_level:
            return bytes_named(name) or name.encode()
        if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
            try:
                return bytes([int(name[3:5], 16)])
            except ValueError:
                pass
        return name.removeprefix("##").replace("▁", " ").encode()

    def decode(self, ids: Iterable[int]) -> str:
        wanted = list(ids)
        for token in wanted:
            if not 0 <= token < self.vocabulary:
                raise unknown_token(token, self.vocabulary)
        return str(self.inner.decode(wanted, skip_special_tokens=False))

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return self.decode(ids).encode()

    def label(self, token: int) -> str:
        return legible(self.token_bytes(token))
