r"""Whether a splitting pattern out of a file may be used: a small language of regular expressions, all else is refused.

Notable: three engines have to read it alike (`regex` here, Rust's in tiktoken, Oniguruma in Hugging Face's library), so
what they read differently is out: ^ and $, classes inside classes, \b. And it must not run away: a group may be
optional but not repeated, so no pattern is exponential; for the powers that remain, `chunks` has a time limit.
"""

import re

from txlab.engine.tokenizers.tokenizer import utf8
from txlab.errors import LabError

LONGEST_PATTERN = 4000
MOST_REPEATS = 1000

ESCAPE = re.compile(r"\\(?:[pP]\{\^?\w{1,40}\}|[sSdDwWrntfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])")
GROUP = re.compile(r"\((?:\?(?::|i:|s:|=|!|<=|<!|>))?(?!\?)")
QUANTIFIER = re.compile(r"(?:[?*+]|\{(\d{1,5})(?:,(\d{0,5}))?\})")


def check_pattern(pattern: str) -> None:
    """LabError, with the place and what stands there, unless the pattern belongs to that language."""
    if len(pattern) > LONGEST_PATTERN:
        raise LabError(f"a splitting pattern has at most {LONGEST_PATTERN} characters, this one {len(pattern)}")
    utf8(pattern)
    place, depth = 0, 0
    # What a quantifier may follow: nothing, one character or class, or a group.
    before = ""
    while place < len(pattern):
        sign = pattern[place]
        if sign == "(":
            group = GROUP.match(pattern, place)
            if not group:
                raise refused(pattern, place, "this kind of group")
            place, depth, before = group.end(), depth + 1, ""
        elif sign == ")":
            if not depth:
                raise refused(pattern, place, "a bracket that nothing opens")
            place, depth, before = place + 1, depth - 1, "group"
        elif sign == "|":
            place, before = place + 1, ""
        elif sign == "[":
            place, before = end_of_class(pattern, place), "one"
        elif sign == "\\":
            escape = ESCAPE.match(pattern, place)
            if not escape:
                raise refused(pattern, place, "this escape")
            place, before = escape.end(), "one"
        elif found := QUANTIFIER.match(pattern, place):
            if not before:
                raise refused(pattern, place, "a repetition of nothing")
            check_repetition(pattern, place, found, before)
            place, before = found.end(), ""
            if pattern[place : place + 1] in ("?", "+") and not found.group().startswith("{"):
                place += 1
        elif sign in "^$":
            raise refused(pattern, place, "an anchor")
        elif sign in "{}]":
            raise refused(pattern, place, "a bracket that means nothing here")
        else:
            place, before = place + 1, "one"
    if depth:
        raise refused(pattern, len(pattern) - 1, "a group that is not closed")


def check_repetition(pattern: str, place: int, found: re.Match[str], before: str) -> None:
    low, high = found.groups()
    if low is None:
        if before == "group" and found.group() != "?":
            raise refused(pattern, place, "a repeated group")
        return
    most = int(high) if high else int(low)
    if before == "group" and (most > 1 or high == ""):
        raise refused(pattern, place, "a repeated group")
    if max(most, int(low)) > MOST_REPEATS or most < int(low):
        raise refused(pattern, place, f"a count that is above {MOST_REPEATS} or upside down")


def end_of_class(pattern: str, start: int) -> int:
    """The place behind the class that opens at `start`."""
    place = start + 1 + (pattern[start + 1 : start + 2] == "^")
    begin = place
    while place < len(pattern):
        sign = pattern[place]
        if sign == "]" and place > begin:
            return place + 1
        if sign in "[]" or pattern[place : place + 2] in ("&&", "--", "~~", "||"):
            raise refused(pattern, place, "a class within a class")
        if sign == "\\":
            escape = ESCAPE.match(pattern, place)
            if not escape:
                raise refused(pattern, place, "this escape")
            place = escape.end()
        else:
            place += 1
    raise refused(pattern, start, "a class that is not closed")


def refused(pattern: str, place: int, what: str) -> LabError:
    around = pattern[place : place + 12]
    return LabError(f"the splitting pattern has {what} at character {place} ({around!r}), which is not read here")
