"""Hugging Face's tokenizer.json: byte-level byte pair encodings are read and written here, other kinds by the library.

Notable: the library finds all added tokens in every text; here special ones are found only with `special=True`.
WordPiece, Unigram and byte pairs that normalise their text need the library, an optional extra, imported only here.
Such tokenizers lower-case text, drop accents or add spaces, so for them the round trip is not promised.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import read_added_tokens
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.folders import offsets_of
from txlab.engine.tokenizers.gpt2_files import (
    bytes_named,
    merge_names,
    missing_bytes,
    names,
    tokenizer_of_names,
    vocabulary_of,
)
from txlab.engine.tokenizers.json_files import format_value, mapping, require_list, text, write_aside
from txlab.engine.tokenizers.patterns import PATTERNS, compile_pattern, expression
from txlab.engine.tokenizers.tokenizer import Piece, TextOnly, unknown_token, utf8
from txlab.errors import LabError


class OtherKind(Exception):
    """The file is not a byte-level byte pair encoding; the message says why, as the end of "it …"."""


def huggingface_tokenizer(content: dict[str, Any]) -> BytePairTokenizer | ForeignTokenizer:
    """The tokenizer that the parsed JSON describes; raises LabError if it is wrong or needs a missing library."""
    model = mapping(content.get("model"), "model")
    try:
        return byte_level(content, model)
    except OtherKind as other:
        return foreign_tokenizer(content, str(other))


def byte_level(content: dict[str, Any], model: Any) -> BytePairTokenizer:
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise OtherKind(f"is of the kind {format_value(kind)}")
    if content.get("normalizer") is not None:
        raise OtherKind("normalises its text")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(key):
            raise OtherKind(f"has {key} = {format_value(model[key])}")
    pattern = pattern_of(content.get("pre_tokenizer"))
    added = read_added_tokens(require_list(content.get("added_tokens", []), "added_tokens"))
    special = {token.content: token.id for token in added if token.plain}
    vocab = vocabulary_of(model.get("vocab"))
    if missing := missing_bytes(vocab):
        raise OtherKind(f"has no token for the byte 0x{missing[0]:02x}")
    texts = {token.content for token in added}
    for name in vocab:
        if name not in texts and not bytes_named(name):
            raise OtherKind(f"has the token {format_value(name)}, which is not made of bytes")
    whole = model.get("ignore_merges", False)
    if not isinstance(whole, bool):
        raise LabError(f"ignore_merges must be true or false, not {format_value(whole)}")
    return tokenizer_of_names(
        vocab,
        pairs(require_list(model.get("merges"), "merges")),
        special,
        pattern,
        whole,
        [token for token in added if not token.plain],
        offsets_of(content.get("post_processor")),
    )


def pairs(merges: list[Any]) -> Iterator[tuple[str, str]]:
    """Merges as "a b" or ["a", "b"]."""
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str) and part for part in parts)):
            raise LabError(f"merge {rank} is not two names: {format_value(merge)}")
        yield parts[0], parts[1]


def pattern_of(content: object) -> str:
    """The splitting pattern of a pre_tokenizer."""
    steps = [content]
    if isinstance(content, dict) and content.get("type") == "Sequence":
        steps = require_list(content.get("pretokenizers"), "pretokenizers")
    if not steps or not isinstance(steps[-1], dict) or steps[-1].get("type") != "ByteLevel":
        raise OtherKind("does not split into bytes")
    last = steps[-1]
    if last.get("add_prefix_space", True):
        raise OtherKind("puts a space before its text")
    own = last.get("use_regex", True)
    if not isinstance(own, bool):
        raise LabError(f"use_regex must be true or false, not {format_value(own)}")
    if len(steps) == 1:
        return "gpt2" if own else "none"
    if len(steps) > 2 or own or not isinstance(steps[0], dict) or steps[0].get("type") != "Split":
        raise OtherKind("splits its text in several ways")
    split = mapping(steps[0].get("pattern"), "the pattern of Split")
    if steps[0].get("behavior") != "Isolated" or steps[0].get("invert") or "Regex" not in split:
        raise OtherKind("splits its text in a way of its own")
    given = text(split["Regex"], "the Regex of Split")
    for name, known in PATTERNS.items():
        if given == known:
            return name
    if given.replace("_", "").replace("-", "").isalnum():  # it would be read as the name of a pattern
        raise OtherKind(f"splits its text at {format_value(given)}")
    try:
        compile_pattern(given)
    except LabError as error:
        raise OtherKind(f"cannot be split here: {error}") from None
    return given


def write_huggingface(tokenizer: BytePairTokenizer, path: Path) -> None:
    """Write a tokenizer.json; raises LabError if the format cannot represent this tokenizer.

    Added tokens are also put in the vocabulary, as GPT-2's are; otherwise the library gives them the next free id.
    """
    byte_level: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {
        "type": "Split",
        "pattern": {"Regex": expression(tokenizer.pattern)},
        "behavior": "Isolated",
        "invert": False,
    }
    named = {"gpt2": byte_level | {"use_regex": True}, "none": byte_level | {"use_regex": False}}
    chain = {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    trims = byte_level | {"trim_offsets": True, "add_prefix_space": tokenizer.offsets == "trimmed after a prefix"}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [token.entry() for token in sorted(tokenizer.added_tokens.tokens, key=lambda token: token.id)],
        "normalizer": None,
        "pre_tokenizer": named.get(tokenizer.pattern, chain),
        "post_processor": None if tokenizer.offsets == "whole" else trims | {"use_regex": True},
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.whole,
            "vocab": names(tokenizer),
            "merges": [f"{left} {right}" for left, right in merge_names(tokenizer)],
        },
    }
    write_aside(path, json.dumps(content, ensure_ascii=False, indent=1).encode())


MOST_GROWTH = 1000  # SentencePiece's files have two or three replacements, each by one character
MISSING = (
    "it {why}, which needs the library tokenizers: install the extra, pip install 'txlab[tokenizers]'; "
    "without it byte-level byte pair encodings are read"
)


def foreign_tokenizer(content: dict[str, Any], why: str) -> ForeignTokenizer:
    """`why`: why the file is not read here. Raises LabError if the library is missing or cannot read it."""
    try:
        import tokenizers
    except ImportError:
        raise LabError(MISSING.format(why=why)) from None
    if growth(content.get("normalizer")) > MOST_GROWTH:
        raise LabError(f"its normalizer may make a text {MOST_GROWTH} times as long")
    # A length to pad to could take any amount of memory, and neither setting changes the tokens of the text itself.
    content = content | {"truncation": None, "padding": None}
    try:
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's panics are not subclasses of Exception
        raise LabError(f"it {why}, and the library tokenizers cannot read it: {format_value(str(error))}") from None
    byte_level = bool(steps_named("ByteLevel", [content.get("normalizer"), content.get("pre_tokenizer")]))
    return ForeignTokenizer(inner, str(content["model"].get("type", "BPE")), byte_level)


def growth(normalizer: object) -> float:
    """The factor by which a normalizer's replacements, applied in turn, can lengthen a text."""
    factor = 1.0
    for step in steps_named("Replace", normalizer):
        pattern, put = step.get("pattern"), len(str(step.get("content")))
        searched = pattern.get("String") if isinstance(pattern, dict) else None
        # A match may be empty, and then nothing is removed.
        factor *= max(1.0, put / len(searched)) if isinstance(searched, str) and searched else 1 + put
        if factor > MOST_GROWTH:
            break
    return factor


def steps_named(kind: str, content: object) -> list[dict[str, Any]]:
    """The steps of this type in (parts of) a parsed tokenizer.json, at any depth."""
    steps: list[dict[str, Any]] = []
    waiting = [content]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            steps += [step] if step.get("type") == kind else []
            waiting += step.values()
        elif isinstance(step, list):
            waiting += step
    return steps


@dataclass(frozen=True)
class Spelling:
    """How the names of a vocabulary spell bytes.

    byte_level      each letter of a name is a byte, as GPT-2 writes them
    byte_fallback   <0xF0> is a byte
    space           the letter for a space, "▁"; "" if there is none
    inside, last    the prefix of a piece inside a word (##), and the suffix of a word's last piece (</w>)
    unknown         the name of the token for text missing from the vocabulary
    """

    byte_level: bool
    byte_fallback: bool = False
    space: str = ""
    inside: str = ""
    last: str = ""
    unknown: str | None = None

    def data(self, name: str, first: bool = False, last: bool = True) -> bytes:
        """The bytes of a name. `first`, `last`: whether the token is at the beginning and at the end of its word."""
        if last and self.last and name != self.last:
            name = name.removesuffix(self.last)
        if not first and self.inside and name != self.inside:
            name = name.removeprefix(self.inside)
        if self.byte_fallback and FALLBACK.fullmatch(name):
            return bytes([int(name[3:5], 16)])
        return self.literal(name)

    def literal(self, text: str) -> bytes:
        """The bytes of a normalised text, which may have letters of its own for bytes or for a space."""
        if self.byte_level:
            return bytes_named(text) or text.encode()
        return (text.replace(self.space, " ") if self.space else text).encode()


FALLBACK = re.compile(r"<0x[0-9A-F]{2}>")


class ForeignTokenizer(TextOnly):
    """`inner`: the library's tokenizer; `kind`: its model's type; `byte_level`: letters of names stand for bytes."""

    def __init__(self, inner: Any, kind: str, byte_level: bool) -> None:
        self.inner, self.kind, self.byte_level = inner, kind, byte_level
        self.called = f"a tokenizer of the kind {kind}"
        inner.encode_special_tokens = True  # treats the texts of special tokens as plain text

    @cached_property
    def with_special(self) -> Any:
        """The same tokenizer, for which the texts of special tokens become these tokens."""
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
    def added(self) -> dict[str, Any]:
        """Added tokens, special or not, by their texts."""
        return {token.content: token for token in self.inner.get_added_tokens_decoder().values()}

    def encoding(self, text: str, special: bool = False) -> Any:
        utf8(text)
        try:
            return (self.with_special if special else self.inner).encode(text, add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise LabError(f"the library tokenizers cannot encode this text: {format_value(str(error))}") from None

    def encode(self, text: str, special: bool = False) -> list[int]:
        """`special`: turn the texts of special tokens into these tokens."""
        return list(self.encoding(text, special).ids)

    def steps(self, part: str) -> object:
        """The library's `normalizer`, `pre_tokenizer` or `decoder` as parsed JSON."""
        inner = getattr(self.inner, part)
        return None if inner is None else json.loads(inner.__getstate__())

    @cached_property
    def spelling(self) -> Spelling:
        model, normalizer = self.inner.model, self.steps("normalizer")
        spaces = [step.get("replacement") for step in steps_named("Metaspace", self.steps("pre_tokenizer"))]
        replacing = steps_named("Replace", normalizer)
        spaces += [step.get("content") for step in replacing if step.get("pattern") == {"String": " "}]
        fallback = getattr(model, "byte_fallback", False) or steps_named("ByteFallback", self.steps("decoder"))
        if self.kind == "Unigram":  # whose object does not tell
            fallback = fallback or json.loads(model.__getstate__()).get("byte_fallback")
        return Spelling(
            self.byte_level,
            bool(fallback),
            next(filter(None, spaces), ""),
            getattr(model, "continuing_subword_prefix", None) or "",
            getattr(model, "end_of_word_suffix", None) or "",
            getattr(model, "unk_token", None),
        )

    def spans(self, text: str, special: bool = False) -> list[Piece]:
        """The tokens of `encode`, each with its place as the library reports it, and its own bytes: those that its name
        spells. An added token has the bytes of the text that it is cut from, an unknown one those that it replaces."""
        encoding = self.encoding(text, special)
        words: list[int] = encoding.word_ids
        pieces: list[Piece] = []
        cuts: list[int] = []
        unknown: set[int] = set()
        for i, (token, (start, stop), name) in enumerate(
            zip(encoding.ids, encoding.offsets, encoding.tokens, strict=True)
        ):
            here = text[start:stop]
            data = b""
            added = self.added.get(name)
            if added is not None and (special or not added.special) and (here.strip() == name or added.normalized):
                cuts.append(i)
                data = self.spelling.literal(self.normal(here)) if added.normalized else here.encode()
            elif name == self.spelling.unknown and here != name:
                unknown.add(i)
            elif here.endswith(name) or self.names.get(token) != name:  # Unigram names unknown tokens by their text
                data = self.spelling.literal(name)
            else:
                first = i == 0 or words[i] != words[i - 1]
                data = self.spelling.data(name, first, i + 1 == len(words) or words[i] != words[i + 1])
            pieces.append(Piece(token, start, stop, data))
        for begin, end in itertools.pairwise([-1, *cuts, len(pieces)]):
            inside = range(begin + 1, end)
            if unknown.isdisjoint(inside):
                continue
            part = text[pieces[begin].stop if begin >= 0 else 0 : pieces[end].start if end < len(pieces) else len(text)]
            whole, before = self.splits(part), words[begin] + 1 if begin >= 0 else 0
            for word, group in itertools.groupby(inside, words.__getitem__):
                members = list(group)
                known = [None if i in unknown else pieces[i].data for i in members]
                if None in known:
                    for i, data in zip(
                        members, fill_gaps(self.spelling.literal(whole[word - before]), known), strict=True
                    ):
                        pieces[i] = pieces[i]._replace(data=data)
        return pieces

    def splits(self, text: str) -> list[str]:
        """The normalised words of a text without added tokens, which the model takes one by one."""
        from tokenizers import PreTokenizedString

        words = PreTokenizedString(text)
        if self.inner.normalizer is not None:
            words.normalize(self.inner.normalizer.normalize)
        if self.inner.pre_tokenizer is not None:
            self.inner.pre_tokenizer.pre_tokenize(words)
        return [word for word, _, _ in words.get_splits()]

    def normal(self, text: str) -> str:
        return text if self.inner.normalizer is None else str(self.inner.normalizer.normalize_str(text))

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token's name: "▁the" is " the", "##ing" is "ing", <0x0A> is a line feed."""
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        name = self.names.get(token, "")
        return name.encode() if name in self.added else self.spelling.data(name)

    def decode(self, ids: Iterable[int]) -> str:
        wanted = list(ids)
        for token in wanted:
            if not 0 <= token < self.vocabulary:
                raise unknown_token(token, self.vocabulary)
        return str(self.inner.decode(wanted, skip_special_tokens=False))


def fill_gaps(whole: bytes, known: list[bytes | None]) -> list[bytes]:
    """The bytes of the tokens of a word; an unknown one, None, has what its neighbours leave.

    Of unknown tokens in a row each has a byte or a character, if these are as many; else the first has all.

    >>> fill_gaps("a🦙éb".encode(), [b"a", None, None, b"b"]) == [b"a", "🦙".encode(), "é".encode(), b"b"]
    True
    """
    rows: list[bytes] = []
    at = 0
    for missing, group in itertools.groupby(known, lambda data: data is None):
        row = [data or b"" for data in group]
        if missing:
            after = list(itertools.takewhile(lambda data: data is not None, known[len(rows) + len(row) :]))
            following = b"".join(data or b"" for data in after)
            is_last = len(rows) + len(row) + len(after) == len(known)
            until = len(whole) - len(following) if is_last else whole.find(following, at)
            gap = whole[at : max(at, until)]
            each = [bytes([byte]) for byte in gap]
            if len(each) != len(row):
                each = [character.encode() for character in gap.decode(errors="replace")]
            row = each if len(each) == len(row) else [gap] + [b""] * (len(row) - 1)
        rows += row
        at += len(b"".join(row))
    return rows
