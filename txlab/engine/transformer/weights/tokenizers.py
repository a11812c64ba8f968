"""The tokenizer in a model's folder: read in whatever format it has, written in the format of transformers and our own.

A folder without a tokenizer, or with one that needs a missing library, still has a usable model; a sentence then
explains why there is no tokenizer. A broken tokenizer is an error. Our own format takes precedence, because it is
lossless. Vocabularies of characters or words spell unknown text in hexadecimal digits, which no other library's
tokenizer does; these are written in our own format only, and a sentence says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import AddedToken
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.tokenizers.files import content_of, load_tokenizer, tokenizer_of_json
from txlab.engine.tokenizers.folders import ABOUT, Around, about, around, around_text, complete_tokenizer
from txlab.engine.tokenizers.gpt2_files import MERGES, read_gpt2
from txlab.engine.tokenizers.gpt2_files import VOCAB as NUMBERS
from txlab.engine.tokenizers.huggingface import ForeignTokenizer, write_huggingface
from txlab.engine.tokenizers.json_files import read_json, write_aside
from txlab.engine.tokenizers.sentence_pieces import MISSING, SentencePieceTokenizer, read_sentence_pieces
from txlab.engine.tokenizers.tokenizer import names_of, specials_of
from txlab.engine.tokenizers.word_pieces import VOCAB, WordPieceTokenizer, read_word_pieces, word_pieces_of_json
from txlab.errors import LabError, prefix_errors

OWN, OWN_TARGET = "txlab-tokenizer.json", "txlab-target-tokenizer.json"
FAST = "tokenizer.json"
SOURCE_PIECES, TARGET_PIECES, TARGET_NUMBERS = "source.spm", "target.spm", "target_vocab.json"
# The roles of the special tokens of BERT and RoBERTa.
ROBERTA_ROLES = {"begin": "<s>", "end": "</s>", "separator": "</s>", "mask": "<mask>", "pad": "<pad>"}
ROLES = {"begin": "[CLS]", "end": "[SEP]", "separator": "[SEP]", "mask": "[MASK]", "pad": "[PAD]"}


@dataclass(frozen=True)
class FolderTokenizers:
    """`source` tokenizes texts, `target` the decoder's if that differs; `special`: role → id, as far as known;
    `around`: the tokens that the tokenizer puts around a text, if it specifies them; `missing`: why there is none."""

    source: Any = None
    target: Any = None
    special: dict[str, int] = field(default_factory=dict)
    around: Around | None = None
    missing: str = ""


def folder_tokenizers(folder: Path, kind: str) -> FolderTokenizers:
    """Read the tokenizers of a model's folder; LabError, without the folder's name, for a broken one."""
    if (folder / OWN).exists():
        target = load_tokenizer(folder / OWN_TARGET) if (folder / OWN_TARGET).exists() else None
        return FolderTokenizers(load_tokenizer(folder / OWN), target)
    if kind == "encoder-decoder" and (folder / SOURCE_PIECES).exists():
        return marian_tokenizers(folder)
    content: Any = None
    if (folder / FAST).exists():
        with prefix_errors(FAST):
            content = complete_tokenizer(read_json(folder / FAST), folder)
    if kind == "bert":
        word_pieces = bert_tokenizer(folder, content)
        if word_pieces is not None:
            roles = {
                role: word_pieces.special_of[name] for role, name in ROLES.items() if name in word_pieces.special_of
            }
            processor = (content or {}).get("post_processor")
            return FolderTokenizers(word_pieces, special=roles, around=None if processor is None else around(processor))
    if content is None and not ((folder / NUMBERS).exists() and (folder / MERGES).exists()):
        wanted = {
            "gpt": f"{FAST}, nor {NUMBERS} and {MERGES}",
            "bert": f"{FAST} nor {VOCAB}",
            "encoder-decoder": f"{FAST}, nor {SOURCE_PIECES}, {TARGET_PIECES} and {NUMBERS}",
        }[kind]
        return FolderTokenizers(missing=f"the folder has no tokenizer: neither {wanted}")
    if content is None and about(folder).get("add_prefix_space") is True:
        return FolderTokenizers(missing=f"{ABOUT} has add_prefix_space, which is read only together with a {FAST}")
    try:
        tokenizer = read_gpt2(folder) if content is None else tokenizer_of_json(content)
    except LabError as error:
        if "needs the library" in str(error):
            return FolderTokenizers(missing=str(error))
        raise LabError(f"{FAST}: {error}" if content is not None else str(error)) from None
    names: dict[str, int] = {}
    if kind == "bert":
        names = {name: token for token, name in names_of(tokenizer).items()}
        names |= specials_of(tokenizer)
    roles = ROLES if ROLES["mask"] in names else ROBERTA_ROLES
    special = {role: names[name] for role, name in roles.items() if name in names}
    if kind == "bert" and (content or {}).get("post_processor") is None:  # BERT has a standard template in any case
        return FolderTokenizers(tokenizer, special=special)
    return FolderTokenizers(tokenizer, special=special, around=around_text(folder, content, specials_of(tokenizer)))


def bert_tokenizer(folder: Path, content: Any) -> Any:
    """Read WordPiece from tokenizer.json, if it behaves like BERT's, or from vocab.txt; None if both are missing."""
    if content is not None:
        with prefix_errors(FAST):
            tokenizer = word_pieces_of_json(content)
        if tokenizer is not None:
            return tokenizer
    if not (folder / VOCAB).exists():
        return None
    with prefix_errors(VOCAB):
        return read_word_pieces(folder / VOCAB, about(folder))


def marian_tokenizers(folder: Path) -> FolderTokenizers:
    separate = about(folder).get("separate_vocabs") is True
    files = (SOURCE_PIECES, TARGET_PIECES, NUMBERS, *([TARGET_NUMBERS] if separate else []))
    for name in files:
        if not (folder / name).exists():
            raise LabError(f"it has no {name}; a Marian tokenizer is {', '.join(files)}")
    try:
        source = read_sentence_pieces(folder / SOURCE_PIECES, folder / NUMBERS)
    except LabError as error:
        if MISSING not in str(error):
            raise
        return FolderTokenizers(missing=str(error))
    target = read_sentence_pieces(folder / TARGET_PIECES, folder / (TARGET_NUMBERS if separate else NUMBERS))
    return FolderTokenizers(source, target)


def write_tokenizers(folder: Path, source: Any, target: Any, special: Mapping[str, int]) -> list[str]:
    """Write the tokenizers as far as possible; return a sentence for each one that transformers will not find."""
    if source is None:
        return []
    if isinstance(source, SentencePieceTokenizer):
        return write_sentence_pieces(folder, source, target)
    try:
        own_form(source, folder / OWN)
        if target is not None:
            own_form(target, folder / OWN_TARGET)
    except LabError as error:
        (folder / OWN).unlink(missing_ok=True)  # a single one would count as both
        return [f"the tokenizer is left out: {error}"]
    if target is not None:
        return [f"transformers reads one tokenizer in such a folder, here are two: they are in {OWN} and {OWN_TARGET}"]
    try:
        write_theirs(folder, source, special)
    except LabError as error:
        return [f"the tokenizer is in {OWN} only, and transformers will find none: {error}"]
    return []


def own_form(tokenizer: Any, path: Path) -> None:
    """Write our own format, except for imported tokenizers, whose original format is complete."""
    try:
        write_aside(path, content_of(tokenizer))
    except LabError:
        if not isinstance(tokenizer, ForeignTokenizer | WordPieceTokenizer):
            raise


def write_theirs(folder: Path, tokenizer: Any, special: Mapping[str, int]) -> None:
    """Write the format of transformers; LabError if it has no such tokenizer."""
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
    elif isinstance(tokenizer, ByteTokenizer):  # the same as BPE without merges
        write_huggingface(BytePairTokenizer([], "none"), folder / FAST)
    elif isinstance(tokenizer, BytePairTokenizer):
        write_huggingface(tokenizer, folder / FAST)
    else:
        raise LabError(f"it has no {type(tokenizer).__name__}")
    text_of = {token: name for name, token in specials_of(tokenizer).items()}
    for role, key in (("begin", "bos_token"), ("end", "eos_token"), ("pad", "pad_token"), ("mask", "mask_token")):
        if special.get(role) in text_of:
            about[key] = text_of[special[role]]
    write_aside(folder / ABOUT, json.dumps(about, indent=2, ensure_ascii=False).encode())


def decoder_of(tokens: Iterable[AddedToken]) -> dict[str, Any]:
    """Return added tokens in the format of tokenizer_config.json."""
    entries = {str(token.id): token.entry() for token in tokens}
    return {number: {key: entry[key] for key in entry if key != "id"} for number, entry in entries.items()}


def write_sentence_pieces(folder: Path, source: SentencePieceTokenizer, target: Any) -> list[str]:
    """Write Marian's files: two .spm and one vocab.json, or two of them."""
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
