"""What the Attention screen takes from a frame: patterns, labels, scores, next tokens; read in a thread.

Notable: any run may record frames (three lines of somebody else's loop), so nothing about them is taken for granted:
patterns of fewer dimensions are those of one layer or head, and what does not fit together is left out. Only the
tensors that are drawn are read; the queries and keys wait until somebody asks why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txlab.drawing.formatting import count
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.reader import RunReader
from txlab.tui.run_summary import scenario_name
from txlab.tui.screens.attention.source import LEADS, SCORES, Candidate, Following, Span, View, thumbs

# A site of a model → how its tensors are called in a frame, and the tokens of its rows and columns.
PARTS = {
    "self": ("attention", "probe", "probe"),
    "encoder": ("encoder", "source", "source"),
    "decoder": ("decoder", "target", "target"),
    "cross": ("cross", "target", "source"),
}
DRAWN = (
    "next/probability",
    *(f"{prefix}/{name}" for prefix, _, _ in PARTS.values() for name in ("pattern", *SCORES)),
)


@dataclass(frozen=True)
class Part:
    """One kind of attention in a frame: `pattern` (L, H, T, S) with the labels of its axes, scores name → (L, H)."""

    pattern: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    mask: str
    scores: dict[str, np.ndarray]


@dataclass(frozen=True)
class Attention:
    """One frame, ready to be drawn (an AttentionSource): its sites by name, `next_probability` (T, k) with
    `next_tokens` of T · k, `texts` as a person would type them; `folder` holds the frames of the run, for questions
    that need more than what is drawn."""

    step: int
    parts: dict[str, Part]
    next_probability: np.ndarray | None = None
    next_tokens: tuple[str, ...] = ()
    run: str = ""
    folder: Path = Path()
    texts: tuple[str, ...] = ()
    lead: str = LEADS["next"]

    @property
    def name(self) -> str:
        return f"{self.run} @ {count(self.step)}"

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def instant(self, view: View) -> bool:
        return view != "rollout"

    def shape(self, site: str) -> tuple[int, int]:
        """Layers and heads."""
        pattern = self.parts[site].pattern
        return pattern.shape[0], pattern.shape[1]

    def rows(self, site: str) -> tuple[str, ...]:
        return self.parts[site].rows

    def columns(self, site: str) -> tuple[str, ...]:
        return self.parts[site].columns

    def mask(self, site: str) -> str:
        return self.parts[site].mask

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        whole = self.parts[site].pattern
        window = (slice(*rows), slice(*columns))
        if view == "pattern":
            return np.asarray(whole[layer, head][window])
        if view == "average":
            return np.asarray(whole[layer][:, window[0], window[1]].astype(np.float32).mean(0))
        import torch

        from txlab.engine.interpret.activation_cache import half_step

        if whole.shape[-1] != whole.shape[-2]:
            raise LabError("a rollout follows tokens through layers; cross-attention looks at another text (a: site)")
        reached = torch.eye(whole.shape[-1])
        for average in torch.from_numpy(whole.astype(np.float32).mean(1)):  # (T, T)
            reached = half_step(average, reached)
        return reached[window].numpy()

    def thumbnails(self, site: str) -> np.ndarray:
        return thumbs(self.parts[site].pattern)

    def scores(self, site: str) -> dict[str, np.ndarray]:
        return self.parts[site].scores

    def marks(self, site: str, layer: int, head: int) -> dict[tuple[int, int], str]:
        return {}

    def predicting(self, site: str, row: int) -> int:
        """The row of the stream that predicts: an encoder's tokens are followed by nothing, so its last one's."""
        return row if site != "encoder" else len(self.next_probability) - 1 if self.next_probability is not None else 0

    def following(self, site: str, row: int) -> Following:
        """What comes next after token `row`, likeliest first."""
        row = self.predicting(site, row)
        if self.next_probability is None or row >= len(self.next_probability):
            return Following()
        many = self.next_probability.shape[1]
        names = self.next_tokens[row * many : (row + 1) * many]
        found = zip(names, self.next_probability[row], strict=False)
        stream = self.parts.get("decoder", next(iter(self.parts.values())))
        after = stream.rows[row] if row < len(stream.rows) else ""
        return Following(after, tuple(Candidate(name, float(p)) for name, p in found), lead=self.lead)

    def explain_cell(self, view: View, site: str, layer: int, head: int, row: int, column: int) -> Explanation:
        """From the very queries and keys of the frame, which are read for it."""
        if view != "pattern":
            raise LabError(f"a frame explains the cells of a head; for {view}, type a text (t) to open the model")
        prefix = PARTS[site][0]
        names = [f"{prefix}/{name}" for name in ("pattern", "query", "key")]
        frame = self.read(names)
        if site == "self":
            from txlab.experiments.learning.explanations import explain_attention

            return explain_attention(frame, names[0], (layer, head, row, column))
        return explain_part(frame, self.parts[site], prefix, layer, head, row, column)

    def explain_next(self, site: str, row: int, rank: int) -> Explanation:
        from txlab.experiments.learning.explanations import explain_attention

        return explain_attention(
            self.read(["next/probability"]), "next/probability", (self.predicting(site, row), rank)
        )

    def read(self, names: Sequence[str]) -> Frame:
        from txlab.runs.frames import FrameIndex

        return FrameIndex(self.folder).read(self.step, names=names)  # one of its own: the reader's has its thread


def explain_part(frame: Frame, part: Part, prefix: str, layer: int, head: int, i: int, j: int) -> Explanation:
    """Why a cell of encoder, decoder or cross-attention has its weight; LabError where the frame lacks q or k."""
    import torch

    from txlab.engine.transformer.attention import CAUSAL, NO_MASK, explain_weight

    for name in (f"{prefix}/query", f"{prefix}/key"):
        if name not in frame.tensors:
            raise LabError(f"this frame was recorded without {name}, from which the weight is explained")
    q, k = (
        torch.from_numpy(np.array(frame.tensors[f"{prefix}/{name}"][layer, head], dtype=np.float32))
        for name in ("query", "key")
    )
    return explain_weight(q, k, CAUSAL if part.mask == "causal" else NO_MASK, i, j, part.columns)


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


def part_of(frame: Frame, site: str) -> Part | None:
    """One site of a frame; None if it has no pattern that could be drawn."""
    prefix, of_rows, of_columns = PARTS[site]
    found = frame.tensors.get(f"{prefix}/pattern")
    if found is None:
        return None
    pattern = np.asarray(found)
    if pattern.ndim < 2 or pattern.ndim > 4 or not pattern.size or pattern.dtype.kind not in "fiu":
        return None
    pattern = pattern.reshape((1,) * (4 - pattern.ndim) + pattern.shape)
    layers, heads, queries, keys = pattern.shape
    said = str(frame.facts.get("mask", ""))
    mask = {"encoder": "none", "cross": "none", "decoder": "causal"}.get(site, said)
    if mask == "causal" and queries != keys:
        mask = ""
    scores = {}
    for name in SCORES:
        array = frame.tensors.get(f"{prefix}/{name}")
        if array is not None and np.shape(array) == (layers, heads):
            scores[name] = np.asarray(array, dtype=np.float32)
    rows, columns = frame.tokens.get(of_rows, ()), frame.tokens.get(of_columns, ())
    return Part(pattern, labels(rows, queries), labels(columns, keys), mask, scores)


def attention_of(frame: Frame, run: str = "", folder: Path = Path()) -> Attention | None:
    """What can be drawn of a frame; None if it holds no pattern."""
    parts = {site: part for site in PARTS if (part := part_of(frame, site)) is not None}
    if not parts:
        return None
    after = frame.tensors.get("next/probability")
    tokens = tuple(frame.tokens.get("next", ()))
    fits = after is not None and np.ndim(after) == 2 and np.size(after) == len(tokens)
    return Attention(
        frame.step,
        parts,
        np.asarray(after, dtype=np.float32) if fits else None,
        tokens if fits else (),
        run,
        folder,
        texts_of(frame, parts),
        LEADS.get(str(frame.facts.get("predicts")), LEADS["next"]),
    )


def texts_of(frame: Frame, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """The texts that a frame gives, else its tokens strung together, which is the text where tokens are its pieces."""
    if "cross" in parts:
        both = {"source": parts["cross"].columns, "target": parts["cross"].rows}
    else:
        both = {"probe": next(iter(parts.values())).rows}
    return tuple(frame.texts.get(name, "".join(tokens)) for name, tokens in both.items())


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
        np.array([int(row["step"]) for row in reader.rows("checkpoint")], dtype=np.int64),
    )
    if not len(steps):
        return with_trouble(base, no_frames(reader))
    index = len(steps) - 1 if at is None else max(0, int(np.searchsorted(steps, at, side="right")) - 1)
    step = int(steps[index])
    if drawn == (step, len(steps)):
        return base
    frame = frames.read(step, names=DRAWN)
    attention = attention_of(frame, base.run, reader.directory.frames)
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
        'and, for the labels, tokens "probe"; of a translator "encoder/…", "decoder/…" and "cross/…".',
    )
