"""Lists of runs: the columns in which they differ, their order, their groups, and their selection by a query.

A column is named as the user types it: "name", "status", "step", "time", a setting ("train.learning_rate", or its last
part), or a metric ("val_loss"). All functions are pure; `txlab runs` and the Lab use the same.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from txlab.errors import LabError, nearest
from txlab.experiments.kind import kind_of_run
from txlab.runs.summary import RunSummary

FIXED: dict[str, Callable[[RunSummary], Any]] = {
    "name": lambda run: run.handle.lower(),
    "created": lambda run: run.created,
    "status": lambda run: run.status,
    "step": lambda run: run.step,
    "time": lambda run: run.seconds,
    "group": lambda run: run.group,
    "scenario": lambda run: run.scenario,
    "tags": lambda run: " ".join(run.tags),
}
GROUPS = ("scenario", "group", "tags", "status")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_COMPARED = re.compile(r"([^\s<>=!]+)(<=|>=|!=|<|>|=)(\S+)")


def value_of(run: RunSummary, column: str) -> Any:
    """The value of a run in a column; None if it has none. "metric" is the run's primary metric."""
    if column in FIXED:
        return FIXED[column](run)
    if column == "metric":
        return run.value
    if column in run.settings:
        return run.settings[column]
    if column in run.values:
        return run.values[column]
    return next((value for key, value in run.settings.items() if key.rpartition(".")[2] == column), None)


def settings_in(runs: Sequence[RunSummary]) -> list[str]:
    """The keys of the settings that differ between the runs, the most common ones first.

    A run without a key has its scenario's value, which counts as a value too.
    """
    have: Counter[str] = Counter()
    values: dict[str, set[str]] = {}
    for run in runs:
        for key, value in run.settings.items():
            have[key] += 1
            values.setdefault(key, set()).add(repr(value))
    differing = [key for key, different in values.items() if len(different) > 1 or have[key] < len(runs)]
    return sorted(differing, key=lambda key: (-have[key], key.startswith(("compute.", "record."))))


def metrics_in(runs: Sequence[RunSummary]) -> list[str]:
    """The names of the metrics of the runs, the most common ones first."""
    return [name for name, _ in Counter(name for run in runs for name in run.values).most_common()]


TWICE = {"lr": "learning_rate"}  # a metric that repeats a setting → the end of the setting's key


def columns_by_use(runs: Sequence[RunSummary]) -> list[str]:
    """The columns of a table of runs, the most useful first: the settings that differ, the main metric, its other
    names left out, how far and how long, the other metrics, those of the machine last."""
    settings, primary = settings_in(runs), {run.metric for run in runs if run.metric}
    ends = {key.rpartition(".")[2] for key in settings}
    rest = [
        name
        for name in metrics_in(runs)
        if TWICE.get(name) not in ends
        and name not in ends
        and not all(run.metric == name for run in runs if name in run.values)  # shown as "metric"
    ]

    def is_of_machine(name: str) -> bool:
        return any(kind_of_run(run.kind).metric(name).group == "machine" for run in runs if name in run.values)

    rest.sort(key=is_of_machine)
    tags = ["tags"] if any(run.tags for run in runs) else []
    return ["name", "metric" if primary else "step", *settings, *(["step"] if primary else []), "time", *tags, *rest]


def columns_in(runs: Sequence[RunSummary]) -> list[str]:
    """All names that `value_of` answers for some of the runs."""
    return list(dict.fromkeys([*FIXED, "metric", *settings_in(runs), *metrics_in(runs)]))


def require_column(name: str, runs: Sequence[RunSummary]) -> str:
    """The name, if some run has such a column. LabError with the nearest name."""
    known = columns_in(runs)
    if name not in known and all(value_of(run, name) is None for run in runs):
        raise LabError(f"no run has {name!r}{nearest(name, known)}; for example {', '.join([*FIXED, *known[-3:]])}")
    return name


def sort_runs(runs: Sequence[RunSummary], column: str, descending: bool = False) -> list[RunSummary]:
    """The runs ordered by a column: numbers by size, then everything else by its text; runs without a value last."""
    valued = [(value, run) for run in runs if (value := value_of(run, column)) is not None]
    without = [run for run in runs if value_of(run, column) is None]
    ordered = sorted(valued, key=lambda pair: _order(pair[0]), reverse=descending)
    return [run for _, run in ordered] + without


def _order(value: Any) -> tuple[int, float, str]:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return 0, float(value), ""
    return 1, 0.0, str(value)


def group_runs(runs: Sequence[RunSummary], column: str) -> list[tuple[str, list[RunSummary]]]:
    """(name of the group, its runs) in the order in which the groups appear. By tags, runs of the same tags are one."""
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(str(value_of(run, column) or ""), []).append(run)
    return list(groups.items())


def compared_columns(words: Sequence[str]) -> list[str]:
    """The columns that a query compares.

    >>> compared_columns(["gpt", "val_loss<.01", "#long", "layers=3"])
    ['val_loss', 'layers']
    """
    return list(dict.fromkeys(compared[1] for word in words if (compared := _COMPARED.fullmatch(word))))


def is_meant(run: RunSummary, words: Sequence[str]) -> bool:
    """Whether all words match the run: part of its name, note, group or settings, `#tag`, or a comparison.

    "layers=3" and "loss<2" compare a column; without such a column the word is searched as text.
    """
    return all(_fits(run, word) for word in words)


def _fits(run: RunSummary, word: str) -> bool:
    if word.startswith("#"):
        return any(tag.lower().startswith(word[1:].lower()) for tag in run.tags)
    if (compared := _COMPARED.fullmatch(word)) and (value := value_of(run, compared[1])) is not None:
        return _compare(value, compared[2], compared[3])
    words = [run.name, run.handle, run.label.note, run.group, run.status, run.changes, *run.tags]
    words += [f"{key}={value}" for key, value in run.settings.items()]
    return word.lower() in " ".join(words).lower()


def _compare(value: Any, sign: str, wanted: str) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        return COMPARISONS[sign](float(value) if number else str(value).lower(), float(wanted) if number else wanted)
    except ValueError:  # a number is compared with a word
        return sign == "!="
