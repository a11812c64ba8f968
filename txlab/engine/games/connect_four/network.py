"""The policy-value network of Connect Four, and its evaluation by a search (MATH G3; Silver et al. 2018).

    planes (B, 3, 6, 7)   the mover's stones, the other's, and the squares to which a stone can fall; row 0 the lowest
    log p (B, 7)          of the columns, −∞ where one is full
    v (B)                 the mover's expected outcome: −1 a loss, 0 a draw, +1 a win

Notable: no batch normalisation: with three blocks He's weights suffice, and a leaf gets the same numbers alone as in a
larger batch. Convolutions run in channels-last order: 14 900 positions a second on one core where the usual order has
5 000 (batches of 256, 32 channels, 3 blocks).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.games.connect_four.rules import BOARD, BOTTOM, COLUMNS, ROWS, SQUARES, STRIDE, mirror, open_columns

PLANES = 3
HEAD_CHANNELS, HEAD_WIDTH = 4, 32

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(own (B), both (B)) int64 → (priors (B, 7), 0 where a column is full; values (B) for the player to move), float64."""

BITS = np.array([[STRIDE * column + row for column in range(COLUMNS)] for row in range(ROWS)])


def planes(own: np.ndarray, both: np.ndarray) -> np.ndarray:
    """(B, 3, 6, 7) float32 of stones (B) int64."""
    stones = np.stack([own, both ^ own, (both + BOTTOM) & BOARD], axis=1)  # (B, 3)
    bits: np.ndarray = (stones[:, :, None, None] >> BITS) & 1
    return bits.astype(np.float32)


class Block(nn.Module):
    """x + conv(ReLU(conv(x))), then ReLU. He et al. 2015."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


class PolicyValueNet(nn.Module):
    """planes (B, 3, 6, 7) → logits (B, 7), v (B)."""

    def __init__(self, channels: int, blocks: int, draws: torch.Generator) -> None:
        super().__init__()
        self.stem = nn.Conv2d(PLANES, channels, 3, padding=1)
        self.blocks = nn.ModuleList(Block(channels) for _ in range(blocks))
        self.policy = nn.Conv2d(channels, HEAD_CHANNELS, 1)
        self.columns = nn.Linear(HEAD_CHANNELS * SQUARES, COLUMNS)
        self.value = nn.Conv2d(channels, HEAD_CHANNELS, 1)
        self.hidden = nn.Linear(HEAD_CHANNELS * SQUARES, HEAD_WIDTH)
        self.expected = nn.Linear(HEAD_WIDTH, 1)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=draws)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        with torch.no_grad():  # each block adds a share, and the first priors are nearly even
            for block in self.blocks:
                block.second.weight.mul_(blocks**-0.5)  # type: ignore[union-attr, operator]
            self.columns.weight.mul_(0.1)
            self.expected.weight.mul_(0.1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.stem(x.contiguous(memory_format=torch.channels_last)))  # (B, C, 6, 7)
        for block in self.blocks:
            x = block(x)
        logits = self.columns(F.relu(self.policy(x)).flatten(1))  # (B, 7)
        v = self.expected(F.relu(self.hidden(F.relu(self.value(x)).flatten(1)))).tanh()  # (B, 1)
        return logits, v[:, 0]


def legal_columns(both: np.ndarray) -> np.ndarray:
    """(B, 7) bool: which columns are not full."""
    legal: np.ndarray = np.stack(open_columns(both), axis=-1) != 0
    return legal


def log_priors(logits: Tensor, legal: Tensor) -> Tensor:
    """ln p (B, 7): the softmax over the legal columns, −∞ for the others."""
    return logits.masked_fill(~legal, -torch.inf).log_softmax(-1)


@torch.inference_mode()
def evaluate(net: PolicyValueNet, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priors and values of these positions by the network; see Evaluate."""
    device = next(net.parameters()).device
    logits, v = net(torch.from_numpy(planes(own, both)).to(device))
    p = log_priors(logits, torch.from_numpy(legal_columns(both)).to(device)).exp()
    return p.cpu().numpy().astype(np.float64), v.cpu().numpy().astype(np.float64)


class Remembered:
    """An `Evaluate` that calls another once for each position; a mirror image counts as the same position.

    Of the leaves of 256 games in self-play a third and more have been seen before (transpositions, common openings).
    Valid while the other one does not change. Several threads may call it: one for the player, one that displays its
    tree.

    asked   the number of positions evaluated
    """

    def __init__(self, ask: Evaluate) -> None:
        self.ask = ask
        self.lock = Lock()
        self.place: dict[int, int] = {}
        self.priors, self.values = np.empty((1024, COLUMNS)), np.empty(1024)

    @property
    def asked(self) -> int:
        return len(self.place)

    def __call__(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mirror_own, mirror_both = mirror(own), mirror(both)
        turned = mirror_own + mirror_both < own + both
        own, both = np.where(turned, mirror_own, own), np.where(turned, mirror_both, both)
        with self.lock:
            priors, values = self.evaluate(own, both)
        priors[turned] = priors[turned, ::-1]
        return priors, values

    def evaluate(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, new = np.empty(len(own), dtype=np.int64), []
        for k, key in enumerate((own + both).tolist()):
            place = self.place.get(key)
            if place is None:
                place = self.place[key] = len(self.place)
                new.append(k)
            places[k] = place
        if new:
            while len(self.place) > len(self.values):
                self.priors = np.concatenate([self.priors, np.empty_like(self.priors)])
                self.values = np.concatenate([self.values, np.empty_like(self.values)])
            self.priors[places[new]], self.values[places[new]] = self.ask(own[new], both[new])
        return self.priors[places], self.values[places]
