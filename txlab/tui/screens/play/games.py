"""Which game is at the board: one that is chosen and prepared, or one that another console did not finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from txlab.engine.games.catalogue import GameEntry, game_named, games
from txlab.engine.games.game import FIRST, SECOND
from txlab.engine.games.playing import Playing
from txlab.runs.saved_games import SavedGame, left_behind
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.play.advice import Judged
from txlab.tui.screens.play.players import PERSON, Seat, agents_of, seat_named, usual_opponent

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import GamePanel


@dataclass(frozen=True)
class Prepared:
    """What is ready when a game begins: the rules, those who play without a run, and who sits opposite."""

    entry: GameEntry
    agents: list[Seat]
    opponent: Seat
    left: tuple[Path, SavedGame] | None


class GamesPanel(Panel):
    """Puts a game on the board, with its players."""

    KEYS: ClassVar = (
        bind("g", "game", "choose another game", "game", id="play.game"),
        bind("r", "resume", "continue a game that was not finished", "continue", id="play.resume"),
    )
    DEFAULT_CSS = "GamesPanel { display: none; }"

    def __init__(self, game: GamePanel) -> None:
        super().__init__()
        self.game = game
        self.left: tuple[Path, SavedGame] | None = None  # a game that another console did not finish
        self.opens = True  # nothing was on the board yet
        self.untold: list[str] = []  # said when the screen is in front: it may be prepared behind another one
        self.preparing = LatestTask(self, "preparing", lambda sentence: self.tell(sentence, "error"))

    def on_mount(self) -> None:
        self.prepare(self.game.entry)

    def come_to_front(self) -> None:
        while self.untold:
            self.tell(self.untold.pop(0))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "resume" or self.left is not None

    def prepare(self, entry: GameEntry, opponent: Callable[[], Seat] | None = None) -> None:
        """Find the rules and the players of a game, in a thread: some need seconds and torch."""
        root: Path = self.app.root  # type: ignore[attr-defined]
        self.game.ready = False
        self.game.unseen()

        def find(lane: LatestTask) -> Prepared:
            agents = agents_of(entry)
            for seat in agents:
                if seat.player is not None and seat.player.quick:
                    Judged.by(seat.player, Playing(entry.game, 0).position)  # a solved game is searched here
            against = opponent() if opponent is not None else usual_opponent(root, entry, agents, lambda: lane.late)
            return Prepared(entry, agents, against, next(left_behind(), None))

        self.preparing.want(find, self.show_prepared, holds_keys=True)

    def show_prepared(self, prepared: Prepared) -> None:
        if self.game.entry is not prepared.entry:
            self.game.file.remove()
        self.game.entry, self.game.agents, self.game.ready = prepared.entry, prepared.agents, True
        self.game.answers.forget()
        self.game.seats, self.game.tally = {FIRST: PERSON, SECOND: prepared.opponent}, {}
        self.untold.clear()
        if prepared.opponent.key == "random" and prepared.entry.scenario:
            self.untold.append(
                f"no run has learnt {prepared.entry.title} yet; {prepared.entry.scenario} in the Lab does"
            )
        self.left = prepared.left
        if prepared.left is not None:
            saved = prepared.left[1]
            when = datetime.fromtimestamp(saved.time)
            title = games()[saved.game].title if saved.game in games() else saved.game
            many = f"{len(saved.moves)} move{'s' if len(saved.moves) != 1 else ''}"
            self.untold.append(f"a game of {title} was not finished, {when:%d %b %H:%M}, {many}; r continues it")
        if self.app.screen is self.screen:
            self.come_to_front()
        opens, self.opens = self.opens, False
        self.game.playing = Playing(prepared.entry.game, self.game.chance.randrange(2**62))
        if not (
            opens and self.game.begin_showcase(prepared.opponent)
        ):  # on an empty board all moves are worth the same
            self.game.begin_again()

    def action_game(self) -> None:
        """Choose another game."""
        known = {entry.title: entry for entry in games().values()}
        rows = [(title, "", entry.name == self.game.entry.name) for title, entry in known.items()]

        def choose(title: str | None) -> None:
            if title in known and known[title] is not self.game.entry:
                self.prepare(known[title])

        self.app.push_screen(Choose("Which game?", rows), choose)

    def action_resume(self) -> None:
        """Continue the game that another console did not finish."""
        if self.left is None:
            return
        (path, saved), self.left = self.left, None
        root: Path = self.app.root  # type: ignore[attr-defined]

        def find(lane: LatestTask) -> tuple[GameEntry, list[Seat], dict[int, Seat], Playing, list[str]]:
            entry, playing = game_named(saved.game), saved.playing()
            agents = agents_of(entry)
            missing: list[str] = []
            seats = {int(side): seat_named(who, agents, root, missing) for side, who in saved.seats.items()}
            return entry, agents, seats, playing, missing

        def go_on(resumed: tuple[GameEntry, list[Seat], dict[int, Seat], Playing, list[str]]) -> None:
            # Only now, over the file of the game on the board: a game that cannot be read stays where it is.
            if not self.game.file.take_over(path):
                self.tell("another console continues that game")
                return
            self.game.entry, self.game.agents, self.game.seats, playing, missing = resumed
            self.game.tally, self.game.ready = {}, True
            for who in missing:
                self.tell(f"{who} is not there any more; {self.game.agents[0].title} plays on")
            self.game.start(playing)

        self.preparing.want(find, go_on, holds_keys=True)
