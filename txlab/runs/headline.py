"""Which metrics of a run are said first: in a list, at the end of a command, on a chart that nobody chose.

Notable: an experiment may name its own in facts()["headline"]; it knows better than any list here what one came for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

USUAL = ("loss", "val_loss", "val_bits_per_byte", "exact_match", "copy_accuracy")
"""Of those experiments that learn by gradients."""


def headline(facts: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Those of the recorded `names` that come first, most wanted first; the first recorded one if none is known.

    >>> headline({}, ["lr", "val_loss", "loss"]), headline({"headline": ["return/sarsa"]}, ["return/sarsa", "steps"])
    (['loss', 'val_loss'], ['return/sarsa'])
    """
    told = facts.get("headline")
    wanted = [str(name) for name in told] if isinstance(told, list) else list(USUAL)
    return [name for name in wanted if name in names] or list(names[:1])
