"""Training a byte pair encoding as an experiment: one merge is one step, and merges can be taken back (MATH K2).

It is stepped by a live source (sources/live.py), or like any other Experiment. Its frame has the merges so far, how
often each pair was found, the candidates for the next merge, and the length of the text in tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.patterns import cut
from txlab.engine.tokenizers.training import Trainer, count_chunks
from txlab.experiments.protocol import Adjustable, Frame, Metrics, Sample, State

NEXT = 64  # candidates for the next merge in a frame
PART = 1 << 17  # characters counted between two progress reports
LARGEST_VOCABULARY = 200_000


@dataclass(frozen=True)
class TrainingRecipe:
    """The settings and the text: `corpus` is the name of a corpus or a path; "" if the text itself is given."""

    corpus: str = "python-docs"
    pattern: str = "gpt4"
    vocabulary: int = 1024


class TokenizerTraining:
    """An Experiment: `step` merges the most frequent pair, until the vocabulary is full or no pair occurs twice."""

    def __init__(
        self, recipe: TrainingRecipe, text: str, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Count the chunks of the text, before the first merge; `progress` is called with (characters done, total)."""
        self.recipe, self.text, self.vocabulary = recipe, text, recipe.vocabulary
        self.size = len(text.encode())
        chunks: Counter[bytes] = Counter()
        counted = 0
        for part in cut(text, recipe.pattern, PART):
            progress(counted, len(text))
            chunks += count_chunks([part], recipe.pattern)
            counted += len(part)
        self.trainer = Trainer(chunks)
        self.over = False  # True once no pair occurs twice

    @property
    def step_count(self) -> int:
        return len(self.trainer.merges)

    @property
    def steps(self) -> int:
        """Merges up to the vocabulary asked for, or those made so far if no further one is possible."""
        return self.step_count if self.over else max(0, self.vocabulary - self.trainer.first)

    def step(self) -> Metrics:
        merge = self.trainer.step()
        self.over = merge is None
        return {} if merge is None else {"pair_count": merge.count, "tokens": self.trainer.length()}

    def back(self, merges: int = 1) -> None:
        """Undo the last merges."""
        for _ in range(min(merges, self.step_count)):
            self.trainer.back()
            self.over = False

    def verify(self) -> None:
        """Do nothing: every step is computed immediately."""

    def evaluate(self) -> Metrics:
        return {"tokens": self.trainer.length(), "bytes_per_token": self.size / max(1, self.trainer.length())}

    def frame(self) -> Frame:
        """merges (M, 2): their pairs; counts (M): how often each was found; lengths (M+1): tokens of the text after
        0, 1, … merges; next (R, 3): the pairs that could be merged now with their counts, the next merge first."""
        trainer = self.trainer
        following = [(*pair, count) for pair, count in trainer.runners_up(NEXT)]
        return Frame(
            self.step_count,
            {
                "merges": np.array([merge.pair for merge in trainer.merges], np.int64).reshape(-1, 2),
                "counts": np.array([merge.count for merge in trainer.merges], np.int64),
                "lengths": np.array(trainer.lengths, np.int64),
                "next": np.array(following, np.int64).reshape(-1, 3),
            },
            facts={**self.facts(), "vocabulary": self.vocabulary},
        )

    def samples(self) -> Sequence[Sample]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        return {"corpus": self.recipe.corpus, "pattern": self.recipe.pattern, "bytes": self.size}

    def adjustable(self) -> Mapping[str, Adjustable]:
        """The vocabulary at which it ends, the 256 bytes included."""
        least = self.trainer.first + 1
        return {"vocabulary": Adjustable("vocabulary", self.vocabulary, least, LARGEST_VOCABULARY, "tokens")}

    def adjust(self, name: str, value: float) -> None:
        self.vocabulary = int(value)

    def state_dict(self) -> State:
        return {"merges": self.step_count, "vocabulary": self.vocabulary}

    def load_state_dict(self, state: State) -> None:
        """Restore the merges, which follow from the text and their number."""
        self.back(self.step_count - state["merges"])
        while self.step_count < state["merges"] and not self.over:
            self.step()
        self.vocabulary = state["vocabulary"]


def tokenizer_of_frame(frame: Frame) -> BytePairTokenizer:
    """The encoding that was learnt when the frame was taken."""
    pairs = [(left, right) for left, right in np.asarray(frame.tensors["merges"]).tolist()]
    return BytePairTokenizer(pairs, frame.facts["pattern"], counts=np.asarray(frame.tensors["counts"]).tolist())
