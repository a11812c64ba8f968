"""Small run directories with attention frames, as a recorder leaves them; the numbers come from a plain softmax."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.frames import FrameWriter

WORDS = ("the", " cat", " that", " chas", "ed", " the", " mice", " was", " tire", "d", ".")
NEXT = (".", " and", " of", " in", ",", "\n", " the", " so")


def attention_frame(
    step: int, words: tuple[str, ...] = WORDS, layers: int = 4, heads: int = 4, width: int = 8, seed: int = 0
) -> Frame:
    """A frame whose pattern is the causal softmax of its own q and k, sharper with every step."""
    draw = np.random.default_rng(seed)
    count = len(words)
    q, k = draw.normal(size=(2, layers, heads, count, width)) * (0.4 + min(step, 2000) / 1000)
    for layer in range(layers):
        for head in range(heads):
            if (layer + head) % 3 == 0:  # a head that attends to the previous position
                k[layer, head, :-1] = q[layer, head, 1:] * 1.5
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(width)
    scores = np.where(np.tril(np.ones((count, count), dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    pattern = weights / weights.sum(axis=-1, keepdims=True)
    previous = np.array([[np.diagonal(p, -1).mean() for p in row] for row in pattern]) if count > 1 else None
    after = np.sort(draw.dirichlet(np.full(len(NEXT), 0.5), size=count), axis=-1)[:, ::-1] * 0.9
    tensors = {
        "attention/pattern": pattern.astype(np.float16),
        "attention/query": q.astype(np.float32),
        "attention/key": k.astype(np.float32),
        "next/probability": after.astype(np.float32),
    }
    if previous is not None:
        tensors["attention/previous"] = previous.astype(np.float32)
        tensors["attention/induction"] = np.where(previous > 0.5, np.nan, 1 - previous).astype(np.float32)
    return Frame(
        step,
        tensors,
        {"probe": list(words), "next": list(NEXT) * count},
        {},
        {"mask": "causal", "layers": layers, "heads": heads, "head_width": width},
    )


def make_run(
    root: Path,
    name: str = "gpt-docs",
    frames: list[Frame] | None = None,
    status: str = "done",
    kind: str = "language-model",
) -> Path:
    """A run directory with these frames."""
    run = RunDirectory(root / f"2026-11-20_143012_{name}")
    run.inbox.mkdir(parents=True)
    frames = [] if frames is None else frames
    last = frames[-1].step if frames else 0
    now = time.time()
    info = RunInfo(
        name=name, scenario=name, kind=kind, title=name, status=status, created=now, started=now,
        step=last, steps=max(5000, last),
    )  # fmt: skip
    info.save(run)
    rows = [{"event": "start", "time": now, "step": 0, "pid": 1, "host": "box", "resumed_from": None}]
    rows += [{"event": "metrics", "time": now, "step": f.step, "values": {"loss": 5.0}} for f in frames]
    rows += [{"event": "checkpoint", "time": now, "step": f.step, "bytes": 1} for f in frames[1::4]]
    rows.sort(key=lambda row: row["step"])
    run.events.write_bytes(b"".join(encode_row(row) for row in rows))
    if frames:
        writer = FrameWriter(run.frames, 1e9)
        for frame in frames:
            writer.write(frame)
    return run.path
