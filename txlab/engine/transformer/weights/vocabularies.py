"""The tokenizer that lies in a model's folder, whatever form it has.

Notable: a folder without one, or with one that needs a library that is not there, still has a model to look into; then
there is a sentence in place of a tokenizer. A tokenizer that is there and broken is an error. What was trained here and
exported has our own form beside that of others, and it goes first, because it loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.files import load_tokenizer, tokenizer_of_json
from txlab.engine.tokenizers.folders import ABOUT, about, around_text, completed
from txlab.engine.tokenizers.gpt2_files import MERGES, read_gpt2
from txlab.engine.tokenizers.gpt2_files import VOCAB as NUMBERS
from txlab.engine.tokenizers.json_files import read_json
from txlab.engine.tokenizers.post_processing import Around, around
from txlab.engine.tokenizers.sentence_pieces import MISSING, read_sentence_pieces
from txlab.engine.tokenizers.word_pieces import VOCAB, read_word_pieces, word_pieces_of_json
from txlab.errors import LabError

OWN, OWN_TARGET = "txlab-tokenizer.json", "txlab-target-tokenizer.json"
FAST = "tokenizer.json"
SOURCE_PIECES, TARGET_PIECES, TARGET_NUMBERS = "source.spm", "target.spm", "target_vocab.json"
# What the special tokens of BERT and RoBERTa are for.
ROBERTA_ROLES = {"begin": "<s>", "end": "</s>", "separator": "</s>", "mask": "<mask>", "pad": "<pad>"}
ROLES = {"begin": "[CLS]", "end": "[SEP]", "separator": "[SEP]", "mask": "[MASK]", "pad": "[PAD]"}


@dataclass(frozen=True)
class FolderTokenizers:
    """`source` reads texts, `target` the decoder's where it has its own; `special`: role → id, as far as they say;
    `around`: what the tokenizer puts around a text, where it says so itself; `missing` says why there is none."""

    source: Any = None
    target: Any = None
    special: dict[str, int] = field(default_factory=dict)
    around: Around | None = None
    missing: str = ""


def folder_tokenizers(folder: Path, kind: str) -> FolderTokenizers:
    """The tokenizers of a model's folder; LabError, without the folder's name, for a broken one."""
    if (folder / OWN).exists():
        target = load_tokenizer(folder / OWN_TARGET) if (folder / OWN_TARGET).exists() else None
        return FolderTokenizers(load_tokenizer(folder / OWN), target)
    if kind == "encoder-decoder" and (folder / SOURCE_PIECES).exists():
        return marian_tokenizers(folder)
    content: Any = None
    if (folder / FAST).exists():
        try:
            content = completed(read_json(folder / FAST), folder)
        except LabError as error:
            raise LabError(f"{FAST}: {error}") from None
    if kind == "bert":
        found = bert_tokenizer(folder, content)
        if found is not None:
            roles = {role: found.special_of[name] for role, name in ROLES.items() if name in found.special_of}
            processor = (content or {}).get("post_processor")
            return FolderTokenizers(found, special=roles, around=None if processor is None else around(processor))
    if content is None and not ((folder / NUMBERS).exists() and (folder / MERGES).exists()):
        wanted = {
            "gpt": f"{FAST}, nor {NUMBERS} and {MERGES}",
            "bert": f"{FAST} nor {VOCAB}",
            "encoder-decoder": f"{FAST}, nor {SOURCE_PIECES}, {TARGET_PIECES} and {NUMBERS}",
        }[kind]
        return FolderTokenizers(missing=f"the folder has no tokenizer: neither {wanted}")
    if content is None and about(folder).get("add_prefix_space") is True:
        return FolderTokenizers(missing=f"{ABOUT} has add_prefix_space, which is read beside a {FAST} only")
    try:
        tokenizer = read_gpt2(folder) if content is None else tokenizer_of_json(content)
    except LabError as error:
        if "needs the library" in str(error):
            return FolderTokenizers(missing=str(error))
        raise LabError(f"{FAST}: {error}" if content is not None else str(error)) from None
    names: dict[str, int] = {}
    if kind == "bert":
        names = {name: token for token, name in getattr(tokenizer, "names", {}).items()}
        names |= getattr(tokenizer, "special_of", {})
    roles = ROLES if ROLES["mask"] in names else ROBERTA_ROLES
    special = {role: names[name] for role, name in roles.items() if name in names}
    if kind == "bert" and (content or {}).get("post_processor") is None:  # BERT's own has a template in any case
        return FolderTokenizers(tokenizer, special=special)
    return FolderTokenizers(
        tokenizer, special=special, around=around_text(folder, content, getattr(tokenizer, "special_of", {}))
    )


def bert_tokenizer(folder: Path, content: Any) -> Any:
    """WordPiece from tokenizer.json, where it does what BERT does, or from vocab.txt; None where there is neither."""
    if content is not None:
        try:
            found = word_pieces_of_json(content)
        except LabError as error:
            raise LabError(f"{FAST}: {error}") from None
        if found is not None:
            return found
    if not (folder / VOCAB).exists():
        return None
    try:
        return read_word_pieces(folder / VOCAB, about(folder))
    except LabError as error:
        raise LabError(f"{VOCAB}: {error}") from None


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
