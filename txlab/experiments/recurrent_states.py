"""The states and gates of a recurrent layer in a frame, and why a unit has its state (MATH R1, R3).

state/NAME and gate/NAME (N, T, H): of N layers after each of T tokens. first/NAME (N, H): before them, where that is
not 0. The facts with them: cell, rule, source, state (the names of the states) and tokens (the frame's list that they
refer to). torch is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.recurrent.why import why_state
from txlab.errors import LabError
from txlab.experiments.protocol import Frame


def place(name: str, states: Sequence[str]) -> str:
    """ "state/h", "gate/i" """
    return f"{'state' if name in states else 'gate'}/{name}"


def tokens_of(frame: Frame) -> list[str]:
    """The tokens of the states."""
    return [str(token) for token in frame.tokens.get(str(frame.facts.get("tokens", "probe")), ())]


def explain_state(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain state/h or state/c at (layer, t, unit) from the gates of that step and the state before it. LabError."""
    what, _, asked = tensor.partition("/")
    facts: Any = frame.facts
    if what != "state" or tensor not in frame.tensors or "cell" not in facts:
        raise LabError(f"nothing explains {tensor} here")
    layer, t, unit = index
    now, before = {}, {}
    for name, values in frame.tensors.items():
        group, _, letter = name.partition("/")
        if group in ("state", "gate"):
            now[letter] = float(values[layer, t, unit])
        if group == "state":
            first = frame.tensors.get(f"first/{letter}")
            start = 0.0 if first is None else float(np.asarray(first)[layer, unit])
            before[letter] = float(values[layer, t - 1, unit]) if t else start
    where = f"in unit {unit + 1} of layer {layer + 1}, after {tokens_of(frame)[t]!r}"
    return why_state(facts["cell"], facts["rule"], facts["source"], asked, now, before, where)
