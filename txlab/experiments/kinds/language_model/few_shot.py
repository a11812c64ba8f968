"""Tasks that are new in every sequence: a few examples, then a question (MATH T13; Brown et al. 2020, §2).

    x₁y₁x₂y₂…x_k y_k q → f(q),   f: one of mⁿ maps from n letters to m capitals, redrawn for each sequence

Notable: nothing about f is in the weights, so any accuracy above 1/m was learnt from the examples before the question.
Every pair is a question after the examples before it, so one sequence measures all numbers of examples. An
eighth of all maps, chosen by a hash of the map, is never trained on, and validation uses only these. The best possible
accuracy is known: a letter that occurred before has the same answer, for any other all answers are equally likely, so
after k examples  P(right) = 1 − (1 − 1/n)ᵏ (1 − 1/m).

Measured (2 layers, 4 heads, width 64): with 4 letters, 8 capitals and 8 examples the step from "an answer that was
given" to "the answer that was given to this letter" comes after some 400 updates; with 8 letters and 16 examples it had
not come after 1000, nor sooner with 20 letters, larger steps, examples in rounds, or only answerable questions scored.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError
from txlab.experiments.kinds.language_model.symbols import SymbolData, SymbolTokenizer
from txlab.experiments.learning.text_data import Batch, Tally, as_batch
from txlab.experiments.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.experiments.kinds.language_model.schema import LanguageModelScenario

SMALLEST_VOCABULARY = 6  # two letters, four capitals
LARGEST_VOCABULARY = 39  # thirteen letters, 26 capitals
SMALLEST_CONTEXT = 3  # one example and a question
HELD_OUT = 8  # one map in eight is for validation
# Odd multipliers of a hash, one per letter, from 2⁶⁴/φ; they must never change.
MULTIPLIERS = (np.arange(1, 27, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


@dataclass(frozen=True)
class FewShotTokenizer(SymbolTokenizer):
    """n = V / 3 letters as questions, and m = V − n capitals as answers.

    >>> FewShotTokenizer(9).signs
    'abcABCDEF'
    """

    task: ClassVar[str] = "few-shot"

    @cached_property
    def signs(self) -> str:
        letters = self.vocabulary // 3
        capitals = self.vocabulary - letters
        return string.ascii_lowercase[:letters] + string.ascii_uppercase[:capitals]


def best_possible(examples: int, letters: int, answers: int) -> float:
    """P(right) of a predictor that knows how the tasks are drawn.

    >>> best_possible(0, 4, 8), round(best_possible(8, 4, 8), 3)
    (0.125, 0.912)
    """
    return 1 - (1 - 1 / letters) ** examples * (1 - 1 / answers)


def is_held_out(maps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(…, n) answers 0 … m − 1 by letter → whether a map is kept for validation: a hash of it (the last steps of
    splitmix64, Steele et al. 2014) is a multiple of eight."""
    mixed = ((maps.astype(np.uint64) + np.uint64(1)) * MULTIPLIERS[: maps.shape[-1]]).sum(-1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    chosen: NDArray[np.bool_] = mixed % np.uint64(HELD_OUT) == 0
    return chosen


class FewShotData(SymbolData):
    """Sequences generated on demand; every batch is a pure function of (seed, step)."""

    task = "few-shot"
    tokens = FewShotTokenizer
    sizes = range(SMALLEST_VOCABULARY, LARGEST_VOCABULARY + 1)

    def __init__(self, scenario: LanguageModelScenario) -> None:
        if scenario.model.context < SMALLEST_CONTEXT:
            raise LabError(
                f"model.context = {scenario.model.context} is too short for an example and a question; at least "
                f"{SMALLEST_CONTEXT}"
            )
        self.letters = scenario.data.vocabulary // 3
        self.answers = scenario.data.vocabulary - self.letters
        self.pairs = (scenario.model.context + 1) // 2  # "aXbYcZ" is 2 · 3 tokens, the last of which is not an input
        self.counted = [k for k in (0, *(1 << n for n in range(16))) if k < self.pairs]
        self.at_once = scenario.train.batch // scenario.train.accumulate
        super().__init__(scenario, "1")
        self.tokenizer_fingerprint = f"few-shot/{self.vocabulary}"

    def example(self, length: int) -> list[int]:
        rows, _ = self.sequences(generator(self.seed, "probe", 0), 1, unseen=True)
        ids: list[int] = rows[0, :-1].tolist()
        return ids

    def maps(self, random: np.random.Generator, count: int, unseen: bool) -> NDArray[np.int64]:
        """(count, n) maps, either all held out or none."""
        maps = random.integers(0, self.answers, size=(count, self.letters))
        while (wrong := np.flatnonzero(is_held_out(maps) != unseen)).size:
            maps[wrong] = random.integers(0, self.answers, size=(wrong.size, self.letters))
        return maps

    def sequences(
        self, random: np.random.Generator, count: int, unseen: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(count, T + 1) symbols, and which of the T targets are answers."""
        maps = self.maps(random, count, unseen)
        asked = random.integers(0, self.letters, size=(count, self.pairs))  # with replacement, as in best_possible
        # An even context ends with one more letter, which is not scored.
        rows = np.zeros((count, max(self.context + 1, 2 * self.pairs)), np.int64)
        rows[:, 0 : 2 * self.pairs : 2] = asked
        rows[:, 1 : 2 * self.pairs : 2] = self.letters + np.take_along_axis(maps, asked, axis=1)
        scored = np.zeros((count, self.context), np.bool_)
        scored[:, : 2 * self.pairs : 2] = True
        scored[:, 2 * self.pairs - 1 :] = False
        return rows[:, : self.context + 1], scored

    def draw_batch(self, random: np.random.Generator) -> Batch:
        return as_batch(*self.sequences(random, self.batch, unseen=False))

    def validation_batches(self) -> list[Batch]:
        batches = []
        for number in range(self.validation_count):
            rows, scored = self.sequences(generator(self.seed, "validation", number), self.batch, unseen=True)
            batches += [
                as_batch(rows[i : i + self.at_once], scored[i : i + self.at_once])
                for i in range(0, len(rows), self.at_once)
            ]
        return batches

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """accuracy_k: share of right answers after k examples, k = 0, 1, 2, 4, 8 …, on maps never trained on."""
        right = logits.argmax(-1) == targets  # (B, T)
        return {f"accuracy_{k}": (float(right[:, 2 * k].sum()), len(right)) for k in self.counted}

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
