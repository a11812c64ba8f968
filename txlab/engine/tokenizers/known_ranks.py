"""OpenAI's rank files, by the sha256 of their bytes: the splitting pattern and special tokens that belong to each.

Source: tiktoken 0.14, tiktoken_ext/openai_public.py, which publishes these sums and checks its own downloads by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

END, START, PROMPT_END = "<|endoftext|>", "<|startoftext|>", "<|endofprompt|>"
FILL = {"prefix": "<|fim_prefix|>", "middle": "<|fim_middle|>", "suffix": "<|fim_suffix|>"}
HARMONY = {200002: "return", 200003: "constrain", 200005: "channel", 200006: "start", 200007: "end", 200008: "message"}
HARMONY |= {200012: "call"}


@dataclass(frozen=True)
class Encoding:
    """`sha256`: of its rank file; several encodings have the same one, and the first of them is meant by it alone."""

    sha256: str
    pattern: str
    special: Mapping[str, int]


def harmony() -> dict[str, int]:
    """o200k_harmony's special tokens: the named ones, and a reserved one for every other id up to 201 087.

    There 200018 has a second, reserved name, which is left out: here an id has one text.
    """
    found = {START: 199998, END: 199999, PROMPT_END: 200018}
    for token in set(range(200000, 201088)) - {200018}:
        found[f"<|{HARMONY.get(token, f'reserved_{token}')}|>"] = token
    return found


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
    """The encoding of such a rank file; `name` chooses among those that share it."""
    if name in ENCODINGS and ENCODINGS[name].sha256 == sha256:
        return ENCODINGS[name]
    return next((known for known in ENCODINGS.values() if known.sha256 == sha256), None)
