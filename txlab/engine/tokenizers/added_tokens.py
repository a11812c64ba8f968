r"""Added tokens: texts that are cut out before the rest is tokenized, as in Hugging Face's library (MATH K1).

Notable: added tokens that are not special are matched in any text. Special ones are matched only if the caller asks
for it, because typed text must not produce one; a special text still hides the shorter tokens inside it. The library
searches twice: first for the tokens that are compared with the text as it is, then, in the remaining text, for the
`normalized` ones, after normalising it.
Source: huggingface/tokenizers, tokenizer/added_vocabulary.rs (AddedVocabulary::extract_and_normalize).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import regex

from txlab.engine.tokenizers.bases import MOST_TOKENS
from txlab.engine.tokenizers.json_files import format_value, mapping, text, whole_number
from txlab.engine.tokenizers.tokenizer import utf8
from txlab.errors import LabError

# The classes \w and \s of Rust's regular expressions, which the library uses.
WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")
SPACE = regex.compile(r"\p{White_Space}")
MOST_ADDED = 200_000  # speech models add 65 536
LONGEST_ADDED = 1000  # characters
FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True)
class AddedToken:
    """A text that is one token.

    special      matched only where special tokens are requested
    lstrip       includes the white space before it
    rstrip       includes the white space after it
    single_word  not matched next to a letter, mark, digit or connector
    normalized   matched after the text is normalised, with its own text normalised as well
    """

    content: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def plain(self) -> bool:
        """Whether it is special and no other flag is set."""
        return self.special and not (self.lstrip or self.rstrip or self.single_word or self.normalized)

    def entry(self) -> dict[str, Any]:
        """Its entry in a tokenizer.json."""
        return asdict(self)


def read_added_token(entry: object, known: object = None) -> AddedToken:
    """The token that an entry of a tokenizer.json describes; `known`: its id, if the entry does not give it."""
    fields = mapping(entry, "an added token")
    content = text(fields.get("content"), "the content of an added token")
    token = whole_number(
        fields.get("id") if known is None else known, f"the id of the added token {format_value(content)}"
    )
    utf8(content)
    if len(content) > LONGEST_ADDED:
        raise LabError(f"the added token {format_value(content)} is longer than {LONGEST_ADDED} characters")
    if not 0 <= token < MOST_TOKENS or not content:
        raise out_of_place(content, token)
    flags = {flag: fields.get(flag, False) for flag in FLAGS}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise LabError(
                f"{flag} of the added token {format_value(content)} must be true or false, not {format_value(value)}"
            )
    return AddedToken(content, token, **flags)


def read_added_tokens(entries: Iterable[object]) -> list[AddedToken]:
    """The tokens of such entries; raises LabError if two of them have the same text, or there are too many."""
    tokens = [read_added_token(entry) for entry in islice(entries, MOST_ADDED + 1)]
    if len(tokens) > MOST_ADDED:
        raise LabError(f"it has more than {MOST_ADDED:,} added tokens")
    seen: set[str] = set()
    for token in tokens:
        if token.content in seen:
            raise out_of_place(token.content, token.id)
        seen.add(token.content)
    return tokens


def out_of_place(content: str, token: int) -> LabError:
    return LabError(
        f"the added token {format_value(content)} with the id {format_value(token)} is out of bounds or a duplicate"
    )


class Finder:
    """Finds the texts of some added tokens: the leftmost match first, and of those the longest.

    Notable: a regular expression of all texts takes seconds to compile for 40 000 of them, and speech models add more.
    """

    def __init__(self, tokens: Mapping[str, AddedToken]) -> None:
        self.tokens = tokens
        self.ordinary = any(not token.special for token in tokens.values())

    @cached_property
    def lengths(self) -> dict[str, list[int]]:
        """The lengths of the texts, the longest first, by their first two characters, or by the only one."""
        lengths_of: dict[str, set[int]] = {}
        for content in self.tokens:
            lengths_of.setdefault(content[:2], set()).add(len(content))
        return {begin: sorted(lengths, reverse=True) for begin, lengths in lengths_of.items()}

    @cached_property
    def first(self) -> regex.Pattern[str]:
        """A character with which a text begins."""
        return regex.compile(f"[{''.join(sorted({regex.escape(begin[0]) for begin in self.lengths}))}]")

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """(start, stop) of the texts in a text, none of which overlap."""
        place = 0
        while begin := self.first.search(text, place):
            start = begin.start()
            place = start + 1
            for length in (*self.lengths.get(text[start : start + 2], ()), *self.lengths.get(text[start], ())):
                if start + length <= len(text) and text[start : start + length] in self.tokens:
                    place = start + length
                    yield start, place
                    break

    def cut(self, text: str, special: bool) -> Iterator[tuple[int, int, int | None]]:
        """(start, stop, token) of all parts of a text in order; the token is None between added tokens."""
        end = 0
        for start, stop in self.matches(text) if self.tokens and (special or self.ordinary) else ():
            token = self.tokens[text[start:stop]]
            if token.special and not special:
                continue
            if token.single_word and (WORD.search(text, max(start - 1, 0), start) or WORD.match(text, stop, stop + 1)):
                continue
            if token.lstrip:
                while start > end and SPACE.match(text, start - 1):
                    start -= 1
                start = max(start, end)
            if token.rstrip:
                while stop < len(text) and SPACE.match(text, stop):
                    stop += 1
            if start >= stop:  # the previous token covers all of it
                continue
            if end < start:
                yield end, start, None
            yield start, stop, token.id  # white space taken by the previous token is in both unless this one strips
            end = stop
        if end < len(text):
            yield end, len(text), None


class AddedTokens:
    """Finds added tokens in a text. `normalize` is applied to the text between the two searches."""

    def __init__(self, tokens: Iterable[AddedToken], normalize: Callable[[str], str] | None = None) -> None:
        self.tokens = list(tokens)
        self.exact = Finder({token.content: token for token in self.tokens if not token.normalized})
        normalized: dict[str, AddedToken] = {}
        for token in sorted(self.tokens, key=lambda token: not token.special):
            if token.normalized and (seen := normalize(token.content) if normalize else token.content):
                normalized.setdefault(seen, token)
        self.normalized = Finder(normalized)

    @property
    def ordinary(self) -> bool:
        """Whether some of them are not special, and so are matched in any text."""
        return self.exact.ordinary or self.normalized.ordinary

    def cut(self, text: str, special: bool) -> Iterator[tuple[int, int, int | None]]:
        """The parts of a text that is not yet normalized: (start, stop, token or None)."""
        for start, stop, token in self.exact.cut(text, special):
            if token is not None:
                yield start, stop, token
                continue
            for first, last, inner in self.normalized.cut(text[start:stop], special):
                yield start + first, start + last, inner
