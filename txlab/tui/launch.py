"""Starts the console, with what it sets for the whole process and undoes at its end.

Notable: no garbage is collected while it is imported and painted for the first time, which saves a tenth of that time;
`idle_gc.take_over` ends this. Threads take turns more often than usual, since a key waits for them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlab.tui.app import TxlabApp

TAKE_TURNS = 0.001  # seconds for which a thread keeps the interpreter while another wants it


def launch(
    run: Path | None = None,
    root: Path | None = None,
    ascii: bool = False,
    begin: Callable[[TxlabApp], object] | None = None,
) -> int:
    """Run the console until the user leaves, and return the exit status; `begin` is called once it can be used."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TAKE_TURNS))
    gc.disable()
    try:
        from txlab.tui.app import TxlabApp

        app = TxlabApp(run=run, root=root, ascii=ascii)
        app.begin = begin
        app.run()
    finally:
        gc.enable()
        sys.setswitchinterval(before)
    return app.return_code or 0
