"""The processors and graphics cards of this machine, as far as the system tells without torch."""

import os
from pathlib import Path

NVIDIA = ("/dev/nvidiactl", "/dev/dxg")  # of its driver on Linux, and of the Windows driver under WSL


def cores() -> int:
    """The number of processors this process may use (a container or taskset may allow fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_nvidia() -> bool:
    """Whether there is a driver of an NVIDIA card; under WSL, of any card."""
    return any(Path(device).exists() for device in NVIDIA)
