"""What runs are called where there is little room: what tells them apart is never cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeAlias

from txlab.drawing.formatting import calendar
from txlab.drawing.text import fit, visible, width
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.label import find_shared_handles
from txlab.runs.summary import handle_in

Spare: TypeAlias = AbstractSet[tuple[str, str]]
"""(scenario, setting) that do not tell runs apart."""

SHORT_KEYS = {"learning_rate": "lr"}  # as the literature writes them
LEADING_ZERO = re.compile(r"(?<==)(-?)0(?=\.\d)")


def fit_handle(handle: str, cells: int, spare: Spare = frozenset()) -> str:
    """Shorten what a run is called to at most `cells` cells; what tells runs apart goes last, and no setting is cut.

    In turn: usual short names of settings, without the settings in `spare` (`find_spare`), the end of the scenario's
    name, no scenario, only the first settings.

    >>> name = "playground-xor learning_rate=0.016 seed=2"
    >>> for cells in (41, 26, 18, 14, 9):
    ...     print(fit_handle(name, cells))
    playground-xor learning_rate=0.016 seed=2
    xor lr=.016 seed=2
    xor lr=.016 seed=2
    lr=.016 seed=2
    lr=.016 …
    >>> fit_handle(name, 17, spare={("playground-xor", "seed=2")})
    'xor lr=.016'
    >>> fit_handle("random-walk-19", 8), fit_handle("averylongname", 8)
    ('walk-19', '…ongname')
    """
    if width(handle) <= cells:
        return handle
    first, *words = handle.split(" ")
    full = words
    words = [LEADING_ZERO.sub(r"\1", word) for word in words]
    for long, short in SHORT_KEYS.items():
        words = [re.sub(rf"(^|\.){long}=", rf"\1{short}=", word) for word in words]
    keep = [word for word, whole in zip(words, full, strict=True) if (first, whole) not in spare]
    parts = first.split("-")
    heads = ["-".join(parts[start:]) for start in range(len(parts))]
    offers = [[heads[0], *words], *([head, *keep] for head in heads), *([keep] if keep else [])]
    for offer in offers:
        if width(text := " ".join(offer)) <= cells:
            return text
    if not keep:
        end = heads[-1] if width(heads[-1]) < cells else first
        while end and width(end) >= cells:
            end = end[1:]
        return f"…{end}" if cells > 0 else ""
    while len(keep) > 1 and width(f"{' '.join(keep)} …") > cells:
        keep = keep[:-1]
    return fit(" ".join(keep) + " …", cells).rstrip()


def find_spare(handles: Iterable[str]) -> Spare:
    """Return the settings that all of several runs of a scenario have: they do not tell these apart.

    >>> sorted(find_spare(["xor lr=1 seed=2", "xor lr=3 seed=2", "gpt steps=5"]))
    [('xor', 'seed=2')]
    """
    common: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    for handle in set(handles):
        first, *words = handle.split(" ")
        common[first] = common[first] & set(words) if first in common else set(words)
        times[first] += 1
    return frozenset((first, word) for first, words in common.items() if times[first] > 1 for word in words)


def name_apart(handles: Sequence[str], cells: int) -> list[str]:
    """Return short names for runs that are drawn together: without the settings that all of a scenario have.

    >>> name_apart(["xor lr=1 seed=2", "xor lr=3 seed=2", "gpt steps=5"], 30)
    ['xor lr=1', 'xor lr=3', 'gpt steps=5']
    """
    spare = find_spare(handles)
    words = [(handle.split(" ")[0], handle.split(" ")[1:]) for handle in handles]
    return [
        fit_handle(" ".join([first, *(word for word in rest if (first, word) not in spare)]), cells)
        for first, rest in words
    ]


def name_runs(paths: Iterable[Path]) -> dict[str, str]:
    """Return what each run is called, by the name of its folder; with its start where several have one name."""
    named: dict[str, tuple[str, float]] = {}
    for path in paths:
        try:
            info = info_of(RunDirectory(path))
        except LabError:
            continue
        named[path.name] = (visible(handle_in(path, info)), info.created)
    shared = find_shared_handles(handle for handle, _ in named.values())
    return {
        folder: f"{handle} {calendar(created)}" if handle in shared and created else handle
        for folder, (handle, created) in named.items()
    }
