"""Labels of runs: the settings that differ from the scenario, and the name and note given by the user.

Notable: name and note are in a separate file, label.json, because run.json is replaced by the process that computes the
run. An invalid file is read as an empty label.
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
from txlab.runs.scenario_errors import escape, format_value

LONGEST_NAME, LONGEST_NOTE = 60, 2000  # characters
LARGEST_FILE = 64 * 1024


@dataclass(frozen=True)
class Label:
    """The user's name and note for a run; "" = none."""

    name: str = ""
    note: str = ""


def read_label(run: RunDirectory | str | Path) -> Label:
    """Return the label of a run, an empty one if it has none that can be read."""
    try:
        content = json_object(RunDirectory.of(run).read("label.json", LARGEST_FILE))
    except OSError:
        return Label()
    texts = {key: content.get(key) for key in ("name", "note")}
    return Label(**{key: escape(text) for key, text in texts.items() if isinstance(text, str)})


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


def format_changes(changes: Mapping[str, Any]) -> str:
    """Return settings as a list of runs shows them: the last part of each key, with its section if two keys share it, a
    file by its name alone; settings that do not affect the numbers come last.

    >>> format_changes({"compute.threads": 1, "model.layers": 3, "seed": 7, "data.text": "/home/ann/mine.txt"})
    'layers=3 seed=7 mine.txt threads=1'
    >>> format_changes({"policy.steps": 12, "rankings.steps": 60})
    'policy.steps=12 rankings.steps=60'
    """
    words = []
    times = Counter(key.rpartition(".")[2] for key in changes)
    for key, value in sorted(changes.items(), key=lambda change: change[0].startswith(("compute.", "record."))):
        if isinstance(value, str) and "/" in value:
            words.append(escape(value.rstrip("/").rpartition("/")[2]))
        else:
            last = key.rpartition(".")[2]
            words.append(f"{escape(last if times[last] == 1 else key)}={format_value(value).strip(chr(34))}")
    return " ".join(words)


def handle_of(info: RunInfo, label: Label, scenario: str = "") -> str:
    """Return what a run is called on screens: the name it was given, or its scenario and what was changed, and for a
    branch of another run the step that it began from.

    >>> info = RunInfo("", scenario="gpt-copy", changes={"model.width": 64}, branched={"run": "another", "step": 750})
    >>> handle_of(info, Label())
    'gpt-copy width=64 from=750'
    """
    step = info.branched.get("step")
    words = (scenario or info.scenario or info.name, format_changes(info.changes), f"from={step}" if step else "")
    return label.name or " ".join(word for word in words if word)


def find_shared_handles(handles: Iterable[str]) -> set[str]:
    """Return the handles shared by several runs, which need the start time to tell the runs apart."""
    return {handle for handle, times in Counter(handles).items() if times > 1}
