"""The Playground's view of a frame: neurons in columns, their pictures as numbers from −1 to 1, and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from txlab.engine.feedforward.plane import EDGE, FEATURES
from txlab.errors import LabError
from txlab.experiments.protocol import Frame

BOUNDED = ("tanh", "sigmoid", "sin")


@dataclass(frozen=True)
class Shown:
    """names     inputs and neurons, as in the tensors of the frame
    columns   all features; the neurons of each depth; the output alone
    off       neurons that are switched off, and features not used by the network
    """

    frame: Frame
    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    activations: Mapping[str, str]
    off: frozenset[str]

    @classmethod
    def of(cls, frame: Frame) -> Shown:
        """LabError if it is not a frame of a playground."""
        facts, tensors = frame.facts, frame.tensors
        try:
            inputs = [str(name) for name in facts["inputs"]]
            neurons = [(str(name), str(activation), int(depth)) for name, activation, depth in facts["neurons"]]
            names = (*inputs, *(name for name, _, _ in neurons))
            depth = min(max(each for _, _, each in neurons), len(neurons))  # each level has a neuron
            if depth > len(neurons):
                raise LabError("what this frame holds does not fit together")
            levels = [tuple(name for name, _, at in neurons if at == level) for level in range(1, depth + 1)]
            shapes = {name: tuple(tensors[name].shape) for name in ("plane", "weights", "bias", "features")}
            size = shapes["plane"][-1]
            wanted = {
                "plane": (len(names), size, size),
                "weights": (len(neurons), len(names)),
                "bias": (len(neurons),),
                "features": (len(FEATURES), size, size),
            }
            columns = (tuple(FEATURES), *levels[:-1], levels[-1][-1:])
            whole = sum(map(len, levels)) == len(neurons) and len(levels[-1]) == 1
            points = all(tensors[name].shape[1] == 3 for name in ("train", "test"))
            if shapes != wanted or not size or not whole or not points or not set(inputs) <= set(FEATURES):
                raise LabError("what this frame holds does not fit together")
            off = frozenset(map(str, facts["off"])) | (set(FEATURES) - set(inputs))
            return cls(frame, names, columns, {name: label for name, label, _ in neurons}, off)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):
            raise LabError("this frame is none of a playground") from None

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.frame.facts

    @property
    def out(self) -> str:
        return self.columns[-1][0]

    @cached_property
    def place(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def edges(self) -> list[tuple[str, str]]:
        """(from, to), in the order of `weights`"""
        first = len(self.names) - len(self.frame.tensors["weights"])
        rows, columns = np.nonzero(~np.isnan(self._matrix))
        return [(self.names[column], self.names[first + row]) for row, column in zip(rows, columns, strict=True)]

    @cached_property
    def weights(self) -> np.ndarray:
        """Of `edges`."""
        weights: np.ndarray = self._matrix[~np.isnan(self._matrix)]
        return weights

    @cached_property
    def _matrix(self) -> np.ndarray:
        return np.asarray(self.frame.tensors["weights"], np.float64)

    def incoming(self, name: str) -> list[tuple[str, float]]:
        """The inputs of a neuron with their weights."""
        return [
            (edge[0], float(weight)) for edge, weight in zip(self.edges, self.weights, strict=True) if edge[1] == name
        ]

    def bias(self, name: str) -> float:
        return float(self.frame.tensors["bias"][self.place[name] - len(self.facts["inputs"])])

    @cached_property
    def pictures(self) -> Mapping[str, np.ndarray]:
        """name → (G, G) from −1 to 1. A bounded activation has a fixed scale, others that of their largest value;
        gradients have one scale for all. Of the output of classes 2 σ(z) − 1, else z."""
        plane = np.asarray(self.frame.tensors["plane"], np.float32)
        seen = np.asarray(self.frame.tensors["features"], np.float32)
        planes = dict(zip(self.names, plane, strict=True))
        gradients, view = self.facts.get("view") == "gradients", self.facts.get("view")
        most = max((float(np.abs(planes[name]).max()) for name in self.names if name != self.out), default=1.0)
        pictures = {}
        for name, feature in zip(FEATURES, seen, strict=True):
            values = planes.get(name, feature)
            pictures[name] = values / max(most if gradients and name in planes else float(np.abs(values).max()), 1e-6)
        for name in self.names[len(self.facts["inputs"]) :]:
            values = planes[name]
            if name == self.out:
                pictures[name] = np.tanh(values / 2) if self.facts.get("classes") else values.clip(-1, 1)
            elif view == "answers" and self.activations[name] in BOUNDED:
                pictures[name] = values.clip(-1, 1)
            else:
                pictures[name] = values / max(most if gradients else float(np.abs(values).max()), 1e-6)
        return pictures

    def points(self, which: str, most: int) -> np.ndarray:
        """(k, 3) of "train" or "test": a limited number, always including the last ones (by hand)."""
        points = np.asarray(self.frame.tensors[which], np.float32)
        points = points[np.isfinite(points).all(1)]
        return points if len(points) <= most else np.concatenate([points[: most - most // 3], points[-(most // 3) :]])


def resample(picture: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A picture (G, G) resampled to the nearest pixels."""
    down, across = (
        ((np.arange(count) + 0.5) * side / count).astype(int)
        for count, side in zip((rows, columns), picture.shape, strict=True)
    )
    resampled: np.ndarray = picture[np.ix_(down, across)]
    return resampled


def cell_of(x: float, y: float, lines: int, cells: int) -> tuple[int, int]:
    """The cell (line, column) of a picture of the plane that contains a point."""
    column = int((x + EDGE) / (2 * EDGE) * cells)
    line = int((EDGE - y) / (2 * EDGE) * lines)
    return max(0, min(line, lines - 1)), max(0, min(column, cells - 1))


def point_of(line: int, column: int, lines: int, cells: int) -> tuple[float, float]:
    """The middle (x, y) of a cell."""
    return (column + 0.5) / cells * 2 * EDGE - EDGE, EDGE - (line + 0.5) / lines * 2 * EDGE


def neighbour(columns: Sequence[Sequence[str]], name: str, down: int, right: int) -> str:
    """The name below (above) in its column, or at about the same height in the column to the right (left)."""
    at = next((place for place, column in enumerate(columns) if name in column), len(columns) - 1)
    column = columns[at]
    row = column.index(name) if name in column else 0
    if right:
        other = columns[max(0, min(at + right, len(columns) - 1))]
        return other[min(len(other) - 1, int((row + 0.5) * len(other) / len(column)))] if other is not column else name
    return column[max(0, min(row + down, len(column) - 1))]
