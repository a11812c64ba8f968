"""What the Attention screen takes from a frame: patterns, labels, scores, next tokens; read in a thread.

Notable: any run may record frames (three lines of somebody else's loop), so nothing about them is taken for granted:
patterns of fewer dimensions are those of one layer or head, and what does not fit together is left out. Only the
tensors that are drawn are read; the queries and keys wait until somebody asks why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from txlab.experiments.protocol import Frame
from txlab.runs.reader import RunReader
from txlab.tui.glance import scenario_name

PATTERN = "attention/pattern"
SCORES = ("induction", "previous")
DRAWN = (PATTERN, "next/probability", *(f"attention/{score}" for score in SCORES))
WORTH_A_NOTE = 0.3  # a head with a lower score is not called after it


@dataclass(frozen=True)
class Attention:
    """One frame, ready to be drawn: `pattern` (L, H, T, S), labels of both axes, `masked` (T, S) or None,
    `scores` name → (L, H), `next_probability` (T, k) with `next_tokens` of T · k."""

    step: int
    pattern: np.ndarray
    probe: tuple[str, ...]
    mask: str = ""
    masked: np.ndarray | None = None
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    next_probability: np.ndarray | None = None
    next_tokens: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return self.pattern.shape[0], self.pattern.shape[1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Labels of what is looked at: the probe, if there is a label for each."""
        return labels(self.probe, self.pattern.shape[3])

    def following(self, row: int) -> list[tuple[str, float]]:
        """What comes next after token `row`: (token, probability), likeliest first."""
        if self.next_probability is None or row >= len(self.next_probability):
            return []
        count = self.next_probability.shape[1]
        names = self.next_tokens[row * count : (row + 1) * count]
        return [(name, float(p)) for name, p in zip(names, self.next_probability[row], strict=False)]

    def score(self, name: str, layer: int, head: int) -> float:
        """A head's score; NaN where it is not known."""
        return float(self.scores[name][layer, head]) if name in self.scores else float("nan")

    def strongest(self, name: str, count: int) -> list[tuple[int, int]]:
        """The heads with the highest scores, (layer, head) from 0."""
        if name not in self.scores:
            return []
        flat = np.nan_to_num(self.scores[name], nan=-1.0).ravel()
        order = [int(index) for index in np.argsort(-flat, kind="stable")[:count] if flat[index] >= 0]
        return [divmod(index, self.shape[1]) for index in order]


@dataclass(frozen=True)
class Look:
    """What a reading found: the recording's steps, the run's state, and the frame to draw (None: draw what is drawn).

    `trouble` says why there is nothing to draw."""

    run: str
    steps: np.ndarray
    edge: int
    total: int
    status: str
    checkpoints: np.ndarray
    attention: Attention | None = None
    trouble: tuple[str, ...] = ()


def labels(texts: Sequence[str], count: int) -> tuple[str, ...]:
    """The texts if there is one for each, else the places, from 1 on."""
    return tuple(texts) if len(texts) == count else tuple(str(place + 1) for place in range(count))


def attention_of(frame: Frame) -> Attention | None:
    """What can be drawn of a frame; None if it holds no pattern."""
    found = frame.tensors.get(PATTERN)
    if found is None:
        return None
    pattern = np.asarray(found)
    if pattern.ndim < 2 or pattern.ndim > 4 or not pattern.size or pattern.dtype.kind not in "fiu":
        return None
    pattern = pattern.reshape((1,) * (4 - pattern.ndim) + pattern.shape)
    layers, heads, count, looked_at = pattern.shape
    mask = str(frame.facts.get("mask", ""))
    masked = None
    if mask == "causal" and count == looked_at:
        masked = np.triu(np.ones((count, count), dtype=bool), k=1)
    scores = {}
    for name in SCORES:
        array = frame.tensors.get(f"attention/{name}")
        if array is not None and np.shape(array) == (layers, heads):
            scores[name] = np.asarray(array, dtype=np.float32)
    after = frame.tensors.get("next/probability")
    tokens = tuple(frame.tokens.get("next", ()))
    fits = after is not None and np.ndim(after) == 2 and np.size(after) == len(tokens)
    return Attention(
        frame.step,
        pattern,
        labels(frame.tokens.get("probe", ()), count),
        mask,
        masked,
        scores,
        np.asarray(after, dtype=np.float32) if fits else None,
        tokens if fits else (),
    )


def look(reader: RunReader, at: int | None, drawn: tuple[int, int] | None) -> Look:
    """Read the frame at or before `at` (None: the newest). `drawn` is the step that is on the screen and how many
    frames there were then: where nothing has changed the frame is not read again."""
    info, frames = reader.info, reader.frames
    steps = np.asarray(frames.steps, dtype=np.int64)
    edge = max(info.step, reader.state.step or 0)
    base = Look(
        scenario_name(reader.directory.path, info.scenario),
        steps,
        edge,
        info.steps,
        reader.state.status,
        np.array([int(row["step"]) for row in reader.checkpoints], dtype=np.int64),
    )
    if not len(steps):
        return with_trouble(base, no_frames(reader))
    index = len(steps) - 1 if at is None else max(0, int(np.searchsorted(steps, at, side="right")) - 1)
    step = int(steps[index])
    if drawn == (step, len(steps)):
        return base
    frame = frames.read(step, names=DRAWN)
    attention = attention_of(frame)
    if attention is None:
        return with_trouble(base, no_pattern(reader, step))
    return Look(base.run, steps, base.edge, base.total, base.status, base.checkpoints, attention)


def with_trouble(base: Look, sentences: tuple[str, ...]) -> Look:
    return Look(base.run, base.steps, base.edge, base.total, base.status, base.checkpoints, None, sentences)


def no_frames(reader: RunReader) -> tuple[str, ...]:
    """Why there is nothing to see, and what to do."""
    info = reader.info
    every = reader.scenario.get("record", {}).get("frame_every")
    if reader.state.status in ("running", "paused", "created") and every != 0:
        wait = f"The next frame comes within {every} steps." if isinstance(every, int) else "The first is on its way."
        return (f"{info.name} has recorded no frame yet.", wait)
    return (
        f"{info.name} has recorded no frames, so there is no attention to look at.",
        "",
        "A scenario records one every so many steps:",
        f"  txlab run {info.scenario or 'SCENARIO'} --set record.frame_every=10",
        "",
        "and so does any loop of your own:",
        '  run = txlab.record("mine")',
        '  run.frame(step, tensors={"attention/pattern": p}, tokens={"probe": words})',
    )


def no_pattern(reader: RunReader, step: int) -> tuple[str, ...]:
    held = sorted(reader.frames.read(step).tensors)
    return (
        f"The frames of {reader.info.name} hold no attention pattern.",
        f"They hold: {', '.join(held) or 'nothing'}.",
        "",
        'To be seen here a frame needs "attention/pattern" of shape (layers, heads, T, T)',
        'and, for the labels, tokens "probe".',
    )
