"""What is expensive to prepare is made by the first worker that needs it, and found by the others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from txlab.files import lock


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of that name, which all workers share: `make` has filled it. To be read, not changed."""
    shared = Path(os.environ["TXLAB_TESTS_SHARED"])
    with (shared / f"{name}.lock").open("w") as making:
        lock(making.fileno(), wait=True)
        if not (shared / name).exists():
            folder = Path(tempfile.mkdtemp(dir=shared))
            make(folder)
            folder.rename(shared / name)
    return shared / name
