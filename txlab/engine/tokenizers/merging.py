"""One chunk to tokens: merges applied in rank order (MATH K2).

Notable: two ways that give the same tokens. `passes` shows each merge as it happens and is what short chunks take;
`by_heap` is n log n, so that "a" * 100_000, one chunk, is not quadratic.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

Pair = tuple[int, int]

# Up to so many symbols the passes are faster than the heap (measured: 20 µs against 25 µs at 24 symbols).
SHORT = 24


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


def passes(symbols: Sequence[int], token_of: Mapping[Pair, int]) -> Iterator[tuple[Pair, list[int]]]:
    """The merges of one chunk as they happen: each pair merged, and the symbols after it. Lowest rank first."""
    now = list(symbols)
    while len(now) > 1:
        # The token's id is its rank: merges made their tokens in order.
        token, pair = min(((token_of[p], p) for p in itertools.pairwise(now) if p in token_of), default=(None, None))
        if token is None or pair is None:
            return
        now = merge_pair(now, pair, token)
        yield pair, now


def merge_chunk(data: bytes, token_of: Mapping[Pair, int]) -> list[int]:
    """The tokens of one chunk. `token_of`: the token that each pair becomes; a lower token was learnt earlier."""
    if len(data) > SHORT:
        return by_heap(data, token_of)
    symbols = list(data)
    while len(symbols) > 1:
        best = min(itertools.pairwise(symbols), key=lambda pair: token_of.get(pair, 1 << 62))
        if best not in token_of:
            break
        symbols = merge_pair(symbols, best, token_of[best])
    return symbols


def by_heap(symbols: Sequence[int], token_of: Mapping[Pair, int]) -> list[int]:
    """The same tokens in n log n: a heap of (token, place) over a linked list; the leftmost of equals goes first."""
    now: list[int] = list(symbols)  # −1: swallowed by its left neighbour
    count = len(now)
    following = list(range(1, count + 1))
    previous = list(range(-1, count - 1))
    heap = [
        (token, place)
        for place, pair in enumerate(itertools.pairwise(now))
        if (token := token_of.get(pair)) is not None
    ]
    heapify(heap)
    while heap:
        token, place = heappop(heap)
        right = following[place]
        if now[place] < 0 or right >= count or token_of.get((now[place], now[right])) != token:
            continue  # an earlier merge took one of the two
        now[place], now[right] = token, -1
        after = following[place] = following[right]
        if after < count:
            previous[after] = place
            if (candidate := token_of.get((token, now[after]))) is not None:
                heappush(heap, (candidate, place))
        before = previous[place]
        if before >= 0 and (candidate := token_of.get((now[before], token))) is not None:
            heappush(heap, (candidate, before))
    return [symbol for symbol in now if symbol >= 0]
