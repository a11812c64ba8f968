"""How the inner loops of games are compiled: by Numba, once for a machine. Only compiled.py of a game imports it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

from txlab.files import lock

compiling = threading.RLock()
held = 0  # calls of `alone` within one another: what is compiled compiles what it calls


def jit(function: Callable[..., Any]) -> Any:
    """The function compiled, with IEEE arithmetic in the order as written; division by zero raises nothing.

    The compiled code is cached next to the source, or in the user's cache if that is not writable. If neither is
    writable, every process compiles again, which takes some twenty seconds.
    """
    try:
        compiled: Any = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # Numba found no place for its cache
        return numba.njit(error_model="numpy")(function)
    compile_or_load = compiled.compile

    def compile_alone(signature: Any) -> Any:
        with alone(Path(compiled.stats.cache_path)):
            return compile_or_load(signature)

    compiled.compile = compile_alone
    return compiled


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Let the other processes that need the same loops wait, and then load what this one has compiled."""
    global held
    with compiling:
        descriptor = os.open(cache, os.O_RDONLY) if held == 0 else None
        held += 1
        try:
            if descriptor is not None:
                lock(descriptor, wait=True)
            yield
        finally:
            held -= 1
            if descriptor is not None:
                os.close(descriptor)
