"""What a tokenizer.json says of a text that became tokens: which tokens are put around it, and where each one lies.

Source: huggingface/tokenizers, processors/ (template, bert, roberta, sequence) and pre_tokenizers/byte_level.rs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.json_files import listed, mapping, shown, whole_number
from txlab.errors import LabError


@dataclass(frozen=True)
class Around:
    """The tokens before and behind a text; `unknown`: why there may be others that are not read here, a sentence.

    between   those between two texts; None where that is not said, or where others are put around two than around one
    """

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    unknown: str = ""
    between: tuple[int, ...] | None = None


def steps_of(processor: object) -> Iterator[Mapping[str, Any]]:
    """The processors of a post_processor, one behind the other."""
    if processor is None:
        return
    content = mapping(processor, "post_processor")
    if content.get("type") != "Sequence":
        yield content
        return
    for step in listed(content.get("processors"), "the processors of post_processor"):
        yield mapping(step, "a processor of post_processor")


def offsets_of(processor: object) -> str:
    """Whether the characters of a token are told without the spaces around it: one of byte_pairs.OFFSETS."""
    found = "whole"
    for step in steps_of(processor):
        if step.get("type") in ("ByteLevel", "RobertaProcessing") and step.get("trim_offsets"):
            found = "trimmed after a prefix" if step.get("add_prefix_space") else "trimmed"
    return found


def around(processor: object) -> Around:
    """The tokens that a post_processor puts around one text."""
    found = Around()
    for step in steps_of(processor):
        kind = step.get("type")
        before: tuple[int, ...]
        behind: tuple[int, ...]
        between: tuple[int, ...] | None
        if kind in ("BertProcessing", "RobertaProcessing"):
            before, behind = (numbered(step.get("cls")),), (numbered(step.get("sep")),)
            between = behind * (2 if kind == "RobertaProcessing" else 1)
        elif kind == "TemplateProcessing":
            before, behind = of_template(step)
            between = between_of(step, before, behind)
        elif kind == "ByteLevel":
            continue
        else:
            return Around(
                unknown=f"the post-processor {shown(kind)} of its tokenizer is not read: no token is put around a text"
            )
        alone = found == Around()  # of several it is not asked what they do to two texts
        found = Around((*before, *found.before), (*found.behind, *behind), between=between if alone else None)
    return found


def numbered(pair: object) -> int:
    """The id of a token that is written as [text, id]."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise LabError(f"a token of post_processor is a text and its id, not {shown(pair)}")
    return known_id(pair[1])


def known_id(value: object) -> int:
    token = whole_number(value, "the id of a token of post_processor")
    if not 0 <= token < MOST_TOKENS:
        raise LabError(f"a token of post_processor has the id {shown(token)}; allowed: 0 … {MOST_TOKENS - 1}")
    return token


def of_template(step: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The template of one text: special tokens, and the text itself, once."""
    sides, texts = sides_of(step, "single")
    if len(texts) != 1:
        raise LabError(f"the template of post_processor has the text {len(texts)} times; allowed: once")
    return sides[0], sides[1]


def between_of(step: Mapping[str, Any], before: tuple[int, ...], behind: tuple[int, ...]) -> tuple[int, ...] | None:
    """What the template of two texts has between them; None where it is around them another than that of one."""
    if not isinstance(step.get("pair"), list):
        return None
    sides, texts = sides_of(step, "pair")
    same = texts == ["A", "B"] and (sides[0], sides[2]) == (before, behind)
    return sides[1] if same else None


def sides_of(step: Mapping[str, Any], template: str) -> tuple[list[tuple[int, ...]], list[object]]:
    """The special tokens of a template, cut where texts stand, and which texts these are."""
    named = mapping(step.get("special_tokens"), "special_tokens of post_processor")
    sides: list[list[int]] = [[]]
    texts: list[object] = []
    for part in listed(step.get(template), f"{template} of post_processor"):
        if "Sequence" in mapping(part, f"a part of {template} of post_processor"):
            sides.append([])
            texts.append(mapping(part["Sequence"], "Sequence of post_processor").get("id"))
            continue
        name = mapping(part.get("SpecialToken"), "SpecialToken of post_processor").get("id")
        if not isinstance(name, str) or name not in named:
            raise LabError(f"post_processor puts {shown(name)} around a text, which is not among its special_tokens")
        ids = listed(mapping(named[name], f"the special token {shown(name)}").get("ids"), f"the ids of {shown(name)}")
        sides[-1] += map(known_id, ids)
    return [tuple(side) for side in sides], texts
