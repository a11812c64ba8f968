"""Translations that a model writes alone, many at once, and what would have been right (MATH T8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.beam import beam_search
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.generation import generate_target
from txlab.experiments.kinds.language_model.batch import NOT_SCORED
from txlab.experiments.kinds.translation.batch import Batch
from txlab.experiments.kinds.translation.symbols import END, PAD, START

NEVER = (PAD, START)  # ids that no translation has


@dataclass(frozen=True)
class Writing:
    """How it is written: at most `longest` tokens, the end token among them."""

    longest: int
    kernel: Kernel
    dtype: torch.dtype

    def greedy(self, model: EncoderDecoder, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Of each source (which ends with its end token) the translation, without end token."""
        with self.autocast(model):
            written = generate_target(
                model, sources, self.longest, start=START, end=END, never=NEVER, kernel=self.kernel
            )
        return [without_end(target) for target in written]

    def beam(
        self, model: EncoderDecoder, sources: Sequence[Sequence[int]], beams: int, alpha: float
    ) -> list[list[int]]:
        """The same by beam search with the length penalty of Wu et al. 2016."""
        with self.autocast(model):
            found = [
                beam_search(
                    model,
                    source,
                    self.longest,
                    beams=beams,
                    start=START,
                    end=END,
                    alpha=alpha,
                    never=NEVER,
                    kernel=self.kernel,
                )
                for source in sources
            ]
        return [without_end(hypotheses[0][0]) for hypotheses in found]

    def autocast(self, model: EncoderDecoder) -> torch.autocast:
        device = model.embed_target.weight.device
        return torch.autocast(device.type, self.dtype, enabled=self.dtype != torch.float32)


def without_end(target: Sequence[int]) -> list[int]:
    return [token for token in target if token != END]


def sources_of(batch: Batch) -> list[list[int]]:
    """The sources of a batch, with the end token and without padding."""
    return [row[:length] for row, length in zip(batch.source.tolist(), batch.lengths, strict=True)]


def wanted_of(batch: Batch) -> list[list[int]]:
    """The right targets of a batch, without the end token."""
    return [[token for token in row if token not in (NOT_SCORED, END)] for row in batch.targets.tolist()]
