"""Other files of a tokenizer in a model's folder: further added tokens, and the tokens put around a text.

tokenizer_config.json and the older added_tokens.json and special_tokens_map.json name added tokens; the post_processor
of tokenizer.json says which tokens are put around a tokenized text, and which characters each token covers.
Source: transformers 5, tokenization_utils_base.py (_from_pretrained), tokenization_utils_tokenizers.py;
huggingface/tokenizers, processors/ (template, bert, roberta, sequence) and pre_tokenizers/byte_level.rs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import AddedToken, read_added_token, read_added_tokens
from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.json_files import format_value, mapping, read_json, require_list, whole_number
from txlab.errors import LabError, prefix_errors


@dataclass(frozen=True)
class Around:
    """The tokens before and after a text; `unknown`: a sentence on why there may be others that are not read here.

    between   the tokens between two texts; None if not given, or if a pair has other tokens around it than one text
    """

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    unknown: str = ""
    between: tuple[int, ...] | None = None


def steps_of(processor: object) -> Iterator[Mapping[str, Any]]:
    """The processors of a post_processor, in order."""
    if processor is None:
        return
    content = mapping(processor, "post_processor")
    if content.get("type") != "Sequence":
        yield content
        return
    for step in require_list(content.get("processors"), "the processors of post_processor"):
        yield mapping(step, "a processor of post_processor")


def offsets_of(processor: object) -> str:
    """Whether the characters of a token exclude the spaces around it: one of byte_pairs.OFFSETS."""
    offsets = "whole"
    for step in steps_of(processor):
        if step.get("type") in ("ByteLevel", "RobertaProcessing") and step.get("trim_offsets"):
            offsets = "trimmed after a prefix" if step.get("add_prefix_space") else "trimmed"
    return offsets


def around(processor: object) -> Around:
    """The tokens that a post_processor puts around one text."""
    result = Around()
    for step in steps_of(processor):
        kind = step.get("type")
        if kind in ("BertProcessing", "RobertaProcessing"):
            before, behind = (id_of_pair(step.get("cls")),), (id_of_pair(step.get("sep")),)
            here = Around(before, behind, between=behind * (2 if kind == "RobertaProcessing" else 1))
        elif kind == "TemplateProcessing":
            here = of_template(step)
        elif kind == "ByteLevel":
            continue
        else:
            return Around(
                unknown=f"the post-processor {format_value(kind)} of its tokenizer is not read: "
                "texts get no added tokens"
            )
        between = here.between if result == Around() else None  # unknown if there are several processors
        result = Around((*here.before, *result.before), (*result.behind, *here.behind), between=between)
    return result


def id_of_pair(pair: object) -> int:
    """The id of a token written as [text, id]."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise LabError(f"a token of post_processor is a text and its id, not {format_value(pair)}")
    return check_id(pair[1])


def check_id(value: object) -> int:
    token = whole_number(value, "the id of a token of post_processor")
    if not 0 <= token < MOST_TOKENS:
        raise LabError(f"a token of post_processor has the id {format_value(token)}; allowed: 0 … {MOST_TOKENS - 1}")
    return token


def of_template(step: Mapping[str, Any]) -> Around:
    """The special tokens around one text by its template, and those between two texts by the template of pairs.

    The tokens between are None if the template of pairs puts other tokens around them than that of one text.
    """
    sides, texts = sides_of(step, "single")
    if len(texts) != 1:
        raise LabError(f"the template of post_processor has the text {len(texts)} times; allowed: once")
    before, behind = sides
    if not isinstance(step.get("pair"), list):
        return Around(before, behind)
    sides, texts = sides_of(step, "pair")
    same = texts == ["A", "B"] and (sides[0], sides[2]) == (before, behind)
    return Around(before, behind, between=sides[1] if same else None)


def sides_of(step: Mapping[str, Any], template: str) -> tuple[list[tuple[int, ...]], list[object]]:
    """The special tokens of a template, split at the texts, and the names of these texts."""
    named = mapping(step.get("special_tokens"), "special_tokens of post_processor")
    sides: list[list[int]] = [[]]
    texts: list[object] = []
    for part in require_list(step.get(template), f"{template} of post_processor"):
        if "Sequence" in mapping(part, f"a part of {template} of post_processor"):
            sides.append([])
            texts.append(mapping(part["Sequence"], "Sequence of post_processor").get("id"))
            continue
        name = mapping(part.get("SpecialToken"), "SpecialToken of post_processor").get("id")
        if not isinstance(name, str) or name not in named:
            raise LabError(
                f"post_processor puts {format_value(name)} around a text, which is not among its special_tokens"
            )
        ids = require_list(
            mapping(named[name], f"the special token {format_value(name)}").get("ids"),
            f"the ids of {format_value(name)}",
        )
        sides[-1] += map(check_id, ids)
    return [tuple(side) for side in sides], texts


ABOUT, ADDED, NAMED = "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"
LARGEST_ABOUT = 4 << 20  # the file may repeat all added tokens
SPECIAL_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Classes that transformers rebuilds whatever tokenizer.json says; without the former suffix "Fast".
PREFIXED = ("GPT2Tokenizer", "GPTNeoXTokenizer", "RobertaTokenizer")
CLEANED = ("BertTokenizer", "DistilBertTokenizer")
CLEANING = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
GPT2_END = "<|endoftext|>"  # both tokens of GPT-2's tokenizer by default
MORE_SPECIAL_KEYS = ("extra_special_tokens", "additional_special_tokens")


def about(folder: Path, name: str = ABOUT) -> Mapping[str, Any]:
    """The content of such a file of the folder; empty if there is none."""
    if not (folder / name).exists():
        return {}
    with prefix_errors(name):
        return mapping(read_json(folder / name, LARGEST_ABOUT), "it")


def beside(folder: Path, tokens: Iterable[AddedToken], vocab: Mapping[str, int]) -> list[AddedToken]:
    """A tokenizer's own added `tokens` and those that its folder names; `vocab`: the vocabulary without these."""
    known = {token.content: token for token in tokens}
    config = dict(about(folder))
    if "added_tokens_decoder" in config:
        known |= {token.content: token for token in decoder_of(config["added_tokens_decoder"])}
    else:  # a folder written by older versions
        config |= about(folder, NAMED)
        special = set(flags_of_special(config))
        for name, token in about(folder, ADDED).items():
            with prefix_errors(ADDED):
                entry = {"content": name, "special": name in special, "normalized": name not in special}
                known.setdefault(name, read_added_token(entry, known=token))
    for name, entry in flags_of_special(config).items():
        if name in known:
            known[name] = replace(known[name], special=True)
        elif name in vocab:
            known[name] = replace(read_added_token({"content": name} | entry, known=vocab[name]), special=True)
    return list(known.values())


def complete_tokenizer(content: Any, folder: Path) -> Any:
    """A parsed tokenizer.json, completed with the added tokens that its folder names."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        return content  # its reader reports the error
    content = rebuild_content(content, about(folder))
    vocab = content["model"].get("vocab")
    if isinstance(vocab, list):  # [[piece, log-probability], …]
        vocab = {each[0]: token for token, each in enumerate(vocab) if isinstance(each, list) and each}
    tokens = read_added_tokens(require_list(content.get("added_tokens", []), "added_tokens"))
    tokens_here = beside(folder, tokens, vocab if isinstance(vocab, dict) else {})
    if tokens_here == tokens:
        return content
    return content | {"added_tokens": [token.entry() for token in sorted(tokens_here, key=lambda token: token.id)]}


def rebuild_content(content: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the settings of tokenizer_config.json, if transformers rebuilds tokenizers of its class."""
    name = str(config.get("tokenizer_class")).removesuffix("Fast")
    splitting, cleaning, processor = (content.get(key) for key in ("pre_tokenizer", "normalizer", "post_processor"))
    if name in PREFIXED and "add_prefix_space" in config:
        settings = {"add_prefix_space": config["add_prefix_space"]}
        if isinstance(splitting, dict) and splitting.get("type") == "ByteLevel":
            content = content | {"pre_tokenizer": splitting | settings}
        if isinstance(processor, dict) and processor.get("type") == "RobertaProcessing":
            content = content | {"post_processor": processor | settings}
    if name in CLEANED and isinstance(cleaning, dict) and cleaning.get("type") == "BertNormalizer":
        settings = {ours: config[theirs] for theirs, ours in CLEANING.items() if theirs in config}
        content = content | {"normalizer": cleaning | settings}
    return content


def decoder_of(content: object) -> list[AddedToken]:
    """added_tokens_decoder: id → token."""
    with prefix_errors(ABOUT):
        entries = mapping(content, "added_tokens_decoder")
        for token in entries:
            if not (token.isascii() and token.isdecimal() and len(token) < 10):
                raise LabError(f"added_tokens_decoder has {format_value(token)} for an id")
        return [read_added_token(entry, known=int(token)) for token, entry in entries.items()]


def flags_of_special(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Text → flags of the named special tokens ("bos_token", …) and of the extra ones."""
    flags_of: dict[str, dict[str, Any]] = {}
    extra = [each for key in MORE_SPECIAL_KEYS for each in items_of(config.get(key))]
    for given in [*(config.get(key) for key in SPECIAL_KEYS), *extra]:
        name = name_of(given)
        if name:
            flags = dict(given) if isinstance(given, dict) else {}
            flags_of[name] = {
                key: flags[key] for key in ("lstrip", "rstrip", "single_word", "normalized") if key in flags
            }
    return flags_of


def items_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []


def name_of(given: object) -> str | None:
    """The text of a special token, given as a string or as an object with its flags."""
    content = given.get("content") if isinstance(given, dict) else given
    return content if isinstance(content, str) else None


def around_text(folder: Path, content: Any, ids: Mapping[str, int]) -> Around:
    """The tokens put around a text: by the post_processor of a tokenizer.json or, if there is none (`content` is None),
    by add_bos_token and add_eos_token. `ids`: special tokens by their texts."""
    config = about(folder)
    wanted = {side: config.get(f"add_{side}_token") for side in ("bos", "eos")}
    for side, value in wanted.items():
        if value not in (True, False, None):
            raise LabError(f"{ABOUT}: add_{side}_token must be true or false, not {format_value(value)}")
    if content is not None:
        tokens = around(content.get("post_processor"))
        asked = [f"add_{side}_token" for side in wanted if wanted[side]]
        if asked and tokens == Around():
            return Around(unknown=f"{ABOUT} has {asked[0]}, which has no effect with a tokenizer.json without it")
        return tokens
    named = {"bos_token": GPT2_END, "eos_token": GPT2_END, **config}
    if "added_tokens_decoder" not in config:
        named |= about(folder, NAMED)
    sides: list[tuple[int, ...]] = []
    for side, value in wanted.items():
        name = name_of(named[f"{side}_token"])
        if value and name is not None and name not in ids:
            return Around(
                unknown=f"{ABOUT} has add_{side}_token, and {format_value(name)} is not a token, so none is put there"
            )
        sides.append((ids[name],) if value and name is not None else ())
    return Around(sides[0], sides[1])
