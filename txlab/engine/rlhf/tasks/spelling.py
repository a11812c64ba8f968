"""Instructions about a word: copy it, reverse it, double its letters, or name its first or last letter.

    gold = 1 − edit distance to the right answer / length of the longer one      0 … 1

The records have the form of instruction tuning (MATH H7): "instruction: reverse\\ninput: cat\\nresponse:" → " tac".
A third of the demonstrations contain a mistake, so imitating them is not yet the best that can be done.
"""

from __future__ import annotations

import string
from collections.abc import Callable

import numpy as np

from txlab.engine.rlhf.tasks import END, Task

INSTRUCTIONS: dict[str, Callable[[str], str]] = {
    "copy": lambda word: word,
    "reverse": lambda word: word[::-1],
    "double": lambda word: "".join(2 * letter for letter in word),
    "first": lambda word: word[0],
    "last": lambda word: word[-1],
}
LETTERS = "abcdefgh"
MISTAKES = 1 / 3


def prompt(draws: np.random.Generator) -> str:
    instruction = list(INSTRUCTIONS)[draws.integers(len(INSTRUCTIONS))]
    word = "".join(LETTERS[i] for i in draws.integers(len(LETTERS), size=draws.integers(2, 5)))
    return f"instruction: {instruction}\ninput: {word}\nresponse:"


def right(prompt: str) -> str:
    """
    >>> right("instruction: double\\ninput: cat\\nresponse:")
    'ccaatt'
    """
    fields = dict(line.split(": ", 1) for line in prompt.splitlines() if ": " in line)
    return INSTRUCTIONS[fields["instruction"]](fields["input"])


def demonstrate(draws: np.random.Generator, prompt: str) -> str:
    answer = right(prompt)
    if draws.random() < MISTAKES:
        place = draws.integers(len(answer))
        answer = answer[:place] + LETTERS[draws.integers(len(LETTERS))] + answer[place + draws.integers(2) :]
    return " " + answer


def gold(prompt: str, answer: str) -> float:
    """
    >>> gold("instruction: reverse\\ninput: cab\\nresponse:", " bad")
    0.667
    """
    wanted, given = right(prompt), answer.removeprefix(" ")
    return round(1 - edit_distance(wanted, given) / max(len(wanted), len(given)), 3)


def edit_distance(one: str, other: str) -> int:
    """Fewest insertions, deletions and replacements of letters (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
    return row[-1]


CHARACTERS = "".join(sorted({*string.ascii_lowercase, *" :", END}))
TASK = Task("spelling", prompt, demonstrate, gold, CHARACTERS, "1 − edit distance / length")
