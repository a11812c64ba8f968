"""The folder of runs: creating a run directory, listing runs by age, finding one by its name, deleting one.

A directory is a run because of the files in it; its name is only a date and the scenario, for people.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

from txlab.errors import LabError, nearest
from txlab.files import OpenFolder, lock
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.label import read_label
from txlab.runs.root import default_root

ASIDE = ".being-made"  # suffix of a directory that is not a run yet
NOT_YET_LOCKED = 10.0  # seconds between its making and its lock, at most
DATED = "%Y-%m-%d_%H%M%S"  # how the name of a run directory begins
SLOW, AT_ONCE = 0.02, 32  # seconds per run from which a disk counts as slow; how many runs are then read in parallel

T = TypeVar("T")


def first_existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    path = path.absolute()
    for place in (path, *path.parents):
        with suppress(OSError):  # a name that is too long: creating it will say so
            if place.exists():
                return place
    return Path("/")


def create_run_directory(root: Path | None, scenario_name: str, out: Path | None = None) -> RunDirectory:
    """Create `out`, or root/2026-11-20_143012_name (with -2, -3 … if two start within a second), and its folders.

    Raises LabError if `out` exists and is not an empty directory, or a directory cannot be created.
    """
    with explain_refusal(out or root or default_root()):
        if out is not None:
            require_empty(out)
            out.mkdir(parents=True, exist_ok=True)
            run = RunDirectory(out.resolve())
        else:
            there = Path(root or default_root()).resolve()
            there.mkdir(parents=True, exist_ok=True)
            while True:
                run = RunDirectory(dated_path(there, scenario_name))
                with suppress(FileExistsError):
                    run.path.mkdir()
                    break
        try:
            for folder in (run.frames, run.checkpoints, run.inbox):
                folder.mkdir()
        except OSError:
            shutil.rmtree(run.path, ignore_errors=True)
            raise
    return run


@contextmanager
def new_run(root: Path | None, scenario_name: str, out: Path | None = None) -> Iterator[tuple[RunDirectory, Path]]:
    """A new run that is complete or absent: (a hidden directory to make it in, the path that it has afterwards).

    It is renamed when the block ends, and removed if the block raises. What a kill leaves behind is not listed as a
    run, and is removed by the next one that is made there. An OSError of the block becomes a LabError.
    """
    with explain_refusal(out or root or default_root()):
        if out is not None:
            require_empty(out)
        place = out.resolve().parent if out is not None else Path(root or default_root()).resolve()
        place.mkdir(parents=True, exist_ok=True)
        remove_leftovers(place)
        while True:
            final = out.resolve() if out is not None else dated_path(place, scenario_name)
            aside = RunDirectory(place / f".{final.name}{ASIDE}")
            with suppress(FileExistsError):
                aside.path.mkdir()
                break
            if out is not None:
                raise LabError(f"{out} is being made by another process, or was until a moment ago")
        held = os.open(aside.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):
                lock(held)
            for folder in (aside.frames, aside.checkpoints, aside.inbox):
                folder.mkdir()
            yield aside, final
            aside.path.rename(final)
        except BaseException:
            shutil.rmtree(aside.path, ignore_errors=True)
            raise
        finally:
            os.close(held)


@contextmanager
def explain_refusal(place: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; a loop of links
        where = getattr(error, "filename", None) or place
        reason = getattr(error, "strerror", None) or "it is not a valid file name"
        raise LabError(f"the run directory {where} cannot be made: {reason}") from None


def require_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LabError(f"{out} exists already and is not an empty directory; name another one with --out")


def remove_leftovers(place: Path) -> None:
    """Remove what a killed process was making under `place`: its lock is free."""
    with suppress(OSError), os.scandir(place) as entries:
        for name in [entry.name for entry in entries if entry.name[:1] == "." and entry.name.endswith(ASIDE)]:
            with suppress(OSError), OpenFolder.at(place / name) as folder:
                if lock(folder.descriptor) and time.time() - os.fstat(folder.descriptor).st_mtime > NOT_YET_LOCKED:
                    shutil.rmtree(place / name)


def dated_path(root: Path, scenario_name: str) -> Path:
    """The path of a new run, of which there is none yet: root/2026-11-20_143012_name, -2, -3 …"""
    # Safe as part of a file name: letters, digits, dot, dash; never empty, never hidden, never a path.
    plain = re.sub(r"[^\w.-]+", "-", scenario_name).strip(".-")[:80] or "run"
    name = f"{time.strftime(DATED)}_{plain}"
    paths = (root / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in paths if not os.path.lexists(path))


def list_runs(root: Path | None = None, known: Container[Path] = ()) -> list[Path]:
    """The runs directly under `root`, newest first; an absent root has none. `known` are not looked into again.

    A run is dated by the name of its directory, or else by its run.json; one whose run.json is garbled, by its
    directory. On a network disk a thousand runs would otherwise take minutes.
    """
    try:
        with os.scandir(root or default_root()) as entries:
            paths = [Path(entry.path) for entry in entries if not entry.name.startswith(".") and is_folder(entry)]
    except OSError:
        return []
    looked_into = each_at_once(is_run, [path for path in paths if path not in known])
    no_runs = {path for path, has_run in looked_into if not has_run}
    runs = [path for path in paths if path not in no_runs]
    dates = {path: date_in(path.name) for path in runs}
    times = Counter(dates.values())  # only run.json orders runs that began within the same second
    exact = dict(each_at_once(created_time, [path for path in runs if dates[path] is None or times[dates[path]] > 1]))

    def age(path: Path) -> tuple[float, float, str]:
        date = dates[path]
        return exact[path] if date is None else date, exact.get(path, 0.0), path.name

    return sorted(runs, key=age, reverse=True)


def is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or deleted meanwhile
        return False


def date_in(name: str) -> float | None:
    """The time in the name of a run directory, in Unix seconds; None if there is none.

    >>> date_in("gpt-tiny"), date_in("2026-11-20_143012_gpt-tiny") == time.mktime((2026, 11, 20, 14, 30, 12, 0, 0, -1))
    (None, True)
    """
    if len(name) < 18 or name[17] != "_":
        return None
    with suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(name[:17], DATED))
    return None


def created_time(path: Path) -> float:
    """When a run was created, as its run.json says; if that is garbled, when its directory was last changed."""
    try:
        return RunInfo.load(path).created
    except LabError:
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def each_at_once(work: Callable[[Path], T], paths: Sequence[Path]) -> list[tuple[Path, T]]:
    """Return (path, work(path)) of each; many in parallel on a slow disk, where most of the time is waiting.

    On a fast disk threads only wait for each other: the list of 1 000 runs takes .73 s, and 1.6 s with threads.
    """
    results: list[tuple[Path, T]] = []
    for done, path in enumerate(paths, 1):
        began = time.perf_counter()
        results.append((path, work(path)))
        if time.perf_counter() - began > SLOW:
            with ThreadPoolExecutor(AT_ONCE, "txlab runs") as pool:
                return results + list(zip(paths[done:], pool.map(work, paths[done:]), strict=True))
    return results


def is_run(path: Path) -> bool:
    """Whether a directory has the files that make it a run; accepts any string."""
    for name in ("run.json", "events.jsonl"):
        try:
            (path / name).stat(follow_symlinks=False)
            return True  # whatever it is: reading it will say what is wrong
        except (OSError, ValueError):  # a name that is too long, or has a NUL
            continue
    return False


def find_in(root: Path, given: str) -> Path | None:
    """The run directly under `root` with this directory name or label, "latest", or the newest run of a scenario of
    this name; None if there is none."""
    run = find_among(list_runs(root), given)
    return None if run is None else run.resolve()


def find_among(runs: Sequence[Path], given: str) -> Path | None:
    """The run that a name refers to, as in `find_in`, among `runs`, newest first."""
    named = [path for path in runs if path.name == given]
    if not named and given == "latest":
        named = list(runs)
    if not named:
        named = [path for path in runs if is_of(path.name, given)]
    if not named and given:
        named = [path for path in runs if read_label(path).name == given]
    return named[0] if named else None


def is_of(name: str, scenario: str) -> bool:
    """Whether the name of a run directory is that of a run of this scenario.

    >>> is_of("2026-11-20_143012_gpt-tiny-2", "gpt-tiny")
    True
    """
    return re.fullmatch(rf"\d{{4}}-\d\d-\d\d_\d{{6}}_{re.escape(scenario)}(-\d+)?", name) is not None


def not_found(root: Path, given: str) -> LabError:
    """The error message for an unknown name: the nearest one, or that there are no runs."""
    runs = list_runs(root)
    if not runs:
        return LabError(f"there is no run {given!r}: no runs in {root.absolute()} yet; txlab run gpt-tiny makes one")
    return LabError(f"there is no run {given!r} in {root}{nearest(given, [*(path.name for path in runs), 'latest'])}")


def delete_run(path: Path, root: Path) -> None:
    """Delete a run permanently. Raises LabError unless it is a run, directly inside `root`, not a link, and not alive.

    Links inside it are removed, never followed: given a descriptor, `rmtree` walks by descriptors.
    """
    if path.is_symlink() or path.resolve().parent != root.resolve() or not is_run(path):
        raise LabError(f"{path} is not deleted: it is not a run directly inside {root}")
    try:
        status = state_of(path).status
    except LabError:
        status = "unreadable"
    if status not in ("done", "stopped", "interrupted", "failed", "unreadable", "lost", "created"):
        raise LabError(f"{path.name} is {status}: stop it first")
    try:
        with OpenFolder.at(root, follow=True) as runs:
            shutil.rmtree(path.resolve().name, dir_fd=runs.descriptor)
    except OSError as error:
        raise LabError(f"{error.filename} cannot be deleted: {error.strerror}") from error
