"""The learning rate of every update: linear warm-up, then a cosine (MATH F3; Loshchilov & Hutter 2017).

Notable: a pure function of the update's number, so there is no scheduler to save. No torch here: a screen explains a
learning rate with the same function that training runs.
"""

from math import cos, pi
from typing import Literal


def factor(update: int, warmup: int, steps: int, final: float, decay: Literal["cosine", "constant"]) -> float:
    """Learning rate of update n = 1 … steps, as a share of the peak.

    n ≤ W   n / W
    n > W   f + (1 − f) · ½ (1 + cos(π (n − W) / (N − W)));  1 if decay is constant

    The peak is reached at update W exactly, and f at update N exactly; past N it stays at f.

    >>> [round(factor(n, warmup=2, steps=6, final=0.1, decay="cosine"), 3) for n in (1, 2, 4, 6, 9)]
    [0.5, 1.0, 0.55, 0.1, 0.1]
    """
    if update <= warmup:
        return update / warmup
    if decay == "constant":
        return 1.0
    progress = min(1.0, (update - warmup) / max(1, steps - warmup))
    return final + (1 - final) * 0.5 * (1 + cos(pi * progress))


def clip_factor(norm: float, clip: float) -> float:
    """What all gradients are multiplied by: min(1, c / (‖g‖ + 10⁻⁶)); 1 if there is no clipping (c = 0).

    Pascanu et al. 2013; the 10⁻⁶ is torch's, and keeps an all-zero gradient from dividing by zero.
    """
    return min(1.0, clip / (norm + 1e-6)) if clip else 1.0
