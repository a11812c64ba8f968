"""Choosing a device, measuring its peak speed, and making its results reproducible.

Notable: "peak" is measured, not taken from a data sheet: one large matrix product in the dtype and with the threads
in use. The share of peak thus says how much of *this* machine a run gets, even if the machine is shared. The data
sheet's peak, which published shares refer to, is given next to it where the card is known.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from txlab.errors import LabError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(wanted: str) -> torch.device:
    """The device of that name; "auto" is the first GPU if CUDA works, else the CPU. LabError if it is not available."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            here = f"CUDA devices here: {count}" if count else "there is no CUDA here"
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


@dataclass(frozen=True)
class DataSheet:
    """Dense bfloat16 FLOP/s with sums in float32, of the whole card (data sheets print twice that "with sparsity"); and
    bytes/s of its memory, 0 = not listed. FLOPs are counted as in `transformer.costs`: a product of matrices of m×k and
    k×n is 2mkn, causal attention counts in full, recomputation does not count."""

    bfloat16: float
    bandwidth: float = 0.0


# By CUDA's name of a card, first match. Variants with other clocks (laptops, D and NVL editions) match nothing: no
# figure is better than another card's.
DATA_SHEETS = {
    r"\bGB200\b": DataSheet(2500e12, 8e12),
    r"\bB200\b": DataSheet(2250e12, 8e12),
    r"\bH200\b(?! NVL)": DataSheet(989e12, 4.8e12),
    r"\bH100 PCIe\b": DataSheet(756e12),
    r"\bH100 NVL\b": DataSheet(835e12),
    r"\bH100\b.*\b(HBM3|SXM)": DataSheet(989e12, 3.35e12),
    r"\bA100\b.*\b80GB\b": DataSheet(312e12, 2e12),
    r"\bA100\b": DataSheet(312e12),
    r"\bMI300X\b": DataSheet(1300e12),
    r"\bRTX 4090$": DataSheet(165e12),
    r"\bRTX 5090$": DataSheet(210e12),
}


def data_sheet(name: str) -> DataSheet | None:
    """What its maker promises of a card, by the name that CUDA gives it; None for a card that is not listed.

    >>> data_sheet("NVIDIA H100 80GB HBM3").bfloat16, data_sheet("NVIDIA GeForce RTX 4090 Laptop GPU")
    (989000000000000.0, None)
    """
    return next((sheet for pattern, sheet in DATA_SHEETS.items() if re.search(pattern, name)), None)


def data_sheet_peak(device: torch.device, dtype: torch.dtype) -> float | None:
    """FLOP/s of the data sheet; None if it is unknown, or the dtype is not bfloat16."""
    sheet = data_sheet(describe(device)) if device.type == "cuda" and dtype == torch.bfloat16 else None
    return sheet.bfloat16 if sheet else None


def measure_peak(device: torch.device, dtype: torch.dtype, seconds: float = 0.15) -> float:
    """The best FLOP/s among several square matrix products, 2n³ operations each, run for about `seconds`.

    The numbers are random: a card computes zeros faster, since it then needs less power (an H200 894 TFLOP/s, of random
    numbers 788).
    """
    n = 8192 if device.type == "cuda" else 1024
    best = _quickest(partial(torch.mm, *torch.randn(2, n, n, device=device).to(dtype)), device, seconds)
    _forget_memory(device)
    return 2 * n**3 / best


def measure_copy(device: torch.device, seconds: float = 0.15) -> float:
    """The best bytes/s of copying within the device's memory, bytes read and bytes written both counted."""
    size = (1 << 30) if device.type == "cuda" else (1 << 26)  # beyond any cache
    ones, target = (torch.ones(size, dtype=torch.uint8, device=device) for _ in range(2))
    best = _quickest(partial(target.copy_, ones), device, seconds)
    del ones, target
    _forget_memory(device)
    return 2 * size / best


def _quickest(work: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Seconds of the quickest of at least three calls."""
    best, rounds = float("inf"), 0
    deadline = time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < deadline:
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        best = min(best, time.perf_counter() - began)
        rounds += 1
    return best


def _forget_memory(device: torch.device) -> None:
    """Give the memory of a measurement back: a run's most allocated memory is its own."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


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
