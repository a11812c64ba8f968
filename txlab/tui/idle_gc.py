"""Python's search for rings of objects that nobody needs any more, moved to moments in which nobody presses a key.

Notable: a full search looks at every object there is: 50 ms for the console as it starts, 150 ms once torch has been
asked why, and Python does it whenever enough has been made, which is while something is painted. These were the slowest
keys of all. The two small searches (5 ms at most) stay where they are; the full one waits for a pause, and what it has
found alive is set aside until the next one.
"""

from __future__ import annotations

import gc

LOOK = 5.0  # seconds between two questions whether it is time
PAUSE = 10.0  # seconds without a key or the mouse that count as a pause
DUE = 40  # middle searches since the last full one, of 7 000 objects each, that make one worth its time
AT_LAST = 1000  # as many and it is done in the middle of whatever goes on, so that memory stays bounded


def take_over() -> None:
    """From now on `search` decides; what exists now is looked through once."""
    gc.set_threshold(*gc.get_threshold()[:2], AT_LAST)
    search(due=0)


def search(due: int = DUE) -> bool:
    """A full search, if it is worth it; whether it was."""
    if gc.get_count()[2] < due:
        return False
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True
