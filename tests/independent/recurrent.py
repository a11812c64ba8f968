"""The recurrent cells and networks of the engine a second time, in NumPy and float64 (MATH R1–R4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from independent.tape import Array, concatenate, log_softmax, sigmoid, softmax, stack, tanh
from independent.transformer import Weights, linear, part

State = tuple[Array, ...]
Steps = list[tuple[dict[str, tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]]


def next_state(cell: str, x: Array, state: State, w: Weights) -> State:
    """One step: x (B, D), state (B, H) each → the new state, h first."""
    h, H = state[0], state[0].shape[-1]

    def summed(row: int, h: Array = h) -> Array:
        rows = slice(row * H, (row + 1) * H)
        return x @ w["W"][rows].T + w["b"][rows] + h @ w["U"][rows].T + w["c"][rows]

    if cell == "rnn":
        return (tanh(summed(0)),)
    if cell == "lstm":
        i, f, g, o = sigmoid(summed(0)), sigmoid(summed(1)), tanh(summed(2)), sigmoid(summed(3))
        c = f * state[1] + i * g
        return o * tanh(c), c
    r, z, rows = sigmoid(summed(0)), sigmoid(summed(1)), slice(2 * H, 3 * H)
    if cell == "gru":
        n = tanh(x @ w["W"][rows].T + w["b"][rows] + r * (h @ w["U"][rows].T + w["c"][rows]))
    else:
        n = tanh(summed(2, r * h))
    return ((1.0 - z) * n + z * h,)


def sums(cell: str, x: np.ndarray, state: tuple[np.ndarray, ...], w: Mapping[str, np.ndarray]) -> Steps:
    """Of each step of x (T, D), state (H) each: gate → (W x, products of U (H, H), b, c, gate), and the new state."""
    names, H = {"rnn": "h", "lstm": "ifgo"}.get(cell, "rzn"), w["U"].shape[1]
    steps: Steps = []
    for row in x:
        gates: dict[str, tuple[np.ndarray, ...]] = {}
        for g, name in enumerate(names):
            rows = slice(g * H, (g + 1) * H)
            W, U, b, c = (w[each][rows] for each in "WUbc")
            read = state[0] * gates["r"][-1] if (cell, name) == ("gru-mehlig", "n") else state[0]
            inside = U @ read + c
            inside = W @ row + b + (inside * gates["r"][-1] if (cell, name) == ("gru", "n") else inside)
            gates[name] = W @ row, U * read, b, c, np.tanh(inside) if name in "gnh" else 1 / (1 + np.exp(-inside))
        value = {name: gate[-1] for name, gate in gates.items()}
        if cell == "lstm":
            memory = value["f"] * state[1] + value["i"] * value["g"]
            state = value["o"] * np.tanh(memory), memory
        else:
            state = (value["h"] if cell == "rnn" else (1 - value["z"]) * value["n"] + value["z"] * state[0],)
        steps.append((gates, state))
    return steps


def zeros(cell: str, batch: int, width: int) -> State:
    return tuple(Array(np.zeros((batch, width))) for _ in range(2 if cell == "lstm" else 1))


def read(cell: str, x: Array, w: Weights, start: State, lengths: np.ndarray, backwards: bool = False) -> Array:
    """x (B, T, D) → h (B, T, H) of each step, 0 behind the end of a sequence, each row read by itself."""
    rows = []
    for row, length in enumerate(lengths):
        state = tuple(each[row : row + 1] for each in start)
        found: dict[int, Array] = {}
        for t in reversed(range(length)) if backwards else range(length):
            state = next_state(cell, x[row : row + 1, t], state, w)
            found[t] = state[0][0]
        nothing = Array(np.zeros(state[0].shape[-1]))
        rows.append(stack([found.get(t, nothing) for t in range(x.shape[1])]))
    return stack(rows)


def layers(cell: str, x: Array, w: Weights, starts: list[State], lengths: np.ndarray, both: bool = False) -> Array:
    """Layer upon layer, each in one or in both directions; `starts` has a state for each layer of one direction."""
    number = 0
    while own := part(w, f"layers.{number}.0."):
        width = own["U"].shape[-1]
        start = starts[number] if starts else zeros(cell, len(lengths), width)
        ways = [read(cell, x, own, start, lengths)]
        if both:
            ways.append(read(cell, x, part(w, f"layers.{number}.1."), start, lengths, True))
        x, number = concatenate(ways, -1), number + 1
    return x


def language_model(ids: np.ndarray, w: Weights, cell: str) -> Array:
    """(B, T) → logits (B, T, V) with tied embeddings, scaled by √H."""
    table = w["embed.weight"]
    lengths = np.full(len(ids), ids.shape[1])
    h = layers(cell, table[ids] * table.shape[1] ** 0.5, part(w, "recurrent."), [], lengths)
    return h @ w.get("unembed.weight", table).T + w["unembed_bias"]


def translator(source: np.ndarray, lengths: np.ndarray, target: np.ndarray, w: Weights, cell: str) -> Array:
    """Source ids (B, S) of these lengths, target ids (B, T) → logits (B, T, V); attention is additive if it has v."""
    memory = layers(cell, w["embed_source.weight"][source], part(w, "encoder."), [], lengths, both=True)  # (B, S, 2H)
    B, H = len(source), memory.shape[-1] // 2
    last = memory[(np.arange(B), lengths - 1)]
    ended = concatenate([last[:, :H], memory[:, 0, H:]], -1)
    begun = tanh(linear(ended, part(w, "begin.")))
    parts = [begun[:, n : n + H] for n in range(0, begun.shape[-1], H)]
    many = 2 if cell == "lstm" else 1
    starts = [tuple(parts[n : n + many]) for n in range(0, len(parts), many)]
    read_all = np.full(B, target.shape[1])
    states = layers(cell, w["embed_target.weight"][target], part(w, "decoder."), starts, read_all)  # (B, T, H)
    keys = linear(memory, part(w, "scores.U."))
    if "scores.v" in w:
        q = linear(states, part(w, "scores.W."))
        T, S = q.shape[1], keys.shape[1]
        fits = tanh(q.reshape(B, T, 1, H) + keys.reshape(B, 1, S, H))
        scores = (fits * w["scores.v"]).sum(-1)
    else:
        scores = states @ keys.T / H**0.5
    there = np.arange(source.shape[1]) < lengths[:, None]  # (B, S)
    alpha = softmax(scores + np.where(there, 0.0, -1e30)[:, None, :])
    combined = tanh(linear(concatenate([alpha @ memory, states], -1), part(w, "combine.")))
    return linear(combined, part(w, "unembed."))


def mean_loss(logits: Array, targets: np.ndarray) -> Array:
    """−ln p of the targets that are not negative, on average."""
    there = np.nonzero(targets >= 0)
    return -log_softmax(logits)[(*there, targets[there])].mean()
