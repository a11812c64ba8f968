"""The symbols of one chunk to tokens: merges applied in rank order (MATH K2).

Notable: two ways that give the same tokens. `passes` shows each merge as it happens and is what short chunks take;
`by_heap` is n log n, so that "a" * 100_000, one chunk, is not quadratic. `ranks` gives each pair its rank, `made` each
rank its token: in files of others the order of the ids need not be that of the merges.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

Pair = tuple[int, int]

# Up to so many symbols the passes are faster than the heap (measured: 20 µs against 25 µs at 24 symbols).
SHORT = 24
NO_RANK = 1 << 62


def merge_pair(symbols: Sequence[int], pair: Pair, token: int) -> list[int]:
    """Every occurrence of the pair, from the left, replaced by the token.

    >>> merge_pair([1, 1, 1, 2], (1, 1), 7)
    [7, 1, 2]
    """
    merged: list[int] = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(token)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def passes(
    symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int], together: bool = True
) -> Iterator[tuple[Pair, int, list[int]]]:
    """The merges of one chunk as they happen, lowest rank first: the pair, its rank, the symbols after it.

    `together`: all occurrences of a pair at once. That is the same as one by one where a merge cannot make a pair of
    lower rank than its own, as in every encoding that was learnt; a file may have others.
    """
    now = list(symbols)
    while len(now) > 1:
        ranked = list(map(ranks.get, itertools.pairwise(now), itertools.repeat(NO_RANK)))
        rank = min(ranked)
        if rank == NO_RANK:
            return
        place = ranked.index(rank)
        pair = now[place], now[place + 1]
        now = merge_pair(now, pair, made[rank]) if together else [*now[:place], made[rank], *now[place + 2 :]]
        yield pair, rank, now


def merge_chunk(symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The tokens of one chunk: the pair of lowest rank becomes a token, the leftmost of equals first."""
    if len(symbols) > SHORT:
        return by_heap(symbols, ranks, made)
    now = list(symbols)
    while len(now) > 1:
        ranked = list(map(ranks.get, itertools.pairwise(now), itertools.repeat(NO_RANK)))
        rank = min(ranked)
        if rank == NO_RANK:
            break
        place = ranked.index(rank)
        now[place : place + 2] = [made[rank]]
    return now


def by_heap(symbols: Sequence[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The same tokens in n log n: a heap of (rank, place) over a linked list; the leftmost of equals goes first."""
    now: list[int] = list(symbols)  # −1: swallowed by its left neighbour
    count = len(now)
    following = list(range(1, count + 1))
    previous = list(range(-1, count - 1))
    heap = [
        (rank, place) for place, pair in enumerate(itertools.pairwise(now)) if (rank := ranks.get(pair)) is not None
    ]
    heapify(heap)
    while heap:
        rank, place = heappop(heap)
        right = following[place]
        if now[place] < 0 or right >= count or ranks.get((now[place], now[right])) != rank:
            continue  # an earlier merge took one of the two
        token = now[place] = made[rank]
        now[right] = -1
        after = following[place] = following[right]
        if after < count:
            previous[after] = place
            if (candidate := ranks.get((token, now[after]))) is not None:
                heappush(heap, (candidate, place))
        before = previous[place]
        if before >= 0 and (candidate := ranks.get((now[before], token))) is not None:
            heappush(heap, (candidate, before))
    return [symbol for symbol in now if symbol >= 0]
