"""What players say of positions: asked in a thread where they need time, and remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from txlab.engine.games.game import Move, Position
from txlab.engine.games.players import Player
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel

REMEMBERED = 4_000  # answers of players


@dataclass(frozen=True)
class Judged:
    """What a player says of a position."""

    values: dict[Move, float] = field(default_factory=dict)
    notes: dict[Move, str] = field(default_factory=dict)
    shares: dict[Move, float] = field(default_factory=dict)
    best: tuple[Move, ...] = ()
    sees: str = ""

    @classmethod
    def by(cls, player: Player, position: Position) -> Judged:
        notes, shares, best = player.notes(position), player.shares(position), tuple(player.best(position))
        return cls(player.values(position), notes, shares, best, player.sees(position))


class Answers:
    """What the players of a game said; `changed` shows it anew when there is more."""

    def __init__(self, panel: Panel, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.said: dict[tuple[Player, Position], Judged] = {}
        self.asked: list[tuple[Player, Position]] = []  # of whom something is awaited
        self.thinking = LatestTask(panel, "thinking", lambda sentence: panel.tell(sentence, "error"))

    @property
    def awaited(self) -> bool:
        return bool(self.asked) or not self.thinking.idle

    def forget(self) -> None:
        self.thinking.forget()
        self.said.clear()
        self.asked = []

    def known(self, player: Player, position: Position) -> Judged | None:
        """What a player says of a position; None until it has been asked, in a thread."""
        if player.quick:
            return Judged.by(player, position)
        found = self.said.get((player, position))
        if found is None and (player, position) not in self.asked:
            self.asked.append((player, position))
        return found

    def ask(self) -> None:
        """Ask what `known` was asked for and did not know, one after the other, and show it."""
        wanted = [each for each in self.asked if each not in self.said]
        self.asked = []
        if not wanted:
            return
        if len(self.said) > REMEMBERED:
            self.said.clear()

        def think(lane: LatestTask) -> None:
            for player, position in wanted:
                if lane.late:
                    return
                self.said[player, position] = Judged.by(player, position)
                lane.say(self.changed)

        if self.thinking.idle:
            self.thinking.want(think, lambda _: self.changed())
