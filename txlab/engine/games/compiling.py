"""How the inner loops of games are compiled: by Numba, once for a machine. Only compiled.py of a game imports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any]) -> Any:
    """The function compiled, with IEEE arithmetic in the order as written; division by zero raises nothing.

    The compiled code is cached next to the source, or in the user's cache if that is not writable. If neither is
    writable, every process compiles again, which takes some twenty seconds.
    """
    try:
        return numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # Numba found no place for its cache
        return numba.njit(error_model="numpy")(function)
