"""tiktoken's rank files: one line for each token, its bytes in base64 and its rank, which is its id as well.

Notable: the file has no merges. tiktoken joins whatever two neighbours form a token of low rank, and `recovered_merges`
finds the one pair that ever does form each token. Neither has it a splitting pattern or special tokens: these are the
program's that uses it, so the pattern is told by the file's name, or by whoever reads it.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from pathlib import Path

from txlab.engine.tokenizers.bases import MOST_TOKENS, Bytes
from txlab.engine.tokenizers.byte_pairs import LONGEST_TOKEN, BytePairTokenizer
from txlab.engine.tokenizers.fast import tiktoken_ranks
from txlab.engine.tokenizers.json_files import read_bytes, shown, write_aside
from txlab.engine.tokenizers.merging import Pair, merge_chunk
from txlab.engine.tokenizers.patterns import O200K
from txlab.errors import LabError

PATTERN_OF = {"gpt2": "gpt2", "r50k_base": "gpt2", "p50k_base": "gpt2", "cl100k_base": "gpt4", "o200k_base": O200K}

# OpenAI's largest file has 1.4 MB of token bytes; finding the merges takes some microseconds a byte.
MOST_BYTES = 4 << 20
MOST_WORK = 20_000_000


def read_ranks(path: Path, pattern: str | None = None) -> BytePairTokenizer:
    """`pattern` None: the one that belongs to the file's name among OpenAI's, or GPT-4's."""
    ranks = ranks_of(read_bytes(path))
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise LabError(f"the byte 0x{byte:02x} has no rank")
    base = Bytes(tuple(ranks[bytes([byte])] for byte in range(256)))
    merges = recovered_merges(ranks)
    ids = sorted(merges)
    return BytePairTokenizer(
        [merges[token] for token in ids],
        pattern or PATTERN_OF.get(path.stem, "gpt4"),
        base=base,
        ids=ids,
        tokens={token: data for data, token in ranks.items()},
        whole=len(merges) + 256 < len(ranks),
    ).simplified()


def ranks_of(data: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    room = MOST_BYTES
    for number, line in enumerate(data.split(b"\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].isdigit() or len(fields[1]) > 10:
            raise LabError(f"line {number} is not a token in base64 and its rank: {shown(line[:60])}")
        try:
            token = b64decode(fields[0], validate=True)
        except (binascii.Error, ValueError):
            raise LabError(f"line {number} has broken base64: {shown(fields[0][:60])}") from None
        rank = int(fields[1])
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


def recovered_merges(ranks: dict[bytes, int]) -> dict[int, Pair]:
    """Token → the one pair of tokens that ever merges into it; tokens that nothing merges into are left out.

    While the two ends of a stretch of bytes are ends of symbols, the merges inside it are, in their order, those of
    the stretch alone, whatever stands around it: the lowest rank goes first, the leftmost of equals. So whenever two
    neighbours x y become T, T alone passed through x y too; and T alone makes only one last merge. It is found with
    the tokens of lower rank where these suffice, as in every encoding that was learnt, else with all of them.
    """
    found: dict[Pair, int] = {}
    order: list[int] = []
    left_over: list[bytes] = []
    base = [ranks[bytes([byte])] for byte in range(256)]
    for data, token in sorted(ranks.items(), key=lambda entry: entry[1]):
        if len(data) == 1:
            continue
        symbols = merge_chunk([base[byte] for byte in data], found, order)
        if len(symbols) == 2:
            found[symbols[0], symbols[1]] = len(order)
            order.append(token)
        else:
            left_over.append(data)
    merges = {order[rank]: pair for pair, rank in found.items()}
    if sum(len(data) ** 2 for data in left_over) > MOST_WORK:
        raise LabError(f"{len(left_over)} tokens, the first of rank {ranks[left_over[0]]}, are not made by any merge")
    for data in left_over:
        if (pair := last_merge(data, ranks)) is not None:
            merges[ranks[data]] = pair
    return merges


def last_merge(data: bytes, ranks: dict[bytes, int]) -> Pair | None:
    """The last merge of a token's bytes by tiktoken's rule; None if they never become the token."""
    parts = [data[i : i + 1] for i in range(len(data))]
    while len(parts) > 2:
        rank, place = min((ranks.get(parts[i] + parts[i + 1], MOST_TOKENS), i) for i in range(len(parts) - 1))
        if rank == MOST_TOKENS:
            return None
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return ranks[parts[0]], ranks[parts[1]]


def write_ranks(tokenizer: BytePairTokenizer, path: Path) -> None:
    """LabError where ranks cannot say what this tokenizer is."""
    if not isinstance(tokenizer.base, Bytes):
        raise LabError("tiktoken's ranks are of bytes; an encoding of an alphabet has no such form")
    if tokenizer.added:
        raise LabError(f"tiktoken has special tokens only, and {shown(tokenizer.added[0].content)} is an added one")
    ranks = tiktoken_ranks(tokenizer)
    if ranks is None or len(ranks) < 256 + len(set(tokenizer.made)) + len(tokenizer.loose):
        raise LabError("tiktoken would merge otherwise: some token of this encoding is not what its bytes merge to")
    ids = {data: tokenizer.alone(data) for data in ranks}
    merged = [ids[data] for data, rank in sorted(ranks.items(), key=lambda entry: entry[1]) if rank >= 256]
    if merged != sorted(merged):
        raise LabError("tiktoken's ranks are its ids, and the ids of this encoding do not rise with its merges")
    lines = [b64encode(data) + f" {token}\n".encode() for data, token in sorted(ids.items(), key=lambda e: e[1])]
    write_aside(path, b"".join(lines))
