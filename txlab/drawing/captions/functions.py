"""Descent, Playground, Convolution and Formulas: how low a method is, what a network answers, what a filter finds."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

import numpy as np

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.explanation import format_lines
from txlab.drawing.formatting import count, number, share
from txlab.drawing.text import visible
from txlab.drawing.update_lines import compact
from txlab.experiments.protocol import Frame

OFF = "takes no part"


class Reached(NamedTuple):
    """Where a method is: `value` is f, or |f| of one that looks for a root."""

    value: float
    title: str
    point: tuple[float, ...]
    steps: int
    rests: str
    root: bool


def descent(frame: Frame) -> Sentence:
    """ "Newton for a minimum has arrived at (1, 1): f = 0", "after 8 steps", "momentum is at .402"

    Of the methods of a frame that take part, the lowest first.
    """
    keys = ("titles", "rules", "steps", "rests")
    columns = [each if isinstance(each := frame.facts.get(key), (list, tuple)) else () for key in keys]
    found: list[Reached] = []
    gone: list[str] = []
    for place, (title, rule, steps, rests) in enumerate(zip(*columns, strict=False)):
        path = np.asarray(frame.tensors.get(f"{place}/path", ()), np.float64)
        value = np.asarray(frame.tensors.get(f"{place}/value", np.nan), np.float64)
        if str(rests).startswith("it diverges"):
            gone.append(f"{title} diverges")
        elif rests != OFF and path.ndim == 2 and len(path) and value.ndim == 0 and isfinite(value):
            root, point = rule == "newton-root", tuple(path[-1].tolist())
            found.append(
                Reached(abs(float(value)) if root else float(value), str(title), point, steps, str(rests), root)
            )
    found.sort()
    if not found:
        return tuple(each[:1].upper() + each[1:] for each in gone)
    lowest, *others = found
    where = ", ".join(compact(each, 9 if lowest.root else 4) for each in lowest.point)
    where = f"({where})" if len(lowest.point) > 1 else where
    verb = "has arrived at" if lowest.rests == "arrived" else "is at"
    first = f"{lowest.title[:1].upper()}{lowest.title[1:]} {verb} {where}"
    first += f": {'|f|' if lowest.root else 'f'} = {compact(lowest.value)}"
    return (
        first,
        f"after {count(lowest.steps)} steps",
        *gone,
        *(f"{each.title} is at {compact(each.value)}" for each in others),
    )


def playground(frame: Frame) -> Sentence:
    """ "After 1 000 steps all 200 points are on the right side", "and .98 of the unseen ones"; for a regression, the
    loss."""
    measured = frame.facts.get("measured")
    if not isinstance(measured, Mapping):
        return ()
    known = {
        name: float(value) for name, value in measured.items() if isinstance(value, (int, float)) and isfinite(value)
    }
    many = len(np.asarray(frame.tensors.get("train", ())))
    when = f"After {count(frame.step)} step{'s' * (frame.step != 1)}"
    if frame.facts.get("classes") and "accuracy" in known and many:
        right = round(known["accuracy"] * many)
        of = f"all {count(many)} points are" if right == many else f"{count(right)} of {count(many)} points are"
        first = f"{when} {of} on the right side"
        return (first, f"and {part(known['val_accuracy'])} of the unseen ones") if "val_accuracy" in known else (first,)
    if "loss" not in known:
        return ()
    first = f"{when} the loss is {number(known['loss'], 3)}"
    return (first, f"on unseen points {number(known['val_loss'], 3)}") if "val_loss" in known else (first,)


def convolution(frame: Frame, channel: int, y: int, x: int) -> Sentence:
    """ "Filter 1 answers −2.08 here, and most, 3.21, at row 5, column 9", "the network says circle, .98"

    Of map/0 (C, Y, X), with rows and columns counted from 1.
    """
    answers = np.asarray(frame.tensors.get("map/0", ()), np.float64)
    if answers.ndim != 3 or not answers.size or not np.isfinite(answers[channel]).all():
        return ()
    own = answers[channel]
    row, column = divmod(int(own.argmax()), own.shape[1])
    said: list[str] = [f"Filter {channel + 1} answers {number(float(own[y, x]), 3)} here"]
    if (row, column) == (y, x):
        said[0] += ", more than anywhere else"
    else:
        said[0] += f", and most, {number(float(own[row, column]), 3)}, at row {row + 1}, column {column + 1}"
    classes, chances = frame.tokens.get("class", ()), np.asarray(frame.tensors.get("class/probability", ()), np.float64)
    if len(classes) == len(chances) and len(chances) and np.isfinite(chances).all():
        best = int(chances.argmax())
        said.append(f"the network says {visible(classes[best])}, {share(float(chances[best]))}")
    return tuple(said)


def example(name: str, title: str, question: str, result: float, wrong: float | None = None) -> Sentence:
    """ "F1, Newton's method: where is Newton's method after 3 steps? 2.095"; with a misprint the number that it gives

    question, result   of the explanation of a live example
    """
    if not isfinite(result):
        return ()
    if wrong is not None and isfinite(wrong):
        return (f"{name} gives {as_result(result)}, the misprinted form {as_result(wrong)}", question)
    return (f"{name}, {title}: {question} {as_result(result)}",)


def as_result(value: float) -> str:
    """The number as the explanation below writes it."""
    return format_lines(value, 20)[0]


def part(value: float) -> str:
    """Format a part of a whole so that only the whole is 1.00.

    >>> part(0.85), part(0.9952), part(1.0)
    ('.85', '.995', '1.00')
    """
    text = share(value)
    return share(value, 3) if text == "1.00" and value < 1 else text
