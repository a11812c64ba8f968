"""The same few plain sentences in many languages and scripts, and how a tokenizer splits each (MATH K2).

They were written for this project and ship with it. Because they mean the same in every language, the numbers of tokens
compare languages as well as tokenizers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from txlab.files import shipped_path

if TYPE_CHECKING:
    from txlab.engine.tokenizers.offsets import Statistics
    from txlab.engine.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Language:
    """`name` in English; `script` by its name in Unicode, "Japanese" where Han and Kana are mixed."""

    name: str
    script: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences, one a line."""
        return "\n".join(self.sentences)


@cache
def languages() -> tuple[Language, ...]:
    """All languages, in the order of the file: grouped by script, English first."""
    content = tomllib.loads(shipped_path("texts/sentences.toml").read_text(encoding="utf-8"))
    return tuple(Language(row["name"], row["script"], tuple(row["sentences"])) for row in content["language"])


@dataclass(frozen=True)
class LanguageStatistics:
    """A language, and the statistics of each of several tokenizers on its sentences."""

    language: Language
    statistics: list[Statistics]


def by_language(tokenizers: Sequence[Tokenizer], wanted: Callable[[], bool] = lambda: True) -> list[LanguageStatistics]:
    """Statistics for every language; `wanted` is called before each of them, and False stops."""
    from txlab.engine.tokenizers.offsets import statistics

    per_language: list[LanguageStatistics] = []
    for language in languages():
        if not wanted():
            break
        data = language.text.encode()
        counts = [statistics(data, tokenizer.encode_long(language.text)) for tokenizer in tokenizers]
        per_language.append(LanguageStatistics(language, counts))
    return per_language
