"""Learning a byte pair encoding, one merge at a time (MATH K2; Becker-Kahn §1.1; Sennrich et al. 2016, algorithm 1).

The most frequent adjacent pair of symbols becomes a new symbol, again and again; plain.py has the same in twenty lines.
Ties are broken by a named rule, see `Ties` (minbpe has a third one: the first seen); a pair seen once is never merged.
Distinct chunks are stored once, in a single linked list; an index maps each pair to its places, so
the cost of a merge depends on what it changes, not on the length of chunks. The heap is lazy: a merge can only lower
the count of an existing pair, so an entry that is too high is put back with its true count when it is popped.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Literal, TypeAlias

import numpy as np
import regex

from txlab.engine.tokenizers.bases import BYTES, Base
from txlab.engine.tokenizers.byte_pairs import LONGEST_TOKEN, BytePairTokenizer
from txlab.engine.tokenizers.patterns import TRUSTED, compile_pattern, cut
from txlab.engine.tokenizers.patterns import chunks as chunks_of
from txlab.engine.tokenizers.plain import Pair
from txlab.engine.tokenizers.tokenizer import utf8
from txlab.errors import LabError

Ties = Literal["first", "greatest"]
"""Which of equally frequent pairs is merged: "first", the lowest pair of ids, as rustbpe and HF tokenizers do; or
"greatest", the pair (left, right) of byte strings that is last in their order, as Stanford's CS336 does."""

BORDER, SWALLOWED = -1, -2
INVERTED = bytes(range(255, -1, -1))
Entry: TypeAlias = tuple[Any, ...]  # of the heap: (−count, …, pair), the smallest first
PART = 1 << 16  # characters split per call: a few milliseconds, so that the screen stays responsive


@dataclass(frozen=True)
class Merge:
    """`pair` occurred `count` times and became `token`. In "aaa" the pair (a, a) counts twice, as in rustbpe."""

    token: int
    pair: Pair
    count: int


class Trainer:
    """Trains a byte pair encoding: each `step` is one merge, and `back` undoes the last one.

    >>> trainer = Trainer(Counter({b"aaab": 2, b"ab": 1}))
    >>> trainer.step(), trainer.runners_up(1)
    (Merge(token=256, pair=(97, 97), count=4), [((97, 98), 3)])
    """

    def __init__(self, chunks: Counter[bytes], base: Base | None = None, ties: Ties = "first") -> None:
        """`chunks`: how often each distinct chunk occurs, as `count_chunks` returns it."""
        self.base: Base = base or BYTES
        self.entry: Callable[[Pair, int], Entry] = (
            (lambda pair, count: (-count, pair)) if ties == "first" else self.greatest_of_equals
        )
        self.first = self.base.after
        self.merges: list[Merge] = []
        self.spelt: dict[int, bytes] = dict(self.base.tokens)
        self.width = [1] * self.first  # the number of base symbols in a token
        self.lay_out(chunks)
        self.lengths = [int(np.frombuffer(self.weight, np.int64)[self.is_symbol].sum()) + self.fixed_length]
        del self.is_symbol
        self.undone: list[array[int]] = []  # for each merge, the places where its pair was
        self.index_pairs()

    def lay_out(self, chunks: Counter[bytes]) -> None:
        """All symbols in one row, with borders around each chunk and instead of symbols that never merge."""
        rows = [self.base.symbols(chunk) for chunk in chunks]
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(sizes.sum()))
        fixed = flat < self.base.fixed
        counts = np.fromiter(chunks.values(), np.int64, len(rows))
        chunk_of = np.repeat(np.arange(len(rows)), sizes)
        self.fixed_length = int(counts[chunk_of[fixed]].sum())
        places = np.arange(len(flat)) + chunk_of + 1
        symbol = np.full(len(flat) + len(rows) + 1, BORDER, np.int32)
        symbol[places] = np.where(fixed, BORDER, flat)
        weight = np.zeros(len(symbol), np.int64)
        weight[places] = counts[chunk_of]
        row = np.arange(len(symbol), dtype=np.int32)
        self.is_symbol = symbol != BORDER
        # An array takes a third of a list's memory, and reading single items is much faster than with NumPy.
        self.symbol = array("i", symbol.tobytes())
        self.weight = array("q", weight.tobytes())
        self.following = array("i", (row + 1).tobytes())
        self.previous = array("i", (row - 1).tobytes())

    def index_pairs(self) -> None:
        """Count each pair and record its places: sort the pairs once, then take the runs of equal ones."""
        symbol = np.frombuffer(self.symbol, np.int32).astype(np.int64)
        left, right = symbol[:-1], symbol[1:]
        places = np.flatnonzero((left >= 0) & (right >= 0)).astype(np.int32)
        codes = left[places] * self.first + right[places]
        order = np.argsort(codes, kind="stable")
        places, codes = places[order], codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        weights = np.frombuffer(self.weight, np.int64)[places]
        totals = np.add.reduceat(weights, starts) if len(starts) else weights[:0]
        self.pair_counts: defaultdict[Pair, int] = defaultdict(int)
        # It may list places that no longer have the pair.
        self.where: defaultdict[Pair, array[int]] = defaultdict(lambda: array("i"))
        for start, stop, total in zip(
            starts.tolist(), [*starts.tolist(), len(codes)][1:], totals.tolist(), strict=True
        ):
            pair = divmod(int(codes[start]), self.first)
            self.pair_counts[pair] = total
            self.where[pair] = array("i", places[start:stop].tobytes())
        self.order()

    def order(self) -> None:
        self.heap = [self.entry(pair, count) for pair, count in self.pair_counts.items()]
        heapify(self.heap)

    def greatest_of_equals(self, pair: Pair, count: int) -> Entry:
        return (-count, (descending(self.spelt[pair[0]]), descending(self.spelt[pair[1]])), pair)

    @property
    def vocabulary(self) -> int:
        return self.first + len(self.merges)

    def length(self) -> int:
        """The number of symbols that the training text has now."""
        return self.lengths[-1]

    def token_bytes(self, token: int) -> bytes:
        return self.spelt.get(token, b"")

    def runners_up(self, count: int) -> list[tuple[Pair, int]]:
        """The `count` most frequent pairs now, in the order in which they would be merged."""
        counts: dict[Pair, int] = {}
        while len(counts) < count and (best := self.pop()) is not None:
            counts.setdefault(*best)
        for pair, pair_count in counts.items():
            heappush(self.heap, self.entry(pair, pair_count))
        return list(counts.items())

    def step(self) -> Merge | None:
        """Merge the most frequent pair everywhere; returns None if no pair occurs twice any more."""
        best = self.pop()
        if best is None:
            return None
        pair, count = best
        if count < 2:
            heappush(self.heap, self.entry(pair, count))
            return None
        merge = Merge(self.vocabulary, pair, count)
        self.spelt[merge.token] = self.spelt[pair[0]] + self.spelt[pair[1]]
        self.width.append(self.width[pair[0]] + self.width[pair[1]])
        places = self.where.pop(pair)
        del self.pair_counts[pair]
        changes, merged = self.merge_at(places, merge)
        changes.pop(pair, None)
        for changed, change in changes.items():
            if change:
                self.pair_counts[changed] += change
                # Only pairs with the new symbol become more frequent; the others are corrected when they are popped.
                if merge.token in changed:
                    heappush(self.heap, self.entry(changed, self.pair_counts[changed]))
                elif not self.pair_counts[changed]:
                    del self.pair_counts[changed]
        self.undone.append(places)
        self.merges.append(merge)
        self.lengths.append(self.lengths[-1] - merged)
        return merge

    def merge_at(self, places: Sequence[int], merge: Merge) -> tuple[defaultdict[Pair, int], int]:
        """Merge the pair from the left where it is still present; return the changed counts and the merges made."""
        (left, right), token = merge.pair, merge.token
        symbol, following, previous, weight, where = (
            self.symbol,
            self.following,
            self.previous,
            self.weight,
            self.where,
        )
        changes: defaultdict[Pair, int] = defaultdict(int)
        merged = 0
        for place in places:
            other = following[place]
            if symbol[place] != left or symbol[other] != right:
                continue
            count = weight[place]
            merged += count
            before, after = previous[place], following[other]
            symbol[place], symbol[other] = token, SWALLOWED
            following[place], previous[after] = after, place
            if (neighbour := symbol[before]) >= 0:
                changes[neighbour, left] -= count
                changes[neighbour, token] += count
                where[neighbour, token].append(before)
            if (neighbour := symbol[after]) >= 0:
                changes[right, neighbour] -= count
                changes[token, neighbour] += count
                where[token, neighbour].append(place)
        return changes, merged

    def back(self) -> Merge | None:
        """Undo the last merge and restore the state before it; returns None if there is none.

        A symbol is stored at the place of its first part, and its second part is still in the array, so each of its
        places is split again: the inverse of `merge_at`.
        """
        if not self.merges:
            return None
        merge, places = self.merges.pop(), self.undone.pop()
        self.lengths.pop()
        (left, right), token = merge.pair, merge.token
        symbol, following, previous, weight = self.symbol, self.following, self.previous, self.weight
        changes: defaultdict[Pair, int] = defaultdict(int)
        for place in reversed(places):
            if symbol[place] != token:
                continue
            count, other = weight[place], place + self.width[left]
            before, after = previous[place], following[place]
            symbol[place], symbol[other] = left, right
            following[place], previous[other], following[other], previous[after] = other, place, after, other
            if (neighbour := symbol[before]) >= 0:
                changes[neighbour, left] += count
                changes[neighbour, token] -= count
            if (neighbour := symbol[after]) >= 0:
                changes[right, neighbour] += count
                changes[token, neighbour] -= count
        del self.spelt[token], self.width[token]
        changes[merge.pair] = merge.count
        self.where[merge.pair] = places
        for changed, change in changes.items():
            if token in changed:
                self.pair_counts.pop(changed, None)
                self.where.pop(changed, None)
            elif change:
                self.pair_counts[changed] = change + (self.pair_counts.get(changed, 0) if changed != merge.pair else 0)
                heappush(self.heap, self.entry(changed, self.pair_counts[changed]))
        if len(self.heap) > 4 * len(self.pair_counts) + 1000:
            self.order()
        return merge

    def pop(self) -> tuple[Pair, int] | None:
        """Pop the most frequent pair off the heap; among equals, the one that the tie rule chooses."""
        while self.heap:
            negative, *_, pair = heappop(self.heap)
            count = self.pair_counts.get(pair, 0)
            if count == -negative:
                if len(self.spelt[pair[0]]) + len(self.spelt[pair[1]]) <= LONGEST_TOKEN:
                    return pair, count
            elif 0 < count < -negative:
                heappush(self.heap, self.entry(pair, count))
        return None

    def tokenizer(self, pattern: str = "gpt4", special: Sequence[str] = ()) -> BytePairTokenizer:
        """The encoding learnt so far; `pattern` and `special` are those that the chunks were cut with."""
        return BytePairTokenizer(
            [merge.pair for merge in self.merges],
            pattern,
            special,
            base=self.base,
            counts=[merge.count for merge in self.merges],
        )


def descending(data: bytes) -> str:
    """A sort key in the reverse order of the bytes: "ab" after "b", and "a" after "ab", which is longer."""
    return data.translate(INVERTED).decode("latin-1") + "\u0100"


def count_chunks(texts: Iterable[str], pattern: str = "gpt4", special: Sequence[str] = ()) -> Counter[bytes]:
    """How often each chunk occurs; special symbols are cut out first, so that no pair contains or spans one."""
    chunk_counts: Counter[str] = Counter()
    between = regex.compile("|".join(map(regex.escape, sorted(special, key=len, reverse=True)))) if special else None
    for text in texts:
        for stretch in between.split(text) if between else [text]:
            for part in cut(stretch, pattern, PART):
                # findall is a quarter faster, and right for a pattern that matches everything.
                chunk_counts.update(
                    compile_pattern(pattern).findall(part) if pattern in TRUSTED else chunks_of(part, pattern)
                )
    counts: Counter[bytes] = Counter()
    for chunk, count in chunk_counts.items():
        counts[utf8(chunk)] += count
    return counts


def train_tokenizer(
    texts: Iterable[str],
    vocabulary: int,
    pattern: str = "gpt4",
    special: Sequence[str] = (),
    base: Base | None = None,
    ties: Ties = "first",
) -> BytePairTokenizer:
    """Learn an encoding of `vocabulary` tokens in all, the special ones included."""
    cut_out = [*(base.special if base else ()), *special]
    learnt = train_merges(count_chunks(texts, pattern, cut_out), vocabulary - len(special), base, ties=ties)
    return learnt.tokenizer(pattern, special)


def train_merges(
    chunks: Counter[bytes],
    vocabulary: int,
    base: Base | None = None,
    progress: Callable[[int], bool] | None = None,
    ties: Ties = "first",
) -> Trainer:
    """A trainer that has merged up to `vocabulary` tokens, or fewer if no pair occurs twice any more.

    `progress` receives the number of merges done, every hundred, and stops the training by returning False. Raises
    LabError if `vocabulary` is smaller than the base, which is always included.
    """
    base = base or BYTES
    if vocabulary < base.after:
        what = f"{base.size} bytes" if base is BYTES else f"{base.size} tokens of its base"
        raise LabError(f"a byte pair encoding starts from the {what}; a vocabulary of {vocabulary} is too small")
    trainer = Trainer(chunks, base, ties)
    while trainer.vocabulary < vocabulary and trainer.step() is not None:
        if progress and len(trainer.merges) % 100 == 0 and not progress(len(trainer.merges)):
            break
    return trainer
