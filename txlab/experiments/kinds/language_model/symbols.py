"""A task that only an induction head solves: random symbols in which one segment occurs twice (MATH T1, T9).

    prefix │ segment │ filler │ the segment again │ rest   (Olsson et al. 2022, In-context learning and induction heads)

Prefix and filler have random lengths, so the answer must be found by looking for the current symbol further up and
reading the one after it. Notable: the segment's symbols are all different and occur nowhere else in the sequence, so
the answer is determined, and only these answers are scored: the repeated segment, after its first symbol.

Measured (2 layers, 4 heads, width 64, T = 32, V = 64): scoring every token instead is slower, accuracy .01 after 800
steps against .08; segments of up to half of the sequence rather than a third reach .95 after about 500 steps, which was
not reached in 800; with learnt positions the loss can plateau for 1500 steps on a head that only guesses the distance,
with rotary ones it took 500.

With `again = "always"` a sequence is its segment over and over, and every symbol is scored, as in a text: a model that
knows only which symbols came before does better late in the context than early, and one that copies much better. Two
layers of attention with one head learn to copy within 200 steps; scoring every symbol of the sequences above, they took
1100 and 1900 (two seeds).
"""

from __future__ import annotations

import string
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from txlab.engine.tokenizers.elementary import Labelled
from txlab.engine.tokenizers.tokenizer import unknown_token
from txlab.errors import LabError
from txlab.experiments.learning.text_data import NOT_SCORED, Batch, Tally, TextData, as_batch, probe_from, prompts_of
from txlab.experiments.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.experiments.kinds.language_model.schema import LanguageModelScenario

SMALLEST_CONTEXT = 8
SMALLEST_VOCABULARY = 8


@cache
def alphabet() -> str:
    """The characters for symbols: letters, digits, space and full stop, then Latin, Greek and Cyrillic letters."""
    further = "".join(chr(point) for point in (*range(0x00C0, 0x0530), *range(0x1E00, 0x1F00)) if chr(point).isalpha())
    return string.ascii_letters + string.digits + " ." + further


@dataclass(frozen=True)
class SymbolTokenizer(Labelled):
    """One token for each of the first V characters of the alphabet."""

    vocabulary: int
    task: ClassVar[str] = "induction"

    @cached_property
    def signs(self) -> str:
        return alphabet()[: self.vocabulary]

    def encode(self, text: str) -> list[int]:
        """Raises LabError for a character that is not a symbol of the task."""
        for sign in text:
            if sign not in self.signs:
                raise LabError(f"{sign!r} is not a symbol of the {self.task} task; allowed: {self.signs}")
        return [self.signs.index(sign) for sign in text]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(map(self.label, ids))

    def label(self, token: int) -> str:
        if not 0 <= token < self.vocabulary:
            raise unknown_token(token, self.vocabulary)
        return self.signs[token]


class SymbolData(TextData):
    """What all generated tasks over symbols share: a tokenizer, a probe, prompts and facts."""

    task: ClassVar[str]
    tokens: ClassVar[type[SymbolTokenizer]] = SymbolTokenizer
    sizes: ClassVar[range] = range(SMALLEST_VOCABULARY, len(alphabet()) + 1)

    def __init__(self, scenario: LanguageModelScenario, version: str) -> None:
        self.seed = scenario.seed
        self.batch, self.context = scenario.train.batch, scenario.model.context
        self.validation_count = scenario.train.validation_batches
        self.vocabulary = scenario.data.vocabulary
        if self.vocabulary not in self.sizes:
            raise LabError(
                f"data.vocabulary = {self.vocabulary} does not suit the {self.task} task; "
                f"allowed: {self.sizes[0]} … {self.sizes[-1]} symbols"
            )
        self.tokenizer = self.tokens(self.vocabulary)
        self.fingerprint = f"{self.task}/{version}/{self.vocabulary}/{self.context}"
        self.tokenizer_fingerprint = f"symbols/{self.vocabulary}"
        look = scenario.probe
        shown = self.tokenizer.encode(look.text) if look.text else self.example(min(look.positions, self.context))
        self.probe = probe_from(look, shown, self.context)
        self.prompts = prompts_of(scenario.sampling.prompts, self.tokenizer)

    @abstractmethod
    def example(self, length: int) -> list[int]:
        """The probe."""

    @abstractmethod
    def draw_batch(self, random: np.random.Generator) -> Batch:
        """A batch drawn with a generator."""

    def train_batch(self, step: int) -> Batch:
        return self.draw_batch(generator(self.seed, "batch", step))

    def validation_batches(self) -> list[Batch]:
        return [self.draw_batch(generator(self.seed, "validation", i)) for i in range(self.validation_count)]

    def facts(self) -> Mapping[str, Any]:
        return {
            "corpus": {"name": self.task, "fingerprint": self.fingerprint, "symbols": self.vocabulary},
            "tokenizer": {"kind": "symbols", "vocabulary": self.vocabulary},
        }


class InductionData(SymbolData):
    """Sequences generated on demand; every batch is a pure function of (seed, step)."""

    task = "induction"

    def __init__(self, scenario: LanguageModelScenario) -> None:
        self.always = scenario.data.again == "always"
        super().__init__(scenario, "1, always" if self.always else "1")
        if self.context < SMALLEST_CONTEXT:
            raise LabError(
                f"model.context = {self.context} is too short for a segment to come twice; at least {SMALLEST_CONTEXT}"
            )

    def sequences(self, random: np.random.Generator, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(count, T + 1) symbols, and which of the T targets are scored."""
        length = self.context + 1
        # Each row is a shuffled vocabulary: its first n symbols are the segment, the others fill the rest.
        order = random.permuted(np.tile(np.arange(self.vocabulary), (count, 1)), axis=1)
        longest = min((length - 2) // 2, self.vocabulary // 2)
        n = random.integers(max(2, longest // 3), longest + 1, size=(count, 1))
        place = np.arange(length)[None, :]
        if self.always:
            return np.take_along_axis(order, place % n, axis=1), np.ones((count, self.context), np.bool_)
        free = length - 2 * n
        prefix = random.integers(0, free // 2 + 1)
        filler = random.integers(0, free - prefix + 1)
        fill = n + random.integers(0, 1 << 32, size=(count, length)) % (self.vocabulary - n)
        first, second = place - prefix, place - prefix - n - filler
        in_first, in_second = (first >= 0) & (first < n), (second >= 0) & (second < n)
        index = np.where(in_first, first, np.where(in_second, second, fill))
        return np.take_along_axis(order, index, axis=1), (in_second & (second >= 1))[:, 1:]

    def example(self, length: int) -> list[int]:
        """The probe: a segment twice with different symbols around it, so that only the segment repeats."""
        n = max(1, min(length // 3, self.vocabulary // 2))
        around = length - 2 * n
        symbols = generator(self.seed, "probe", 0).permutation(self.vocabulary)
        segment, other = symbols[:n], np.resize(symbols[n:], around)
        prefix = around // 3
        return [*other[:prefix].tolist(), *segment.tolist(), *other[prefix:].tolist(), *segment.tolist()]

    def draw_batch(self, random: np.random.Generator) -> Batch:
        return as_batch(*self.sequences(random, self.batch))

    def tally(self, targets: Tensor, logits: Tensor) -> Tally:
        """in_context_score, if every symbol is scored: see `in_context_scores`."""
        if not self.always:
            return {}
        return {"in_context_score": (float(in_context_scores(targets, logits).sum()), len(targets))}


def late_and_early(context: int) -> tuple[int, int]:
    """(the first index of what counts as late, the index of what counts as early) in a context of T targets: 3T/4, T/8.

    >>> late_and_early(32)
    (24, 4)
    """
    return 3 * context // 4, context // 8


def in_context_scores(targets: Tensor, logits: Tensor) -> Tensor:
    """(B): mean over t ≥ 3T/4 of −ln p(x_{t+1}), minus −ln p(x_{t+1}) at t = T/8; t = 0 … T − 1.

    How much better a symbol is guessed because of the symbols before it; Olsson et al. 2022 take token 500 minus token
    50 of 512. Here the late end is a mean, as one index of some hundred short sequences would be mostly noise.
    """
    import torch.nn.functional as F  # not needed when data is only inspected

    late, early = late_and_early(targets.shape[1])
    losses = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    return losses[:, late:].mean(1) - losses[:, early]


def origins(nodes: int, edges: Iterable[tuple[int, int]], hops: int) -> list[int | None]:
    """The start of the only walk of `hops` edges into each node; None if there is none, or more than one.

    >>> origins(4, [(0, 1), (1, 2), (3, 2)], 1)
    [None, 0, None, None]
    >>> origins(4, [(0, 1), (1, 2), (3, 2)], 2)
    [None, None, 0, None]
    """
    before: list[set[int]] = [set() for _ in range(nodes)]
    for j, i in edges:
        before[i].add(j)
    # Two walks into a node are enough to know that there is more than one.
    walks = [[node] for node in range(nodes)]
    for _ in range(hops):
        walks = [[start for j in sorted(before[i]) for start in walks[j]][:2] for i in range(nodes)]
    return [starts[0] if len(starts) == 1 else None for starts in walks]


class GraphData(SymbolData):
    """A task solved only by messages along a graph: predict the symbol of the node `hops` edges before (MATH T2).

    Every node of model.graph has a random symbol, and attention looks only along the graph's edges (Yang: attention is
    message passing). One layer carries a symbol over one edge, so a node needs at least `hops` layers to know the
    symbol `hops` edges before it. Only nodes reached by exactly one walk of that length are scored, as the others have
    no answer or several; a node without incoming edges gets zeros from every head.
    """

    task = "graph"

    def __init__(self, scenario: LanguageModelScenario) -> None:
        edges, hops = scenario.model.edges, scenario.data.hops
        super().__init__(scenario, f"{sorted(set(edges))}/{hops}")
        starts = origins(self.context, edges, hops)
        self.scored = np.array([origin is not None for origin in starts])
        self.origin = np.array([origin or 0 for origin in starts])
        if not self.scored.any():
            raise LabError(f"no node of model.graph has a single walk of data.hops = {hops} edges that ends in it")

    def example(self, length: int) -> list[int]:
        return [int(symbol) for symbol in generator(self.seed, "probe", 0).integers(0, self.vocabulary, size=length)]

    def draw_batch(self, random: np.random.Generator) -> Batch:
        import torch  # not needed when data is only inspected

        symbols = random.integers(0, self.vocabulary, size=(self.batch, self.context))
        targets = np.where(self.scored, symbols[:, self.origin], NOT_SCORED)
        return Batch(torch.from_numpy(symbols), torch.from_numpy(targets))
