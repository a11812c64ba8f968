"""How people tell runs apart: what was changed against the scenario, and the name and the note that a run was given.

Notable: name and note lie in a file of their own, label.json, because run.json belongs to the process that computes
the run and is replaced by it. Anything that is wrong with the file reads as no label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import json_object
from txlab.runs.scenario_errors import escaped, given

LONGEST_NAME, LONGEST_NOTE = 60, 2000  # characters
LARGEST_FILE = 64 * 1024


@dataclass(frozen=True)
class Label:
    """What a person wrote about a run; "" = nothing."""

    name: str = ""
    note: str = ""


def read_label(run: RunDirectory | str | Path) -> Label:
    """Return the label of a run, an empty one if it has none that can be read."""
    try:
        found = json_object(RunDirectory.of(run).read("label.json", LARGEST_FILE))
    except OSError:
        return Label()
    texts = {key: found.get(key) for key in ("name", "note")}
    return Label(**{key: escaped(text) for key, text in texts.items() if isinstance(text, str)})


def write_label(run: RunDirectory | str | Path, name: str | None = None, note: str | None = None) -> Label:
    """Give a run a name or a note, atomically; None leaves what is there, "" removes it. LabError if it is too long."""
    run = RunDirectory.of(run)
    label = read_label(run)
    for key, text, longest in (("name", name, LONGEST_NAME), ("note", note, LONGEST_NOTE)):
        if text is not None:
            text = " ".join(text.split())
            if len(text) > longest:
                raise LabError(f"the {key} has {len(text)} characters; allowed: at most {longest}")
            label = replace(label, **{key: text})
    run.require_own()
    try:
        run.write("label.json", orjson.dumps(asdict(label), option=orjson.OPT_INDENT_2))
    except (OSError, orjson.JSONEncodeError) as error:  # a lone surrogate is not UTF-8
        raise LabError(f"{run.path} cannot be labelled: {getattr(error, 'strerror', None) or error}") from None
    return label


def told_changes(changes: Mapping[str, Any]) -> str:
    """Return settings as a list of runs shows them: the end of each key, a file by its name alone; last those that
    leave the numbers as they are.

    >>> told_changes({"compute.threads": 1, "model.layers": 3, "seed": 7, "data.text": "/home/ann/mine.txt"})
    'layers=3 seed=7 mine.txt threads=1'
    """
    words = []
    for key, value in sorted(changes.items(), key=lambda change: change[0].startswith(("compute.", "record."))):
        if isinstance(value, str) and "/" in value:
            words.append(escaped(value.rstrip("/").rpartition("/")[2]))
        else:
            words.append(f"{escaped(key.rpartition('.')[2])}={given(value).strip(chr(34))}")
    return " ".join(words)


def handle_of(info: RunInfo, label: Label, scenario: str = "") -> str:
    """Return what a run is called on screens: the name it was given, or its scenario and what was changed."""
    return label.name or f"{scenario or info.scenario or info.name} {told_changes(info.changes)}".strip()


def shared(handles: Iterable[str]) -> set[str]:
    """Return the handles that more than one run has; they need the time of their start beside them."""
    return {handle for handle, times in Counter(handles).items() if times > 1}
