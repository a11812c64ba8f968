"""Our own form of a tokenizer: {"format": 1, "kind": …} and what that kind is made of.

Notable: a byte pair encoding is stored as its pairs of ids, so the tokens cannot contradict them, and with the count
of each merge at training time, which no other form keeps.
"""

import json
from typing import Any

from txlab.engine.tokenizers.added_tokens import added_tokens
from txlab.engine.tokenizers.bases import BYTES, Alphabet, Base, Bytes
from txlab.engine.tokenizers.byte_level import ByteTokenizer
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.characters import CharacterTokenizer
from txlab.engine.tokenizers.json_files import listed, shown, text, whole_number
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.tokenizers.words import WordTokenizer
from txlab.errors import LabError, nearest

FORMAT = 1
# What each kind must have, and may have.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "bytes": (set(), set()),
    "characters": ({"characters"}, set()),
    "words": ({"units"}, set()),
    "bpe": ({"pattern", "special", "merges"}, {"base", "counts", "ids", "tokens", "whole", "added", "offsets"}),
}
OwnTokenizer = ByteTokenizer | CharacterTokenizer | WordTokenizer | BytePairTokenizer


def content_of(tokenizer: Tokenizer) -> bytes:
    """The file of a tokenizer."""
    content: dict[str, Any] = {"format": FORMAT}
    if isinstance(tokenizer, BytePairTokenizer):
        content |= {"kind": "bpe", "pattern": tokenizer.pattern, "special": list(tokenizer.given)}
        after = tokenizer.base.after
        if tokenizer.base != BYTES:
            content["base"] = base_content(tokenizer.base)
        if tokenizer.made != list(range(after, after + len(tokenizer.merges))):
            content["ids"] = tokenizer.made
        if tokenizer.spelt:
            content["tokens"] = [[token, data.hex()] for token, data in tokenizer.spelt.items()]
        if tokenizer.given != tokenizer.placed(list(tokenizer.given)):
            content["special"] = dict(tokenizer.given)
        if tokenizer.whole:
            content["whole"] = True
        if tokenizer.added:
            content["added"] = [token.entry() for token in tokenizer.added]
        if tokenizer.offsets != "whole":
            content["offsets"] = tokenizer.offsets
        if tokenizer.counts:
            content["counts"] = list(tokenizer.counts)
        content["merges"] = tokenizer.merges
    elif isinstance(tokenizer, CharacterTokenizer):
        content |= {"kind": "characters", "characters": tokenizer.characters}
    elif isinstance(tokenizer, WordTokenizer):
        content |= {"kind": "words", "units": list(tokenizer.texts)}
    elif isinstance(tokenizer, ByteTokenizer):
        content |= {"kind": "bytes"}
    else:
        raise LabError(f"a {type(tokenizer).__name__} has no form of ours; keep the file that it came from")
    return json.dumps(content, ensure_ascii=False).encode()


def base_content(base: Base) -> dict[str, Any]:
    if isinstance(base, Bytes):
        return {"kind": "bytes", "ids": list(base.ids)}
    return {"kind": "alphabet", "letters": base.letters, "end_of_artefact": base.end_of_artefact}


def tokenizer_of(content: object) -> OwnTokenizer:
    """The tokenizer that parsed JSON describes; LabError for anything that is not exactly one."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or type(content["format"]) is not int:
        raise LabError(f"it is not a tokenizer of format {FORMAT}")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(
            f"kind = {shown(kind)} is not known{nearest(str(kind)[:80], KINDS)}; allowed: {', '.join(KINDS)}"
        )
    must, may = KINDS[kind]
    keys = set(content) - {"format", "kind"}
    if not must <= keys <= must | may:
        wrong = sorted(keys - must - may) or sorted(must - keys)
        raise LabError(
            f"kind {kind} has the keys {', '.join(sorted(must | may)) or 'format and kind only'}; "
            f"{shown(wrong[0])} is {'not one of them' if keys - must - may else 'missing'}"
        )
    if kind == "bytes":
        return ByteTokenizer()
    if kind == "characters":
        return CharacterTokenizer(text(content["characters"], "characters"))
    if kind == "words":
        return WordTokenizer([text(unit, "a unit") for unit in listed(content["units"], "units")])
    return byte_pairs_of(content)


def byte_pairs_of(content: dict[str, Any]) -> BytePairTokenizer:
    pairs: list[tuple[int, int]] = []
    for rank, pair in enumerate(listed(content["merges"], "merges")):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(token) is int for token in pair)):
            raise LabError(f"merge {rank} is not a pair of token ids")
        pairs.append((pair[0], pair[1]))
    given = content["special"]
    special: list[str] | dict[str, int]
    if isinstance(given, dict):
        special = {name: whole_number(token, "the id of a special token") for name, token in given.items()}
    else:
        special = [text(name, "a special token") for name in listed(given, "special")]
    ids = content.get("ids")
    whole = content.get("whole", False)
    if not isinstance(whole, bool):
        raise LabError(f"whole must be true or false, not {shown(whole)}")
    return BytePairTokenizer(
        pairs,
        text(content["pattern"], "pattern"),
        special,
        base=base_of(content["base"]) if "base" in content else None,
        counts=[whole_number(count, "a count") for count in listed(content.get("counts", []), "counts")],
        ids=None if ids is None else [whole_number(token, "an id") for token in listed(ids, "ids")],
        tokens=dict(known_token(entry) for entry in listed(content.get("tokens", []), "tokens")),
        whole=whole,
        added=added_tokens(listed(content.get("added", []), "added")),
        offsets=text(content.get("offsets", "whole"), "offsets"),
    )


def known_token(entry: object) -> tuple[int, bytes]:
    if isinstance(entry, list) and len(entry) == 2:
        try:
            return whole_number(entry[0], "an id"), bytes.fromhex(text(entry[1], "the bytes of a token"))
        except ValueError:
            pass
    raise LabError(f"{shown(entry)} is not a token and its bytes in hexadecimal digits")


def base_of(content: object) -> Base:
    if isinstance(content, dict) and content.get("kind") == "bytes" and set(content) == {"kind", "ids"}:
        return Bytes(tuple(whole_number(token, "the id of a byte") for token in listed(content["ids"], "ids")))
    if isinstance(content, dict) and content.get("kind") == "alphabet":
        if set(content) != {"kind", "letters", "end_of_artefact"}:
            raise LabError("an alphabet has the keys letters and end_of_artefact")
        return Alphabet(text(content["letters"], "letters"), text(content["end_of_artefact"], "end_of_artefact"))
    raise LabError(f"base = {shown(content)} is neither bytes with ids nor an alphabet")
