"""One update of a learner, with the very numbers that it was made of (MATH M2, M4–M7).

Notable: `terms` is the rule as it is written and, under each piece of it, what stood there. The loops that learn fill
in the record; a screen sets letters above numbers, and works nothing out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from txlab.engine.explain import Explanation


@dataclass(frozen=True)
class Term:
    """A piece of a formula and the number under it; None where there is only a sign. ("Q(s,a)", −7.5), ("←", None)"""

    letters: str
    value: float | None = None


def terms(*pieces: str | tuple[str, float]) -> list[Term]:
    """A rule piece by piece: a sign stands alone, letters have their number beside them.

    >>> terms(("V", 0.5), "←", ("V", 0.0))
    [Term(letters='V', value=0.5), Term(letters='←', value=None), Term(letters='V', value=0.0)]
    """
    return [Term(piece) if isinstance(piece, str) else Term(*piece) for piece in pieces]


@dataclass(frozen=True)
class Update:
    """number     which update of the learner this was, from 1; `episode` from 0
    state, action, reward, next   the transition; `action` is −1 for a rule without actions
    done       whether the episode ended there; `truncated`: whether it was cut off
    next_action   the action that the rule used in the next state; −1 where it used none, or several
    before, after   the number in the table that the screen shows for (state, action), or for the state
    delta      δ, the error that was corrected
    trace      {pair number or state: e}, the traces that shared in it; empty for rules without
    terms      the rule with its numbers
    explain    the whole answer to "why this number?"
    """

    number: int
    episode: int
    state: int
    action: int
    reward: float
    next: int
    done: bool
    truncated: bool
    next_action: int
    before: float
    after: float
    delta: float
    terms: Sequence[Term]
    explanation: Explanation
    trace: dict[int, float] = field(default_factory=dict)
