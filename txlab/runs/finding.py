"""The run that a person means: here, on another machine, or in another program's log."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

from txlab.errors import Guess
from txlab.runs.far.state import far_state
from txlab.runs.folder import find_in, is_run, not_found
from txlab.runs.root import default_root


def find_run(
    name_or_path: str | Path, root: Path | None = None, seconds: float = math.inf, to_change: bool = False
) -> Path:
    """Find a run by its path, its directory name under `root`, "latest", a scenario's name (its newest run), or
    the name that it was given; or another program's log by its path or its name, which is read to its end, or for so
    many `seconds`. HOST:RUN is a run on another machine: its mirror, with every row of its log unless only some
    `seconds` are given; if its machine cannot be reached, a warning says how old the copy is, and `to_change` takes
    only the name of its directory.

    Raises LabError with the nearest name if there is none.
    """
    given = str(name_or_path)
    root = Path(root or default_root())
    if given and is_run(Path(given)):
        return Path(given).resolve()
    if ":" in given and not (root / given).exists():  # 25 ms to import, which few names need
        from txlab.runs.far.address import address_of
        from txlab.runs.far.mirroring import open_run

        if (address := address_of(given)) is not None:
            path = open_run(address, whole=seconds == math.inf, to_change=to_change)
            if (far := far_state(path)) is not None and not far.connected:
                warnings.warn(far.sentence + (f" ({far.why})" if far.why else ""), Guess, stacklevel=2)
            return path
    from txlab.runs.foreign.finding import at_path, by_name

    if given and (mirror := at_path(given, seconds)) is not None:
        return mirror
    if (run := find_in(root, given)) is not None:
        return run
    if given and (mirror := by_name(given, root, seconds)) is not None:
        return mirror
    raise not_found(root, given)
