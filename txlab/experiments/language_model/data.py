"""What a language model learns from, as batches: a batch is a pure function of (seed, step) (MATH K1–K3).

Notable: training windows are drawn at random places, with replacement, so there is no epoch to remember; validation
windows are fixed, evenly spread, and do not overlap where the text is long enough. `bytes_per_token` is that of
exactly the tokens that validation scores, so bits per byte is what those bytes cost and can be set beside gzip.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.foreign import ForeignTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.experiments.corpora import Corpus, load_corpus
from txlab.experiments.language_model.batch import NOT_SCORED, Batch, as_batch
from txlab.experiments.language_model.induction import InductionData
from txlab.experiments.language_model.trained_tokenizers import tokenizer_for
from txlab.experiments.randomness import generator
from txlab.experiments.shelf import fingerprint, kind_of

if TYPE_CHECKING:
    from txlab.experiments.language_model.schema import LanguageModelScenario

__all__ = ["NOT_SCORED", "Batch", "Data", "TextData", "build_data"]


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

    def facts(self) -> Mapping[str, Any]: ...


def build_data(scenario: LanguageModelScenario) -> Data:
    """The data of a scenario; the same for the same scenario and corpus. LabError names what is wrong with it."""
    if scenario.data.source == "induction":
        return InductionData(scenario)
    return TextData(scenario, load_corpus(scenario.data.text))


class TextData:
    """A corpus, its tokenizer (saved before, or learnt from the training share alone) and windows of T + 1 tokens."""

    def __init__(self, scenario: LanguageModelScenario, corpus: Corpus) -> None:
        started = time.perf_counter()
        self.seed = scenario.seed
        self.batch, self.context = scenario.train.batch, scenario.model.context
        # What does not fit into memory as one batch to learn from does not fit as one to be tested on either.
        self.at_once = scenario.train.batch // scenario.train.accumulate
        self.corpus = corpus
        self.fingerprint = corpus.fingerprint
        split = corpus.split(scenario.data.validation)
        self.boundary = split.boundary
        self.tokenizer: Tokenizer = tokenizer_for(scenario.data, split.train)
        self.tokenizer_fingerprint = fingerprint(self.tokenizer)
        self.tokenizer_name = scenario.data.tokenizer
        self.vocabulary = self.tokenizer.vocabulary
        self.train = packed(self.tokenizer.encode_long(split.train), self.vocabulary)
        self.validation = packed(self.tokenizer.encode_long(split.validation), self.vocabulary)
        for share, tokens in (("training", self.train), ("validation", self.validation)):
            if len(tokens) <= self.context:
                raise LabError(
                    f"data.text = {scenario.data.text!r} is too short: its {share} share has {len(tokens)} tokens and "
                    f"model.context = {self.context} needs at least {self.context + 1}; give a longer text or a "
                    "smaller context"
                )
        self.train_bytes = len(split.train.encode())
        self.validation_bytes = len(split.validation.encode())
        self.validation_starts = spread(
            len(self.validation), self.context, scenario.train.validation_batches, self.batch
        )
        scored = self.windows(self.validation, self.validation_starts)[:, 1:]
        # One of a library may drop cases or accents: what it decodes are not the bytes that were there.
        self.bytes_per_token = nan
        if not isinstance(self.tokenizer, ForeignTokenizer):
            self.bytes_per_token = len(self.tokenizer.decode_bytes(scored.flatten().tolist())) / scored.size
        look = scenario.look
        beginning = split.validation[: 64 * look.positions]  # enough: no token of the probe is that long on average
        self.probe = self.tokenizer.encode(look.text or beginning)[: min(look.positions, self.context)]
        if len(self.probe) < 2:
            raise LabError(f"look.text = {look.text!r} has {len(self.probe)} token; a probe needs at least 2")
        self.prompts = [self.tokenizer.encode(prompt) for prompt in scenario.sampling.prompts]
        for prompt, ids in zip(scenario.sampling.prompts, self.prompts, strict=True):
            if not ids:
                raise LabError(f"sampling.prompts has {prompt!r}, which has no token to begin with")
        self.seconds = time.perf_counter() - started

    def windows(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, T + 1): the tokens from each start on."""
        windows: NDArray[np.int64] = tokens[starts[:, None] + np.arange(self.context + 1)].astype(np.int64)
        return windows

    def train_batch(self, step: int) -> Batch:
        random = generator(self.seed, "batch", step)
        starts = random.integers(0, len(self.train) - self.context, size=self.batch)
        return as_batch(self.windows(self.train, starts))

    def validation_batches(self) -> list[Batch]:
        windows = self.windows(self.validation, self.validation_starts)
        return [as_batch(windows[i : i + self.at_once]) for i in range(0, len(windows), self.at_once)]

    def label(self, token: int) -> str:
        return self.tokenizer.label(token)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def facts(self) -> Mapping[str, Any]:
        return {
            "corpus": {
                "name": self.corpus.name,
                "fingerprint": self.fingerprint,
                "documents": len(self.corpus.documents),
                "left_out": self.corpus.left_out,
                "bytes": self.corpus.size,
                "train_bytes": self.train_bytes,
                "train_tokens": len(self.train),
                "validation_bytes": self.validation_bytes,
                "validation_tokens": len(self.validation),
                "validation_cut": self.boundary,
                "validation_scored": len(self.validation_starts) * self.context,
            },
            "tokenizer": {
                "kind": kind_of(self.tokenizer),
                "name": self.tokenizer_name,
                "fingerprint": self.tokenizer_fingerprint,
                "vocabulary": self.vocabulary,
                "bytes_per_token": self.bytes_per_token if isfinite(self.bytes_per_token) else None,
                "seconds": self.seconds,
            },
        }


def packed(ids: NDArray[np.uint32], vocabulary: int) -> NDArray[Any]:
    """Two bytes a token where they suffice."""
    return ids.astype(np.uint16) if vocabulary <= 1 << 16 else ids


def spread(length: int, context: int, batches: int, batch: int) -> NDArray[np.int64]:
    """Where the validation windows start: evenly over the text, and never so many that a token is scored twice.

    Whole batches, unless the text does not fill even one.

    >>> spread(100, 10, batches=3, batch=1).tolist()
    [0, 44, 89]
    """
    fitting = (length - 1) // context
    count = min(batches, fitting // batch) * batch or fitting
    return np.linspace(0, length - context - 1, count).astype(np.int64)
