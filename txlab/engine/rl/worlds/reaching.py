"""Where a process can get to, and from where it can end: a search along outcomes of positive probability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from txlab.engine.rl.process import Process


def reachable(process: Process) -> np.ndarray:
    """(S) bool: the states that some choice of actions gets to, after slips and wind, from where episodes begin."""
    state = process.pair // process.choices
    possible = process.probability > 0
    return spread(process.size, state[possible], process.next[possible], np.flatnonzero(process.start > 0))


def can_end(process: Process) -> np.ndarray:
    """(S) bool: the states from which some choice of actions ends the episode with positive probability."""
    state = process.pair // process.choices
    possible = process.probability > 0
    ends = possible & (process.done | process.terminal[process.next])
    begin = np.flatnonzero(process.terminal | np.isin(np.arange(process.size), state[ends]))
    return spread(process.size, process.next[possible], state[possible], begin)


def spread(size: int, tail: np.ndarray, head: np.ndarray, begin: Iterable[int]) -> np.ndarray:
    """(size) bool: what can be got to from `begin` along the arrows tail → head."""
    order = np.argsort(tail, kind="stable")
    heads: Sequence[int] = head[order].tolist()
    first: Sequence[int] = np.searchsorted(tail[order], np.arange(size + 1)).tolist()
    found = bytearray(size)
    waiting = [int(each) for each in begin]
    for each in waiting:
        found[each] = 1
    while waiting:
        at = waiting.pop()
        for there in heads[first[at] : first[at + 1]]:
            if not found[there]:
                found[there] = 1
                waiting.append(there)
    return np.frombuffer(bytes(found), dtype=np.uint8).astype(bool)
