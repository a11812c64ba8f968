"""The number of processors available, without importing torch."""

import os


def cores() -> int:
    """The number of processors this process may use (a container or taskset may allow fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
