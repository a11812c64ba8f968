r"""How much text a token holds (MATH K1): tokens, bytes, characters, words and their ratios.

Notable: a word is a run of letters, marks, digits and underscores, with apostrophes, hyphens, points and joiners
inside. In scripts that put no spaces between words (Han, Hiragana, Thai, Lao, Khmer, Burmese) each character with its
marks counts as one, as the default rule of Unicode's annex 29 has it; that is more words than a reader of these scripts
would count, so `unspaced` says how many of the words are such.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

from txlab.engine.tokenizers.tokenizer import Tokenizer, utf8

UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]"
WORD = regex.compile(
    rf"(?P<unspaced>[[{UNSPACED}]&&[\p{{L}}\p{{N}}]]\p{{M}}*)|{LETTER}+(?:['’.·\u200c\u200d-]{LETTER}+)*", regex.V1
)


@dataclass(frozen=True)
class Statistics:
    """Counts of one text under one tokenizer; a ratio is nan where there is nothing to divide by.

    unspaced  how many of the words are single characters of a script without spaces
    distinct  how many different tokens occur
    """

    tokens: int
    bytes: int
    characters: int
    words: int
    unspaced: int
    distinct: int

    @property
    def bytes_per_token(self) -> float:
        return ratio(self.bytes, self.tokens)

    @property
    def characters_per_token(self) -> float:
        return ratio(self.characters, self.tokens)

    @property
    def tokens_per_word(self) -> float:
        return ratio(self.tokens, self.words)


def ratio(a: int, b: int) -> float:
    return a / b if b else float("nan")


def words(text: str) -> tuple[int, int]:
    """How many words, and how many of them are single characters of a script without spaces.

    >>> words("the cat's 2 mice"), words("猫は見る")
    ((4, 0), (4, 4))
    """
    count = unspaced = 0
    for match in WORD.finditer(text):
        count += 1
        unspaced += match["unspaced"] is not None
    return count, unspaced


def statistics(tokenizer: Tokenizer, text: str | bytes) -> Statistics:
    """Statistics of a text, or of bytes, of which each that is not UTF-8 counts as a character."""
    if isinstance(text, bytes):
        data, text = text, text.decode(errors="surrogateescape")
        ids = tokenizer.encode_bytes(data)
        tokens, distinct = len(ids), len(set(ids))
    else:
        data = utf8(text)
        array = tokenizer.encode_long(text)
        tokens, distinct = len(array), len(set(array.tolist()))
    count, unspaced = words(text)
    return Statistics(tokens, len(data), len(text), count, unspaced, distinct)
