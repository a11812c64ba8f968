"""Names that other programs give to what they count: which of them is the step.

Notable: the three groups are a whole training's total, its steps under many synonyms, and other things that a program
may count (episodes, batches, games).
"""

from __future__ import annotations

import re

WHOLE_TRAINING = r"global[_ ]step|num_updates|total_?(?:time_?|env_?)?(?:steps|interacts)|env_steps?"
STEPS = r"train_steps?|steps?|iters?|iterations?|updates?|it(?=\s*[:=])"
COUNTED = rf"{WHOLE_TRAINING}|time_?steps?|{STEPS}|(?:mini-?)?batch|episodes?|ep"
OTHERS_COUNTED = r"rounds?|generations?|gen|games?|frames?|cycles?|trials?|samples?|rollouts?|t"
_COUNTER = re.compile(rf"(?:{COUNTED})|it|n_updates|#", re.I)
_RANKS = [re.compile(each, re.I) for each in (WHOLE_TRAINING, rf"{STEPS}|it")]


def rank_of(counter: str) -> int:
    """How certainly a counter is the step: 3 counts the whole training, 2 steps, 1 something else that is named, 0 is a
    place in a bar, a fraction or a list.

    >>> rank_of("global_step"), rank_of("iter"), rank_of("batch"), rank_of("bar")
    (3, 2, 1, 0)
    """
    if counter in ("", "bar", "fraction", "line"):
        return 0
    return next((3 - place for place, names in enumerate(_RANKS) if names.fullmatch(counter)), 1)


def counter_in(name: str) -> bool:
    """Whether a name counts steps, as "total_timesteps" does."""
    return _COUNTER.fullmatch(name) is not None
