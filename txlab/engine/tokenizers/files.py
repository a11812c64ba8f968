"""A tokenizer as one JSON file: {"format": 1, "kind": …} and what that kind is made of.

Notable: a file is somebody else's until it is checked; whatever is wrong with it ends in one LabError that names it,
and nothing in it is ever run. A byte pair encoding is stored as its pairs of ids, so the tokens cannot contradict them.
"""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.byte_level import ByteTokenizer
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.characters import CharacterTokenizer
from txlab.errors import LabError, nearest

FORMAT = 1
KINDS = ("bytes", "characters", "bpe")

# A pair can double the length of a token, so a short file could ask for 2^60 bytes after 60 merges. Our own trainer
# makes none above 256 bytes, OpenAI's longest are 128.
LONGEST_TOKEN = 512
ALL_TOKENS = 64 << 20
LARGEST_FILE = 256 << 20

AnyTokenizer = ByteTokenizer | CharacterTokenizer | BytePairTokenizer


def save_tokenizer(tokenizer: AnyTokenizer, path: Path) -> None:
    """Write the file aside and rename it, so that it is complete or absent."""
    content: dict[str, Any] = {"format": FORMAT}
    if isinstance(tokenizer, BytePairTokenizer):
        content |= {
            "kind": "bpe",
            "pattern": tokenizer.pattern,
            "special": list(tokenizer.special),
            "merges": tokenizer.merges,
        }
    elif isinstance(tokenizer, CharacterTokenizer):
        content |= {"kind": "characters", "characters": tokenizer.characters}
    else:
        content |= {"kind": "bytes"}
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(aside).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(aside).unlink()
        raise


def load_tokenizer(path: Path) -> AnyTokenizer:
    """Read and check the file; LabError names it and says what is wrong."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise LabError(f"tokenizer file {str(path)!r} is larger than {LARGEST_FILE >> 20} MiB")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise LabError(f"tokenizer file {str(path)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise LabError(f"tokenizer file {str(path)!r} is not JSON") from None
    try:
        return tokenizer_of(content)
    except LabError as error:
        raise LabError(f"tokenizer file {str(path)!r}: {error}") from None


def tokenizer_of(content: object) -> AnyTokenizer:
    """The tokenizer that parsed JSON describes; LabError for anything that is not exactly one."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise LabError(f"it is not a tokenizer of format {FORMAT}")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(f"kind = {kind!r} is not known{nearest(str(kind), KINDS)}; allowed: {', '.join(KINDS)}")
    keys = {"bytes": set(), "characters": {"characters"}, "bpe": {"pattern", "special", "merges"}}[kind]
    if set(content) != keys | {"format", "kind"}:
        raise LabError(f"kind {kind} has the keys {', '.join(sorted(keys)) or 'format and kind only'}")
    if kind == "bytes":
        return ByteTokenizer()
    if kind == "characters":
        return CharacterTokenizer(text(content["characters"], "characters"))
    merges, special = content["merges"], content["special"]
    if not isinstance(special, list) or not isinstance(merges, list):
        raise LabError("merges and special must be lists")
    lengths = [1] * 256
    room = ALL_TOKENS
    pairs: list[tuple[int, int]] = []
    for rank, pair in enumerate(merges):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(token) is int for token in pair)):
            raise LabError(f"merge {rank} is not a pair of token ids")
        left, right = pair
        if not (0 <= left < len(lengths) and 0 <= right < len(lengths)):
            raise LabError(
                f"merge {rank} joins tokens {left} and {right}; only 0 … {len(lengths) - 1} are there by then"
            )
        lengths.append(lengths[left] + lengths[right])
        room -= lengths[-1]
        if lengths[-1] > LONGEST_TOKEN or room < 0:
            raise LabError(f"merge {rank} makes a token of {lengths[-1]} bytes; that is beyond any text")
        pairs.append((left, right))
    return BytePairTokenizer(pairs, text(content["pattern"], "pattern"), [text(s, "special") for s in special])


def text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise LabError(f"{name} must be text")
    return value
