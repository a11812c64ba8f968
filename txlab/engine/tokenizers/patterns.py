"""Cutting text into chunks that no merge may cross (MATH K2), by the patterns that GPT-2 and GPT-4 were trained with.

The chunks of a text, joined, are the text. A custom pattern need not match everything: the text between two matches is
a chunk too. A pattern from a file must belong to a small language of regular expressions, for two reasons. Three
engines have to read it alike (`regex` here, Rust's in tiktoken, Oniguruma in Hugging Face's library), so whatever they
read differently is refused: ^ and $, classes inside classes, \\b. And it must not backtrack without end: a group may be
optional but not repeated, so no pattern takes exponential time; for polynomial time, `chunks` has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from time import perf_counter

import regex
import tiktoken

from txlab.engine.tokenizers.tokenizer import utf8
from txlab.errors import LabError, nearest

LONGEST_PATTERN = 4000
MOST_REPEATS = 1000

ESCAPE = re.compile(r"\\(?:[pP]\{\^?\w{1,40}\}|[sSdDwWrntfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])")
GROUP = re.compile(r"\((?:\?(?::|i:|s:|=|!|<=|<!|>))?(?!\?)")
QUANTIFIER = re.compile(r"(?:[?*+]|\{(\d{1,5})(?:,(\d{0,5}))?\})")


def check_pattern(pattern: str) -> None:
    """Raise LabError, with the position and the text there, unless the pattern is in that language."""
    if len(pattern) > LONGEST_PATTERN:
        raise LabError(f"a splitting pattern has at most {LONGEST_PATTERN} characters, this one {len(pattern)}")
    utf8(pattern)
    place, depth = 0, 0
    before = ""  # what a quantifier may follow: nothing, "one" character or class, or a "group"
    while place < len(pattern):
        sign = pattern[place]
        if sign == "(":
            place, depth, before = match_or_refuse(GROUP, pattern, place, "this kind of group").end(), depth + 1, ""
        elif sign == ")":
            if not depth:
                raise refusal(pattern, place, "a bracket that nothing opens")
            place, depth, before = place + 1, depth - 1, "group"
        elif sign == "|":
            place, before = place + 1, ""
        elif quantifier := QUANTIFIER.match(pattern, place):
            check_repetition(pattern, place, quantifier, before)
            place, before = quantifier.end(), ""
            if pattern[place : place + 1] in ("?", "+") and not quantifier.group().startswith("{"):
                place += 1
        else:
            place, before = end_of_one(pattern, place), "one"
    if depth:
        raise refusal(pattern, len(pattern) - 1, "a group that is not closed")


def match_or_refuse(expected: re.Pattern[str], pattern: str, place: int, what: str) -> re.Match[str]:
    match = expected.match(pattern, place)
    if not match:
        raise refusal(pattern, place, what)
    return match


def end_of_one(pattern: str, place: int) -> int:
    """The position after the class, the escape or the character there."""
    sign = pattern[place]
    if sign == "[":
        return end_of_class(pattern, place)
    if sign == "\\":
        return match_or_refuse(ESCAPE, pattern, place, "this escape").end()
    if sign in "^$":
        raise refusal(pattern, place, "an anchor")
    if sign in "{}]":
        raise refusal(pattern, place, "a bracket that means nothing here")
    return place + 1


def check_repetition(pattern: str, place: int, quantifier: re.Match[str], before: str) -> None:
    if not before:
        raise refusal(pattern, place, "a repetition of nothing")
    low, high = quantifier.groups()
    if low is None:
        if before == "group" and quantifier.group() != "?":
            raise refusal(pattern, place, "a repeated group")
        return
    most = int(high) if high else int(low)
    if before == "group" and (most > 1 or high == ""):
        raise refusal(pattern, place, "a repeated group")
    if max(most, int(low)) > MOST_REPEATS or most < int(low):
        raise refusal(pattern, place, f"a count that is above {MOST_REPEATS} or upside down")


def end_of_class(pattern: str, start: int) -> int:
    """The position after the class that opens at `start`."""
    place = start + 1 + (pattern[start + 1 : start + 2] == "^")
    begin = place
    while place < len(pattern):
        sign = pattern[place]
        if sign == "]" and place > begin:
            return place + 1
        if sign in "[]" or pattern[place : place + 2] in ("&&", "--", "~~", "||"):
            raise refusal(pattern, place, "a class within a class")
        if sign == "\\":
            place = match_or_refuse(ESCAPE, pattern, place, "this escape").end()
        else:
            place += 1
    raise refusal(pattern, start, "a class that is not closed")


def refusal(pattern: str, place: int, what: str) -> LabError:
    around = pattern[place : place + 12]
    return LabError(f"the splitting pattern has {what} at character {place} ({around!r}), which is not read here")


# OpenAI, gpt-2/src/encoder.py (2019) and tiktoken_ext/openai_public.py, cl100k_base: "gpt4" as it was in 2023, "cl100k"
# as it is today (tiktoken 0.14). They differ only in that cl100k makes one chunk of white space at the end of a text:
# gpt4 cuts "a\n  " into "a", "\n", "  ". "none" leaves the text in one chunk.
PATTERNS = {
    "none": r"(?s:.+)",
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s++$|\s*[\r\n]+|\s+(?!\S)|\s+",
}

# tiktoken_ext/openai_public.py, o200k_base (2024); the pattern of its rank file.
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
# Patterns that match every character and never backtrack badly; they need no time limit.
TRUSTED = frozenset([*PATTERNS, O200K])
# Patterns that always cut before a space that follows a non-space.
CUT_AT_SPACES = frozenset(["gpt2", "gpt4", "cl100k", O200K])

# A custom pattern may take polynomial time in the length of the text. This many seconds, plus 20 for each megabyte, are
# enough for any reasonable pattern (which takes half a second a megabyte).
PATIENCE, PATIENCE_PER_CHARACTER = 10.0, 20e-6


@cache
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern, given by name or as an expression; raises LabError if it does not pass the check."""
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
        raise LabError(f"the splitting pattern {shorten(pattern)} is not a regular expression: {error}") from None


# The same patterns as current versions of tiktoken and js-tiktoken write them.
ALSO = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s": "cl100k",
}
NAMES = ("gpt2", "gpt4", "cl100k", "o200k", "none")


def name_or_pattern(pattern: str) -> str:
    """The pattern given by the user or a file, as tokenizers store it: one of our names, or an expression.

    >>> name_or_pattern("o200k") == O200K, name_or_pattern(PATTERNS["gpt4"])
    (True, 'gpt4')
    """
    if pattern == "o200k":
        return O200K
    return next((name for name, known in PATTERNS.items() if known == pattern), ALSO.get(pattern, pattern))


def expression(pattern: str) -> str:
    """The regular expression with this name, or the one given."""
    return PATTERNS.get(pattern, pattern)


def chunks(text: str, pattern: str) -> Iterator[str]:
    """The chunks of a text in order; "".join(chunks(text, p)) == text.

    >>> list(chunks("Hello world's end", "gpt2"))
    ['Hello', ' world', "'s", ' end']
    """
    if pattern in TRUSTED:
        for match in compile_pattern(pattern).finditer(text):
            yield match.group()
        return
    patience, end = PATIENCE + PATIENCE_PER_CHARACTER * len(text), 0
    while end < len(text):
        began = perf_counter()
        span = first_match(text, pattern, end, patience)
        patience -= perf_counter() - began
        if span is None:
            yield text[end:]
            return
        if span[0] > end:
            yield text[end : span[0]]
        yield text[span[0] : span[1]]
        end = span[1]


def first_match(text: str, pattern: str, start: int, seconds: float) -> tuple[int, int] | None:
    """The first non-empty match (an empty one cuts nothing); raises LabError if it takes longer than the limit."""
    search = compile_pattern(pattern).search
    began = perf_counter()
    while start < len(text):
        try:
            match = search(text, start, timeout=max(seconds - (perf_counter() - began), 0.001))
        except TimeoutError:
            raise LabError(f"the splitting pattern {shorten(pattern)} takes too long on this text") from None
        if match is None:
            return None
        if match.end() > match.start():
            return match.start(), match.end()
        start = match.end() + 1
    return None


def cut(text: str, pattern: str, size: int) -> Iterator[str]:
    """Parts of about `size` characters whose chunks, part after part, are those of the text.

    A cut is made before a space that follows a non-space; if the pattern need not cut there, the text is one part.
    """
    start = 0
    while pattern in CUT_AT_SPACES and len(text) - start > size:
        end = text.find(" ", start + size)
        while end > 0 and text[end - 1].isspace():
            end = text.find(" ", end + 1)
        if end < 0:
            break
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def shorten(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "…")


CLASS = regex.compile(r"\\[pP]\{[^}]*\}|\\[sSdDwW]")


@cache
def probe(name: str) -> tiktoken.Encoding:
    """tiktoken drops text that its pattern does not match, so this encoding keeps only the characters of a class."""
    return tiktoken.Encoding(
        "class", pat_str=name, mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
    )


ALIKE: dict[str, set[str]] = {}  # for each class, the characters on which both engines were found to agree


def same_classes(text: str, pattern: str = PATTERNS["gpt4"]) -> bool:
    """Whether `regex` and tiktoken's engine agree on which of the pattern's classes these characters belong to.

    They follow different versions of Unicode. They agree on ASCII, which is not checked.
    """
    if text.isascii():
        return True
    characters = set(text)
    for name in sorted(set(CLASS.findall(pattern))):
        alike = ALIKE.setdefault(name, set(map(chr, range(128))))
        asked = "".join(sorted(characters - alike))
        if not asked:
            continue
        theirs = probe(name)
        if theirs.decode(theirs.encode(asked, disallowed_special=())) != "".join(regex.findall(name, asked)):
            return False
        alike.update(asked)
    return True
