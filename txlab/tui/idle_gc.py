"""Python's full garbage collection, moved to moments in which no key is pressed.

Notable: a full collection visits every object: 50 ms for the console at start-up, 150 ms once `w` has imported torch.
Python runs it whenever enough objects have been allocated, that is while something is painted, and it caused the
slowest keys of all. The two smaller generations (5 ms at most) stay automatic; the full collection waits for a pause,
and whatever survives it is frozen until the next one.
"""

from __future__ import annotations

import gc

LOOK = 5.0  # seconds between two checks
PAUSE = 10.0  # seconds without a key or the mouse that count as a pause
DUE = 40  # generation-1 collections since the last full one, of 7 000 objects each, that make one worthwhile
AT_LAST = 1000  # after this many it runs regardless of what goes on, so that memory stays bounded


def take_over() -> None:
    """Leave full collections to `search` from now on, and collect once."""
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
