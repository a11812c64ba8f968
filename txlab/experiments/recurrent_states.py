"""The states and gates of a recurrent layer in a frame, and why a unit has its state (MATH R1, R3).

state/NAME and gate/NAME (N, T, H): of N layers after each of T tokens. first/NAME (N, H): before them, where that is
not 0. input/NAME, bias/NAME, weight/NAME or recurrent/NAME: what the gates are sums of (`engine/recurrent/sums.py`),
which older frames do not have. The facts with them: cell, rule, source, state (the names of the states) and tokens (the
frame's list that they refer to). torch is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.recurrent.why import NOTES, Sum, state_read, why_gate, why_state
from txlab.errors import LabError
from txlab.experiments.protocol import Frame


def place(name: str, states: Sequence[str]) -> str:
    """ "state/h", "gate/i" """
    return f"{'state' if name in states else 'gate'}/{name}"


def tokens_of(frame: Frame) -> list[str]:
    """The tokens of the states."""
    return [str(token) for token in frame.tokens.get(str(frame.facts.get("tokens", "probe")), ())]


def explain_state(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain state/h, state/c or a gate at (layer, t, unit) from the gates of that step, the state before it, and the
    parts of each gate's sum, if they are recorded. LabError."""
    return explain_with_gates(frame, tensor, index)[0]


def explain_with_gates(frame: Frame, tensor: str, index: Sequence[int]) -> list[Explanation]:
    """The same, and then each gate that it is computed from, in the order of the steps."""
    what, _, asked = tensor.partition("/")
    facts: Any = frame.facts
    gates = explain_gates(frame, index) if what in ("state", "gate") and "cell" in facts else {}
    if what == "gate" and asked in gates:
        return [gates[asked]]
    if what != "state" or tensor not in frame.tensors or "cell" not in facts:
        raise LabError(f"nothing explains {tensor} here")
    layer, t, unit = index
    now, before = {}, {}
    for name, values in frame.tensors.items():
        group, _, letter = name.partition("/")
        if group in ("state", "gate"):
            now[letter] = float(values[layer, t, unit])
        if group == "state":
            before[letter] = float(state_before(frame, letter, layer, t)[unit])
    why = why_state(facts["cell"], facts["rule"], facts["source"], asked, now, before, where(frame, index), gates)
    return [why, *(gate for gate in gates.values() if gate is not why)]


def where(frame: Frame, index: Sequence[int]) -> str:
    layer, t, unit = index
    return f"in unit {unit + 1} of layer {layer + 1}, after {tokens_of(frame)[t]!r}"


def state_before(frame: Frame, letter: str, layer: int, t: int) -> np.ndarray:
    """The state of a layer before it reads token t: (H)."""
    states = np.asarray(frame.tensors[f"state/{letter}"], np.float64)
    if t:
        before: np.ndarray = states[layer, t - 1]
        return before
    first = frame.tensors.get(f"first/{letter}")
    return np.zeros(states.shape[2]) if first is None else np.asarray(first, np.float64)[layer]


def explain_gates(frame: Frame, index: Sequence[int]) -> dict[str, Explanation]:
    """Explain each gate of a unit by its sum, in the order in which they are computed; {} for a frame without the
    parts of the sums."""
    layer, t, _ = index
    facts: Any = frame.facts
    cell, token = facts["cell"], tokens_of(frame)[t]
    below = f"h(t) of layer {layer}" if layer else f"the embedding of {token!r}"
    sums = {name: sum_of(frame, name, index) for name in NOTES}
    return {
        name: why_gate(cell, facts["source"], each, where(frame, index), below)
        for name, each in sums.items()
        if each is not None
    }


def sum_of(frame: Frame, name: str, index: Sequence[int]) -> Sum | None:
    """The sum of a gate of a unit at a step; None if its parts are not recorded."""
    layer, t, unit = index
    cell = str(frame.facts["cell"])
    here = frame.tensors.get(f"gate/{name}", frame.tensors.get(f"state/{name}"))
    parts = {part: frame.tensors.get(f"{part}/{name}") for part in ("input", "bias", "weight", "recurrent")}
    if here is None or parts["input"] is None or parts["bias"] is None:
        return None
    b, c = (float(each) for each in np.asarray(parts["bias"])[layer, :, unit])
    reset = np.asarray(frame.tensors["gate/r"], np.float64)[layer, t] if "gate/r" in frame.tensors else np.ones(1)
    weights: list[float] = []
    states: list[float] = []
    if parts["weight"] is not None:
        weights = np.asarray(parts["weight"][layer, unit], np.float64).tolist()
        states = state_read(cell, name, state_before(frame, "h", layer, t), reset).tolist()
        recurrent = float(np.dot(weights, states))
    elif parts["recurrent"] is not None:
        recurrent = float(parts["recurrent"][tuple(index)])
    else:
        return None
    return Sum(
        name,
        gate=float(here[tuple(index)]),
        input=float(parts["input"][tuple(index)]),
        recurrent=recurrent,
        b=b,
        c=c,
        reset=float(reset[unit]) if (cell, name) == ("gru", "n") else None,
        weights=weights,
        states=states,
    )
