"""word2vec: two vectors a word, learnt from the words around it (MATH K4, K5; Mikolov et al. 2013a, b).

    skip-gram   each word of the window is predicted from the centre:        h = v_i,                 o = j
    CBOW        the centre is predicted from the mean of its window:         h = 1/c Σⱼ vⱼ,           o = i

Skip-gram with negative sampling takes the way of `blocks`, which is the fast one; every other combination makes its
examples one by one and scores them by `objectives`. All gradients of a block are taken at the weights before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from txlab.engine.embeddings import blocks, objectives
from txlab.engine.embeddings.blocks import STRIP, Block
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
    strip_noise  N, noise words that a strip of centres shares in place of K a pair; 0 = every pair draws its own
    block        centres whose gradients are taken together
    """

    architecture: Architecture = "skip-gram"
    objective: Objective = "sampling"
    width: int = 100
    negatives: int = 5
    strip_noise: int = 8
    block: int = 256


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
        found = np.searchsorted(self._cumulative, draws.random(shape) * self._cumulative[-1], side="right")
        return torch.from_numpy(np.minimum(found, len(self._cumulative) - 1)).to(self.device)

    def learn(self, seen: Windows, alpha: float, draws: np.random.Generator) -> float:
        """Learn from all windows at the rate alpha; return the mean loss of a pair (CBOW: of a centre) in the first
        block, in nats, before it was learnt from; nan if it has none."""
        loss = float("nan")
        learn = self.learn_block if self.in_blocks else self.learn_examples
        for start, (tokens, before, after) in enumerate(seen.blocks(self.method.block)):
            numbers = (torch.from_numpy(each).to(self.device) for each in (tokens, before, after))
            found = learn(Block(*numbers), alpha, draws, start == 0)
            loss = found if start == 0 else loss
        return loss

    @property
    def in_blocks(self) -> bool:
        method = self.method
        return method.architecture == "skip-gram" and method.objective == "sampling" and method.strip_noise > 0

    def learn_block(self, block: Block, alpha: float, draws: np.random.Generator, with_loss: bool) -> float:
        noise = self.noise(draws, len(block.before) // STRIP, self.method.strip_noise)
        made = blocks.learn(block, noise, self.method.negatives, self.v, self.u, alpha)
        pairs = int((block.before + block.after).sum()) if with_loss else 0
        return float(made.loss()) / pairs if pairs else float("nan")

    def learn_examples(self, block: Block, alpha: float, draws: np.random.Generator, with_loss: bool) -> float:
        examples = self.examples(block)
        if not len(examples.targets):
            return float("nan")
        scored = self.score(examples, draws)
        hidden = scored.hidden_gradient(self.u)
        scored.add_to_table(self.u, examples.h, -alpha)
        self.v.index_add_(0, examples.words, hidden[examples.owner] * examples.shares[:, None], alpha=-alpha)
        return float(scored.loss.mean()) if with_loss else float("nan")

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

    def examples(self, block: Block) -> Examples:
        """The examples of a block: a pair each for skip-gram, a centre each for CBOW."""
        strip, row, column = block.mask().nonzero(as_tuple=True)
        owner, contexts = strip * STRIP + row, block.around[strip, column]
        if self.method.architecture == "skip-gram":
            centres = block.centres[owner]
            each = torch.arange(len(owner), device=owner.device)
            return Examples(self.v[centres], contexts, each, centres, torch.ones(len(owner)).to(self.v))
        counts = block.before + block.after
        used = counts > 0
        shares = (1 / counts.to(self.v))[owner]
        owner = (used.cumsum(0) - 1)[owner]
        h = self.v.new_zeros(int(used.sum()), self.v.shape[1])
        h.index_add_(0, owner, self.v[contexts] * shares[:, None])
        return Examples(h, block.centres[used], owner, contexts, shares)
