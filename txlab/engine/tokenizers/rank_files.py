"""tiktoken's rank files: one line for each token, with its bytes in base64 and its rank, which is also its id.

Notable: the file has no merges. tiktoken joins the two neighbours that form the token of lowest rank, and
`recover_merges` finds the only pair that ever forms each token. The file has no splitting pattern or special tokens
either. Those of OpenAI's files are known by the sha256 of the file (published in tiktoken 0.14,
tiktoken_ext/openai_public.py); ours are in a small JSON next to it, RANKS.json, with the keys of js-tiktoken's JSON,
which has all three in one file. For any other file the caller gives the pattern, or it is guessed with a warning.
"""

from __future__ import annotations

import binascii
import json
import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.bases import MOST_TOKENS, Bytes
from txlab.engine.tokenizers.byte_pairs import LONGEST_TOKEN, BytePairTokenizer, FastEncoder, tiktoken_ranks
from txlab.engine.tokenizers.json_files import (
    format_value,
    mapping,
    read_bytes,
    read_json,
    text,
    whole_number,
    write_aside,
)
from txlab.engine.tokenizers.patterns import NAMES, expression, name_or_pattern
from txlab.engine.tokenizers.plain import Pair
from txlab.errors import Guess, LabError, prefix_errors

END, START, PROMPT_END = "<|endoftext|>", "<|startoftext|>", "<|endofprompt|>"
FILL = {"prefix": "<|fim_prefix|>", "middle": "<|fim_middle|>", "suffix": "<|fim_suffix|>"}
HARMONY = {200002: "return", 200003: "constrain", 200005: "channel", 200006: "start", 200007: "end", 200008: "message"}
HARMONY |= {200012: "call"}


@dataclass(frozen=True)
class Encoding:
    """`sha256`: of its rank file; of several encodings with the same file, the first one is the default."""

    sha256: str
    pattern: str
    special: Mapping[str, int]


def harmony() -> dict[str, int]:
    """o200k_harmony's special tokens: the named ones, and a reserved one for every other id up to 201 087.

    There, 200018 has a second, reserved name, which is left out because an id has one text here.
    """
    ids = {START: 199998, END: 199999, PROMPT_END: 200018}
    for token in set(range(200000, 201088)) - {200018}:
        ids[f"<|{HARMONY.get(token, f'reserved_{token}')}|>"] = token
    return ids


R50K = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
P50K = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
CL100K = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
O200K = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

ENCODINGS = {
    "r50k_base": Encoding(R50K, "gpt2", {END: 50256}),
    "gpt2": Encoding(R50K, "gpt2", {END: 50256}),
    "p50k_base": Encoding(P50K, "gpt2", {END: 50256}),
    "p50k_edit": Encoding(
        P50K, "gpt2", {END: 50256, FILL["prefix"]: 50281, FILL["middle"]: 50282, FILL["suffix"]: 50283}
    ),
    "cl100k_base": Encoding(
        CL100K,
        "cl100k",
        {END: 100257, FILL["prefix"]: 100258, FILL["middle"]: 100259, FILL["suffix"]: 100260, PROMPT_END: 100276},
    ),
    "o200k_base": Encoding(O200K, "o200k", {END: 199999, PROMPT_END: 200018}),
    "o200k_harmony": Encoding(O200K, "o200k", harmony()),
}


def encoding_of(sha256: str, name: str = "") -> Encoding | None:
    """The encoding with this rank file; `name` chooses among those that share it."""
    if name in ENCODINGS and ENCODINGS[name].sha256 == sha256:
        return ENCODINGS[name]
    return next((known for known in ENCODINGS.values() if known.sha256 == sha256), None)


# OpenAI's largest file has 1.4 MB of token bytes; finding the merges takes some microseconds a byte.
MOST_BYTES = 4 << 20
MOST_WORK = 20_000_000
BESIDE = ".json"  # appended to the name of a rank file
LARGEST_BESIDE = 4 << 20


def read_ranks(path: Path, pattern: str | None = None) -> BytePairTokenizer:
    """Read a rank file; `pattern` None: from the JSON next to it, OpenAI's encoding, or a guess with a warning."""
    data = read_bytes(path)
    ranks = ranks_of(lines_of(data))
    digest = sha256(data).hexdigest()
    special: Mapping[str, int] = {}
    own = path.with_name(path.name + BESIDE)
    if own.exists():
        pattern_name, special = read_beside(own, digest)
    elif known := encoding_of(digest, path.stem):
        pattern_name, special = known.pattern, known.special
    else:
        pattern_name = ENCODINGS[path.stem].pattern if path.stem in ENCODINGS else "gpt4"
        if pattern is None:
            why = "by its name" if path.stem in ENCODINGS else "as GPT-4's"
            warnings.warn(
                f"{format_value(path.name)} does not say how text is split, and its ranks are none of OpenAI's: "
                f"{pattern_name} is a guess, {why}; --pattern says another ({', '.join(NAMES)})",
                Guess,
                stacklevel=2,
            )
    return tokenizer_of_ranks(ranks, name_or_pattern(pattern or pattern_name), special)


def tokenizer_of_ranks(ranks: dict[bytes, int], pattern: str, special: Mapping[str, int]) -> BytePairTokenizer:
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise LabError(f"the byte 0x{byte:02x} has no rank")
    base = Bytes(tuple(ranks[bytes([byte])] for byte in range(256)))
    merges = recover_merges(ranks)
    ids = sorted(merges)
    in_order = all(pair[0] < token and pair[1] < token for token, pair in merges.items() if token >= base.after)
    consecutive = ids == list(range(base.after, base.after + len(ids))) and len(ranks) == len(ids) + 256
    tokenizer = BytePairTokenizer(
        [merges[token] for token in ids],
        pattern,
        special,
        base=base,
        ids=None if consecutive else ids,
        tokens={} if consecutive and in_order else {token: data for data, token in ranks.items()},
        whole=len(merges) + 256 < len(ranks),
    ).simplify()
    tokenizer.fast = FastEncoder(tokenizer, ranks)  # reuses the known ranks
    return tokenizer


def tokenizer_of_js(content: Mapping[str, Any], pattern: str | None = None) -> BytePairTokenizer:
    """The tokenizer of js-tiktoken's JSON: lines of "! OFFSET TOKEN TOKEN …", with ranks counted from the offset."""
    lines: list[tuple[int, bytes, int]] = []
    for number, line in enumerate(text(content.get("bpe_ranks"), "bpe_ranks").split("\n"), 1):
        fields = line.split(" ")
        if not line:
            continue
        if len(fields) < 2 or not (fields[1].isascii() and fields[1].isdecimal() and len(fields[1]) <= 10):
            raise LabError(
                f"line {number} of bpe_ranks does not begin with a mark and the first rank: {format_value(line)}"
            )
        try:
            lines += [(number, token.encode("ascii"), int(fields[1]) + i) for i, token in enumerate(fields[2:])]
        except UnicodeEncodeError:
            raise LabError(f"line {number} of bpe_ranks is not base64") from None
    stated = text(content.get("pat_str"), "pat_str")
    return tokenizer_of_ranks(ranks_of(lines), name_or_pattern(pattern or stated), special_of(content))


def special_of(content: Mapping[str, Any]) -> dict[str, int]:
    given = mapping(content.get("special_tokens"), "special_tokens")
    return {name: whole_number(token, f"the id of {format_value(name)}") for name, token in given.items()}


def read_beside(path: Path, digest: str) -> tuple[str, dict[str, int]]:
    """The pattern and special tokens in the JSON next to our rank file; raises LabError if it is for other ranks."""
    with prefix_errors(path.name):
        content = mapping(read_json(path, LARGEST_BESIDE), "it")
        if content.get("sha256") != digest:
            raise LabError("it is for other ranks (their sha256 differs); remove it, or export the tokenizer again")
        return text(content.get("pat_str"), "pat_str"), special_of(content)


def lines_of(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The line number, token and rank of each line."""
    for number, line in enumerate(data.split(b"\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].isdigit() or len(fields[1]) > 10:
            raise LabError(f"line {number} is not a token in base64 and its rank: {format_value(line[:60])}")
        yield number, fields[0], int(fields[1])


def ranks_of(lines: Iterable[tuple[int, bytes, int]]) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    room = MOST_BYTES
    for number, encoded, rank in lines:
        try:
            token = b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise LabError(f"line {number} has broken base64: {format_value(encoded[:60])}") from None
        room -= len(token)
        if not token or len(token) > LONGEST_TOKEN or room < 0:
            raise LabError(f"line {number} has a token of {len(token)} bytes; that is beyond any text")
        if rank >= MOST_TOKENS:
            raise LabError(f"line {number} has the rank {rank}; allowed: 0 … {MOST_TOKENS - 1}")
        if rank in taken or token in ranks:
            raise LabError(f"line {number} gives {'the rank' if rank in taken else 'a token'} a second time")
        taken.add(rank)
        ranks[token] = rank
    if not ranks:
        raise LabError("it is empty")
    return ranks


def recover_merges(ranks: dict[bytes, int]) -> dict[int, Pair]:
    """Token → the only pair of tokens that ever merges into it; tokens that nothing merges into are left out.

    As long as both ends of a stretch of bytes are symbol boundaries, the merges inside it are, in order, those of the
    stretch alone, whatever surrounds it: the lowest rank goes first, the leftmost of equals. So whenever two neighbours
    x y become T, T alone passes through x y too; and T alone has only one last merge. It is found with the tokens of
    lower rank if these suffice, as in every encoding that was learnt, otherwise with all of them.

    T alone passes through x y if no merge crosses the boundary between them before x and y exist. `join` goes back
    in time and checks each step (an idea from github/rust-gems, crates/bpe).
    """
    made_at: dict[Pair, int] = {}
    order: list[int] = []
    left_over: list[bytes] = []
    known = {bytes([byte]): ranks[bytes([byte])] for byte in range(256)}
    made = dict.fromkeys(known.values(), -1)  # token → when it was made; bytes exist from the beginning
    halves: dict[int, Pair] = {}

    def join(left: int, right: int) -> bool:
        until = len(order)
        while True:
            if made_at.get((left, right), until) < until:
                return True
            first, second = made[left], made[right]
            if first > second:
                until, left = first, halves[left][1]
            elif second >= 0:  # of two merges of equal rank the left one goes first
                until, right = second + 1, halves[right][0]
            else:
                return False

    for data, token in sorted(ranks.items(), key=lambda entry: entry[1]):
        if len(data) == 1:
            continue
        for i in range(1, len(data)):
            left, right = known.get(data[:i]), known.get(data[i:])
            if left is not None and right is not None and not join(left, right):
                halves[token] = left, right
                made[token] = made_at[left, right] = len(order)
                order.append(token)
                known[data] = token
                break
        else:
            left_over.append(data)
    if sum(len(data) ** 2 for data in left_over) > MOST_WORK:
        raise LabError(f"{len(left_over)} tokens, the first of rank {ranks[left_over[0]]}, are not made by any merge")
    for data in left_over:
        if (pair := last_merge(data, ranks)) is not None:
            halves[ranks[data]] = pair
    return halves


def last_merge(data: bytes, ranks: dict[bytes, int]) -> Pair | None:
    """The last merge of a token's bytes by tiktoken's rule; None if they never merge into the token."""
    parts = [data[i : i + 1] for i in range(len(data))]
    while len(parts) > 2:
        rank, place = min((ranks.get(parts[i] + parts[i + 1], MOST_TOKENS), i) for i in range(len(parts) - 1))
        if rank == MOST_TOKENS:
            return None
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return ranks[parts[0]], ranks[parts[1]]


def write_ranks(tokenizer: BytePairTokenizer, path: Path) -> None:
    """Write a rank file and its JSON; raises LabError if ranks cannot represent this tokenizer."""
    if not isinstance(tokenizer.base, Bytes):
        raise LabError("tiktoken's ranks are of bytes; an encoding of an alphabet has no such form")
    if tokenizer.added:
        raise LabError(
            f"tiktoken has special tokens only, and {format_value(tokenizer.added[0].content)} is an added one"
        )
    ranks = tiktoken_ranks(tokenizer)
    if ranks is None or len(ranks) < 256 + len(set(tokenizer.made)) + len(tokenizer.loose):
        raise LabError("tiktoken would merge otherwise: some token of this encoding is not what its bytes merge to")
    ids = {data: tokenizer.encode_chunk(data)[0] for data in ranks}
    merged = [ids[data] for data, rank in sorted(ranks.items(), key=lambda entry: entry[1]) if rank >= 256]
    if merged != sorted(merged):
        raise LabError("tiktoken's ranks are its ids, and the ids of this encoding do not rise with its merges")
    lines = [b64encode(data) + f" {token}\n".encode() for data, token in sorted(ids.items(), key=lambda e: e[1])]
    data = b"".join(lines)
    content = {
        "sha256": sha256(data).hexdigest(),
        "pat_str": expression(tokenizer.pattern),
        "special_tokens": tokenizer.special_of,
    }
    write_aside(path, data)
    write_aside(path.with_name(path.name + BESIDE), json.dumps(content, ensure_ascii=False, indent=1).encode())
