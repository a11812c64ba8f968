"""Python's full garbage collection, moved to moments in which no key is pressed.

A full collection takes 50 ms at start-up and 150 ms once torch is imported, and Python runs it while something is
painted. The two smaller generations (5 ms at most) stay automatic; objects that survive a full one are frozen until the
next.
"""

from __future__ import annotations

import gc

LOOK = 5.0  # seconds between two checks
PAUSE = 10.0  # seconds without a key or the mouse that count as a pause
DUE = 40  # generation-1 collections since the last full one, of 7 000 objects each, that make one worthwhile
AT_LAST = 1000  # after this many it runs in any case, so that memory stays bounded


def take_over() -> None:
    """Leave full collections to `search` from now on, and collect once."""
    gc.enable()
    gc.set_threshold(*gc.get_threshold()[:2], AT_LAST)
    search(due=0)


def search(due: int = DUE) -> bool:
    """Run a full collection if it is worthwhile; return whether it ran."""
    if gc.get_count()[2] < due:
        return False
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True
