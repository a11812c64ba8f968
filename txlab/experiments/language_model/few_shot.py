"""Tasks that are new in every sequence: a few examples, then a question (MATH T13; Brown et al. 2020, §2).

    x₁y₁ x₂y₂ … x_k y_k q → f(q),   f: one of m^n maps from n letters to m capitals, drawn anew for each sequence

Notable: nothing about f is in the weights, so whatever is answered better than one time in m was learnt from the
examples before the question. Every answer is the question after the examples before it, so one sequence measures all
numbers of examples at once. An eighth of all maps, chosen by a hash of the map, is never trained on, and validation
asks for these alone. The best that is possible is known: a question that came before has the answer it had, any other
has all answers alike, so after k examples  P(right) = 1 − (1 − 1/n)ᵏ (1 − 1/m).
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError
from txlab.experiments.language_model.batch import Batch, Tally, as_batch
from txlab.experiments.language_model.induction import SymbolTokenizer
from txlab.experiments.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.experiments.language_model.schema import LanguageModelScenario

SMALLEST_VOCABULARY = 5  # two letters, two capitals, and the space between examples
LARGEST_VOCABULARY = 53
SMALLEST_CONTEXT = 4  # one example and a question
HELD_OUT = 8  # one map in so many is for validation
# Odd multipliers of a hash, one a letter (Knuth's 2³²/φ and what follows from it): fixed for ever.
MULTIPLIERS = (np.arange(1, 27, dtype=np.uint64) * np.uint64(2654435769) * np.uint64(2)) | np.uint64(1)


@dataclass(frozen=True)
class FewShotTokenizer(SymbolTokenizer):
    """The space between examples, n = (V − 1) / 2 letters that are asked about, the rest capitals that answer.

    >>> FewShotTokenizer(7).signs
    ' abcABC'
    """

    task: ClassVar[str] = "few-shot"

    @cached_property
    def signs(self) -> str:
        letters = (self.vocabulary - 1) // 2
        capitals = self.vocabulary - 1 - letters
        return " " + string.ascii_lowercase[:letters] + string.ascii_uppercase[:capitals]


def best_possible(examples: int, letters: int, answers: int) -> float:
    """P(right) of one who knows how the tasks are drawn.

    >>> best_possible(0, 8, 8), round(best_possible(8, 8, 8), 3)
    (0.125, 0.699)
    """
    return 1 - (1 - 1 / letters) ** examples * (1 - 1 / answers)


def held_out(maps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(…, n) answers 0 … m − 1 by letter → whether a map is kept for validation: the top bits of a hash of it are 0."""
    mixed = ((maps.astype(np.uint64) + np.uint64(1)) * MULTIPLIERS[: maps.shape[-1]]).sum(-1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(15)
    mixed *= np.uint64(0x2C1B3C6D)
    mixed ^= mixed >> np.uint64(12)
    mixed *= np.uint64(0x297A2D39)
    mixed ^= mixed >> np.uint64(15)
    chosen: NDArray[np.bool_] = mixed % np.uint64(HELD_OUT) == 0
    return chosen


class FewShotData:
    """Sequences made as they are needed; every batch is a pure function of (seed, step)."""

    bytes_per_token = nan  # a symbol is not made of bytes

    def __init__(self, scenario: LanguageModelScenario) -> None:
        self.seed, self.vocabulary = scenario.seed, scenario.data.vocabulary
        self.batch, self.context = scenario.train.batch, scenario.model.context
        self.at_once = scenario.train.batch // scenario.train.accumulate
        self.validation_count = scenario.train.validation_batches
        if not SMALLEST_VOCABULARY <= self.vocabulary <= LARGEST_VOCABULARY:
            raise LabError(
                f"data.vocabulary = {self.vocabulary} does not suit the few-shot task; "
                f"allowed: {SMALLEST_VOCABULARY} … {LARGEST_VOCABULARY} symbols"
            )
        if self.context < SMALLEST_CONTEXT:
            raise LabError(
                f"model.context = {self.context} is too short for an example and a question; at least "
                f"{SMALLEST_CONTEXT}"
            )
        self.letters = (self.vocabulary - 1) // 2
        self.answers = self.vocabulary - 1 - self.letters
        self.pairs = (self.context + 2) // 3  # "aX bY cZ" is 3 · 3 − 1 tokens, the last of which is no input
        self.counted = [k for k in (0, *(1 << n for n in range(16))) if k < self.pairs]
        self.tokenizer = FewShotTokenizer(self.vocabulary)
        self.fingerprint = f"few-shot/1/{self.vocabulary}/{self.context}"
        self.tokenizer_fingerprint = f"few-shot/{self.vocabulary}"
        look = scenario.look
        rows, _ = self.sequences(generator(self.seed, "probe", 0), 1, unseen=True)
        shown = self.tokenizer.encode(look.text) if look.text else rows[0, :-1].tolist()
        self.probe: list[int] = shown[: min(look.positions, self.context)]
        if len(self.probe) < 2:
            raise LabError(f"look.text = {look.text!r} has {len(self.probe)} token; a probe needs at least 2")
        self.prompts = [self.tokenizer.encode(prompt) for prompt in scenario.sampling.prompts]
        if not all(self.prompts):
            raise LabError("sampling.prompts has '', which has no token to begin with")

    def maps(self, random: np.random.Generator, count: int, unseen: bool) -> NDArray[np.int64]:
        """(count, n) maps, all of them held out or none."""
        maps = random.integers(0, self.answers, size=(count, self.letters))
        while (wrong := np.flatnonzero(held_out(maps) != unseen)).size:
            maps[wrong] = random.integers(0, self.answers, size=(wrong.size, self.letters))
        return maps

    def sequences(
        self, random: np.random.Generator, count: int, unseen: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(count, T + 1) symbols, and which of the T targets are answers."""
        maps = self.maps(random, count, unseen)
        asked = random.integers(0, self.letters, size=(count, self.pairs))  # with replacement, as in best_possible
        rows = np.zeros((count, max(self.context + 1, 3 * self.pairs)), np.int64)
        rows[:, 0 : 3 * self.pairs : 3] = 1 + asked
        rows[:, 1 : 3 * self.pairs : 3] = 1 + self.letters + np.take_along_axis(maps, asked, axis=1)
        scored = np.zeros((count, self.context), np.bool_)
        scored[:, : 3 * self.pairs - 2 : 3] = True
        return rows[:, : self.context + 1], scored

    def train_batch(self, step: int) -> Batch:
        return as_batch(*self.sequences(generator(self.seed, "batch", step), self.batch, unseen=False))

    def validation_batches(self) -> list[Batch]:
        found = []
        for number in range(self.validation_count):
            rows, scored = self.sequences(generator(self.seed, "validation", number), self.batch, unseen=True)
            found += [
                as_batch(rows[i : i + self.at_once], scored[i : i + self.at_once])
                for i in range(0, len(rows), self.at_once)
            ]
        return found

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """accuracy_k: share of right answers after k examples, k = 0, 1, 2, 4, 8 …, on maps that were never trained."""
        right = logits.argmax(-1) == targets  # (B, T)
        return {f"accuracy_{k}": (float(right[:, 3 * k].sum()), len(right)) for k in self.counted}

    def progress(self, updates: int) -> Mapping[str, float]:
        return {}

    def label(self, token: int) -> str:
        return self.tokenizer.label(token)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def facts(self) -> Mapping[str, Any]:
        return {
            "corpus": {
                "name": "few-shot",
                "fingerprint": self.fingerprint,
                "letters": self.letters,
                "answers": self.answers,
                "examples": self.pairs - 1,
                "tasks": self.answers**self.letters,
                "best_possible": {f"accuracy_{k}": best_possible(k, self.letters, self.answers) for k in self.counted},
            },
            "tokenizer": {"kind": "symbols", "vocabulary": self.vocabulary},
        }
