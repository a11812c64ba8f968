"""The data of the Train screen for a run, gathered in a worker thread into one frozen snapshot.

Curves are passed on as the reader's own read-only arrays, however long; the chart thins them. Facts at an earlier step
are from the last row at or before it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from txlab.drawing.formatting import count, megabytes, number, significant
from txlab.drawing.run_names import name_apart
from txlab.drawing.text import visible
from txlab.engine.card import describe_slowdown
from txlab.experiments.kind import Kind, kind_of_run
from txlab.experiments.metric import (
    band_of,
    edges_of,
    family_of,
    in_order,
    primary_metrics,
    relatives,
    validation_of,
)
from txlab.runs import checkpoints
from txlab.runs.directory import RunState
from txlab.runs.label import find_shared_handles
from txlab.runs.live_rows import Series
from txlab.runs.reader import RunReader
from txlab.runs.summary import handle_in
from txlab.tui.history import Entry, history
from txlab.tui.run_pictures import Pictures, pictures_of
from txlab.tui.widgets.facts import Fact

OTHERS_SHOWN = 8  # metrics of a recorded run
DEAD_SHOWN = 8  # newest dead branches
LONGEST_LEGEND = 24  # cells of the name of a run in the legend
SPARK = 64  # values behind a small curve


@dataclass(frozen=True)
class Look:
    """What the user has selected: the metric, the step (None = live), other runs to compare with, an image or a
    histogram."""

    metric: str = ""
    at: int | None = None
    overlays: tuple[Path, ...] = ()
    picture: str = ""


@dataclass(frozen=True)
class Line:
    """A curve of the chart: `role` is "train", "val", "dead" or "other"."""

    label: str
    role: str
    steps: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Snapshot:
    """All data of the screen, from one read."""

    called: str
    state: RunState
    title: str
    metric: str
    metrics: tuple[str, ...]
    unit: str
    lines: tuple[Line, ...]
    facts: tuple[Fact, ...]
    samples: Mapping[int, tuple[tuple[str, str], ...]]
    entries: tuple[Entry, ...]
    frames: np.ndarray[Any, Any]
    checkpoints: np.ndarray[Any, Any]
    step: int
    steps: int
    seconds: float
    seconds_left: float | None
    complete: bool
    values: Mapping[str, float] = field(default_factory=dict)
    scenario: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    recorded: bool = False  # by another program that accepts no requests
    created: float = 0.0
    takes: tuple[str, ...] = ()  # the requests accepted by another program's loop
    alerts: Mapping[str, Any] = field(default_factory=dict)  # RunInfo.alerts
    pictures: Pictures = field(default_factory=Pictures)
    events: tuple[tuple[int, str], ...] = ()  # (step, words) of the run's events, for the chart
    omission: str = ""  # omitted rows of the log


def value_at(series: Series, at: int | None) -> float | None:
    """Return the last value at or before a step; None if there is none."""
    if not len(series):
        return None
    index = len(series) - 1 if at is None else int(np.searchsorted(series.steps, at, "right")) - 1
    return float(series.values[index]) if index >= 0 else None


def recent(series: Series, at: int | None) -> tuple[float, ...] | None:
    """Return the values before a step, for a small curve."""
    end = len(series) if at is None else int(np.searchsorted(series.steps, at, "right"))
    values = series.values[max(0, end - SPARK) : end]
    return tuple(float(value) for value in values) if len(values) > 1 else None


def snapshot(reader: RunReader, look: Look, other: Callable[[Path], RunReader]) -> Snapshot:
    """Gather the snapshot. `other` returns the reader of an overlaid run."""
    path, info, state = reader.directory.path, reader.info, reader.state
    if reader.problem:
        state = replace(state, status="unreadable", reason=reader.problem)
    names, kind = reader.names(), kind_of_run(info.kind)
    known = dict.fromkeys(names)
    hidden = {validation_of(name, known) for name in names}  # drawn with the training curve
    together = relatives(names, kind.METRICS)
    metrics = [name for name in in_order(names, kind.METRICS, info.facts) if name not in hidden]
    metrics = [name for name in metrics if name == together[name][0]]  # one per family
    asked = together.get(look.metric, [look.metric])[0]
    metric = asked if asked in metrics else metrics[0] if metrics else ""
    step = max(
        state.step, info.step, max((int(s.steps[-1]) for n in metrics[:1] if len(s := reader.series(n))), default=0)
    )
    values = {name: value for name in names if (value := value_at(reader.series(name), look.at)) is not None}
    steps = reader.frames.steps
    left = values.get("seconds_left") if look.at is None else None
    return Snapshot(
        handle_in(path, info),
        state,
        info.title,
        metric,
        tuple(metrics),
        kind.metric(metric).unit or kind.metric(metric).title,
        lines_of(reader, kind, metric, look, other),
        facts_of(reader, look.at, values),
        samples_of(reader),
        history(reader),
        steps,
        np.array(checkpoints.steps(reader.directory), np.int64),
        step,
        state.steps,
        info.seconds(until=time.time()),
        left if left is not None and math.isfinite(left) else None,
        reader.complete,
        values,
        reader.scenario,
        info.facts,
        info.recorded,
        info.created,
        info.takes,
        info.alerts,
        pictures_of(reader.frames, look.at, look.picture),
        interventions(reader),
        reader.omission,
    )


def interventions(reader: RunReader) -> tuple[tuple[int, str], ...]:
    """Return (step, words) of the changes of parameters and the restarts of the live branch, in order of the steps."""
    events = [
        (row["step"], visible(f"{row.get('key')} {significant(row['to'])}"))
        for row in reader.rows("control")
        if row.get("applied") is True and isinstance(row.get("to"), float | int) and not row.get("replayed")
    ]
    for row in reader.rows("rewind"):
        begun = "branched" if row["step"] == reader.info.branched.get("step") else "resumed"
        if row["step"] > 0:
            events.append((row["step"], "rewound" if row.get("explicit") else begun))
    return tuple(sorted(events, key=lambda event: event[0]))


def lines_of(
    reader: RunReader, kind: Kind, metric: str, look: Look, other: Callable[[Path], RunReader]
) -> tuple[Line, ...]:
    """Return the curve, its validation, the same curve of other runs, and the branches that rewinds ended."""
    if not metric:
        return ()
    together = relatives(reader.names(), kind.METRICS).get(metric, [metric])
    if len(together) > 1:
        roles = ["train"] + ["other"] * (len(together) - 1)
        members = zip(together, roles, strict=True)
        return tuple(
            line(name.removeprefix(family_of(name, kind.METRICS)), role, reader.series(name)) for name, role in members
        )
    validation = validation_of(metric, reader.names())
    has_validation = bool(validation) and len(reader.series(validation)) > 0
    beside = [each for path in look.overlays if len((each := polled(other(path))).series(metric))]
    own, *others = name_runs([reader, *beside])
    lines = [line(own if beside else "train" if has_validation else metric, "train", reader.series(metric))]
    if has_validation:
        called = re.split(r"[/_]", validation)[0]  # val, eval, …: the recorder's own word
        lines.append(line(called, "val", reader.series(validation)))
    lines += [line(name, "other", each.series(metric)) for name, each in zip(others, beside, strict=True)]
    lines += [line("", "dead", dead) for dead in reader.dead_series(metric)[-DEAD_SHOWN:]]
    return tuple(lines)


def polled(reader: RunReader) -> RunReader:
    reader.poll()
    return reader


def name_runs(readers: Sequence[RunReader]) -> list[str]:
    """Return short names of runs that are drawn together, which say what differs between them."""
    handles = [handle_in(reader.directory.path, reader.info) for reader in readers]
    shared = find_shared_handles(handles)
    return name_apart([legend_of(reader, shared) for reader in readers], LONGEST_LEGEND)


def legend_of(reader: RunReader, shared: Container[str]) -> str:
    """Return the name of a run next to others, with its start time if another one has the same name."""
    path, info = reader.directory.path, reader.info
    handle = handle_in(path, info)
    if handle not in shared or not info.created:
        return handle
    return f"{handle} {time.strftime('%d %b %H:%M:%S', time.localtime(info.created))}"


def line(label: str, role: str, series: Series) -> Line:
    return Line(label, role, series.steps, series.values)


def samples_of(reader: RunReader) -> dict[int, tuple[tuple[str, str], ...]]:
    """Return step → (prompt, text) of the texts that the model wrote, in order of the steps."""
    samples: dict[int, list[tuple[str, str]]] = {}
    for row in reader.rows("sample"):
        prompt, text = row.get("prompt"), row.get("text")
        if isinstance(text, str):
            name = row.get("name")
            written = f"{name}: {text}" if isinstance(name, str) and name else text
            samples.setdefault(row["step"], []).append((prompt if isinstance(prompt, str) else "", written))
    return {step: tuple(samples[step]) for step in sorted(samples)}


def facts_of(reader: RunReader, at: int | None, values: Mapping[str, float]) -> tuple[Fact, ...]:
    """Return the column of numbers next to the curve, most important first; absent metrics are left out."""
    facts: list[Fact] = []
    about, scenario = reader.info.facts, reader.scenario
    compute_facts, named = about.get("compute"), about.get("unit")
    compute: Mapping[str, Any] = compute_facts if isinstance(compute_facts, dict) else {}
    unit = named if isinstance(named, str) else "tokens"
    kind = kind_of_run(reader.info.kind)
    nats = kind.metric("loss").unit

    def add(name: str, key: str, note: str = "", spark: bool = False, text: str | None = None) -> None:
        if key in values:
            value = values[key]
            bad = not math.isfinite(value)
            curve = recent(reader.series(key), at) if spark else None
            facts.append(Fact(name, text or significant(value), note, key, curve, "bad" if bad else "plain"))

    known = {"loss", "val_loss", "val_bits_per_byte", "bits_per_byte", "lr", "grad_norm"}
    own = [each for each in kind.METRICS if each.label and not each.is_family and each.key not in known]
    known |= {each.key for each in own}
    others = [
        name
        for name in values
        if name not in known and kind.metric(name).group != "machine" and band_of(name) not in values
    ]

    together = relatives(values, kind.METRICS)

    def add_own(name: str) -> None:
        group, band = family_of(name, kind.METRICS), band_note(name, values)
        if group and len(together[name]) > 1:
            label = kind.metric(name).label or group.rstrip("/_")
            add(visible(f"{label} {name.removeprefix(group)}".replace("_", " "))[:24], name, band)
        else:
            add(visible(name.replace("_", " "))[:24], name, band, spark=not band)

    if isinstance(about.get("headline"), list):  # an experiment that names its headline metrics
        for name in (foremost := primary_metrics(others, headline=about["headline"])[:OTHERS_SHOWN]):
            add_own(name)
        others = [name for name in others if name not in foremost][: OTHERS_SHOWN - len(foremost)]
    add("loss", "loss", nats)
    add("val", "val_loss", best_note(reader, at, nats))
    add("bits/byte", "val_bits_per_byte" if "val_bits_per_byte" in values else "bits_per_byte")
    for each in own:
        add(each.label, each.key, each.note)
    add("lr", "lr", schedule(scenario, values, at if at is not None else reader.state.step))
    add("‖grad‖", "grad_norm", spark=True)
    rates = (f"{unit}_per_second", "tokens_per_second")
    add(f"{visible(unit)}/s", next((rate for rate in rates if rate in values), ""), spark=True)
    if "share_of_peak" in values:
        add("of peak", "share_of_peak", machine_note(compute, kind), text=f"{100 * values['share_of_peak']:.0f} %")
    elif compute:
        facts.append(Fact("computes", visible(str(compute.get("device", ""))), machine_note(compute, kind), "compute"))
    if "share_of_data_sheet" in values:
        add(
            "of sheet",
            "share_of_data_sheet",
            "the data sheet's peak",
            text=f"{100 * values['share_of_data_sheet']:.0f} %",
        )
    add("memory", "memory_mb", memory_note(values), text=count(values.get("memory_mb", 0)))
    if "gpu_busy" in values:
        add("busy", "gpu_busy", "time with a kernel", text=f"{100 * values['gpu_busy']:.0f} %")
    limit = f"W of {values['gpu_watts_limit']:.0f}" if "gpu_watts_limit" in values else "W"
    add("power", "gpu_watts", limit, text=f"{values.get('gpu_watts', 0):.0f}")
    add("temperature", "gpu_celsius", "°C", text=f"{values.get('gpu_celsius', 0):.0f}")
    if reasons := describe_slowdown(values.get("gpu_slowed", 0)):
        add("slowed", "gpu_slowed", "", text=reasons)
    frames = len(reader.frames)
    if frames:
        facts.append(Fact("frames", count(frames), megabytes(reader.frames.size), "frames"))
    for name in others[:OTHERS_SHOWN]:
        add_own(name)
    return tuple(facts)


def memory_note(values: Mapping[str, float]) -> str:
    """Return "MB", on a GPU with its total and the use by all programs."""
    if "gpu_total_mb" not in values or "gpu_used_mb" not in values:
        return "MB"
    return f"MB; in use {values['gpu_used_mb'] / 1e3:.1f} of {values['gpu_total_mb'] / 1e3:.1f} GB"


def band_note(name: str, values: Mapping[str, float]) -> str:
    """Return the bounds of a metric's band, "" if it has none."""
    return " to ".join(significant(edge) for edge in edges_of(name, values))


def best_note(reader: RunReader, at: int | None, unit: str) -> str:
    series = reader.series("val_loss")
    end = len(series) if at is None else int(np.searchsorted(series.steps, at, "right"))
    finite = np.isfinite(series.values[:end])
    if finite.sum() < 2:
        return unit
    best = int(np.where(finite, series.values[:end], np.inf).argmin())
    rank = "best so far" if best == end - 1 else f"best {number(float(series.values[best]))}"
    return f"{unit}, {rank}" if unit else rank


def schedule(scenario: Mapping[str, Any], values: Mapping[str, float], step: int) -> str:
    """Return the phase of the learning rate: "warm-up to step 100", "cosine, warm-up done"."""
    train = scenario.get("train")
    if not isinstance(train, dict):
        return ""
    warmup, decay = train.get("warmup"), train.get("decay")
    if isinstance(warmup, int) and step < warmup:
        return f"warm-up to step {count(warmup)}"
    if not isinstance(decay, str):
        return ""
    return f"{visible(decay)}, warm-up done" if warmup else visible(decay)


def machine_note(compute: Mapping[str, Any], kind: Kind) -> str:
    """Return a note such as "bf16, 2 threads, matmul attention", the last of a network with attention."""
    dtype = {"bfloat16": "bf16", "float32": "fp32"}.get(str(compute.get("dtype", "")), str(compute.get("dtype", "")))
    threads = compute.get("threads")
    parts = [dtype]
    if isinstance(threads, int) and threads > 0:
        parts.append(f"{threads} thread{'s' if threads > 1 else ''}")
    if compute.get("attention") and (kind.attends or not kind.name):
        parts.append(f"{compute['attention']} attention")
    if compute.get("cuda_graphs") is True:
        parts.append("graphs")
    return visible(", ".join(part for part in parts if part))
