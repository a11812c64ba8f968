"""Batches of a text with masked tokens: windows and masks are functions of (seed, step) (MATH T10).

The mask changes every time a window is drawn (the original BERT masked its text once); for validation it is fixed, so
that two evaluations of the same weights give the same number. [CLS], [SEP] and [MASK] come after the tokenizer's own V,
so that any tokenizer works. Byte pairs keep the space before a word in the word's own token, so a space before [MASK]
is part of the masked token.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.bert import mask_tokens
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.text_data import (
    NOT_SCORED,
    Batch,
    Tally,
    TextData,
    TokenizedText,
    spread,
    tokenizer_facts,
    windows,
)
from txlab.experiments.loaded_model import Special
from txlab.experiments.randomness import derived_seed, generator
from txlab.experiments.tokenizer_store import fingerprint, tokenizer_for

SPECIAL = ("[CLS]", "[SEP]", "[MASK]")
MASK = SPECIAL[2]


def special_of(tokenizer: Tokenizer) -> Special:
    """[CLS] = V, [SEP] = V + 1, [MASK] = V + 2."""
    begin, end, mask = (tokenizer.vocabulary + n for n in range(3))
    return Special(begin=begin, end=end, mask=mask, names=dict(zip((begin, end, mask), SPECIAL, strict=True)))


def encode_masked(tokenizer: Tokenizer, text: str, most: int | None = None) -> list[int]:
    """[CLS] text [SEP] as ids, with "[MASK]" in the text as that token and at most `most` tokens of text.

    >>> from txlab.engine.tokenizers.elementary import ByteTokenizer
    >>> encode_masked(ByteTokenizer(), "a[MASK]c")
    [256, 97, 258, 99, 257]
    """
    special = special_of(tokenizer)
    assert special.begin is not None
    assert special.end is not None
    assert special.mask is not None
    ids: list[int] = []
    parts = text.split(MASK)
    for number, part in enumerate(parts):
        ids += [special.mask] if number else []
        before_mask = number < len(parts) - 1
        ids += tokenizer.encode(part.removesuffix(" ") if before_mask and takes_space(tokenizer) else part)
    return [special.begin, *ids[:most], special.end]


def takes_space(tokenizer: Tokenizer) -> bool:
    """Whether a word's token begins with the space before it, as byte pairs learn it."""
    return isinstance(tokenizer, BytePairTokenizer)


def label(tokenizer: Tokenizer, token: int) -> str:
    place = token - tokenizer.vocabulary
    return SPECIAL[place] if 0 <= place < len(SPECIAL) else tokenizer.label(token)


def decode_masked(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of ids, with [MASK] in it and without [CLS] and [SEP]."""
    special = special_of(tokenizer)
    parts: list[list[int]] = [[]]
    for token in ids:
        if token == special.mask:
            parts.append([])
        elif token not in special.names:
            parts[-1].append(token)
    return MASK.join(tokenizer.decode(part) for part in parts)


class MaskedData(TextData):
    """Windows [CLS] T − 2 tokens [SEP]; see text_data.TextData for its interface.

    vocabulary  V + 3: the tokenizer's, and [CLS], [SEP], [MASK]

    There are no bytes per token: the loss of some tokens, seen from both sides, is not a code length of the text.
    """

    def __init__(self, scenario: MaskedLanguageModelScenario) -> None:
        started = time.perf_counter()
        train, data = scenario.train, scenario.data
        self.seed, self.share = scenario.seed, data.masked
        self.batch, self.inside = train.batch, scenario.model.context - 2
        self.at_once = train.batch // train.accumulate
        corpus = load_corpus(data.text)
        split = corpus.split(data.validation)
        self.tokenizer = tokenizer_for(data, split.train)
        self.tokenizer_name = data.tokenizer
        self.tokenizer_fingerprint = fingerprint(self.tokenizer)
        self.fingerprint = corpus.fingerprint
        self.special = special_of(self.tokenizer)
        self.vocabulary = self.tokenizer.vocabulary + len(SPECIAL)
        self.text = TokenizedText.of(corpus, split, self.tokenizer, self.inside, f"data.text = {data.text!r}")
        self.starts = spread(len(self.text.validation) + 1, self.inside, train.validation_batches, train.batch)
        beginning = split.validation[: 64 * scenario.probe.positions]
        most = min(scenario.probe.positions, scenario.model.context) - 2
        if most < 1:
            raise LabError(f"probe.positions = {scenario.probe.positions} leaves no token between [CLS] and [SEP]")
        self.probe = encode_masked(self.tokenizer, scenario.probe.text or beginning, most)
        if len(self.probe) < 3:
            raise LabError(f"probe.text = {scenario.probe.text!r} has no token; a probe needs at least 1")
        self.prompts = [self.gaps(prompt) for prompt in scenario.sampling.prompts]
        self.seconds = time.perf_counter() - started

    def gaps(self, prompt: str) -> list[int]:
        """A text with [MASK] as ids. LabError if it has none, or is too long."""
        ids = encode_masked(self.tokenizer, prompt)
        if self.special.mask not in ids:
            raise LabError(f"sampling.prompts has {prompt!r}, in which no {MASK} is to be filled")
        if len(ids) > self.inside + 2:
            raise LabError(
                f"sampling.prompts has {prompt!r}, which is {len(ids)} tokens with [CLS] and [SEP]; "
                f"model.context = {self.inside + 2} is the most"
            )
        return ids

    def hide(self, rows: NDArray[np.int64], purpose: str, number: int) -> Batch:
        """(n, T − 2) tokens → inputs and targets (n, T), with a mask drawn for (seed, purpose, number)."""
        begin, end, mask = self.tokenizer.vocabulary + np.arange(3)
        ids = np.pad(rows, ((0, 0), (1, 1)), constant_values=begin)
        ids[:, -1] = end
        inputs, targets = mask_tokens(
            torch.from_numpy(ids),
            torch.Generator().manual_seed(derived_seed(self.seed, purpose, number)),
            self.share,
            mask_id=int(mask),
            vocabulary=self.tokenizer.vocabulary,
            never=(int(begin), int(end)),
        )
        return Batch(inputs, targets)

    def train_batch(self, step: int) -> Batch:
        tokens = self.text.train
        starts = generator(self.seed, "batch", step).integers(0, len(tokens) - self.inside + 1, size=self.batch)
        return self.hide(windows(tokens, starts, self.inside), "mask", step)

    def validation_batches(self) -> list[Batch]:
        rows = windows(self.text.validation, self.starts, self.inside)
        whole = self.hide(rows, "validation mask", 0)
        return [
            Batch(inputs, targets)
            for inputs, targets in zip(
                torch.split(whole.inputs, self.at_once), torch.split(whole.targets, self.at_once), strict=True
            )
        ]

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """masked_accuracy: share of the scored tokens that are the likeliest."""
        asked = targets != NOT_SCORED
        right = (logits.argmax(-1) == targets) & asked
        return {"masked_accuracy": (float(right.sum()), int(asked.sum()))}

    def label(self, token: int) -> str:
        return label(self.tokenizer, token)

    def decode(self, ids: Sequence[int]) -> str:
        return decode_masked(self.tokenizer, ids)

    def facts(self) -> Mapping[str, Any]:
        return {
            "corpus": {**self.text.facts(), "validation_scored": len(self.starts) * self.inside},
            "tokenizer": tokenizer_facts(self.tokenizer, self.tokenizer_name, self.bytes_per_token, self.seconds),
        }
