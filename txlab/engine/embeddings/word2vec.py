"""word2vec: two vectors a word, learnt from the words around it (MATH K4, K5; Mikolov et al. 2013a, b).

    skip-gram   each word of the window is predicted from the centre:        h = v_i,                 o = j
    CBOW        the centre is predicted from the mean of its window:         h = 1/c Σⱼ vⱼ,           o = i

Skip-gram with negative sampling takes the way of `blocks`, which is the fast one; every other combination makes its
examples one by one and scores them by `objectives`. All gradients of a block are taken at the weights before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from txlab.engine.embeddings import blocks, objectives
from txlab.engine.embeddings.blocks import STRIP, Block, Stretch
from txlab.engine.embeddings.huffman import huffman
from txlab.engine.embeddings.objectives import Scored
from txlab.engine.embeddings.vocabulary import Vocabulary
from txlab.engine.embeddings.windows import Windows

Architecture = Literal["skip-gram", "cbow"]
Objective = Literal["sampling", "softmax", "hierarchical", "nce"]


@dataclass(frozen=True)
class Method:
    """How vectors are learnt.

    negatives    K, noise words for each pair (sampling, nce)
    strip_noise  N, noise words that a strip of centres shares instead of K a pair; 0 = every pair draws its own
    block        centres whose gradients are taken together
    """

    architecture: Architecture = "skip-gram"
    objective: Objective = "sampling"
    width: int = 100
    negatives: int = 5
    strip_noise: int = 8
    block: int = 512


@dataclass(frozen=True)
class Examples:
    """P hidden vectors and what they predict; h = Σ shares · v[words], each example's own.

    h (P, D)    targets (P)    owner (M) the example that a word belongs to, words (M), shares (M)
    """

    h: Tensor
    targets: Tensor
    owner: Tensor
    words: Tensor
    shares: Tensor


class Word2Vec:
    """The tables: v (V, D), uniform in ± 1 / 2D, and u (V, D), or (V − 1, D) for the nodes of a tree, zero."""

    def __init__(self, vocabulary: Vocabulary, method: Method, seed: torch.Generator, device: str = "cpu") -> None:
        self.method, self.device = method, device
        words, width = len(vocabulary.words), method.width
        self.v = ((torch.rand(words, width, generator=seed) - 0.5) / width).to(device)
        rows = words - 1 if method.objective == "hierarchical" else words
        self.u = torch.zeros(rows, width, device=device)
        noise = vocabulary.noise()
        self._cumulative = np.cumsum(noise)
        self.log_expected = torch.from_numpy(np.log(method.negatives * noise)).to(self.v) if method.negatives else None
        if method.objective == "hierarchical":
            tree = huffman(vocabulary.counts)
            self.nodes = torch.from_numpy(tree.nodes).to(device)
            self.turns = torch.from_numpy(tree.turns).to(self.v)

    def noise(self, draws: np.random.Generator, *shape: int) -> Tensor:
        """Words drawn from q ∝ count^¾."""
        drawn = np.searchsorted(self._cumulative, draws.random(shape) * self._cumulative[-1], side="right")
        return torch.from_numpy(np.minimum(drawn, len(self._cumulative) - 1)).to(self.device)

    def learn(self, seen: Windows, alpha: float, draws: np.random.Generator) -> float:
        """Learn from all windows at the rate alpha; return the mean loss of a pair (CBOW: of a centre) in the first
        block, in nats, before it was learnt from; nan if it has none."""
        if self.in_blocks:
            return self.learn_blocks(self.blocks(seen, draws), alpha)
        loss = float("nan")
        for start, stretch in enumerate(self.stretches(seen)):
            block_loss = self.learn_examples(stretch, alpha, draws, start == 0)
            loss = block_loss if start == 0 else loss
        return loss

    def stretches(self, seen: Windows) -> Iterator[Stretch]:
        """The examples of each update, where examples are made one by one."""
        return (self.stretch(*numbers) for numbers in seen.stretches(self.method.block))

    @property
    def in_blocks(self) -> bool:
        method = self.method
        return method.architecture == "skip-gram" and method.objective == "sampling" and method.strip_noise > 0

    def blocks(self, seen: Windows, draws: np.random.Generator) -> Iterator[Block]:
        """The blocks of a text with their noise, which do not depend on the tables; none if no word was kept."""
        method = self.method
        for numbers in seen.stretches(len(seen.tokens) + STRIP):
            stretch = self.stretch(*numbers)
            noise = self.noise(draws, len(stretch.before) // STRIP, method.strip_noise)
            yield from blocks.cut(stretch, noise, method.negatives, method.block, self.v.dtype)

    def learn_blocks(self, parts: Iterable[Block], alpha: float) -> float:
        """As `learn`, from blocks that are made already."""
        loss = float("nan")
        for start, block in enumerate(parts):
            made = blocks.learn(block, self.v, self.u, alpha)
            if start == 0:
                loss = float(block.loss(made.scores) / block.pairs)
        return loss

    def stretch(self, *numbers: np.ndarray) -> Stretch:
        return Stretch(*(torch.from_numpy(each).to(self.device) for each in numbers))

    def learn_examples(
        self, stretch: Stretch, alpha: float, draws: np.random.Generator, with_loss: bool = False
    ) -> float:
        examples = self.examples(stretch)
        if not len(examples.targets):
            return float("nan")
        scored = self.score(examples, draws)
        self.descend(examples, scored, alpha)
        return float(scored.loss.mean()) if with_loss else float("nan")

    def descend(self, examples: Examples, scored: Scored, alpha: float) -> None:
        """u ← u − α ∂L/∂u, v ← v − α ∂L/∂v, in place."""
        hidden = scored.hidden_gradient(self.u)
        scored.add_to_table(self.u, examples.h, -alpha)
        self.v.index_add_(0, examples.words, hidden[examples.owner] * examples.shares[:, None], alpha=-alpha)

    def score(self, examples: Examples, draws: np.random.Generator) -> Scored:
        h, targets, method = examples.h, examples.targets, self.method
        if method.objective == "softmax":
            return objectives.softmax(h, self.u, targets)
        if method.objective == "hierarchical":
            return objectives.hierarchical_softmax(h, self.u, self.nodes[targets], self.turns[targets])
        noise = self.noise(draws, len(targets), method.negatives)
        if method.objective == "nce":
            assert self.log_expected is not None
            return objectives.noise_contrastive(h, self.u, targets, noise, self.log_expected)
        return objectives.negative_sampling(h, self.u, targets, noise)

    def examples(self, stretch: Stretch) -> Examples:
        """The examples of a stretch: a pair each for skip-gram, a centre each for CBOW."""
        strip, row, column = stretch.mask().nonzero(as_tuple=True)
        owner, contexts = strip * STRIP + row, stretch.around[strip, column]
        if self.method.architecture == "skip-gram":
            centres = stretch.centres[owner]
            each = torch.arange(len(owner), device=owner.device)
            return Examples(self.v[centres], contexts, each, centres, torch.ones(len(owner)).to(self.v))
        counts = stretch.before + stretch.after
        used = counts > 0
        shares = (1 / counts.to(self.v))[owner]
        owner = (used.cumsum(0) - 1)[owner]
        h = self.v.new_zeros(int(used.sum()), self.v.shape[1])
        h.index_add_(0, owner, self.v[contexts] * shares[:, None])
        return Examples(h, stretch.centres[used], owner, contexts, shares)
