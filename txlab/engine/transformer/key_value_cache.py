"""A layer's keys and values of the positions already read, so that the next token costs one row of attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """The key–value cache of one layer: keys and values (B, H, S, K) of the positions already read, and those of the
    encoder's output, which do not change from token to token. None before the first.

    Without gradients, keys and values are stored in `room` (2, B, H, places, K), which doubles in size when it is full:
    appending a token then copies only that token (benchmarks/transformer.py, "cache").
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    memory_keys: Tensor | None = None
    memory_values: Tensor | None = None
    room: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of positions already read."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values, and return all of them."""
        if self.keys is None or self.values is None:
            self.keys, self.values = k, v
        elif torch.is_grad_enabled() and k.requires_grad:  # autograd needs the old values, so nothing is overwritten
            self.keys, self.values = torch.cat((self.keys, k), -2), torch.cat((self.values, v), -2)
        else:
            before, after = self.length, self.length + k.shape[-2]
            room = self.room
            if room is None or room.shape[-2] < after:
                room = k.new_empty((2, *k.shape[:-2], max(64, 2 * after), k.shape[-1]))
                room[0, ..., :before, :], room[1, ..., :before, :] = self.keys, self.values
            room[0, ..., before:after, :], room[1, ..., before:after, :] = k, v
            self.room = room
            self.keys, self.values = room[0, ..., :after, :], room[1, ..., :after, :]
        return self.keys, self.values

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may appear several times."""
        length = self.length
        if self.room is not None:
            self.room = self.room[:, rows]
            self.keys, self.values = self.room[0, ..., :length, :], self.room[1, ..., :length, :]
        elif self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]
        if self.memory_keys is not None and self.memory_values is not None:
            self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]
