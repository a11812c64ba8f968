"""What a translation learns from and is tested on, as batches: a batch is a pure function of (seed, step).

Notable: pairs are sorted by length and cut into strata; a step draws one pair, and fills its batch from that pair's
stratum. So every pair is equally likely, a batch needs little padding (4 to 6 % of its tokens instead of a third),
and there is still nothing to remember from step to step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from txlab.errors import LabError
from txlab.experiments.kinds.translation import dates, language
from txlab.experiments.kinds.translation.batch import Batch, as_batch
from txlab.experiments.kinds.translation.pairs import HELD_OUT, Pair, split_pairs
from txlab.experiments.kinds.translation.schema import Data, TranslationScenario
from txlab.experiments.kinds.translation.symbols import SymbolTokenizer
from txlab.experiments.randomness import generator
from txlab.experiments.tokenizer_store import fingerprint

STRATA = 8  # at most; each has at least eight batches
RULES = 1  # goes up when the same scenario would make other pairs
Ids = tuple[list[int], list[int]]
MAKERS = {"language": language.pair, "dates": dates.pair}


def tokenizers_for(data: Data, shared: bool) -> tuple[SymbolTokenizer, SymbolTokenizer]:
    """Of source and target; one and the same if they share a table. They follow from the task alone."""
    spaced = data.task == "language"
    source = language.english_words() if spaced else dates.source_characters()
    target = language.veshal_tokens() if spaced else dates.target_characters()
    if shared:
        both = SymbolTokenizer((*source, *(symbol for symbol in target if symbol not in set(source))), spaced)
        return both, both
    return SymbolTokenizer(source, spaced), SymbolTokenizer(target, spaced)


class PairData:
    """Generated pairs, those to learn from and those to be tested on, as ids."""

    def __init__(self, scenario: TranslationScenario) -> None:
        began = time.perf_counter()
        train, data = scenario.train, scenario.data
        self.seed, self.batch, self.task = scenario.seed, train.batch, data.task
        self.at_once = train.batch // train.accumulate
        self.source_tokenizer, self.target_tokenizer = tokenizers_for(data, scenario.model.shared)
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
        if scenario.look.source:
            self.probe = (
                self.source_tokenizer.encode(scenario.look.source),
                self.target_tokenizer.encode(scenario.look.target),
            )
        self.asked = [self.source_tokenizer.encode(text) for text in scenario.sampling.sources]
        for name, ids in (
            ("look.source", self.probe[0]),
            ("look.target", self.probe[1]),
            *(("sampling.sources", ids) for ids in self.asked),
        ):
            if not 1 <= len(ids) < scenario.model.context:
                raise LabError(f"{name} has {len(ids)} tokens; allowed: 1 … {scenario.model.context - 1}")
        self.seconds = time.perf_counter() - began

    def ids(self, pair: Pair) -> Ids:
        return self.source_tokenizer.ids(pair.source), self.target_tokenizer.ids(pair.target)

    def train_batch(self, step: int) -> Batch:
        random = generator(self.seed, "batch", step)
        count = len(self.train)
        stratum = int(random.integers(count)) * self.strata // count
        low, high = -(-stratum * count // self.strata), -(-(stratum + 1) * count // self.strata)
        return as_batch([self.train[i] for i in random.integers(low, high, size=self.batch).tolist()])

    def validation_batches(self) -> list[Batch]:
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
    """Names the pairs, whatever made them."""
    digest = sha256(b"%d/%d/" % (RULES, len(learnt)))
    for pair in (*learnt, *tested):
        digest.update("\x1f".join((*pair.source, "\x1e", *pair.target, "\x1d")).encode())
    return digest.hexdigest()
