"""GPT-2's own format, a folder with vocab.json and merges.txt, and its token names, where each byte is a letter.

Names are checked, never trusted: a merge whose result has no id, a byte without a token, and an id with two names are
one sentence each. The rank of a merge is its line, whatever the order of the ids. Neither file gives the splitting
pattern or the special tokens. The pattern is GPT-2's, and a special token is one that no merge makes and that is not a
single byte, like <|endoftext|>, unless other files of the folder describe added tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.added_tokens import AddedToken
from txlab.engine.tokenizers.bases import MOST_TOKENS, Bytes, gpt2_order
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.folders import beside
from txlab.engine.tokenizers.json_files import format_value, mapping, read_bytes, read_json, whole_number, write_aside
from txlab.errors import LabError, prefix_errors

# Printable bytes stand for themselves, the others for letters from U+0100 on (OpenAI, gpt-2/src/encoder.py).
PRINTING = 188
LETTERS = {byte: chr(byte if i < PRINTING else 256 + i - PRINTING) for i, byte in enumerate(gpt2_order())}
BYTE_OF = {letter: byte for byte, letter in LETTERS.items()}


def name_of(data: bytes) -> str:
    """The name of a token: b" the" → "Ġthe"."""
    return "".join(map(LETTERS.__getitem__, data))


def bytes_named(name: str) -> bytes | None:
    """The bytes that a name stands for; None if one of its letters stands for no byte.

    >>> bytes_named("Ġthe"), bytes_named("▁the")
    (b' the', None)
    """
    try:
        return bytes(map(BYTE_OF.__getitem__, name))
    except KeyError:
        return None


def vocabulary_of(content: object) -> dict[str, int]:
    """Name → id, checked."""
    vocab: dict[str, int] = {}
    taken: set[int] = set()
    for name, token in mapping(content, "vocab").items():
        if not 0 <= whole_number(token, f"the id of {format_value(name)}") < MOST_TOKENS:
            raise LabError(f"the id of {format_value(name)} is {format_value(token)}; allowed: 0 … {MOST_TOKENS - 1}")
        if token in taken:
            raise LabError(f"the id {token} is given to two tokens, one of them {format_value(name)}")
        taken.add(token)
        vocab[name] = token
    return vocab


def missing_bytes(vocab: Mapping[str, int]) -> list[int]:
    """The bytes that have no token."""
    return [byte for byte, letter in LETTERS.items() if letter not in vocab]


def tokenizer_of_names(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    special: Mapping[str, int],
    pattern: str,
    whole: bool = False,
    added: Sequence[AddedToken] = (),
    offsets: str = "whole",
) -> BytePairTokenizer:
    """The encoding with these token names; `special` and `added`: tokens by their texts, which `vocab` may contain."""
    if missing := missing_bytes(vocab):
        raise LabError(f"the byte 0x{missing[0]:02x} has no token ({LETTERS[missing[0]]!r} is not in vocab)")
    pairs: list[tuple[int, int]] = []
    ids: list[int] = []
    pairs_of = list(merges)
    for rank, (left, right) in enumerate(pairs_of):
        for name in (left, right, left + right):
            if name not in vocab:
                pair = f"{format_value(left)} and {format_value(right)}"
                raise LabError(f"merge {rank} joins {pair}, and {format_value(name)} is not in vocab")
        pairs.append((vocab[left], vocab[right]))
        ids.append(vocab[left + right])
    tokens: dict[int, bytes] = {}
    known = dict(special) | {token.content: token.id for token in added}
    # Bytes and results of merges are part of the vocabulary itself, even if they are also added tokens.
    usual = {*LETTERS.values(), *(left + right for left, right in pairs_of)}
    for name, token in vocab.items():
        if name in known and known[name] != token:
            what = "special" if name in special else "added"
            raise LabError(f"the {what} token {format_value(name)} has the ids {known[name]} and {token}")
        if name in known and name not in usual:
            continue
        data = bytes_named(name)
        if not data:
            raise LabError(f"the token {format_value(name)} is not made of the letters that stand for bytes")
        tokens[token] = data
    numbered = {token: name for name, token in vocab.items()}
    for name, token in known.items():
        if numbered.get(token, name) != name:
            raise LabError(
                f"two different tokens have the id {token}: {format_value(numbered[token])} and {format_value(name)}"
            )
    both = [AddedToken(name, token) for name, token in special.items() if name in usual]
    return BytePairTokenizer(
        pairs,
        pattern,
        {name: token for name, token in special.items() if name not in usual},
        base=Bytes(tuple(vocab[LETTERS[byte]] for byte in range(256))),
        ids=ids,
        tokens=tokens,
        whole=whole,
        added=[*added, *both],
        offsets=offsets,
    ).simplify()


def names(tokenizer: BytePairTokenizer) -> dict[str, int]:
    """Name → id of all tokens in the order of the ids, special ones by their text; raises LabError for duplicates."""
    if not isinstance(tokenizer.base, Bytes):
        raise LabError(
            "an encoding of an alphabet has no names of this kind, which are made of bytes; keep our own form"
        )
    named = {token.id: token.content for token in tokenizer.added_tokens.tokens if token.id not in tokenizer.ordinary}
    ids: dict[str, int] = {}
    for token, data in enumerate(tokenizer.bytes_of):
        name = named.get(token) or name_of(data)
        if not name:
            continue  # a hole
        if ids.setdefault(name, token) != token:
            raise LabError(f"the tokens {ids[name]} and {token} would both have the name {format_value(name)}")
    return ids


def merge_names(tokenizer: BytePairTokenizer) -> list[tuple[str, str]]:
    """The merges in order, by the names of their two tokens."""
    spelt: list[Any] = [name_of(data) for data in tokenizer.bytes_of]
    return [(spelt[left], spelt[right]) for left, right in tokenizer.merges]


VOCAB, MERGES = "vocab.json", "merges.txt"
END_OF_WORD = "</w>"


def read_gpt2(folder: Path, pattern: str = "gpt2") -> BytePairTokenizer:
    """Read the two files of a folder; raises LabError, naming the file, for anything wrong with them."""
    with prefix_errors(VOCAB):
        vocab = vocabulary_of(read_json(folder / VOCAB))
    with prefix_errors(MERGES):
        merges = list(merge_lines(read_bytes(folder / MERGES)))
    if any(name.endswith(END_OF_WORD) for _, name in merges[:100]):
        raise LabError(
            f"its words end with {END_OF_WORD}, as CLIP's and GPT-1's do, which is not a byte-level encoding; give its "
            "tokenizer.json (transformers writes one), which the library tokenizers can run"
        )
    made = {left + right for left, right in merges}
    special = {name: token for name, token in vocab.items() if name not in made and name not in BYTE_OF}
    added = beside(folder, [AddedToken(name, token) for name, token in special.items()], vocab)
    special = {token.content: token.id for token in added if token.plain}
    return tokenizer_of_names(vocab, merges, special, pattern, added=[token for token in added if not token.plain])


def merge_lines(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise LabError(f"byte {error.start} is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        parts = line.rstrip("\r").split(" ")
        if parts == [""] or (number == 1 and line.startswith("#version")):
            continue
        if len(parts) != 2 or "" in parts:
            raise LabError(f"line {number} is not two names with a space between them: {format_value(line)}")
        yield parts[0], parts[1]


def write_gpt2(tokenizer: BytePairTokenizer, folder: Path) -> None:
    """Write the two files of a folder; raises LabError if the format cannot represent this tokenizer."""
    if tokenizer.pattern != "gpt2":
        raise LabError(
            f"GPT-2's form has GPT-2's splitting pattern, this tokenizer has {format_value(tokenizer.pattern)}"
        )
    if tokenizer.loose:
        raise LabError(f"GPT-2's form has no tokens that no merge makes, as {min(tokenizer.loose)} here")
    if tokenizer.added:
        raise LabError(f"GPT-2's form does not say what the added token {format_value(tokenizer.added[0].content)} is")
    vocab = names(tokenizer)
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merge_names(tokenizer))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MERGES).unlink(
        missing_ok=True
    )  # a folder without it is refused: never one file of each of two tokenizers
    write_aside(folder / VOCAB, json.dumps(vocab, ensure_ascii=False).encode())
    write_aside(folder / MERGES, ("\n".join(lines) + "\n").encode())
