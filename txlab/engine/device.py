"""Choosing a device, measuring its peak speed, and making its results reproducible.

Notable: "peak" is measured, not taken from a data sheet: one large matrix product in the dtype and with the threads
in use. The share of peak thus says how much of *this* machine a run gets, even if the machine is shared.
"""

from __future__ import annotations

import os
import time

import torch

from txlab.errors import LabError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(wanted: str) -> torch.device:
    """The device of that name; "auto" is the first GPU if CUDA works, else the CPU. LabError if it is not available."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            here = f"CUDA devices here: {found}" if found else "there is no CUDA here"
            raise LabError(f"compute.device = {wanted!r} cannot be used: {here}; allowed: auto, cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise LabError("compute.device = 'mps' cannot be used: there is no Apple GPU here; allowed: auto, cpu")
    return device


def describe(device: torch.device) -> str:
    """The name of the GPU, or of the CPU's instruction set."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else device.type


def synchronise(device: torch.device) -> None:
    """Wait until all work queued on the device is done; does nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float = 0.15) -> float:
    """The best FLOP/s among several square matrix products, 2n³ operations each, run for about `seconds`."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(2, n, n, device=device).to(dtype)
    best = float("inf")
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < deadline:
        synchronise(device)
        began = time.perf_counter()
        torch.mm(a, b)
        synchronise(device)
        best = min(best, time.perf_counter() - began)
        rounds += 1
    return 2 * n**3 / best


def repeat_exactly(device: torch.device) -> None:
    """Select deterministic kernels; on a CPU they are deterministic for a fixed number of threads.

    On a GPU the backward passes of attention and embeddings otherwise add in whatever order the threads arrive.
    cuBLAS reads its variable when its handle is created, so call this before the first matrix product.
    """
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory with NaN is a debugging aid that costs bandwidth at every allocation.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
