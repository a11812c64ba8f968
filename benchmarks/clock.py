"""The clocks of these benchmarks."""

import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of all threads: other programs on the machine change them less than seconds of a clock."""
    begun = time.process_time()
    work()
    return time.process_time() - begun
