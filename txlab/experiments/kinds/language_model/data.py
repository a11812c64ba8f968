"""What a language model learns from, as batches: a batch is a pure function of (seed, step) (MATH K1–K3).

Notable: training windows are drawn at random places, with replacement, so there is no epoch to remember; validation
windows are fixed, evenly spread, and do not overlap where the text is long enough. `bytes_per_token` is that of
exactly the tokens that validation scores, so bits per byte is what those bytes cost and can be set beside gzip.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.experiments.corpora import Corpus, load_corpus
from txlab.experiments.kinds.language_model.batch import NOT_SCORED, Batch, Tally, as_batch
from txlab.experiments.kinds.language_model.few_shot import FewShotData
from txlab.experiments.kinds.language_model.graph import GraphData
from txlab.experiments.kinds.language_model.induction import InductionData
from txlab.experiments.kinds.language_model.tokenized import (
    TokenizedText,
    bytes_a_token,
    probe_of,
    prompts_of,
    spread,
    windows,
)
from txlab.experiments.kinds.language_model.trained_tokenizers import tokenizer_for
from txlab.experiments.randomness import generator
from txlab.experiments.tokenizer_store import fingerprint, kind_of

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.experiments.kinds.language_model.schema import Data as DataSection
    from txlab.experiments.kinds.language_model.schema import LanguageModelScenario

__all__ = ["NOT_SCORED", "Batch", "Data", "TextData", "build_data", "spread"]


class Data(Protocol):
    """What the experiment asks of its data.

    vocabulary             V
    tokenizer              turns a prompt into ids and back
    fingerprint            names the data; a checkpoint of other data is refused
    tokenizer_fingerprint  names the tokenizer; a checkpoint of another one is refused
    bytes_per_token        of the validation tokens; nan where tokens are not made of bytes
    probe                  ids of the text whose attention is shown
    prompts                ids of each prompt of the scenario, in its order
    """

    vocabulary: int
    fingerprint: str
    tokenizer_fingerprint: str
    bytes_per_token: float
    probe: list[int]
    prompts: list[list[int]]

    @property
    def tokenizer(self) -> Tokenizer: ...

    def train_batch(self, step: int) -> Batch: ...

    def validation_batches(self) -> list[Batch]: ...

    def label(self, token: int) -> str: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """What validation sequences say beside their loss: (sum, count) by name of a metric."""

    def progress(self, updates: int) -> Mapping[str, float]:
        """What can be said of the data after so many updates, e.g. epochs had; a pure function, like the batches."""

    def facts(self) -> Mapping[str, Any]: ...


def build_data(scenario: LanguageModelScenario) -> Data:
    """The data of a scenario; the same for the same scenario and corpus. LabError names what is wrong with it."""
    if scenario.data.source == "induction":
        return InductionData(scenario)
    if scenario.data.source == "few-shot":
        return FewShotData(scenario)
    if scenario.data.source == "graph":
        return GraphData(scenario)
    if scenario.data.mixture:
        from txlab.experiments.kinds.language_model.mixture import MixtureData

        return MixtureData(scenario)
    return TextData(scenario, load_corpus(scenario.data.text))


def training_text(data: DataSection) -> str:
    """The text that a tokenizer of [data] is learnt from: the training share, of a mixture those of all parts."""
    if data.mixture:
        from txlab.experiments.kinds.language_model.mixture import joined, read_parts

        return joined(read_parts(data))
    return load_corpus(data.text).split(data.validation).train


class TextData:
    """A corpus, its tokenizer (saved before, or learnt from the training share alone) and windows of T + 1 tokens."""

    def __init__(self, scenario: LanguageModelScenario, corpus: Corpus) -> None:
        started = time.perf_counter()
        self.seed = scenario.seed
        self.batch, self.context = scenario.train.batch, scenario.model.context
        # What does not fit into memory as one batch to learn from does not fit as one to be tested on either.
        self.at_once = scenario.train.batch // scenario.train.accumulate
        self.fingerprint = corpus.fingerprint
        split = corpus.split(scenario.data.validation)
        self.tokenizer: Tokenizer = tokenizer_for(scenario.data, split.train)
        self.tokenizer_fingerprint = fingerprint(self.tokenizer)
        self.tokenizer_name = scenario.data.tokenizer
        self.vocabulary = self.tokenizer.vocabulary
        said = f"data.text = {scenario.data.text!r}"
        self.text = TokenizedText.of(corpus, split, self.tokenizer, self.context + 1, said)
        self.train, self.validation = self.text.train, self.text.validation
        self.validation_starts = spread(
            len(self.validation), self.context, scenario.train.validation_batches, self.batch
        )
        self.bytes_per_token = bytes_a_token(
            self.tokenizer, self.windows(self.validation, self.validation_starts)[:, 1:]
        )
        self.probe = probe_of(scenario.look, self.tokenizer, split.validation, self.context)
        self.prompts = prompts_of(scenario.sampling.prompts, self.tokenizer)
        self.seconds = time.perf_counter() - started

    def windows(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, T + 1): the tokens from each start on."""
        return windows(tokens, starts, self.context + 1)

    def train_batch(self, step: int) -> Batch:
        random = generator(self.seed, "batch", step)
        starts = random.integers(0, len(self.train) - self.context, size=self.batch)
        return as_batch(self.windows(self.train, starts))

    def validation_batches(self) -> list[Batch]:
        rows = self.windows(self.validation, self.validation_starts)
        return [as_batch(rows[i : i + self.at_once]) for i in range(0, len(rows), self.at_once)]

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        return {}

    def progress(self, updates: int) -> Mapping[str, float]:
        return {}

    def label(self, token: int) -> str:
        return self.tokenizer.label(token)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def facts(self) -> Mapping[str, Any]:
        scored = len(self.validation_starts) * self.context
        return {
            "corpus": {**self.text.facts(), "validation_scored": scored},
            "tokenizer": tokenizer_facts(self.tokenizer, self.tokenizer_name, self.bytes_per_token, self.seconds),
        }


def tokenizer_facts(tokenizer: Tokenizer, name: str, bytes_per_token: float, seconds: float) -> Mapping[str, Any]:
    """What run.json says about a tokenizer; `seconds`: what reading the text took."""
    return {
        "kind": kind_of(tokenizer),
        "name": name,
        "fingerprint": fingerprint(tokenizer),
        "vocabulary": tokenizer.vocabulary,
        "bytes_per_token": bytes_per_token if isfinite(bytes_per_token) else None,
        "seconds": seconds,
    }
