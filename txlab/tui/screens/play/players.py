"""Who can sit at the board: a person, the perfect player, a random one, learners of this screen, players of runs.

Notable: a player is told by its `key`, which stays the same while it learns; what it knows is looked up when it moves.
"""

from __future__ import annotations

from dataclasses import dataclass

from txlab.engine.games.players import MaskPlayer


@dataclass(frozen=True)
class Seat:
    """`player` is None for the person; `about` stands beside the title where players are chosen."""

    key: str
    title: str
    about: str = ""
    player: MaskPlayer | None = None

    @property
    def person(self) -> bool:
        return self.player is None


PERSON = Seat("you", "you")
