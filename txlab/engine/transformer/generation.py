"""Token-by-token generation (MATH T8, T9): greedy or sampled, with temperature, top-k, top-p, rules and end tokens.

A *reading* is a batch of texts that a model has read so far; it gives the logits of the next tokens and is extended by
the tokens chosen. Greedy decoding, sampling and beam search (beam.py) differ only in what they choose.

Notable: a text longer than a GPT's context drops the *older half* of its window and rereads the rest, with or without
the cache. Sliding by one would shift every learnt position at every token and make a cache useless; sliding by half
costs one full pass every T/2 tokens, and generation sees exactly the same tokens with and without the cache. The rules
are those of generation_config.json, with the meaning and order of transformers, so that a model generates the same text
in both. Sampling applies them to the logits; beam search to log-probabilities, whose sums then rank hypotheses and are
no longer the model's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

import torch
from torch import Tensor

from txlab.engine.recurrent.translation import DecoderCache, RecurrentTranslator
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, Every, Mask, Padding
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.recurrent.language_model import RecurrentLM

Translating = EncoderDecoder | RecurrentTranslator
"""A model that writes a target for a source: `encode`, caches, and a forward pass of the same form."""


@dataclass(frozen=True)
class Rules:
    """Constraints on generated text.

    never           ids that are never generated
    never_first     ids that are not generated first
    never_rows      sequences of ids that are not generated
    first           the id forced after a text of a single id (the start token of a target)
    last            ids one of which is forced as the last when the length limit is reached
    repetition      θ: the score of an id already in the text is divided by θ if positive, else multiplied by it.
                    Keskar et al. 2019, §4.1, who always divide; but that would raise a negative score
    renormalised    the remaining probabilities are renormalised to 1 before beam search adds their logarithms
    """

    never: Collection[int] = ()
    never_first: Collection[int] = ()
    never_rows: Sequence[tuple[int, ...]] = ()
    first: int | None = None
    last: Collection[int] = ()
    repetition: float = 1.0
    renormalised: bool = False

    def __call__(self, scores: Tensor, texts: Sequence[Sequence[int]], written: int, left: int) -> Tensor:
        """Apply the rules to next-token scores (B, V) of texts that end with `written` new ids; `left` may follow."""
        if self.repetition != 1:
            scores = scores.clone()
            for row, text in zip(scores, texts, strict=True):
                there = torch.tensor(sorted(set(text)), device=scores.device)
                row[there] = torch.where(row[there] < 0, row[there] * self.repetition, row[there] / self.repetition)
        if self.never_rows:
            scores = scores.clone()
            for row, text in zip(scores, texts, strict=True):
                for *before, token in self.never_rows:
                    if list(text[len(text) - len(before) :]) == before:
                        row[token] = float("-inf")
        scores = forbid(scores, self.never)
        if self.first is not None and len(texts[0]) == 1:
            scores = only(scores, [self.first])
        if self.last and left == 1:
            scores = only(scores, self.last)
        # If the first id is forced, the second is the first one chosen.
        if written == (self.first is not None and len(texts[0]) - written == 1):
            scores = forbid(scores, self.never_first)
        return scores.log_softmax(-1) if self.renormalised else scores


def forbid(logits: Tensor, never: Collection[int]) -> Tensor:
    """Return the logits with −∞ at forbidden ids (e.g. padding)."""
    return logits if not never else logits.index_fill(-1, torch.tensor(list(never), device=logits.device), -torch.inf)


def only(scores: Tensor, ids: Collection[int]) -> Tensor:
    """Return scores of 0 at these ids and −∞ at all others, which forces one of them."""
    index = torch.tensor(list(ids), device=scores.device)
    return torch.full_like(scores, -torch.inf).index_fill(-1, index, 0.0)


def next_probabilities(logits: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Return softmax(logits / temperature), truncated to the likeliest and renormalised: (…, V) → (…, V) float32.

    MATH T9, F5.
    temperature 0   all the mass on the likeliest token (the lowest id among equals)
    top_k           only the k likeliest; 0 = all (Fan et al. 2018)
    top_p           only the smallest set whose mass reaches p, at least one token (Holtzman et al. 2020)

    With both, p is a share of the mass of the k likeliest: each step truncates a distribution that sums to 1, in the
    order temperature, top-k, top-p (as in transformers).
    """
    logits = logits.float()
    if temperature == 0:
        return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
    probability = (logits / temperature).softmax(-1)
    if top_k or top_p < 1:
        ranked, order = probability.sort(descending=True, stable=True)
        keep = torch.ones_like(ranked, dtype=torch.bool)
        if top_k:
            keep[..., top_k:] = False
            ranked = ranked * keep / (ranked * keep).sum(-1, keepdim=True)
        # Compare the mass *before* each token, so that the token that crosses p is kept.
        keep &= ranked.cumsum(-1) - ranked < top_p
        keep[..., 0] = True
        probability = torch.zeros_like(probability).scatter(-1, order, ranked * keep)
        probability = probability / probability.sum(-1, keepdim=True)
    return probability


def choose(
    logits: Tensor, generator: torch.Generator | None, temperature: float, top_k: int = 0, top_p: float = 1.0
) -> list[int]:
    """Choose one token per row of (B, V): drawn with a CPU generator, or the likeliest at temperature 0.

    Raises LabError if no token of a row can be chosen: all are forbidden, or the scores overflowed.
    """
    if temperature == 0:
        best = logits.max(-1)
        require_choice(best.values)
        return best.indices.tolist()
    probability = next_probabilities(logits, temperature, top_k, top_p).cpu()
    try:
        return torch.multinomial(probability, 1, generator=generator)[:, 0].tolist()
    except RuntimeError:  # a row of NaN
        require_choice(logits.amax(-1))
        raise


def require_choice(best: Tensor) -> None:
    """Raise LabError unless the best score of each row is finite."""
    if not best.isfinite().all():
        forbidden = bool((best == -torch.inf).any())
        raise LabError("every token is forbidden here" if forbidden else "the scores of the next token are not finite")


FREE = Rules()


def ends_of(end: int | Collection[int] | None) -> frozenset[int]:
    """Return the set of ids that end a text: none, one or several."""
    return frozenset(() if end is None else (end,) if isinstance(end, int) else end)


def window_start(length: int, context: int) -> int:
    """Return where the window of a text of `length` tokens begins: 0 until the context is full, then half a context on.

    >>> [window_start(length, 8) for length in (7, 8, 9, 12, 13)]
    [0, 0, 4, 4, 8]
    """
    half = max(1, context // 2)
    overflow = max(0, length - context)
    return -(-overflow // half) * half


def continues(model: GPT | RecurrentLM) -> None:
    """Raise LabError for a model whose rows do not predict the next token."""
    if model.shape.edges:
        raise LabError("this model passes messages along a graph: it does not predict the next token of a text")


class Reading(Protocol):
    """Texts that a model continues, whatever it remembers of them."""

    texts: list[list[int]]

    def logits(self) -> Tensor: ...

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> None: ...


def reading_of(
    model: GPT | RecurrentLM, texts: Sequence[Sequence[int]], kernel: Kernel = "sdpa", cached: bool = True
) -> Reading:
    """A reading of texts: by a GPT, or by a model that has a `reading` of its own."""
    return TextReading(model, texts, kernel, cached) if isinstance(model, GPT) else model.reading(texts, cached)


class TextReading:
    """A batch of texts that a GPT continues: `logits` scores the next tokens, `go_on` appends those chosen.

    Texts of different lengths are padded on the left, so that the last column is the newest token of each; positions
    are numbered from the beginning of each text. ValueError for an empty text.
    """

    def __init__(
        self, model: GPT, texts: Sequence[Sequence[int]], kernel: Kernel = "sdpa", cached: bool = True
    ) -> None:
        if not all(texts):
            raise ValueError("there is nothing to continue: the prompt has no tokens")
        continues(model)
        self.model, self.kernel, self.cached = model, kernel, cached
        self.texts = [list(text) for text in texts]
        self.caches: list[LayerCache] = []
        self.begins: list[int] = []  # window starts of the cached texts

    def logits(self) -> Tensor:
        """Return the scores of every candidate for each text's next token: (B, V)."""
        begins = [window_start(len(text), self.model.shape.context) for text in self.texts]
        windows = [text[begin:] for text, begin in zip(self.texts, begins, strict=True)]
        # The first columns of a full cache may be padding only, if the longest text has ended; then read again.
        if self.caches and begins == self.begins and self.caches[0].length < self.model.shape.context:
            fresh = [window[-1:] for window in windows]
            columns = self.caches[0].length + 1
        else:
            self.caches, self.begins = self.model.empty_caches() if self.cached else [], begins
            columns = max(map(len, windows))
            fresh = [[0] * (columns - len(window)) + window for window in windows]
        device = self.model.embed.weight.device
        ids = torch.tensor(fresh, device=device)  # (B, columns not yet read)
        mask: Mask = CAUSAL
        places = None
        if any(len(window) < columns for window in windows):
            lengths = torch.tensor([len(window) for window in windows], device=device)
            mask = Every((CAUSAL, Padding(tuple(map(len, windows)), left=True)))
            numbers = torch.arange(columns, device=device) - columns + lengths[:, None]  # (B, columns)
            places = numbers.clamp(min=0)[:, -ids.shape[1] :]
        scores: Tensor = self.model(ids, self.kernel, mask, self.caches or None, places=places, last=True)
        return scores[:, -1]

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Replace text i by what text `rows[i]` was, followed by `tokens[i]`."""
        select(self.caches, rows, len(self.texts))
        self.begins = [self.begins[row] for row in rows]
        self.texts = [[*self.texts[row], token] for row, token in zip(rows, tokens, strict=True)]


class TargetReading:
    """A batch of targets that a model generates, each for its own source: `logits` and `go_on` as above."""

    def __init__(
        self,
        model: Translating,
        sources: Sequence[Sequence[int]],
        start: int,
        kernel: Kernel = "sdpa",
        cached: bool = True,
    ) -> None:
        if not all(sources):
            raise ValueError("there is nothing to read: the source has no tokens")
        self.model, self.kernel = model, kernel
        self.lengths = [len(source) for source in sources]
        S = max(self.lengths)
        device = model.embed_target.weight.device
        self.source = torch.tensor([[*source, *[0] * (S - len(source))] for source in sources], device=device)  # (B, S)
        self.memory = model.encode(self.source, kernel, self.mask)  # (B, S, …)
        self.texts = [[start] for _ in sources]
        self.caches: Sequence[LayerCache | DecoderCache] = model.empty_caches() if cached else []

    @property
    def mask(self) -> Mask:
        return Padding(tuple(self.lengths)) if min(self.lengths) < self.source.shape[1] else NO_MASK

    def logits(self) -> Tensor:
        """Return the scores of every candidate for each target's next token: (B, V)."""
        target = torch.tensor([text[-1:] if self.caches else text for text in self.texts], device=self.source.device)
        caches = self.caches or None
        scores: Tensor = self.model(
            self.source, target, self.kernel, source_mask=self.mask, caches=caches, memory=self.memory
        )
        return scores[:, -1]

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Replace target i by what target `rows[i]` was, followed by `tokens[i]`."""
        select(self.caches, rows, len(self.texts))
        if list(rows) != list(range(len(self.texts))):
            index = torch.tensor(rows, device=self.source.device)
            self.source, self.memory = self.source[index], self.memory[index]
            self.lengths = [self.lengths[row] for row in rows]
        self.texts = [[*self.texts[row], token] for row, token in zip(rows, tokens, strict=True)]


def select(caches: Sequence[LayerCache | DecoderCache], rows: Sequence[int], there: int) -> None:
    """Keep these rows of the caches of `there` texts; nothing is copied if that is all of them, in order."""
    if caches and caches[0].keys is not None and list(rows) != list(range(there)):
        index = torch.tensor(rows, device=caches[0].keys.device)
        for cache in caches:
            cache.select(index)


class Choosing(TypedDict, total=False):
    """The optional arguments of `write`: how the next token is chosen, and when a text ends."""

    temperature: float
    top_k: int
    top_p: float
    end: int | Collection[int] | None
    never: Collection[int]
    rules: Rules


@torch.no_grad()
def write(
    reading: Reading,
    tokens: int,
    *,
    generator: torch.Generator | None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    end: int | Collection[int] | None = None,
    never: Collection[int] = (),
    rules: Rules = FREE,
) -> list[list[int]]:
    """Generate at most `tokens` new ids for each text of a reading; a text with an end token leaves the batch."""
    written: list[list[int]] = [[] for _ in reading.texts]
    awake = list(range(len(written)))  # which text each row of the reading is
    ends = ends_of(end)
    for step in range(tokens):
        scores = rules(forbid(reading.logits(), never), reading.texts, step, tokens - step)
        chosen = choose(scores, generator, temperature, top_k, top_p)
        for text, token in zip(awake, chosen, strict=True):
            written[text].append(token)
        rows = [row for row, token in enumerate(chosen) if token not in ends]
        if not rows or step + 1 == tokens:
            break
        awake = [awake[row] for row in rows]
        reading.go_on(rows, [chosen[row] for row in rows])
    return written


@torch.no_grad()
def generate(
    model: GPT | RecurrentLM,
    prompt: Sequence[int],
    tokens: int,
    *,
    generator: torch.Generator | None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    end: int | Collection[int] | None = None,
    never: Collection[int] = (),
    rules: Rules = FREE,
    kernel: Kernel = "sdpa",
    cached: bool = True,
) -> Iterator[int]:
    """Yield at most `tokens` ids that continue the prompt (at least one id), stopping after an `end` id. MATH T9.

    `generator` is a CPU generator and the only source of randomness (none is needed at temperature 0); ids in `never`
    are not generated, and the `rules` apply. The mode of the model is left as it is, so the caller turns dropout off
    with `model.eval()`. Raises ValueError for an empty prompt.
    """
    reading = reading_of(model, [prompt], kernel, cached)
    ends = ends_of(end)
    for step in range(tokens):
        scores = rules(forbid(reading.logits(), never), reading.texts, step, tokens - step)
        (token,) = choose(scores, generator, temperature, top_k, top_p)
        yield token
        if token in ends:
            return
        reading.go_on([0], [token])


def generate_batch(
    model: GPT | RecurrentLM,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    *,
    generator: torch.Generator | None,
    kernel: Kernel = "sdpa",
    cached: bool = True,
    **how: Unpack[Choosing],
) -> list[list[int]]:
    """Continue all prompts in one batch, as `generate` does each (greedy: the same ids; sampled: other draws)."""
    return write(reading_of(model, prompts, kernel, cached), tokens, generator=generator, **how)


@torch.no_grad()
def generate_target(
    model: Translating,
    sources: Sequence[Sequence[int]],
    tokens: int,
    *,
    start: int,
    generator: torch.Generator | None = None,
    kernel: Kernel = "sdpa",
    cached: bool = True,
    **how: Unpack[Choosing],
) -> list[list[int]]:
    """Generate the target of each source, returned without its start token and with its `end`, if any. MATH T8.

    Greedy unless a temperature is given. At most `tokens` ids and never more than the context holds. Sources of
    different lengths are padded and the padding is masked. ValueError for an empty source.
    """
    how.setdefault("temperature", 0.0)
    reading = TargetReading(model, sources, start, kernel, cached)
    return write(reading, min(tokens, model.shape.context), generator=generator, **how)
