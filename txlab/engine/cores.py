"""How many processors there are to compute with; without torch, for whoever only wants to know."""

import os


def cores() -> int:
    """How many processors this process may use (a container or taskset may allow fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
