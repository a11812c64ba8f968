"""Cutting text into chunks that no merge may cross (MATH K2), by the patterns that GPT-2 and GPT-4 were trained with.

Notable: the chunks of a text, joined, are the text. A pattern of one's own need not match everything: what it leaves
out between two matches is a chunk too.
"""

from collections.abc import Iterator
from functools import cache

import regex

from txlab.errors import LabError, nearest

# OpenAI, gpt-2/src/encoder.py (2019) and tiktoken_ext/openai_public.py, cl100k_base (2023).
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}


@cache
def compiled(name: str) -> regex.Pattern[str]:
    if name not in PATTERNS:
        raise LabError(f"{name!r} is not a splitting pattern{nearest(name, PATTERNS)}; allowed: {', '.join(PATTERNS)}")
    return regex.compile(PATTERNS[name])


def chunks(text: str, pattern: str) -> Iterator[str]:
    """The chunks of a text in order; "".join(chunks(text, p)) == text.

    >>> list(chunks("Hello world's end", "gpt2"))
    ['Hello', ' world', "'s", ' end']
    """
    end = 0
    for match in compiled(pattern).finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        yield match.group()
        end = match.end()
    if end < len(text):
        yield text[end:]
