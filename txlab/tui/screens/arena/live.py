"""From a recorded run on by hand: its world, and its learners with their numbers, knowing nothing yet.

Notable: a run may have rules that the arena has not. Planning becomes value iteration; what only predicts becomes TD(λ)
with the traces it had; a number that a learner cannot have is left at its usual value, and the rest of it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txlab.drawing.text import visible
from txlab.engine.rl.settings import Settings
from txlab.errors import LabError
from txlab.tui.screens.arena.bands import BandsScreen
from txlab.tui.screens.arena.learning import Look
from txlab.tui.screens.arena.parameters import PLANNED

MOST_SIDES = 4
NUMBERS = ("alpha", "beta", "lam", "n", "planning", "gamma", "epsilon", "temperature", "decay")
PREDICTED: dict[str, dict[str, Any]] = {
    "td-0": {"lam": 0.0},
    "accumulating": {"traces": "accumulating"},
    "replacing": {"traces": "replacing"},
    "true-online": {"traces": "true-online"},
}
"""Rules that predict, and what of TD(λ) they are."""


class LiveScreen(BandsScreen):
    """l: live."""

    def __init__(self) -> None:
        super().__init__()
        self.edits_next = False  # when the world of the run is there

    def action_live(self) -> None:
        """The recorded world and its learners as a match that can be run, turned and edited."""
        self.go_live()

    def action_edit(self) -> None:
        """Change the map; that of a recorded run is made live for it."""
        if not self.replaying:
            super().action_edit()
        elif self.world is not None and self.world.map is None:
            self.refuse_to_edit(self.world)
        else:
            self.edits_next = self.go_live()

    def go_live(self) -> bool:
        """Whether it could."""
        world, table = self.world, self.facts().get("world")
        if not self.replaying or world is None or not isinstance(table, Mapping):
            return False
        try:
            settings, left = learners_of(self.facts())
        except LabError as error:
            self.tell(str(error), "error")
            return False
        self.leave_replay()
        self.learning.order(lambda learning: learning.match_in(world, table, settings), "world")
        self.tell("live now: its world and its learners, knowing nothing yet; space runs" + left)
        return True

    def take(self, look: Look) -> None:
        anew = look.match != self.match_seen
        super().take(look)
        if anew and self.edits_next:
            self.edits_next = False
            self.action_edit()


def learners_of(facts: Mapping[str, Any]) -> tuple[list[Settings], str]:
    """The settings of the sides that a frame tells of, and in words what of them is something else here.

    LabError where it tells of none.
    """
    told = [side for side in facts.get("sides") or () if isinstance(side, Mapping)]
    if not told:
        raise LabError("this run does not say who learns in it")
    found: list[Settings] = []
    others: list[str] = []
    for side in told:
        settings, same = learner_of(side)
        if settings not in found:
            found.append(settings)
        if not same:
            others.append(visible(str(side.get("title") or side.get("rule")))[:40])
    said = f"; in place of {', '.join(dict.fromkeys(others))}, what the arena has" if others else ""
    if len(found) > MOST_SIDES:
        said += f"; the first {MOST_SIDES} of its {len(found)} learners"
    return found[:MOST_SIDES], said


def learner_of(side: Mapping[str, Any]) -> tuple[Settings, bool]:
    """What a frame tells of a side as a learner of the arena, and whether it is the same rule."""
    from txlab.engine.rl.rules.all import AGENTS
    from txlab.engine.rl.settings import checked

    rule = str(side.get("rule"))
    if rule in PLANNED or "sweep" in side:
        gamma = side.get("gamma")
        planner = Settings("value-iteration", gamma=float(gamma) if isinstance(gamma, (int, float)) else None)
        return checked(planner), rule == "value-iteration"
    same = rule in AGENTS or rule in PREDICTED
    settings = Settings(rule) if rule in AGENTS else Settings("td-lambda")  # type: ignore[arg-type]
    wanted: dict[str, Any] = {name: float(side[name]) for name in NUMBERS if isinstance(side.get(name), (int, float))}
    wanted |= {name: side[name] for name in ("policy", "traces") if isinstance(side.get(name), str)}
    wanted |= PREDICTED.get(rule, {})
    for name, value in wanted.items():
        try:
            settings = checked(replace(settings, **{name: value}))
        except LabError:
            continue  # a number that means nothing to this rule
    return settings, same
