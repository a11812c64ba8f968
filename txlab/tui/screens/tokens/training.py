"""Byte pair encoding learnt on the bench: a trainer that is stepped, run, and taken back, and what it looks like now.

Notable: the trainer lives here and is touched by one thread at a time, under a lock; the screen only gets a frozen
`Look`. A vocabulary of k tokens is the first merges of any larger one, so comparing sizes needs no further training.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.plain import Pair
from txlab.engine.tokenizers.training import Trainer, count_chunks
from txlab.errors import LabError
from txlab.tui.screens.tokens.encoding import Progress, pieces

RUNNERS_UP = 64
NEWEST = 200
PACES = (2.0, 10.0, 50.0, 0.0)  # merges a second; 0: as fast as it goes
SLICE = 0.05  # seconds between two looks at what the person wants


@dataclass(frozen=True)
class Recipe:
    """What is learnt from what: the text is a name of the corpora ("python-docs"), a path, or "" for the one shown."""

    text: str = "python-docs"
    pattern: str = "gpt4"
    target: int = 1024
    special: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A merge, done or to come: which tokens become which, how often the pair was found."""

    token: int
    pair: Pair
    left: bytes
    right: bytes
    count: int


@dataclass(frozen=True)
class Look:
    """The state of a training: `runners_up` begins with the next merge; `lengths` and `counts` are the curves."""

    recipe: Recipe
    size: int
    merges: int
    vocabulary: int
    runners_up: tuple[Row, ...]
    newest: tuple[Row, ...]
    lengths: np.ndarray
    """Tokens of the training text after 0, 1, … merges."""
    counts: np.ndarray
    """How often the pair of each merge was found."""

    @property
    def length(self) -> int:
        return int(self.lengths[-1]) if len(self.lengths) else 0

    @property
    def done(self) -> bool:
        return self.vocabulary >= self.recipe.target or not self.runners_up or self.runners_up[0].count < 2


@dataclass(frozen=True)
class Size:
    """One vocabulary among several: what it makes of the training text and of the text on the screen."""

    vocabulary: int
    corpus_tokens: int
    corpus_bytes: int
    text_tokens: int
    text_bytes: int
    longest: bytes


class Bench:
    """A trainer and the text it learns from."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.recipe = Recipe()
        self.text = ""
        self.size = 0
        self.trainer: Trainer | None = None

    def prepare(self, recipe: Recipe, text: str, progress: Progress) -> None:
        """Count the chunks of a text and stand before its first merge."""
        chunks: Counter[bytes] = Counter()
        data = text.encode()
        if recipe.pattern == "none" or recipe.special:
            chunks = count_chunks([text], recipe.pattern, recipe.special)
        else:
            for done, piece in pieces(data):
                progress(done, max(1, len(data)))
                chunks += count_chunks([piece], recipe.pattern)
        trainer = Trainer(chunks)
        with self.lock:
            self.recipe, self.text, self.size, self.trainer = recipe, text, len(data), trainer

    def aim(self, target: int) -> None:
        with self.lock:
            self.recipe = Recipe(self.recipe.text, self.recipe.pattern, target, self.recipe.special)

    @property
    def aimed(self) -> int:
        """The vocabulary without the special tokens."""
        return self.recipe.target - len(self.recipe.special)

    def step(self, count: int = 1) -> int:
        """So many merges, whatever was aimed for; how many there were."""
        with self.lock:
            return sum(1 for _ in range(count) if self.trainer is not None and self.trainer.step() is not None)

    def back(self, count: int = 1) -> int:
        """Undo the last merges."""
        with self.lock:
            return sum(1 for _ in range(count) if self.trainer is not None and self.trainer.back() is not None)

    def advance(self, wanted: Callable[[], bool], pace: float) -> Iterator[None]:
        """Merge until the vocabulary that was aimed for is there or nobody wants it; yields between slices."""
        while wanted():
            begun = time.monotonic()
            with self.lock:
                trainer = self.trainer
                if trainer is None:
                    return
                while trainer.vocabulary < self.aimed and trainer.step() is not None:
                    if pace or time.monotonic() - begun > SLICE:
                        break
                else:
                    return
            yield
            if pace:
                time.sleep(max(0.0, 1 / pace - (time.monotonic() - begun)))

    def look(self) -> Look | None:
        """What there is to see now."""
        with self.lock:
            trainer = self.trainer
            if trainer is None:
                return None
            named = trainer.token_bytes
            merges = trainer.merges
            newest = tuple(row_of(named, merge.token, merge.pair, merge.count) for merge in merges[: -NEWEST - 1 : -1])
            token = trainer.vocabulary
            ahead = tuple(row_of(named, token, pair, found) for pair, found in trainer.runners_up(RUNNERS_UP))
            return Look(
                self.recipe,
                self.size,
                len(merges),
                trainer.vocabulary + len(self.recipe.special),
                ahead,
                newest,
                np.array(trainer.lengths, dtype=np.int64),
                np.array([merge.count for merge in merges], dtype=np.int64),
            )

    def tokenizer(self, merges: int | None = None) -> BytePairTokenizer:
        """The encoding as far as it has been learnt, or its first merges. LabError before anything was prepared."""
        with self.lock:
            if self.trainer is None:
                raise LabError("nothing has been learnt yet")
            whole = self.trainer.tokenizer(self.recipe.pattern, self.recipe.special)
        if merges is None or merges >= len(whole.merges):
            return whole
        return BytePairTokenizer(whole.merges[:merges], self.recipe.pattern, self.recipe.special)

    def sizes(self, text: str, progress: Progress) -> list[Size]:
        """Vocabularies of 256, 512, 1024 … as far as it has been learnt, the last being what there is now."""
        look = self.look()
        if look is None:
            return []
        extra = len(self.recipe.special)
        base = look.vocabulary - extra - look.merges
        found: list[Size] = []
        known = [size for size in doubled(base) if size < look.vocabulary - extra]
        for size in [*known, look.vocabulary - extra]:
            progress(len(found), len(known) + 1)
            tokenizer = self.tokenizer(size - base)
            longest = max((tokenizer.token_bytes(base + rank) for rank in range(size - base)), key=len, default=b"")
            found.append(
                Size(
                    size + extra,
                    int(look.lengths[size - base]),
                    look.size,
                    len(tokenizer.encode_long(text)),
                    len(text.encode()),
                    longest,
                )
            )
        return found


def row_of(named: Callable[[int], bytes], token: int, pair: Pair, count: int) -> Row:
    return Row(token, pair, named(pair[0]), named(pair[1]), count)


def doubled(first: int) -> Iterator[int]:
    """`first`, then the powers of two above it."""
    yield first
    size = 1
    while True:
        size *= 2
        if size > first:
            yield size
        if size > 1 << 24:
            return


def curve_points(values: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.arange(len(values), dtype=np.int64)
