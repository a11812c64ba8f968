"""A short description of this machine for the corner of the screen. Reads /proc and asks the kernel; no torch."""

from __future__ import annotations

import os
import platform
import re
import socket
from functools import cache
from pathlib import Path

from txlab.engine.cores import cores


def _cpu() -> tuple[str, set[str]]:
    """Return (model name without marketing words, flags)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine(), set()
    name = re.search(r"model name\s*:\s*(.+)", text)
    flags = re.search(r"flags\s*:\s*(.+)", text)
    words = (name.group(1) if name else platform.machine()).split()
    short = next((w for w in words if re.fullmatch(r"EPYC|Xeon\S*|Ryzen|Threadripper|i[3579]-\S+|Ultra", w)), "")
    return re.sub(r"\(\w+\)", "", short) or " ".join(words[:2]), set(flags.group(1).split()) if flags else set()


def _gpus() -> list[str]:
    names = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"Model:\s*(.+)", file.read_text(encoding="utf-8", errors="replace"))
        names.append(match.group(1).strip() if match else "NVIDIA")
    return names


@cache
def machine_line() -> str:
    """host (over SSH) · 2 × EPYC · bf16 · 24 GB; a GPU replaces the CPU."""
    import psutil

    try:
        gpus = _gpus()
    except OSError:
        gpus = []
    model, flags = _cpu()
    parts = [socket.gethostname()] if "SSH_CONNECTION" in os.environ else []
    parts.append(f"{len(gpus)} × {gpus[0]}" if gpus else f"{cores()} × {model}")
    if gpus or flags & {"avx512_bf16", "amx_bf16", "bf16"}:
        parts.append("bf16")
    parts.append(f"{psutil.virtual_memory().total / 2**30:.0f} GB")
    return " · ".join(parts)
