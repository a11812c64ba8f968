"""Reverse-mode differentiation in NumPy and float64, for losses that tests write down a second time.

    x = Array([1.0, 2.0])
    gradients((x * x).sum(), [x])        # [array([2., 4.])]

Nothing is shared with torch. `test_independent.py` compares each operation with finite differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import erf as erf_of_number
from typing import Any

import numpy as np

Pull = Callable[[np.ndarray], np.ndarray]  # ∂L/∂result → ∂L/∂operand


class Array:
    """A float64 array that remembers the arrays it was computed from, each with the function that pulls a gradient
    back to it."""

    __array_priority__ = 1000  # so that ndarray + Array is an Array

    def __init__(self, value: Any, *operands: tuple[Array, Pull]) -> None:
        self.value = np.asarray(value, dtype=np.float64)
        self.operands = operands

    shape = property(lambda self: self.value.shape)
    T = property(lambda self: self.swapaxes(-1, -2))

    def __add__(self, other: Any) -> Array:
        other = array(other)
        return Array(self.value + other.value, (self, same), (other, same))

    def __mul__(self, other: Any) -> Array:
        other = array(other)
        return Array(self.value * other.value, (self, lambda g: g * other.value), (other, lambda g: g * self.value))

    def __pow__(self, power: float) -> Array:
        return Array(self.value**power, (self, lambda g: g * power * self.value ** (power - 1)))

    def __matmul__(self, other: Any) -> Array:
        other = array(other)
        a, b = self.value, other.value
        return Array(a @ b, (self, lambda g: g @ np.swapaxes(b, -1, -2)), (other, lambda g: np.swapaxes(a, -1, -2) @ g))

    def __neg__(self) -> Array:
        return self * -1.0

    def __sub__(self, other: Any) -> Array:
        return self + -array(other)

    def __rsub__(self, other: Any) -> Array:
        return -self + other

    def __truediv__(self, other: Any) -> Array:
        return self * array(other) ** -1

    def __rtruediv__(self, other: Any) -> Array:
        return array(other) * self**-1

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index: Any) -> Array:
        def pull(g: np.ndarray) -> np.ndarray:
            whole = np.zeros_like(self.value)
            if isinstance(index, slice):
                whole[index] = g
            else:
                np.add.at(whole, index, g)
            return whole

        return Array(self.value[index], (self, pull))

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Array:
        def pull(g: np.ndarray) -> np.ndarray:
            g = g if axis is None or keepdims else np.expand_dims(g, axis)
            return np.broadcast_to(g, self.shape)

        return Array(self.value.sum(axis, keepdims=keepdims), (self, pull))

    def mean(self, axis: int | None = None, keepdims: bool = False) -> Array:
        return self.sum(axis, keepdims) / (self.value.size if axis is None else self.shape[axis])

    def reshape(self, *shape: int) -> Array:
        return Array(self.value.reshape(shape), (self, lambda g: g.reshape(self.shape)))

    def swapaxes(self, one: int, other: int) -> Array:
        return Array(self.value.swapaxes(one, other), (self, lambda g: g.swapaxes(one, other)))


def array(x: Any) -> Array:
    return x if isinstance(x, Array) else Array(x)


def same(g: np.ndarray) -> np.ndarray:
    return g


def exp(x: Array) -> Array:
    e = np.exp(x.value)
    return Array(e, (x, lambda g: g * e))


def log(x: Array) -> Array:
    return Array(np.log(x.value), (x, lambda g: g / x.value))


def tanh(x: Array) -> Array:
    t = np.tanh(x.value)
    return Array(t, (x, lambda g: g * (1 - t**2)))


def sigmoid(x: Array) -> Array:
    return (tanh(x * 0.5) + 1.0) * 0.5


def log_sigmoid(x: Array) -> Array:
    return Array(-np.logaddexp(0.0, -x.value), (x, lambda g: g / (1 + np.exp(x.value))))


def erf(x: Array) -> Array:
    value = np.vectorize(erf_of_number, otypes=[float])(x.value)
    return Array(value, (x, lambda g: g * 2 / np.sqrt(np.pi) * np.exp(-(x.value**2))))


def where(condition: np.ndarray, one: Any, other: Any) -> Array:
    """`one` where the condition holds, else `other`, each pulled only from where it was taken."""
    one, other = array(one), array(other)
    return Array(
        np.where(condition, one.value, other.value),
        (one, lambda g: np.where(condition, g, 0.0)),
        (other, lambda g: np.where(condition, 0.0, g)),
    )


def maximum(one: Any, other: Any) -> Array:
    one, other = array(one), array(other)
    return where(one.value >= other.value, one, other)


def clamp(x: Array, low: float, high: float) -> Array:
    return where((x.value > low) & (x.value < high), x, np.clip(x.value, low, high))


def concatenate(parts: Sequence[Array], axis: int = 0) -> Array:
    ends = np.cumsum([part.shape[axis] for part in parts])[:-1]

    def pull(number: int) -> Pull:
        return lambda g: np.split(g, ends, axis)[number]

    joined = np.concatenate([part.value for part in parts], axis)
    return Array(joined, *[(part, pull(number)) for number, part in enumerate(parts)])


def stack(parts: Sequence[Array]) -> Array:
    return concatenate([part.reshape(1, *part.shape) for part in parts])


def softmax(x: Array) -> Array:
    e = exp(x - x.value.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    x = x - x.value.max(-1, keepdims=True)
    return x - log(exp(x).sum(-1, keepdims=True))


def gradients(loss: Array, of: Iterable[Array]) -> list[np.ndarray]:
    """∂loss/∂x of each x; zeros for what the loss does not depend on."""
    order: list[Array] = []
    seen: set[int] = set()
    todo = [(loss, False)]
    while todo:  # operands before results
        node, is_done = todo.pop()
        if is_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo += [(operand, False) for operand, _ in node.operands]
    found = {id(loss): np.ones_like(loss.value)}
    for node in reversed(order):
        if id(node) in found:
            for operand, pull in node.operands:
                g = summed(pull(found[id(node)]), operand.shape)
                found[id(operand)] = found[id(operand)] + g if id(operand) in found else g
    return [found.get(id(x), np.zeros_like(x.value)) for x in of]


def summed(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of an operand that was broadcast: summed over the axes that it lacks, or that have length 1."""
    g = g.sum(tuple(range(g.ndim - len(shape))))
    return g.sum(tuple(axis for axis, size in enumerate(shape) if size == 1 and g.shape[axis] > 1), keepdims=True)
