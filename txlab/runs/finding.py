"""Find a run by name: here, on another machine, or in another program's log."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from pathlib import Path

from txlab.errors import Guess, LabError
from txlab.runs.folder import find_in, is_run, not_found
from txlab.runs.remote.state import remote_state
from txlab.runs.root import default_root


def find_run(
    name_or_path: str | Path,
    root: Path | None = None,
    seconds: float = math.inf,
    to_change: bool = False,
    x: str | None = None,
) -> Path:
    """Find a run by its path, its directory name under `root`, "latest" (another program's log if there is no run), a
    scenario's name (its newest run), or its label; or another program's log by its path or its name, read to its end
    or for `seconds`. HOST:RUN is the mirror of a run on another machine, with every row of its log unless `seconds` is
    given; if the machine cannot be reached, a warning says how old the copy is, and `to_change` accepts only the name
    of its directory. `x` is the column of a table that is the step, from now on.

    Raises LabError with the nearest name if there is none.
    """
    given = str(name_or_path)
    if x is not None and not names_a_file(given):
        raise LabError(f"--x is the step column of a table, and {given} is no file")
    root = Path(root or default_root())
    if given and is_run(Path(given)):
        return Path(given).resolve()
    if ":" in given and not (root / given).exists():  # 25 ms to import, which few names need
        from txlab.runs.remote.address import address_of
        from txlab.runs.remote.mirroring import open_run

        if (address := address_of(given)) is not None:
            path = open_run(address, whole=seconds == math.inf, to_change=to_change)
            if (far := remote_state(path)) is not None and not far.connected:
                warnings.warn(far.sentence + (f" ({far.why})" if far.why else ""), Guess, stacklevel=2)
            return path
    from txlab.runs.external_logs.finding import at_path, by_name, find_logs, open_mirror

    if given and (mirror := at_path(given, seconds, x)) is not None:
        return mirror
    if (run := find_in(root, given)) is not None:
        return run
    if given == "latest" and (logs := find_logs(root)):
        return open_mirror(logs[0], seconds)
    if given and (mirror := by_name(given, root, seconds)) is not None:
        return mirror
    if names_a_file(given):
        raise LabError(f"{given} is no log of a known form: txlab watch --file {given} reads what a program printed")
    raise not_found(root, given)


def names_a_file(given: str) -> bool:
    """Whether this is the path of a file; of what no file can be called it is not."""
    with suppress(OSError, ValueError, RuntimeError):
        return bool(given) and Path(given).expanduser().is_file()
    return False
