"""Hugging Face's tokenizer.json: byte-level byte pair encodings are read and written here, other kinds by `foreign`.

Notable: that library looks for added tokens in every text, special or not; here special ones only where `special=True`
asks for them. A normalizer, a prefixed space or a chain of splittings would lose what decoding must
give back, or need another encoder: such files are another kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import added_tokens
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.foreign import ForeignTokenizer, foreign_tokenizer
from txlab.engine.tokenizers.json_files import listed, mapping, shown, text, write_aside
from txlab.engine.tokenizers.named_merges import (
    bytes_named,
    merge_names,
    missing_bytes,
    names,
    tokenizer_of_names,
    vocabulary_of,
)
from txlab.engine.tokenizers.patterns import PATTERNS, compiled, expression
from txlab.engine.tokenizers.post_processing import offsets_of
from txlab.errors import LabError


class OtherKind(Exception):
    """It is no byte-level byte pair encoding; the message says why, as the end of "it …"."""


def huggingface_tokenizer(content: dict[str, Any]) -> BytePairTokenizer | ForeignTokenizer:
    """The tokenizer that the parsed JSON describes; LabError for what is wrong, or lacks the library to read it."""
    model = mapping(content.get("model"), "model")
    try:
        return byte_level(content, model)
    except OtherKind as other:
        return foreign_tokenizer(content, str(other))


def byte_level(content: dict[str, Any], model: Any) -> BytePairTokenizer:
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise OtherKind(f"is of the kind {shown(kind)}")
    if content.get("normalizer") is not None:
        raise OtherKind("normalizes its text")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(key):
            raise OtherKind(f"has {key} = {shown(model[key])}")
    pattern = pattern_of(content.get("pre_tokenizer"))
    added = added_tokens(listed(content.get("added_tokens", []), "added_tokens"))
    special = {token.content: token.id for token in added if token.plain}
    vocab = vocabulary_of(model.get("vocab"))
    if missing := missing_bytes(vocab):
        raise OtherKind(f"has no token for the byte 0x{missing[0]:02x}")
    texts = {token.content for token in added}
    for name in vocab:
        if name not in texts and not bytes_named(name):
            raise OtherKind(f"has the token {shown(name)}, which is not made of bytes")
    whole = model.get("ignore_merges", False)
    if not isinstance(whole, bool):
        raise LabError(f"ignore_merges must be true or false, not {shown(whole)}")
    return tokenizer_of_names(
        vocab,
        pairs(listed(model.get("merges"), "merges")),
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
            raise LabError(f"merge {rank} is not two names: {shown(merge)}")
        yield parts[0], parts[1]


def pattern_of(content: object) -> str:
    """The splitting pattern of a pre_tokenizer."""
    steps = [content]
    if isinstance(content, dict) and content.get("type") == "Sequence":
        steps = listed(content.get("pretokenizers"), "pretokenizers")
    if not steps or not isinstance(steps[-1], dict) or steps[-1].get("type") != "ByteLevel":
        raise OtherKind("does not split into bytes")
    last = steps[-1]
    if last.get("add_prefix_space", True):
        raise OtherKind("puts a space before its text")
    own = last.get("use_regex", True)
    if not isinstance(own, bool):
        raise LabError(f"use_regex must be true or false, not {shown(own)}")
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
    if given.replace("_", "").replace("-", "").isalnum():  # it would be taken for a name of ours
        raise OtherKind(f"splits its text at {shown(given)}")
    try:
        compiled(given)
    except LabError as error:
        raise OtherKind(f"cannot be split here: {error}") from None
    return given


def write_huggingface(tokenizer: BytePairTokenizer, path: Path) -> None:
    """LabError where the form cannot say what this tokenizer is.

    Added tokens stand in the vocabulary too, as GPT-2's do: the library gives others the next free id instead.
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
