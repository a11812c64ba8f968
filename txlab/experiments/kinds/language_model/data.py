"""The data of a language model: a corpus, a mixture of several, or a generated task (MATH K1–K3, T12).

Training windows start at random positions, with replacement, so there is no epoch to save; validation windows are
fixed, evenly spaced, and do not overlap if the text is long enough. `bytes_per_token` is that of exactly the tokens
that validation scores, so bits per byte can be compared with gzip. In a mixture, the text that a sequence comes from is
drawn for whole blocks of steps, so that the use of each text after n steps is counted without drawing n
batches; the validation loss is Σ wᵢ Lᵢ over texts, with each Lᵢ recorded too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from txlab.errors import LabError
from txlab.experiments.corpora import BETWEEN, Corpus, Split, load_corpus, refuse_too_much
from txlab.experiments.kinds.language_model.few_shot import FewShotData
from txlab.experiments.kinds.language_model.symbols import GraphData, InductionData
from txlab.experiments.learning.text_data import (
    Batch,
    TextData,
    TokenizedText,
    as_batch,
    bytes_a_token,
    probe_of,
    prompts_of,
    spread,
    tokenizer_facts,
    windows,
)
from txlab.experiments.randomness import generator
from txlab.experiments.tokenizer_store import fingerprint, tokenizer_for

if TYPE_CHECKING:
    from txlab.experiments.kinds.language_model.schema import LanguageModelScenario, TextOrTask

BLOCK = 1024  # steps whose texts are drawn together


def build_data(scenario: LanguageModelScenario) -> TextData:
    """The data of a scenario, a function of the scenario and corpus. LabError names the fault."""
    if scenario.data.source == "induction":
        return InductionData(scenario)
    if scenario.data.source == "few-shot":
        return FewShotData(scenario)
    if scenario.data.source == "graph":
        return GraphData(scenario)
    if scenario.data.mixture:
        return MixtureData(scenario)
    return CorpusData(scenario, load_corpus(scenario.data.text))


def training_text(data: TextOrTask) -> str:
    """The text that a tokenizer of [data] is learnt from: the training share, or those of all parts of a mixture."""
    if data.mixture:
        return join_parts(read_parts(data))
    return load_corpus(data.text).split(data.validation).train


def validation_text(scenario: LanguageModelScenario) -> str:
    """The validation text: of a mixture that of its largest part, of a generated task one of its sequences."""
    data = scenario.data
    if data.source != "text":
        made = build_data(scenario)
        return made.decode(made.validation_batches()[0].inputs[0].tolist())
    if data.mixture:
        return max(read_parts(data), key=lambda part: part.share).split.validation
    return load_corpus(data.text).split(data.validation).validation


class CorpusData(TextData):
    """A corpus, its tokenizer (saved before, or learnt from the training share alone) and windows of T + 1 tokens."""

    def __init__(self, scenario: LanguageModelScenario, corpus: Corpus) -> None:
        started = time.perf_counter()
        self.seed = scenario.seed
        self.batch, self.context = scenario.train.batch, scenario.model.context
        # A batch that does not fit into memory for training does not fit for validation either.
        self.at_once = scenario.train.batch // scenario.train.accumulate
        self.fingerprint = corpus.fingerprint
        split = corpus.split(scenario.data.validation)
        self.tokenizer = tokenizer_for(scenario.data, split.train)
        self.tokenizer_fingerprint = fingerprint(self.tokenizer)
        self.tokenizer_name = scenario.data.tokenizer
        self.vocabulary = self.tokenizer.vocabulary
        place = f"data.text = {scenario.data.text!r}"
        self.text = TokenizedText.of(corpus, split, self.tokenizer, self.context + 1, place)
        self.train, self.validation = self.text.train, self.text.validation
        self.validation_starts = spread(
            len(self.validation), self.context, scenario.train.validation_batches, self.batch
        )
        self.bytes_per_token = bytes_a_token(
            self.tokenizer, self.windows(self.validation, self.validation_starts)[:, 1:]
        )
        self.probe = probe_of(scenario.probe, self.tokenizer, split.validation, scenario.model.reach)
        self.prompts = prompts_of(scenario.sampling.prompts, self.tokenizer)
        self.seconds = time.perf_counter() - started

    def windows(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, T + 1): the tokens from each start onwards."""
        return windows(tokens, starts, self.context + 1)

    def train_batch(self, step: int) -> Batch:
        random = generator(self.seed, "batch", step)
        starts = random.integers(0, len(self.train) - self.context, size=self.batch)
        return as_batch(self.windows(self.train, starts))

    def validation_batches(self) -> list[Batch]:
        rows = self.windows(self.validation, self.validation_starts)
        return [as_batch(rows[i : i + self.at_once]) for i in range(0, len(rows), self.at_once)]

    def facts(self) -> Mapping[str, Any]:
        scored = len(self.validation_starts) * self.context
        return {
            "corpus": {**self.text.facts(), "validation_scored": scored},
            "tokenizer": tokenizer_facts(self.tokenizer, self.tokenizer_name, self.bytes_per_token, self.seconds),
        }


# Mixtures


@dataclass(frozen=True)
class ReadPart:
    """A text of the mixture; `share` is its weight over the sum of all weights."""

    name: str
    share: float
    corpus: Corpus
    split: Split


def read_parts(data: TextOrTask) -> list[ReadPart]:
    """Read the texts of data.mixture. LabError names one that cannot be read."""
    total = sum(part.weight for part in data.mixture)
    names = part_names([part.name or part.text for part in data.mixture])
    whole, taken = dict[str, Corpus](), dict[str, int]()
    corpora = []
    for number, part in enumerate(data.mixture):
        place = f"data.mixture[{number}].text ="
        if part.text not in whole:
            whole[part.text] = load_corpus(part.text, place)
        begin = taken.get(part.text, 0)
        corpora.append(piece(whole[part.text], begin, part.size, f"data.mixture[{number}].size ="))
        taken[part.text] = begin + part.size
        refuse_too_much(corpora, place)
    return [
        ReadPart(name, part.weight / total, corpus, corpus.split(data.validation))
        for name, part, corpus in zip(names, data.mixture, corpora, strict=True)
    ]


def piece(corpus: Corpus, begin: int, size: int, where: str) -> Corpus:
    """`size` characters of a text, from `begin`; all of it if 0. LabError if there are not so many."""
    if not size:
        return corpus
    text = corpus.text[begin : begin + size]
    if len(text) < size:
        raise LabError(
            f"{where} {size} is more than is left of {corpus.name!r}: {max(0, len(corpus.text) - begin)} characters"
        )
    return Corpus(corpus.name, [corpus.name], [text])


def part_names(texts: Sequence[str]) -> list[str]:
    """A short, unique name per text, for metrics.

    >>> part_names(["python-docs", "/home/ann/notes.txt", "/home/bob/notes.txt"])
    ['python-docs', 'notes', 'notes-2']
    """
    names: list[str] = []
    for text in texts:
        last = text.rstrip("/").rpartition("/")[2]
        plain = re.sub(r"[^\w.-]+", "-", last.rpartition(".")[0] or last).strip("-.")[:40] or "text"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return names


def join_parts(parts: Sequence[ReadPart]) -> str:
    """The text that a tokenizer is learnt from."""
    return BETWEEN.join(part.split.train for part in parts)


class MixtureData(TextData):
    """Windows of T + 1 tokens of several texts; with weights wᵢ a sequence comes from text i with probability wᵢ."""

    def __init__(self, scenario: LanguageModelScenario) -> None:
        started = time.perf_counter()
        train = scenario.train
        self.seed, self.batch, self.context = scenario.seed, train.batch, scenario.model.context
        self.at_once = train.batch // train.accumulate
        parts = read_parts(scenario.data)
        self.names = [part.name for part in parts]
        self.shares = np.array([part.share for part in parts])
        self.tokenizer = tokenizer_for(scenario.data, join_parts(parts))
        self.tokenizer_fingerprint = fingerprint(self.tokenizer)
        self.tokenizer_name, self.vocabulary = scenario.data.tokenizer, self.tokenizer.vocabulary
        self.texts = [
            TokenizedText.of(part.corpus, part.split, self.tokenizer, self.context + 1, f"data.mixture[{n}].text")
            for n, part in enumerate(parts)
        ]
        named = "\n".join(f"{part.share!r} {part.corpus.fingerprint}" for part in parts)
        self.fingerprint = sha256(named.encode()).hexdigest()
        self.starts = [
            spread(len(text.validation), self.context, train.validation_batches, train.batch) for text in self.texts
        ]
        per_token = [
            bytes_a_token(self.tokenizer, windows(text.validation, starts, self.context + 1)[:, 1:])
            for text, starts in zip(self.texts, self.starts, strict=True)
        ]
        self.bytes_per_token = float(self.shares @ np.array(per_token))  # weighted, like the validation loss
        first = max(parts, key=lambda part: part.share)
        self.probe = probe_of(scenario.probe, self.tokenizer, first.split.validation, scenario.model.reach)
        self.prompts = prompts_of(scenario.sampling.prompts, self.tokenizer)
        self.drawn: tuple[int, NDArray[np.int64]] = (-1, np.zeros((0, 0), np.int64))
        self.seconds = time.perf_counter() - started

    def sources(self, block: int) -> NDArray[np.int64]:
        """(BLOCK, B): which text each sequence of these steps comes from."""
        if self.drawn[0] != block:
            random = generator(self.seed, "sources", block)
            self.drawn = block, random.choice(len(self.shares), size=(BLOCK, self.batch), p=self.shares)
        return self.drawn[1]

    def train_batch(self, step: int) -> Batch:
        sources = self.sources(step // BLOCK)[step % BLOCK]
        places = generator(self.seed, "batch", step).random(self.batch)
        rows = np.empty((self.batch, self.context + 1), np.int64)
        for number, text in enumerate(self.texts):
            chosen = np.flatnonzero(sources == number)
            starts = (places[chosen] * (len(text.train) - self.context)).astype(np.int64)
            rows[chosen] = windows(text.train, starts, self.context + 1)
        return as_batch(rows)

    def validation_batches(self) -> list[Batch]:
        """Equally many batches of each text, weighted so that the mean over all is Σ wᵢ Lᵢ."""
        batches = []
        for name, share, text, starts in zip(self.names, self.shares, self.texts, self.starts, strict=True):
            rows = windows(text.validation, starts, self.context + 1)
            for i in range(0, len(rows), self.at_once):
                batch = as_batch(rows[i : i + self.at_once])
                batches.append(Batch(batch.inputs, batch.targets, float(share) / len(rows), name))
        return batches

    def sequences_drawn(self, updates: int) -> NDArray[np.int64]:
        """The number of sequences drawn from each text in the first `updates` steps."""
        counts = np.zeros(len(self.texts), np.int64)
        for block in range(-(-updates // BLOCK)):
            upto = self.sources(block)[: updates - block * BLOCK]
            counts += np.bincount(upto.flatten(), minlength=len(counts))
        return counts

    def progress(self, updates: int) -> Mapping[str, float]:
        """epochs/<name>: tokens drawn from a text, divided by the tokens in its training share."""
        drawn = self.sequences_drawn(updates) * self.context
        return {
            f"epochs/{name}": float(tokens) / len(text.train)
            for name, tokens, text in zip(self.names, drawn, self.texts, strict=True)
        }

    def facts(self) -> Mapping[str, Any]:
        parts: list[Mapping[str, Any]] = [
            {**text.facts(), "name": name, "share": float(share), "validation_scored": len(starts) * self.context}
            for name, share, text, starts in zip(self.names, self.shares, self.texts, self.starts, strict=True)
        ]
        sums = ["documents", "left_out", "bytes", "train_bytes", "train_tokens", "validation_bytes"]
        sums += ["validation_tokens", "validation_scored"]
        return {
            "corpus": {
                "name": " + ".join(self.names),
                "fingerprint": self.fingerprint,
                **{key: sum(part[key] for part in parts) for key in sums},
                "parts": parts,
            },
            "tokenizer": tokenizer_facts(self.tokenizer, self.tokenizer_name, self.bytes_per_token, self.seconds),
        }
