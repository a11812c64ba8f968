"""The solver's functions of stones and bounds for Connect Four; compiled.py compiles these very functions, so they take
integers and call no others (MATH G3; Pons 2015)."""

from __future__ import annotations

from txlab.engine.games.connect_four.rules import BOARD, BOTTOM, COLUMN, COLUMNS, STRIDE, Stones

OFFSET = 64
"""A table keeps OFFSET + an upper bound of a score, or −OFFSET + a lower bound."""
FROM_CENTRE = (3, 2, 4, 1, 5, 0, 6)


def winning(own: Stones, both: Stones) -> Stones:
    """The free squares that would complete four of `own`, whether a stone can fall there yet or not."""
    squares = (own << 1) & (own << 2) & (own << 3)
    for step in (STRIDE - 1, STRIDE, STRIDE + 1):
        pair = (own << step) & (own << 2 * step)
        squares |= pair & (own << 3 * step)
        squares |= pair & (own >> step)
        pair = (own >> step) & (own >> 2 * step)
        squares |= pair & (own << step)
        squares |= pair & (own >> 3 * step)
    return squares & (BOARD ^ both)


def not_losing(both: int, lost: int) -> int:
    """The squares to move to after which the other has no immediate win; 0 = there are none.

    lost   the squares on which the other would win
    """
    squares = (both + BOTTOM) & BOARD
    forced = squares & lost
    if forced:
        if forced & (forced - 1):
            return 0
        squares = forced
    return squares & ~(lost >> 1)


def entry(own: int, both: int) -> int:
    """One number for a position and its mirror image."""
    number, column = 0, 0
    key = own + both  # in each column the stones' colours below a one: different positions have different sums
    for _ in range(COLUMNS):
        number = number << STRIDE | ((key >> column) & (COLUMN << 1 | 1))
        column += STRIDE
    return min(key, number)


def next_bound(low: int, high: int) -> int:
    """The bound to ask about: the middle, but first those near 0, which are quick to decide."""
    middle = low + (high - low) // 2
    if middle <= 0 and low // 2 < middle:
        return -((-low) // 2) if low < 0 else low // 2
    if middle >= 0 and high // 2 > middle:
        return high // 2
    return middle
