"""Evaluations of positions by players, computed in a thread where they need time, cached, and shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from txlab.drawing.boards import sign_of, value_text
from txlab.drawing.text import visible
from txlab.engine.games.game import FIRST, SECOND, Move, Position
from txlab.engine.games.players import Player
from txlab.engine.games.playing import Playing
from txlab.engine.games.search_tree import TreeSearch
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.play.players import Seat

REMEMBERED = 4_000  # answers of players


@dataclass(frozen=True)
class Judged:
    """A player's evaluation of a position."""

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
    """The cached evaluations of a game's players; `changed` redraws when there are new ones."""

    def __init__(self, panel: Panel, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.said: dict[tuple[Player, Position], Judged] = {}
        self.asked: list[tuple[Player, Position]] = []  # pending evaluations
        self.thinking = LatestTask(panel, "thinking", lambda sentence: panel.tell(sentence, "error"))

    @property
    def awaited(self) -> bool:
        return bool(self.asked) or not self.thinking.idle

    def forget(self) -> None:
        self.thinking.forget()
        self.said.clear()
        self.asked = []

    def evaluation_of(self, player: Player, position: Position) -> Judged | None:
        """A player's evaluation of a position; None until it has been computed in a thread."""
        if player.quick:
            return Judged.by(player, position)
        judged = self.said.get((player, position))
        if judged is None and (player, position) not in self.asked:
            self.asked.append((player, position))
        return judged

    def ask(self) -> None:
        """Compute the evaluations that `evaluation_of` lacked, one after the other, and show them."""
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


class AtTheBoard(Protocol):
    """What is asked about a game in progress; GamePanel documents it."""

    ready: bool
    playing: Playing
    seats: dict[int, Seat]
    agents: list[Seat]
    answers: Answers
    view: str
    hinting: bool

    @property
    def can_move(self) -> bool: ...


class Advice:
    """Whose values of the position are shown at the board of a game, and what is best there.

    strongest   other agents, best first, which the ratings know
    """

    def __init__(self, panel: AtTheBoard) -> None:
        self.panel = panel
        self.strongest: Callable[[], Sequence[Seat]] = tuple

    def advisers(self, everyone: bool) -> list[Seat]:
        """Whose values tell what is best: the perfect player, the strongest by the ratings, the agents at the board;
        with `everyone` also the others, who may have to search."""
        perfect = [seat for seat in self.panel.agents if seat.key == "perfect"]
        seated = [self.panel.seats[side] for side in (SECOND, FIRST)]
        seats = [*perfect, *self.strongest(), *seated, *(self.panel.agents if everyone else ())]
        return list({seat.key: seat for seat in seats if seat.player is not None}.values())

    def best(self, position: Position, everyone: bool = True) -> tuple[Seat, Judged] | None:
        """The first adviser who has values here, and what it says; None if there is none, or not yet."""
        for seat in self.advisers(everyone):
            assert seat.player is not None
            judged = self.panel.answers.evaluation_of(seat.player, position)
            if judged is None:
                return None
            if judged.best:
                return seat, judged
        return None

    def loss(self, number: int) -> tuple[float, str] | None:
        """What a move gave away, in points, and what the adviser says of it; None if that is not known."""
        playing = self.panel.playing
        position, move = playing.positions[playing.decisions[number]], playing.moves[number]
        best = self.best(position, everyone=False)
        if best is None or move not in best[1].values:
            return None
        values = best[1].values
        return max(values.values()) - values[move], best[1].notes.get(move, "")

    def seer(self) -> Seat | None:
        """Return the agent whose values are shown: the mover, or the mover's opponent."""
        mover, seats = self.panel.playing.mover, self.panel.seats
        return next((seat for side in (mover, -mover) if not (seat := seats[side]).person), None)

    def searching(self) -> TreeSearch | None:
        """Whose search of this position can be looked into: an agent's at the board, or that of another of the game."""
        panel = self.panel
        if not panel.can_move:
            return None
        for seat in (panel.seats[panel.playing.mover], panel.seats[-panel.playing.mover], *panel.agents):
            search = None if seat.player is None else seat.player.tree(panel.playing.position)
            if search is not None:
                return search
        return None

    def seat_shown(self) -> Seat | None:
        """Whose values are shown; None if nobody's are."""
        if not self.panel.can_move or self.panel.view == "nothing":
            return None
        seat = self.seer() if self.panel.view == "agent" else None
        if seat is not None:
            return seat
        best = self.best(self.panel.playing.position)
        return None if best is None else best[0]

    def evaluation_shown(self) -> tuple[Judged, str]:
        """What is shown of the legal moves, and its description."""
        panel = self.panel
        if not panel.ready or panel.playing.ended:
            return Judged(), "the game is over" if panel.playing.ended else "nothing yet"
        if panel.view == "nothing":
            return Judged(), "nothing; v shows values"
        seat = self.seat_shown()
        if seat is None or seat.player is None:
            return Judged(), "thinking…" if panel.answers.awaited else "no player has values here"
        judged = panel.answers.evaluation_of(seat.player, panel.playing.position)
        if judged is None:
            return Judged(), f"{visible(seat.title)} thinks…"
        whose = f", {sign_of(panel.playing.game, panel.playing.mover)}'s view" if judged.values else ""
        return judged, judged.sees + whose

    def moves_hinted(self) -> tuple[Move, ...]:
        best = self.best(self.panel.playing.position) if self.panel.hinting and not self.panel.playing.ended else None
        return () if best is None else best[1].best

    def hint_words(self) -> str:
        """Return the hinted moves as `centre: wins in 2`."""
        best = self.best(self.panel.playing.position)
        if best is None:
            return "thinking…"
        seat, judged = best
        move = judged.best[0]
        what = judged.notes.get(move, "")
        if seat.key != "perfect" or not what:
            value = f"{value_text(judged.values[move])} " if move in judged.values else ""
            what = f"{value}{what and f'({what}) '}says {visible(seat.title)}"
        game, position = self.panel.playing.game, self.panel.playing.position
        names = ", ".join(game.name_of_move(position, each) for each in judged.best)
        if len(judged.best) == len(game.legal(position)) > 1:
            names = "any move"
        return f"{names}: {what}"
