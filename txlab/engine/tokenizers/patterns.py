"""Cutting text into chunks that no merge may cross (MATH K2), by the patterns that GPT-2 and GPT-4 were trained with.

Notable: the chunks of a text, joined, are the text. A pattern of one's own need not match everything: what it leaves
out between two matches is a chunk too. A pattern that came with a file is checked first (see foreign_patterns), and its
matching may take so long and no longer.
"""

from collections.abc import Iterator
from functools import cache
from time import perf_counter

import regex

from txlab.engine.tokenizers.foreign_patterns import check_pattern
from txlab.errors import LabError, nearest

# OpenAI, gpt-2/src/encoder.py (2019) and tiktoken_ext/openai_public.py, cl100k_base (2023). "none" is one chunk.
PATTERNS = {
    "none": r"(?s:.+)",
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}

# A pattern of others may take a power of the text's length; these many seconds and a few for each megabyte are enough
# for any that was meant well (half a second a megabyte).
PATIENCE, PATIENCE_PER_CHARACTER = 10.0, 20e-6


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """`pattern`: a name, or a regular expression; LabError for one that is neither or does not pass the check."""
    if pattern in PATTERNS:
        return regex.compile(PATTERNS[pattern])
    if pattern.replace("_", "").replace("-", "").isalnum():
        raise LabError(
            f"{pattern!r} is not a splitting pattern{nearest(pattern, PATTERNS)}; allowed: {', '.join(PATTERNS)}"
        )
    check_pattern(pattern)
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise LabError(f"the splitting pattern {shortened(pattern)} is no regular expression: {error}") from None


def expression(pattern: str) -> str:
    """The regular expression of a name, or the one given."""
    return PATTERNS.get(pattern, pattern)


def chunks(text: str, pattern: str, start: int = 0) -> Iterator[str]:
    """The chunks of a text in order, from `start` on; "".join(chunks(text, p)) == text.

    >>> list(chunks("Hello world's end", "gpt2"))
    ['Hello', ' world', "'s", ' end']
    """
    if pattern in PATTERNS:
        # These match every character.
        for match in compiled(pattern).finditer(text, start):
            yield match.group()
        return
    search, left, end = compiled(pattern).search, PATIENCE + PATIENCE_PER_CHARACTER * len(text), start
    while end < len(text):
        began = perf_counter()
        try:
            match = search(text, end, timeout=max(left, 0.001))
        except TimeoutError:
            raise LabError(f"the splitting pattern {shortened(pattern)} takes too long on this text") from None
        left -= perf_counter() - began
        while match is not None and match.end() == match.start():  # an empty match cuts nothing
            if match.end() == len(text):
                match = None
                break
            match = search(text, match.end() + 1, timeout=max(left, 0.001))
        if match is None:
            yield text[end:]
            return
        if match.start() > end:
            yield text[end : match.start()]
        yield match.group()
        end = match.end()


def safe_start(text: str, pattern: str, place: int) -> int:
    """The last place at or before `place` where the chunks of text[place:] are those of the whole text.

    GPT-2's and GPT-4's patterns always cut between a line's end and what is no space, and before a space that follows
    what is no space; of other patterns only the beginning is known.
    """
    if pattern not in ("gpt2", "gpt4"):
        return 0
    place = min(place, len(text))
    while place > 0 and not (
        (place < len(text) and text[place] == " " and not text[place - 1].isspace())
        or (text[place - 1] == "\n" and place < len(text) and not text[place].isspace())
    ):
        place -= 1
    return place


def shortened(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "…")
