"""Rotary positions as configs and weights of others have them (MATH T7), and as ours do.

Notable: Hugging Face pairs feature n with n + r/2 of a head, ours 2n with 2n + 1 (Su et al. 2021, eq. 34). A score is
a sum over features, so one is the other with the rows of W_Q and W_K in another order: `their_rows`. A config says it
as `rope_parameters` since transformers 5, before that as `rope_theta` and `rope_scaling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txlab.engine.tokenizers.json_files import shown
from txlab.engine.transformer.positions import Rotary
from txlab.engine.transformer.weights.configs import LONGEST, Config
from txlab.errors import LabError, nearest

# "dynamic" changes the base of texts longer than max_position_embeddings, and no longer ones are read.
KINDS = ("default", "linear", "dynamic", "llama3")
SAID = {
    "rope_type", "type", "rope_theta", "factor", "partial_rotary_factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings",
}  # fmt: skip


def read_rotary(
    config: Config, head_width: int, partial: float = 1.0, old: tuple[str, str] = ("rope_theta", "")
) -> Rotary:
    """How the positions of a config turn a head; `partial` and the `old` keys (of base and share) are its family's."""
    given: Any = next((config.content[key] for key in ("rope_scaling", "rope_parameters") if key in config), {})
    if not isinstance(given, dict):
        raise LabError(f"config.json has rope_parameters = {shown(given)}; allowed: an object")
    if more := sorted(set(given) - SAID):
        raise LabError(f"config.json has rope_parameters with {shown(more[0])}, which is not computed here")
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in KINDS:
        near = nearest(kind[:40], KINDS) if isinstance(kind, str) else ""
        raise LabError(
            f"config.json has rope_type = {shown(kind)}, which is not computed here{near}; allowed: {', '.join(KINDS)}"
        )
    base_key, share_key = old
    said = Config({base_key: config.content.get(base_key), share_key: config.content.get(share_key)} | given)
    base = said.number("rope_theta", 1.0001, 1e12, said.number(base_key, 1.0001, 1e12, 10_000.0))
    share = said.number("partial_rotary_factor", 0.0, 1.0, said.number(share_key, 0.0, 1.0, partial))
    width = int(head_width * share)
    if width < 2 or width % 2:
        raise LabError(f"config.json turns {width} of a head's {head_width} features; allowed: even numbers from 2")
    if kind == "llama3":
        slow, fast = said.number("low_freq_factor", 1e-6, 1e6), said.number("high_freq_factor", 1e-6, 1e6)
        if slow >= fast:
            raise LabError(f"config.json has low_freq_factor = {slow:g}; allowed: below high_freq_factor = {fast:g}")
        longest = config.whole("max_position_embeddings", 1, LONGEST)
        trained = said.whole("original_max_position_embeddings", 1, LONGEST, longest)
        return Rotary(base, width, said.number("factor", 1e-6, 1e6), slow, fast, trained)
    return Rotary(base, width, said.number("factor", 1e-6, 1e6) if kind == "linear" else 1.0)


def tell_rotary(rotary: Rotary, head_width: int) -> dict[str, Any]:
    """The rope_parameters of a config."""
    width = rotary.width or head_width
    told: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.base}
    if width < head_width:
        told["partial_rotary_factor"] = width / head_width
    if rotary.fast > rotary.slow:
        told |= {"rope_type": "llama3", "factor": rotary.stretch, "original_max_position_embeddings": rotary.trained}
        told |= {"low_freq_factor": rotary.slow, "high_freq_factor": rotary.fast}
    elif rotary.stretch != 1:
        told |= {"rope_type": "linear", "factor": rotary.stretch}
    return told


def their_order(rotary: Rotary, head_width: int) -> list[int]:
    """Which of our features of a head each of theirs is, in their order.

    >>> their_order(Rotary(width=4), 6)
    [0, 2, 1, 3, 4, 5]
    """
    width = rotary.width or head_width
    return [*range(0, width, 2), *range(1, width, 2), *range(width, head_width)]


def their_rows(heads: int, head_width: int, order: Sequence[int], start: int = 0) -> tuple[int, ...]:
    """Rows of [W_Q; W_K; W_V] from `start` on, of so many heads, in their order."""
    return tuple(start + head * head_width + feature for head in range(heads) for feature in order)
