"""Which units of a recurrent network follow a property of a text best, measured on text that it did not learn from.

Worker threads only: reading the text takes seconds. Nothing here is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory

LONGEST = 4000  # tokens that are read; with 200, chance alone gives some unit of 512 an r of .2


@dataclass(frozen=True)
class Followed:
    """prop   the property's name        title   what it is
    units     (layer, unit, r) of all units, |r| largest first
    state     the state that was compared, "h" or "c"       tokens, step   how much text, and by which checkpoint
    """

    prop: str
    title: str
    units: tuple[tuple[int, int, float], ...]
    state: str
    tokens: int
    step: int


def follow(path: Path, step: int | None, prop: str, state: str) -> Followed:
    """Rank the units of the checkpoint nearest to `step`. LabError without one, or without a text to read."""
    import numpy as np

    from txlab.engine.recurrent.language_model import RecurrentLM
    from txlab.engine.recurrent.units import PROPERTIES, correlations, of_tokens
    from txlab.experiments.kind import kind_named
    from txlab.runs.models import open_checkpoint, scenario_of

    run = RunDirectory(path)
    opened, scenario = open_checkpoint(run, step), scenario_of(run)
    if not isinstance(opened.model, RecurrentLM):
        raise LabError("only a recurrent language model is asked which of its units follows what")
    text = kind_named(scenario.kind).held_out(scenario)
    ids = opened.tokenizer.encode(text[: 8 * LONGEST])[:LONGEST]
    if len(ids) < 100:
        raise LabError(f"the validation text has {len(ids)} tokens; at least 100 tell which unit follows what")
    values = of_tokens(prop, [opened.tokenizer.token_bytes(token) for token in ids])
    if not values.std():
        raise LabError(f"nothing in {len(ids)} tokens of the validation text is {PROPERTIES[prop][0]}")
    states = opened.model.look_at(ids)[1][state]  # (N, T, H)
    N, T, H = states.shape
    r = correlations(states.transpose(0, 1).reshape(T, N * H).numpy(), values)
    order = np.argsort(-np.abs(r), kind="stable")
    units = tuple((int(unit) // H, int(unit) % H, float(r[unit])) for unit in order)
    return Followed(prop, PROPERTIES[prop][0], units, state, len(ids), opened.step or 0)
