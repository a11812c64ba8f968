"""How often a live run may be looked at: as often as is wished, as long as that takes little of this machine.

Notable: what a look costs depends on the terminal's size, the curves and the processor, so the processor time that the
console has really used is what counts. On two cores, where training waits for the slower of its two threads, a console
that used 3 % of one took 8 % of the run's speed (benchmarks/watching.py).
"""

from __future__ import annotations

import time

from txlab.engine.cores import cores

SHARE = 0.008  # of each core, at most, for the console as a whole
LONGEST = 2.0  # seconds between two looks, whatever they cost


class Thrift:
    """Knows when the last look began, and what the console has used since."""

    def __init__(self) -> None:
        self.share = SHARE * cores()
        self.looked()

    def looked(self) -> None:
        """A look begins."""
        self.began, self.used = time.monotonic(), time.process_time()

    def may_look(self) -> bool:
        wall = time.monotonic() - self.began
        return time.process_time() - self.used <= self.share * wall or wall > LONGEST
