"""The tokenizer's files in an exported folder: what `transformers` reads, and our own form beside it.

Notable: vocabularies of characters or words spell out what they lack in hexadecimal digits, which no tokenizer of
others does; then there is only our own form, and a sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import AddedToken
from txlab.engine.tokenizers.byte_level import ByteTokenizer
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.folders import ABOUT
from txlab.engine.tokenizers.foreign import ForeignTokenizer
from txlab.engine.tokenizers.gpt2_files import VOCAB as NUMBERS
from txlab.engine.tokenizers.huggingface import write_huggingface
from txlab.engine.tokenizers.json_files import write_aside
from txlab.engine.tokenizers.own_files import content_of
from txlab.engine.tokenizers.sentence_pieces import SentencePieceTokenizer
from txlab.engine.tokenizers.word_pieces import VOCAB, WordPieceTokenizer
from txlab.engine.transformer.weights.vocabularies import (
    FAST,
    OWN,
    OWN_TARGET,
    SOURCE_PIECES,
    TARGET_NUMBERS,
    TARGET_PIECES,
)
from txlab.errors import LabError


def write_tokenizers(folder: Path, source: Any, target: Any, special: Mapping[str, int]) -> list[str]:
    """Write what can be written; returns a sentence for what transformers will not find."""
    if source is None:
        return []
    if isinstance(source, SentencePieceTokenizer):
        return write_sentence_pieces(folder, source, target)
    try:
        own_form(source, folder / OWN)
        if target is not None:
            own_form(target, folder / OWN_TARGET)
    except LabError as error:
        (folder / OWN).unlink(missing_ok=True)  # one of two would be taken for both
        return [f"the tokenizer is left out: {error}"]
    if target is not None:
        return [f"transformers reads one tokenizer in such a folder, here are two: they are in {OWN} and {OWN_TARGET}"]
    try:
        write_theirs(folder, source, special)
    except LabError as error:
        return [f"the tokenizer is in {OWN} only, and transformers will find none: {error}"]
    return []


def own_form(tokenizer: Any, path: Path) -> None:
    """Tokenizers of others have no form of ours; theirs is complete."""
    try:
        write_aside(path, content_of(tokenizer))
    except LabError:
        if not isinstance(tokenizer, ForeignTokenizer | WordPieceTokenizer):
            raise


def write_theirs(folder: Path, tokenizer: Any, special: Mapping[str, int]) -> None:
    """LabError where transformers has no such tokenizer."""
    about: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if isinstance(tokenizer, WordPieceTokenizer):
        names = {token: name for name, token in tokenizer.token_of.items()}
        lines = [f"{names.get(token, '')}\n" for token in range(max(names) + 1)]
        write_aside(folder / VOCAB, "".join(lines).encode())
        about = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": tokenizer.lower,
            "strip_accents": not tokenizer.accents,
            "tokenize_chinese_chars": tokenizer.ideographs,
            "added_tokens_decoder": decoder_of(tokenizer.added_tokens.tokens),
        }
    elif isinstance(tokenizer, ForeignTokenizer):
        write_aside(folder / FAST, tokenizer.inner.to_str(pretty=True).encode())
    elif isinstance(tokenizer, ByteTokenizer):  # the same as merging nothing
        write_huggingface(BytePairTokenizer([], "none"), folder / FAST)
    elif isinstance(tokenizer, BytePairTokenizer):
        write_huggingface(tokenizer, folder / FAST)
    else:
        raise LabError(f"it has no {type(tokenizer).__name__}")
    text_of = {token: name for name, token in getattr(tokenizer, "special_of", {}).items()}
    for role, key in (("begin", "bos_token"), ("end", "eos_token"), ("pad", "pad_token"), ("mask", "mask_token")):
        if special.get(role) in text_of:
            about[key] = text_of[special[role]]
    write_aside(folder / ABOUT, json.dumps(about, indent=2, ensure_ascii=False).encode())


def decoder_of(tokens: Iterable[AddedToken]) -> dict[str, Any]:
    """Added tokens as tokenizer_config.json has them."""
    entries = {str(token.id): token.entry() for token in tokens}
    return {number: {key: entry[key] for key in entry if key != "id"} for number, entry in entries.items()}


def write_sentence_pieces(folder: Path, source: SentencePieceTokenizer, target: Any) -> list[str]:
    """Marian's own files: two .spm and one vocab.json, or two of them."""
    if not isinstance(target, SentencePieceTokenizer):
        raise LabError("Marian's form has two SentencePiece tokenizers, one for the source and one for the target")
    separate = source.token_of != target.token_of
    write_aside(folder / SOURCE_PIECES, source.inner.serialized_model_proto())
    write_aside(folder / TARGET_PIECES, target.inner.serialized_model_proto())
    write_aside(folder / NUMBERS, json.dumps(source.token_of, ensure_ascii=False).encode())
    if separate:
        write_aside(folder / TARGET_NUMBERS, json.dumps(target.token_of, ensure_ascii=False).encode())
    about = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "added_tokens_decoder": decoder_of(source.added.values()),
    }
    write_aside(folder / ABOUT, json.dumps(about, indent=2).encode())
    return []
