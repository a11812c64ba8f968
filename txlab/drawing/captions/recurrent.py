"""Recurrent: how much of a gradient is lost on its way back, and what a unit's state says about the text."""

from __future__ import annotations

import numpy as np

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, share
from txlab.drawing.text import label
from txlab.experiments.protocol import Frame
from txlab.experiments.recurrent_states import tokens_of

CURVE = "curve/"
BLANKS = {" ": "a space", "\n": "the end of a line"}  # whose signs mean something else in ASCII


def gradients(frame: Frame) -> Sentence:
    """ "The RNN's gradient has lost 25 powers of ten over 99 steps", "the LSTM's none"

    lost = log₁₀ ‖∂L/∂s_T‖ − log₁₀ ‖∂L/∂s_0‖, of each curve of a frame, the largest first; MATH R2.
    """
    about = frame.facts.get("curve")
    if not isinstance(about, dict) or not str(about.get("y", "")).startswith("log₁₀"):
        return ()
    lost: list[tuple[float, str, int]] = []
    for name, values in frame.tensors.items():
        norms = np.asarray(values, np.float64)
        if name.startswith(CURVE) and norms.ndim == 1 and len(norms) > 1 and np.isfinite(norms[[0, -1]]).all():
            name = name.removeprefix(CURVE)
            lost.append((float(norms[0] - norms[-1]), name.upper() if len(name) < 5 else name, len(norms) - 1))
    if not lost:
        return ()
    lost.sort(key=lambda each: -each[0])
    (most, name, steps), *others = lost
    first = f"The {name}'s gradient has {change_of(most)} over {steps} step{'s' * (steps != 1)}"
    return (first, *(f"the {name}'s {change_of(each, most)}" for each, name, _ in others))


def change_of(lost: float, before: float | None = None) -> str:
    """ "lost 25 powers of ten", "kept its size", "grown by 2"; after another, "none", "2"

    >>> change_of(25.3), change_of(-0.4), change_of(-2.2, before=1.0), change_of(0.2, before=25.0)
    ('lost 25 powers of ten', 'kept its size', 'has grown by 2', 'none')
    """
    size = abs(round(lost))
    powers = f"{size} power{'s' * (size != 1)} of ten"
    if before is None:
        return "kept its size" if not size else f"lost {powers}" if lost > 0 else f"grown by {powers}"
    lost_before = round(before) > 0
    if not size:
        return "none" if lost_before else "too"
    return (f"{size}" if lost_before else f"has lost {powers}") if lost > 0 else f"has grown by {size}"


def unit(frame: Frame, state: str, layer: int, unit: int) -> Sentence:
    """ "Unit 3 of layer 1 is highest after "(", +.98", "lowest after "·the", −.71"

    Of h or c (N, T, H) over the T tokens of the frame.
    """
    values, tokens = np.asarray(frame.tensors.get(f"state/{state}", ())), tokens_of(frame)
    if values.ndim != 3 or layer >= len(values) or unit >= values.shape[2] or len(tokens) != values.shape[1]:
        return ()
    row = values[layer, :, unit].astype(np.float64)
    if not len(row) or not np.isfinite(row).all():
        return ()
    high, low = int(row.argmax()), int(row.argmin())
    if high == low:
        return ()
    named = [BLANKS.get(tokens[at], f"“{label(tokens[at])}”") for at in (high, low)]
    after = [f"after {name}, {with_sign(row[at])}" for name, at in zip(named, (high, low), strict=True)]
    return f"Unit {unit + 1} of layer {layer + 1} is highest {after[0]}", f"lowest {after[1]}"


def followed(prop: str, state: str, layer: int, unit: int, r: float, tokens: int) -> Sentence:
    """ "Unit 17 of layer 1 follows the text in quotes: r = +.62", "over 4 000 unseen tokens" """
    if not np.isfinite(r):
        return ()
    return f"{state} of unit {unit + 1}, layer {layer + 1}, follows “{prop}” with r = {with_sign(r)}", (
        f"over {count(tokens)} unseen tokens"
    )


def with_sign(value: float) -> str:
    """ "+.62" or "−.62" """
    return f"{'+' if value > 0 else ''}{share(float(value))}"
