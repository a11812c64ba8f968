"""Film reviews with a known criterion: distinct praise, no blame, no repeated words, no non-words.

    gold = distinct words of praise − words of blame − repeated words − non-words

Praise goes with praise and blame with blame, since a film was liked or not: a language model knows before any ranking
which words are of one kind, and from rankings a reward model learns which kind is better. An unconstrained policy finds
texts that only the reward model scores highly: letters that merely resemble praise.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rlhf.tasks import END, Task

PRAISE = (
    "bold", "bright", "clever", "deep", "fine", "fresh", "fun", "gentle",
    "grand", "great", "kind", "moving", "sharp", "warm", "witty", "wise",
)  # fmt: skip
BLAME = (
    "awful", "bland", "cold", "crude", "dull", "empty", "flat", "grim",
    "lazy", "loud", "messy", "poor", "slow", "stale", "tired", "weak",
)  # fmt: skip
PLAIN = (
    "early", "foreign", "long", "modern", "old", "quiet", "recent", "short",
    "silent", "simple", "small", "strange",
)  # fmt: skip
FILMS = (
    "dawn", "harbour", "heat", "island", "mirror", "orchard", "river", "signal",
    "station", "summer", "tower", "winter",
)  # fmt: skip
WORDS = frozenset((*PRAISE, *BLAME, *PLAIN))
QUALITIES = (PRAISE, BLAME, PLAIN)
LIKED = 0.45  # of the demonstrations are by authors who liked the film
SHARES = {True: (0.7, 0.2, 0.1), False: (0.2, 0.7, 0.1)}  # of praise, blame and neither, if it was liked or not


def prompt(draws: np.random.Generator) -> str:
    return f"film: {FILMS[draws.integers(len(FILMS))]}\nreview:"


def demonstrate(draws: np.random.Generator, prompt: str) -> str:
    """Three to five words: " dull, early, slow", " warm, kind, loud, wise"."""
    return draw_review(draws)[0]


def draw_review(draws: np.random.Generator) -> tuple[str, bool]:
    """A review as in `demonstrate`, and whether its author liked the film."""
    size, liked = draws.integers(3, 6), bool(draws.random() < LIKED)
    kinds = draws.choice(len(QUALITIES), size=size, p=SHARES[liked])
    return " " + ", ".join(QUALITIES[kind][draws.integers(len(QUALITIES[kind]))] for kind in kinds), liked


def probability_liked(answer: str) -> float:
    """P(its author liked the film | the words of a review), by the rule that reviews are drawn by (Bayes).

    A film was liked with prior probability LIKED, and its words are then independent. Words that no review has say
    nothing, and the number of words does not depend on the verdict.

    >>> round(probability_liked(" warm, witty, early"), 3), round(probability_liked(" early"), 3)
    (0.909, 0.45)
    """
    odds = LIKED / (1 - LIKED)
    for word in answer.replace(",", " ").split():
        for quality, liked, disliked in zip(QUALITIES, SHARES[True], SHARES[False], strict=True):
            if word in quality:
                odds *= liked / disliked
    return odds / (1 + odds)


def gold(prompt: str, answer: str) -> float:
    """
    >>> gold("film: heat\\nreview:", " warm, witty, early")
    2.0
    >>> gold("film: heat\\nreview:", " warm, warm, warrm, dull")  # 1 − 1 − 1 − 1
    -2.0
    """
    words = answer.replace(",", " ").split()
    praise = len(set(words) & set(PRAISE))
    repeated = len(words) - len(set(words))
    return float(praise - sum(word in BLAME for word in words) - repeated - sum(word not in WORDS for word in words))


CHARACTERS = "".join(sorted({*"".join(WORDS), *"".join(FILMS), *" ,:filmreview", END}))
TASK = Task("reviews", prompt, demonstrate, gold, CHARACTERS, "praise − blame − repeats − non-words")
