"""Report of a run that ran out of memory: the computed needs of its step, what was in use, and which settings need
less.

Notable: the report is made while the error is being handled, when the tensors of the step are still alive: later the
numbers would be those of an empty device.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from typing import Any

from txlab.errors import one_line
from txlab.experiments.protocol import Budget, Budgeted

SHOWN = 160  # characters of the error: torch adds advice for programmers


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is a MemoryError, or torch's own out-of-memory error for a device or the host."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def describe_memory(error: BaseException, experiment: Any) -> tuple[str, str]:
    """(One sentence about it, the same as a table). Never raises: unavailable numbers are left out."""
    parts, lines = [f"out of memory ({one_line(error)[:SHOWN]})" if str(error) else "out of memory"], []
    budget: Budget | None = None
    with contextlib.suppress(Exception):
        budget = experiment.budget() if isinstance(experiment, Budgeted) else None
    if budget is not None:
        parts.append(f"a step ({budget.of}) is computed to need {size(budget.total)}: {list_parts(budget.parts)}")
        lines += [f"computed: a step of {budget.of}", *table(budget.parts | {"in all": budget.total})]
    with contextlib.suppress(Exception):
        where, used = in_use(error, experiment)
        parts.append(f"in use {where}: {list_parts(used)}")
        lines += [f"in use {where}", *table(used)]
    if budget is not None and budget.lower:
        parts.append(f"to need less: {', '.join(budget.lower)}")
        lines += ["to need less", *(f"  {setting}" for setting in budget.lower)]
    return "; ".join(parts), "\n".join(["out of memory", *lines, ""])


def in_use(error: BaseException, experiment: Any) -> tuple[str, dict[str, int]]:
    """(The place where memory ran out, bytes in use by name)."""
    torch = sys.modules.get("torch")
    device = str(getattr(experiment, "device", ""))
    if type(error).__name__ == "OutOfMemoryError" and torch is not None and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info(device or None)
        held = torch.cuda.memory_reserved(device or None)
        return f"on {device or 'the GPU'}", {
            "tensors of this run": torch.cuda.memory_allocated(device or None),
            "at most so far": torch.cuda.max_memory_allocated(device or None),
            "held by torch": held,
            "by all else": max(0, total - free - held),
            "of": total,
        }
    import psutil

    here = psutil.virtual_memory()
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "in main memory", {
        "this process": psutil.Process().memory_info().rss,
        **({"addresses that it may use (ulimit -v)": allowed} if allowed != resource.RLIM_INFINITY else {}),
        "still free": here.available,
        "of": here.total,
    }


def list_parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size(number)}" for name, number in parts.items())


def table(parts: dict[str, int]) -> list[str]:
    return [f"  {name:40s} {size(number):>10s}" for name, number in parts.items()]


def size(number: float) -> str:
    """
    >>> size(1_500_000), size(23_456_000_000)
    ('1.5 MB', '23.5 GB')
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"
