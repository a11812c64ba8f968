"""What the units of a recurrent network track: properties of each place of a text, and their correlation with states.

Karpathy, Johnson and Fei-Fei 2016 (arXiv 1506.02078), figure 2, found such units by eye. MATH R1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inside(opening: bytes, closing: bytes) -> Callable[[bytes], Floats]:
    """1 from an opening sign to its closing one, both included, else 0; an empty line closes an unmatched one."""

    def is_inside(text: bytes) -> Floats:
        depth, values, same = 0, np.zeros(len(text)), opening == closing
        for i, byte in enumerate(text):
            if byte == 10 and i and text[i - 1] == 10:
                depth = 0
            was = depth
            if byte in opening:
                depth = 1 - depth if same else depth + 1
            elif byte in closing:
                depth = max(0, depth - 1)
            values[i] = 1.0 if max(was, depth) else 0.0
        return values

    return is_inside


def since(sign: Callable[[int], bool]) -> Callable[[bytes], Floats]:
    """How many bytes there are since the last one of this kind."""

    def steps_since(text: bytes) -> Floats:
        values, count = np.zeros(len(text)), 0
        for i, byte in enumerate(text):
            count = 0 if sign(byte) else count + 1
            values[i] = count
        return values

    return steps_since


def is_letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte >= 128


PROPERTIES: dict[str, tuple[str, Callable[[bytes], Floats]]] = {
    "quotes": ('inside "quotes"', inside(b'"', b'"')),
    "brackets": ("inside brackets ( ) [ ] { }", inside(b"([{", b")]}")),
    "line": ("position in the line", since(lambda byte: byte == 10)),
    "word": ("position in the word", since(lambda byte: not is_letter(byte))),
    "capital": ("a capital letter", lambda text: np.array([65 <= byte <= 90 for byte in text], np.float64)),
    "space": ("a space or the end of a line", lambda text: np.array([byte in b" \n" for byte in text], np.float64)),
}
"""name → (what it is, its value at each byte of a text)"""


def of_tokens(name: str, tokens: Sequence[bytes]) -> Floats:
    """The property at the last byte of each token of a text."""
    values = PROPERTIES[name][1](b"".join(tokens))
    ends = np.cumsum([len(token) for token in tokens]) - 1
    return values[np.maximum(ends, 0)] if len(values) else np.zeros(len(tokens))


def correlations(states: NDArray[np.floating], values: Floats) -> Floats:
    """Pearson's r of each unit with a property: states (T, U), values (T) → (U); 0 where either does not change.

    r = Σ (s − s̄)(v − v̄) / √(Σ (s − s̄)² Σ (v − v̄)²)
    """
    s = states.astype(np.float64) - states.mean(0, dtype=np.float64)
    v = values - values.mean()
    size = np.sqrt((s * s).sum(0) * (v * v).sum())
    correlation: Floats = np.divide(v @ s, size, out=np.zeros(s.shape[1]), where=size > 1e-12)
    return correlation
