"""The images and histograms that a loop recorded, at a step: their names, and the selected one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.frames import FrameIndex

Array = np.ndarray[Any, Any]
IMAGE, HISTOGRAM = "image/", "histogram/"
BACK = 64  # frames that are searched, from the selected step
EARLIER = 12  # histograms shown below the one of the step
LARGEST = 1 << 20  # pixels; frames are untrusted


@dataclass(frozen=True)
class Counted:
    """A histogram: counts in equal steps from `low` to `high`, and how many values were not finite."""

    step: int
    counts: Array
    low: float
    high: float
    bad: int


@dataclass(frozen=True)
class Pictures:
    """`names` of all there are; the chosen one is an image, (H, W) or (H, W, 3) bytes, or histograms, newest first."""

    names: tuple[str, ...] = ()
    name: str = ""
    step: int = 0
    image: Array | None = None
    span: tuple[float, float] = (0.0, 255.0)
    histograms: tuple[Counted, ...] = ()


def pictures_of(frames: FrameIndex, at: int | None, wanted: str) -> Pictures:
    """Find the images and histograms of the frames up to `at` (None: all), and read the one of the name `wanted`."""
    steps = [int(step) for step in frames.steps if at is None or step <= at][-BACK:][::-1]
    where: dict[str, list[int]] = {}
    for step in steps:
        for name in frames.names(step):
            if name.startswith((IMAGE, HISTOGRAM)):
                where.setdefault(name, []).append(step)
    names = tuple(sorted(where))
    if wanted not in where:
        return Pictures(names)
    try:
        if wanted.startswith(IMAGE):
            return image_of(frames.read(where[wanted][0], [wanted]), names, wanted)
        counts = [read_counted(frames.read(step, [wanted]), wanted) for step in where[wanted][: 1 + EARLIER]]
    except LabError:  # the frame was thinned out since
        return Pictures(names)
    known = tuple(each for each in counts if each is not None)
    return Pictures(names, wanted, known[0].step if known else 0, histograms=known)


def image_of(frame: Frame, names: tuple[str, ...], wanted: str) -> Pictures:
    image = np.asarray(frame.tensors.get(wanted, ()))
    fits = image.dtype == np.uint8 and 0 < image.size <= 3 * LARGEST
    if not fits or not (image.ndim == 2 or (image.ndim == 3 and image.shape[-1] == 3)):
        return Pictures(names)
    span = numbers(frame.facts.get("image"), wanted.removeprefix(IMAGE), 2) or [0.0, 255.0]
    return Pictures(names, wanted, frame.step, image, (span[0], span[1]))


def read_counted(frame: Frame, wanted: str) -> Counted | None:
    counts = np.asarray(frame.tensors.get(wanted, ()))
    span = numbers(frame.facts.get("histogram"), wanted.removeprefix(HISTOGRAM), 3)
    if counts.ndim != 1 or not 0 < counts.size <= 512 or counts.dtype.kind not in "iuf" or span is None:
        return None
    counts = np.nan_to_num(counts.astype(np.float64)).clip(0)
    return Counted(frame.step, counts, span[0], span[1], int(span[2])) if span[1] > span[0] else None


def numbers(facts: object, name: str, count: int) -> list[float] | None:
    """The finite numbers that a frame's facts hold for a name; None if they are something else."""
    values = facts.get(name) if isinstance(facts, Mapping) else None
    if not isinstance(values, list) or len(values) != count:
        return None
    if not all(isinstance(each, (int, float)) and np.isfinite(each) and abs(each) < 1e300 for each in values):
        return None
    return [float(each) for each in values]
