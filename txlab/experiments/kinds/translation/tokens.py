"""The tokens of generated pairs: all words, or characters, are known beforehand; any other is refused with a LabError
that suggests the nearest known one (MATH K1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from txlab.engine.tokenizers.elementary import Labelled
from txlab.engine.tokenizers.tokenizer import unknown_token
from txlab.errors import LabError, nearest
from txlab.experiments.kinds.translation import dates, language

PAD, START, END = 0, 1, 2
SPECIAL = {PAD: "<pad>", START: "<start>", END: "<end>"}


@dataclass(frozen=True)
class ListedTokenizer(Labelled):
    """One token for each symbol, after the special ones.

    symbols   words, endings that begin with a hyphen, or characters
    spaced    words are separated by a space, with endings right after their word; characters are not separated

    >>> tokenizer = ListedTokenizer(("borv", "do", "-o"), spaced=True)
    >>> tokenizer.encode("do borv-o"), tokenizer.decode([4, 3, 5, 2])
    ([4, 3, 5], 'do borv-o')
    """

    symbols: tuple[str, ...]
    spaced: bool

    @property
    def kind(self) -> str:
        return "words" if self.spaced else "characters"

    @property
    def vocabulary(self) -> int:
        return len(SPECIAL) + len(self.symbols)

    @cached_property
    def token_of(self) -> dict[str, int]:
        return {symbol: len(SPECIAL) + i for i, symbol in enumerate(self.symbols)}

    def ids(self, symbols: Iterable[str]) -> list[int]:
        """LabError for a symbol that is not in the list."""
        symbols = list(symbols)
        for symbol in symbols:
            if symbol not in self.token_of:
                what = "word" if self.spaced else "character"
                allowed = f"{len(self.symbols)} words" if self.spaced else "".join(self.symbols)
                raise LabError(f"the {what} {symbol!r} is not known{nearest(symbol, self.symbols)}; allowed: {allowed}")
        return [self.token_of[symbol] for symbol in symbols]

    def encode(self, text: str) -> list[int]:
        return self.ids(text.replace("-", " -").split() if self.spaced else text)

    def token_bytes(self, token: int) -> bytes:
        label = self.label(token)
        return b"" if token in SPECIAL else label.encode()

    def decode(self, ids: Iterable[int]) -> str:
        symbols = [self.label(token) for token in ids if token not in SPECIAL]
        return " ".join(symbols).replace(" -", "-") if self.spaced else "".join(symbols)

    def label(self, token: int) -> str:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return SPECIAL[token] if token in SPECIAL else self.symbols[token - len(SPECIAL)]


def tokenizers_for(task: str, shared: bool) -> tuple[ListedTokenizer, ListedTokenizer]:
    """The tokenizers of source and target, the same one if they share a table. They follow from the task alone."""
    spaced = task == "language"
    source = language.english_words() if spaced else dates.source_characters()
    target = language.veshal_tokens() if spaced else dates.target_characters()
    if shared:
        both = ListedTokenizer((*source, *(symbol for symbol in target if symbol not in set(source))), spaced)
        return both, both
    return ListedTokenizer(source, spaced), ListedTokenizer(target, spaced)
