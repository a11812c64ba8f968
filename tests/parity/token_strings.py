"""Random strings that tokenizers stumble over, and the characters on which regular expression engines disagree."""

from __future__ import annotations

import random
from collections.abc import Iterable

import regex
import tiktoken

WORDS = [
    "the",
    "The",
    "THE",
    "don't",
    "I'LL",
    "we've",
    "O'Reilly's",
    "naïve",
    "Straße",
    "ǅ",
    "ﬁ",
    "猫は見る",
    "안녕",
    "नमस्ते",
    "สวัสดี",
    "გამარჯობა",
    "ሰላም",
    "foo_bar",
    "x86_64",
    "<|endoftext|>",
]
EMOJI = ["👩\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "👍🏽", "🇹🇷", "1️⃣", "❤️", "🧑🏿\u200d🚀"]
SPACES = [" ", "  ", "     ", "\t", "\n", "\r\n", "\n\n\n", " \n ", *"\u00a0\u2003\u3000\u2028\x85\x1c\u200b"]
RIGHT_TO_LEFT = ["שלום", "مرحبا", "\u202e", "\u200f", "\u2067", "کتاب\u200cها", "١٢٣", "\u0640"]
MARKS = [*map(chr, range(0x300, 0x330)), "\u20e3", "\ufe0f", "\u200d", "\u0f39", "\U0001d165"]
UNASSIGNED = [*map(chr, (0x378, 0x530, 0x2FE0, 0xFDD0, 0xFFFE, 0xFFFF, 0x1FFFE, 0x2FFFF, 0x3FFFD, 0xE0080, 0x10FFFF))]
NUMBERS = ["0", "007", "3.14", "1234567890", "²", "Ⅷ", "½", "𝟘", "一"]
CODE = ["def f(x):\n    return x", "!=", "->", "/* */", "{}[]();", "https://a.b/c?d=e#f", "—…“”", "```", "\\x00"]


def random_strings(count: int, seed: int = 3) -> list[str]:
    rng = random.Random(seed)

    def any_character() -> str:
        while 0xD800 <= (point := rng.randrange(rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x110000]))) < 0xE000:
            pass
        return chr(point)

    def part() -> str:
        kind = rng.randrange(11)
        if kind == 0:
            return any_character()
        if kind == 1:
            return chr(rng.choice([*range(32), *range(127, 160)]))
        if kind == 2:
            return rng.choice("aeno") + "".join(rng.choices(MARKS, k=rng.randrange(1, 6)))
        if kind == 3:
            return rng.choice(["a", " ", "\n", "é", "🙂", "-", "ab", " \n"]) * rng.randrange(1, 30)
        return rng.choice(rng.choice([WORDS, EMOJI, SPACES, SPACES, RIGHT_TO_LEFT, UNASSIGNED, NUMBERS, CODE]))

    return ["".join(part() for _ in range(rng.randrange(12))) for _ in range(count)]


CLASSES = (r"\p{L}", r"\p{N}", r"\s", r"\p{M}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}")


def disputed(strings: Iterable[str]) -> set[str]:
    """Characters that `regex`, tiktoken's or Hugging Face's engine class differently: some are newer."""
    from tokenizers import Regex, pre_tokenizers

    characters = "".join(sorted(set().union(*strings)))
    found: set[str] = set()
    bytes_only = {bytes([byte]): byte for byte in range(256)}
    for name in CLASSES:
        ours = set(regex.findall(name, characters))
        probe = tiktoken.Encoding("class", pat_str=name, mergeable_ranks=bytes_only, special_tokens={})
        theirs = set(probe.decode(probe.encode(characters, disallowed_special=())))
        split = pre_tokenizers.Split(Regex(name), "removed", invert=True)
        found |= (ours ^ theirs) | (ours ^ {part for part, _ in split.pre_tokenize_str(characters)})
    return found


def undisputed(strings: list[str]) -> tuple[list[str], int]:
    """The strings without those characters, and how many characters these are."""
    out = disputed(strings)
    table = dict.fromkeys(map(ord, out))
    return [string.translate(table) for string in strings], len(out)
