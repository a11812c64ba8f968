"""A recorded frame as a source of the Attention screen: patterns, labels, scores and next tokens, read in a thread.

Notable: any program may record frames (three lines in a user's loop), so they are not trusted: patterns of fewer
dimensions are of one layer or head, and inconsistent parts are left out. Only the tensors that are drawn are read;
queries and keys are read when `w` needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from txlab.drawing.formatting import count
from txlab.drawing.run_names import fit_handle
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.experiments.protocol import Frame
from txlab.runs.frames import FrameIndex
from txlab.runs.reader import RunReader
from txlab.runs.summary import handle_in
from txlab.tui.screens.attention.source import (
    LEADS,
    LONGEST_NAME,
    SCORES,
    THUMB,
    AttentionSite,
    Candidate,
    Cell,
    NextTokens,
    Span,
    View,
)
from txlab.tui.widgets.thumbnails import max_pool

# Site of a model → the prefix of its tensors in a frame, and the names of its row and column tokens.
FRAME_NAMES = {
    "self": ("attention", "probe", "probe"),
    "encoder": ("encoder", "source", "source"),
    "decoder": ("decoder", "target", "target"),
    "cross": ("cross", "target", "source"),
}
NEEDED = ("query", "key", "v")  # to explain a weight: v of additive scores
DRAWN = (
    "next/probability",
    *(f"{prefix}/{name}" for prefix, _, _ in FRAME_NAMES.values() for name in ("pattern", *SCORES)),
)


@dataclass(frozen=True)
class RecordedAttention:
    """One frame (an AttentionSource).

    patterns          site → (L, H, T, S)
    next_probability  (T, k), with `next_tokens` of T · k; None if the frame has none that fit
    kind              of the run, which explains its frames
    folder            of the run's frames, for questions that need further tensors
    """

    step: int
    sites: dict[str, AttentionSite]
    patterns: dict[str, np.ndarray]
    scores: dict[str, dict[str, np.ndarray]]
    texts: tuple[str, ...] = ()
    next_probability: np.ndarray | None = None
    candidates: tuple[str, ...] = ()
    lead: str = LEADS["next"]
    run: str = ""
    kind: str = ""
    folder: Path = field(default_factory=Path)
    edits: tuple[()] = ()
    stored: bool = True

    @property
    def name(self) -> str:
        return f"{fit_handle(self.run, LONGEST_NAME)} @ {count(self.step)}"

    def thumbnails(self, site: str) -> np.ndarray:
        whole = self.patterns[site]
        return max_pool(whole, *(min(length, THUMB) for length in whole.shape[-2:]))

    def form_layer(self, site: str, layer: int) -> None:
        """Do nothing: every layer is stored."""

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        whole, window = self.patterns[site], (slice(*rows), slice(*columns))
        if view == "pattern":
            return np.asarray(whole[layer, head][window])
        if view == "average":
            return np.asarray(whole[layer][:, window[0], window[1]].astype(np.float32).mean(0))
        import torch

        from txlab.engine.interpret.activation_cache import half_step

        if whole.shape[-1] != whole.shape[-2]:
            raise LabError("a rollout follows tokens through layers; cross-attention attends to another text (a: site)")
        reached = torch.eye(whole.shape[-1])
        for average in torch.from_numpy(whole.astype(np.float32).mean(1)):  # (T, T)
            reached = half_step(average, reached)
        return reached[window].numpy()

    def predicting(self, site: str, row: int) -> int:
        """Return the row that predicts: an encoder's tokens predict nothing, so there it is the target's last one."""
        return row if site != "encoder" else len(self.next_probability) - 1 if self.next_probability is not None else 0

    def next_tokens(self, site: str, row: int) -> NextTokens:
        row = self.predicting(site, row)
        if self.next_probability is None or row >= len(self.next_probability):
            return NextTokens()
        many = self.next_probability.shape[1]
        names = self.candidates[row * many : (row + 1) * many]
        candidates = zip(names, self.next_probability[row], strict=False)
        stream = self.sites.get("decoder", next(iter(self.sites.values())))
        after = stream.rows[row] if row < len(stream.rows) else ""
        return NextTokens(after, tuple(Candidate(name, float(p)) for name, p in candidates), lead=self.lead)

    def explain_cell(self, view: View, cell: Cell) -> Explanation:
        """Explain a cell by the frame's own queries and keys, which are read for it."""
        if view != "pattern":
            raise LabError(f"a frame explains the cells of a head; for {view}, type a text (t) to open the model")

        prefix = FRAME_NAMES[cell.site][0]
        frame = self.read([f"{prefix}/{name}" for name in ("pattern", *NEEDED)])
        index = (cell.layer, cell.head, cell.row, cell.column)
        return kind_of_run(self.kind).explain_frame(frame, f"{prefix}/pattern", index)

    def explain_next(self, site: str, row: int, rank: int) -> Explanation:
        from txlab.experiments.learning.explanations import explain_attention

        return explain_attention(
            self.read(["next/probability"]), "next/probability", (self.predicting(site, row), rank)
        )

    def read(self, names: Sequence[str]) -> Frame:
        return FrameIndex(self.folder).read(self.step, names=names)  # a new index: the reader's belongs to its thread


def attention_of(frame: Frame, run: str = "", folder: Path = Path(), kind: str = "") -> RecordedAttention | None:
    """Return the drawable part of a frame; None if it holds no pattern."""
    sites: dict[str, AttentionSite] = {}
    patterns: dict[str, np.ndarray] = {}
    scores: dict[str, dict[str, np.ndarray]] = {}
    for name, (prefix, of_rows, of_columns) in FRAME_NAMES.items():
        pattern = np.asarray(frame.tensors.get(f"{prefix}/pattern", ()))
        if pattern.ndim < 2 or pattern.ndim > 4 or not pattern.size or pattern.dtype.kind not in "fiu":
            continue
        patterns[name] = pattern = pattern.reshape((1,) * (4 - pattern.ndim) + pattern.shape)
        layers, heads, queries, keys = pattern.shape
        mask = {"encoder": "none", "cross": "none", "decoder": "causal"}.get(name, str(frame.facts.get("mask", "")))
        rows, columns = labels(frame.tokens.get(of_rows, ()), queries), labels(frame.tokens.get(of_columns, ()), keys)
        sites[name] = AttentionSite(layers, heads, rows, columns, "" if mask == "causal" and queries != keys else mask)
        known = {score: frame.tensors.get(f"{prefix}/{score}") for score in SCORES}
        scores[name] = {
            score: np.asarray(array, dtype=np.float32)
            for score, array in known.items()
            if array is not None and np.shape(array) == (layers, heads)
        }
    if not sites:
        return None
    after = frame.tensors.get("next/probability")
    tokens = tuple(frame.tokens.get("next", ()))
    fits = after is not None and np.ndim(after) == 2 and np.size(after) == len(tokens)
    return RecordedAttention(
        frame.step,
        sites,
        patterns,
        scores,
        texts_of(frame, sites),
        np.asarray(after, dtype=np.float32) if fits else None,
        tokens if fits else (),
        LEADS.get(str(frame.facts.get("predicts")), LEADS["next"]),
        run,
        kind,
        folder,
    )


def labels(texts: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the texts if there is one for each position, else the positions, from 1 on."""
    return tuple(texts) if len(texts) == count else tuple(str(place + 1) for place in range(count))


def texts_of(frame: Frame, sites: Mapping[str, AttentionSite]) -> tuple[str, ...]:
    """Return the texts of a frame, else its tokens joined, if they are pieces of the text."""
    if "cross" in sites:
        both = {"source": sites["cross"].columns, "target": sites["cross"].rows}
    else:
        both = {"probe": next(iter(sites.values())).rows}
    return tuple(frame.texts.get(name, "".join(tokens)) for name, tokens in both.items())


# Reading a run.


@dataclass(frozen=True)
class FrameReading:
    """The recording of a run, and the frame to draw (None: unchanged); `trouble`: why there is none."""

    steps: np.ndarray
    checkpoints: np.ndarray
    attention: RecordedAttention | None = None
    trouble: tuple[str, ...] = ()


def read_frame(reader: RunReader, at: int | None, drawn: tuple[int, int] | None) -> FrameReading:
    """Read the frame at or before `at` (None: the newest). `drawn` is the step on the screen and the number of frames
    at the time: if nothing has changed the frame is not read again."""
    info, frames = reader.info, reader.frames
    steps = np.asarray(frames.steps, dtype=np.int64)
    checkpoints = np.array([int(row["step"]) for row in reader.rows("checkpoint")], dtype=np.int64)
    reading = FrameReading(steps, checkpoints)
    if not len(steps):
        return replace(reading, trouble=no_frames(reader))
    index = len(steps) - 1 if at is None else max(0, int(np.searchsorted(steps, at, side="right")) - 1)
    step = int(steps[index])
    if drawn == (step, len(steps)):
        return reading
    run = handle_in(reader.directory.path, info)
    attention = attention_of(frames.read(step, names=DRAWN), run, reader.directory.frames, info.kind)
    if attention is None:
        return replace(reading, trouble=no_pattern(reader, step))
    return replace(reading, attention=attention)


def no_frames(reader: RunReader) -> tuple[str, ...]:
    """Return why there is nothing to show, and how to change that."""
    info = reader.info
    every = reader.scenario.get("record", {}).get("frame_every")
    if reader.state.status in ("running", "paused", "created") and every != 0:
        wait = f"The next frame comes within {every} steps." if isinstance(every, int) else "The first is on its way."
        return (f"{info.name} has recorded no frame yet.", wait)
    return (
        f"{info.name} has recorded no frames, so there is no attention to look at.",
        *(["t types a text, and the model of the newest checkpoint reads it."] if kind_of_run(info.kind).name else []),
        "",
        "A scenario records one at regular steps:",
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
        *(["t types a text, and the model reads it."] if kind_of_run(reader.info.kind).name else []),
        "",
        'To be seen here a frame needs "attention/pattern" of shape (layers, heads, T, T)',
        'and, for the labels, tokens "probe"; of a translator "encoder/…", "decoder/…" and "cross/…".',
    )
