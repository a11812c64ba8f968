"""Training and test batches for translation, as functions of (seed, step) (MATH K1, T8).

Notable: pairs are sorted by length and cut into strata; a step draws one pair, and fills its batch from that pair's
stratum. So every pair is equally likely, a batch needs little padding (4 to 6 % of its tokens instead of a third),
and no state is kept between steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError
from txlab.experiments.kinds.translation import dates, language
from txlab.experiments.kinds.translation.pairs import HELD_OUT, Pair, split_pairs
from txlab.experiments.kinds.translation.schema import PairScenario
from txlab.experiments.kinds.translation.tokens import END, PAD, START, tokenizers_for
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.experiments.randomness import generator
from txlab.experiments.tokenizer_store import fingerprint

if TYPE_CHECKING:
    import torch

    from txlab.engine.transformer.masks import Mask

STRATA = 8  # at most; each has at least eight batches
RULES = 1  # incremented when the same scenario would give other pairs
Ids = tuple[list[int], list[int]]
MAKERS = {"language": language.pair, "dates": dates.pair}


@dataclass(frozen=True)
class PairBatch:
    """source (B, S), ending with the end token, then padding; `lengths` has the length of each.

    inputs (B, T) begin with the start token; targets (B, T), the token that follows each input, the last of them the
    end token, −100 where there is only padding.
    """

    source: torch.Tensor
    lengths: tuple[int, ...]
    inputs: torch.Tensor
    targets: torch.Tensor

    @property
    def source_mask(self) -> Mask:
        """The padding mask of the sources; nothing is masked if there is no padding. A part of a batch is as wide as
        the whole, so that all of its sources may have padding behind them."""
        from txlab.engine.transformer.masks import NO_MASK, Padding

        return NO_MASK if min(self.lengths) == self.source.shape[1] else Padding(self.lengths)

    @property
    def scored(self) -> int:
        """The number of targets that count."""
        return int((self.targets != NOT_SCORED).sum())

    def part(self, first: int, after: int) -> PairBatch:
        """The pairs first … after − 1 as a batch."""
        rows = slice(first, after)
        return PairBatch(self.source[rows], self.lengths[rows], self.inputs[rows], self.targets[rows])

    def of(self, rows: torch.Tensor) -> PairBatch:
        """The pairs of these consecutive rows (at least one) as a batch: the part of one thread."""
        return self.part(int(rows[0]), int(rows[-1]) + 1)

    def to(self, device: torch.device) -> PairBatch:
        """Move to the device; to a GPU from pinned memory, or the copy would wait for running kernels."""
        source, inputs, targets = self.source, self.inputs, self.targets
        if device.type == "cuda":
            source, inputs, targets = source.pin_memory(), inputs.pin_memory(), targets.pin_memory()
        late = device.type == "cuda"
        return PairBatch(
            source.to(device, non_blocking=late),
            self.lengths,
            inputs.to(device, non_blocking=late),
            targets.to(device, non_blocking=late),
        )


def pad(rows: Sequence[Sequence[int]], filler: int) -> NDArray[np.int64]:
    """Rows of different lengths as one array, as wide as the longest."""
    table = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table


def as_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> PairBatch:
    """Pairs of ids without special tokens → a batch.

    >>> batch = as_batch([([5, 6], [7]), ([5], [8, 9])])
    >>> batch.source.tolist(), batch.inputs.tolist(), batch.targets.tolist()
    ([[5, 6, 2], [5, 2, 0]], [[1, 7, 0], [1, 8, 9]], [[7, 2, -100], [8, 9, 2]])
    """
    import torch

    sources = [[*source, END] for source, _ in pairs]
    return PairBatch(
        torch.from_numpy(pad(sources, PAD)),
        tuple(map(len, sources)),
        torch.from_numpy(pad([[START, *target] for _, target in pairs], PAD)),
        torch.from_numpy(pad([[*target, END] for _, target in pairs], NOT_SCORED)),
    )


class PairData:
    """Generated pairs for training and testing, as ids."""

    def __init__(self, scenario: PairScenario) -> None:
        began = time.perf_counter()
        train, data = scenario.train, scenario.data
        self.seed, self.batch, self.task = scenario.seed, train.batch, data.task
        self.at_once = train.batch // train.accumulate
        self.source_tokenizer, self.target_tokenizer = tokenizers_for(data.task, scenario.model.shared)
        learnt, tested = split_pairs(
            MAKERS[data.task], scenario.seed, data.pairs, train.validation_batches * train.batch
        )
        self.fingerprint = fingerprint_of(learnt, tested)
        self.tokenizer_fingerprint = "/".join(map(fingerprint, (self.source_tokenizer, self.target_tokenizer)))
        self.train = sorted(map(self.ids, learnt), key=lengths)
        self.unseen = list(map(self.ids, tested))
        self.longest = 1 + max(max(lengths(pair)) for pair in self.train + self.unseen)  # with start or end token
        if self.longest > scenario.model.context:
            raise LabError(
                f"model.context = {scenario.model.context} is too short: the longest of these pairs has "
                f"{self.longest} tokens; at least {self.longest}"
            )
        self.strata = max(1, min(STRATA, len(self.train) // (8 * train.batch)))
        self.source_tokens, self.target_tokens = (
            sum(1 + lengths(pair)[side] for pair in self.train) / len(self.train) for side in (0, 1)
        )
        self.probe = self.unseen[0]
        if scenario.probe.source:
            self.probe = (
                self.source_tokenizer.encode(scenario.probe.source),
                self.target_tokenizer.encode(scenario.probe.target),
            )
        self.asked = [self.source_tokenizer.encode(text) for text in scenario.sampling.sources]
        for name, ids in (
            ("probe.source", self.probe[0]),
            ("probe.target", self.probe[1]),
            *(("sampling.sources", ids) for ids in self.asked),
        ):
            if not 1 <= len(ids) < scenario.model.context:
                raise LabError(f"{name} has {len(ids)} tokens; allowed: 1 … {scenario.model.context - 1}")
        self.seconds = time.perf_counter() - began

    def ids(self, pair: Pair) -> Ids:
        return self.source_tokenizer.ids(pair.source), self.target_tokenizer.ids(pair.target)

    def train_batch(self, step: int) -> PairBatch:
        random = generator(self.seed, "batch", step)
        count = len(self.train)
        stratum = int(random.integers(count)) * self.strata // count
        low, high = -(-stratum * count // self.strata), -(-(stratum + 1) * count // self.strata)
        return as_batch([self.train[i] for i in random.integers(low, high, size=self.batch).tolist()])

    def validation_batches(self) -> list[PairBatch]:
        """The unseen pairs, the shortest first."""
        pairs = sorted(self.unseen, key=lengths)
        return [as_batch(pairs[i : i + self.at_once]) for i in range(0, len(pairs), self.at_once)]

    def facts(self) -> Mapping[str, Any]:
        formats = {"formats": list(dates.FORMATS)} if self.task == "dates" else {}
        return {
            "corpus": {
                "name": self.task,
                "fingerprint": self.fingerprint,
                "pairs": len(self.train),
                "unseen_pairs": len(self.unseen),
                "held_out": HELD_OUT,
                "source_tokens": self.source_tokens,
                "target_tokens": self.target_tokens,
                **formats,
            },
            "tokenizer": {
                "kind": self.target_tokenizer.kind,
                "fingerprint": self.tokenizer_fingerprint,
                "vocabulary": self.target_tokenizer.vocabulary,
                "source_vocabulary": self.source_tokenizer.vocabulary,
                "seconds": self.seconds,
            },
        }


def lengths(pair: tuple[Sequence[int], Sequence[int]]) -> tuple[int, int]:
    return len(pair[0]), len(pair[1])


def fingerprint_of(learnt: Sequence[Pair], tested: Sequence[Pair]) -> str:
    """A digest of the pairs, however they were made."""
    digest = sha256(b"%d/%d/" % (RULES, len(learnt)))
    for pair in (*learnt, *tested):
        digest.update("\x1f".join((*pair.source, "\x1e", *pair.target, "\x1d")).encode())
    return digest.hexdigest()
