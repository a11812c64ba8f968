"""Which metrics of a run come first in a list, at the end of a command and on a chart by default; and which of them
is the validation metric of another.

An experiment may name its own in facts()["headline"]; otherwise its kind does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from txlab.experiments.kind import kind_of_run

UNSEEN = ("val", "eval", "valid", "validation")
_PART = re.compile(rf"(train|{'|'.join(UNSEEN)})([/_])(.+)", re.DOTALL)


def primary_metrics(facts: Mapping[str, Any], names: Sequence[str], kind: str = "") -> list[str]:
    """The recorded `names` that come first, most important first; if none is known, the first training loss, or else
    the first recorded metric, each with its validation metric.

    >>> primary_metrics({}, ["lr", "val_loss", "loss"])
    ['loss', 'val_loss']
    >>> primary_metrics({"headline": ["return/sarsa"]}, ["return/sarsa", "steps"])
    ['return/sarsa']
    >>> primary_metrics({}, ["epoch", "train/loss", "eval/loss"]), primary_metrics({}, ["reward", "length"])
    (['train/loss', 'eval/loss'], ['reward'])
    >>> primary_metrics({}, ["aux_loss", "Loss"])
    ['Loss']
    """
    told = facts.get("headline")
    wanted = [str(name) for name in told] if isinstance(told, list) else list(kind_of_run(kind).primary_metrics)
    found = [name for name in wanted if name in names]
    if found and (isinstance(told, list) or found[0] == wanted[0]):
        return found
    losses = [name for name in names if re.search(r"(?:^|[/_])loss$", name, re.I) and not is_validation(name)]
    losses.sort(key=lambda name: name.lower() != "loss")  # before what says more: aux_loss
    if found and not losses:
        return found
    first = [*losses, *names][:1]
    return first + [validation for name in first if (validation := validation_of(name, names))]


def validation_of(name: str, names: Collection[str]) -> str:
    """The one of `names` that measures on unseen data what `name` measures in training, or "".

    >>> validation_of("train/loss", ["train/loss", "eval/loss"]), validation_of("loss", ["loss", "val_loss"])
    ('eval/loss', 'val_loss')
    """
    part = _PART.fullmatch(name)
    if part and part[1] != "train":
        return ""
    between, what = (part[2], part[3]) if part else ("_/", name)
    return next((other for sign in between for unseen in UNSEEN if (other := f"{unseen}{sign}{what}") in names), "")


def is_validation(name: str) -> bool:
    """Whether the name of a metric says that it was measured on unseen data.

    >>> is_validation("eval/loss"), is_validation("val_loss/python-docs"), is_validation("value")
    (True, True, False)
    """
    part = _PART.fullmatch(name)
    return part is not None and part[1] != "train"


def short(name: str) -> str:
    """A short form of a name: what is measured, without the split or the variant.

    >>> short("train/loss"), short("return/expected-sarsa"), short("loss")
    ('loss', 'return', 'loss')
    """
    part = _PART.fullmatch(name)
    return part[3] if part else name.partition("/")[0]
