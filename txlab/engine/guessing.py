"""Shannon's guessing game: the user guesses a text character by character, and is scored in bits against a model.

A character costs the user −log₂ p(r), where r is the number of the right guess (0: none was) and p(r) is estimated from
the guesses before it, as an arithmetic coder would: an identical guesser could rebuild the text from the ranks alone
(Shannon 1951, "Prediction and Entropy of Printed English", §3). So it is a code length, comparable with the −log₂ p of
a model's tokens (MATH R1).

Notable: the user always guesses characters, regardless of the model's tokens. Bits *per byte* do not depend on how a
text is divided, so both are counted over the same bytes, whenever a character and a token end together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import log2, nan
from operator import truediv

from txlab.engine.explain import Explaining, Explanation, compute_step

GUESSES = 5
"""The most guesses of one character, N."""


def guess_probability(rank: int, earlier: Sequence[int]) -> float:
    """p(r) = (n_r + ½) / (n + (N + 1)/2): how probable the rank r is after n `earlier` ones, n_r of which were r.

    Ranks are 1 … N, and 0 if no guess was right. Krichevsky & Trofimov 1981: such a code is never longer than that of
    the best fixed probabilities by more than (N/2) log₂ n + O(1) bits in all.
    """
    return (earlier.count(rank) + 0.5) / (len(earlier) + (GUESSES + 1) / 2)


def guess_bits(rank: int, size: int, earlier: Sequence[int]) -> float:
    """−log₂ p(r), and 8 bits for each of the `size` UTF-8 bytes of a character that was not guessed (r = 0)."""
    return -log2(guess_probability(rank, earlier)) + (0 if rank else 8 * size)


@dataclass(frozen=True)
class Stretch:
    """The shortest piece of a text that is whole characters and whole tokens: those from `first` to before `end`."""

    text: str
    first: int
    end: int

    @property
    def size(self) -> int:
        return len(self.text.encode())


def stretches(text: str, sizes: Sequence[int]) -> list[Stretch]:
    """Divide a text whose tokens have these sizes in bytes; a token that is cut in two at the end is left out.

    >>> [(one.text, one.first, one.end) for one in stretches("the é", [3, 1, 1, 1])]
    [('the', 0, 1), (' ', 1, 2), ('é', 2, 4)]
    """
    characters = {end: at for at, end in enumerate(accumulate(len(each.encode()) for each in text), 1)}
    parts = []
    first = begin = 0
    for end, reached in enumerate(accumulate(sizes), 1):
        if reached in characters and characters[reached] > begin:
            parts.append(Stretch(text[begin : characters[reached]], first, end))
            first, begin = end, characters[reached]
    return parts


@dataclass
class GuessingGame:
    """A text that is guessed: `ahead` are its stretches, `model_bits` what each of them costs the model.

    ranks   of the characters so far: the guess that was right, 0 = none
    bits    what each of them cost
    tried   wrong guesses of the present character
    """

    ahead: Sequence[Stretch]
    model_bits: Sequence[float]
    ranks: list[int] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    done: int = 0  # stretches
    within: int = 0  # characters of the present one

    @property
    def over(self) -> bool:
        return self.done == len(self.ahead)

    @property
    def character(self) -> str:
        """The character to be guessed."""
        return self.ahead[self.done].text[self.within]

    @property
    def text(self) -> str:
        """The text that has been guessed or shown."""
        return "".join(one.text for one in self.ahead[: self.done]) + (
            "" if self.over else self.ahead[self.done].text[: self.within]
        )

    def guess(self, character: str) -> bool:
        """Guess the next character; return whether it is known now: this guess was right, or it was the last one."""
        if self.over or character in self.tried:
            return False
        if character == self.character:
            self.know(len(self.tried) + 1)
            return True
        self.tried.append(character)
        if len(self.tried) == GUESSES:
            self.know(0)
            return True
        return False

    def give_up(self) -> None:
        """Be shown the next character."""
        if not self.over:
            self.know(0)

    def know(self, rank: int) -> None:
        self.bits.append(guess_bits(rank, len(self.character.encode()), self.ranks))
        self.ranks.append(rank)
        self.tried.clear()
        self.within += 1
        if self.within == len(self.ahead[self.done].text):
            self.done, self.within = self.done + 1, 0

    # Over the stretches that are done: the same bytes for both.

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(one.size for one in self.ahead[: self.done])

    @property
    def person_total(self) -> float:
        """Bits."""
        return sum(self.bits[: len(self.bits) - self.within])

    @property
    def model_total(self) -> float:
        """Bits."""
        return sum(self.model_bits[: self.done])

    @property
    def person(self) -> float:
        """Bits per byte."""
        return self.person_total / self.size if self.size else nan

    @property
    def model(self) -> float:
        """Bits per byte."""
        return self.model_total / self.size if self.size else nan

    @property
    def last(self) -> tuple[str, float, float]:
        """The last stretch, and its cost in bits for the user and the model."""
        one = self.ahead[self.done - 1]
        upto = len(self.bits) - self.within
        return one.text, sum(self.bits[upto - len(one.text) : upto]), self.model_bits[self.done - 1]


def why_guessing(game: GuessingGame) -> Explanation:
    """Explain the user's and the model's bits per byte: the last character, and the sums."""
    rank, earlier = game.ranks[-1], game.ranks[:-1]
    there, many, half = earlier.count(rank), len(earlier), (GUESSES + 1) / 2
    which = f"the last character was right at guess {rank}" if rank else "the last character was not guessed"
    counts = [game.ranks.count(one) for one in (*range(1, GUESSES + 1), 0)]
    bits = game.person if game.size else game.bits[-1]
    why = Explaining(f"why {bits:.3g} bits{' per byte' if game.size else ''}?", bits)
    equation = "bits = −log₂ p(r) (+ 8 a byte if r = 0),  p(r) = (nᵣ + ½) / (n + (N + 1)/2)"
    why.equation(equation, "R1", "Shannon 1951, §3; Krichevsky & Trofimov 1981")
    why.input("r", rank, "the guess that was right; 0 = none, and the character is sent as it is")
    why.input("N", GUESSES, "the most guesses of one character")
    why.input("n", len(earlier), "characters before it")
    why.input("nᵣ", counts, "characters found at guess 1, 2, …, and not at all")
    form, note = f"({{}} + ½) / ({{}} + {half:g})", f"{which}, as {there} of the {many} before"
    why.compute(f"p({rank})", form, lambda before, n: (before + 0.5) / (n + half), there, many, note=note)
    why.step("bits of it", f"−log₂ p({rank})" + ("" if rank else " + 8 a byte"), game.bits[-1])
    if game.size:
        note = "−Σ log₂ p of its tokens / the same bytes"
        why.compute("you", "{} / {}", truediv, game.person_total, game.size, note="bits / bytes")
        why.means(compute_step("model", "{} / {}", truediv, game.model_total, game.size, note=note))
    return why.result()
