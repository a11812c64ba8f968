"""Choosing the players: the opponent, both sides where agents play each other, the player of a run.

Runs are searched only on request, in a thread; a folder of a thousand runs takes a while.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from txlab.drawing.text import visible
from txlab.engine.games.game import FIRST, SECOND
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.play.game import PERSON, Seat

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import GamePanel

ANOTHER = "another person"
A_RUN = "of a run…"


class SeatsPanel(Panel):
    """Assigns the sides of a game to players."""

    KEYS: ClassVar = (
        Binding("o", "opponent", "opponent", id="play.opponent"),
        Binding("a", "watch", "watch", id="play.watch"),
    )
    DEFAULT_CSS = "SeatsPanel { display: none; }"

    def __init__(self, game: GamePanel) -> None:
        super().__init__()
        self.game = game
        self.learners: list[Seat] = []  # those that learnt here, newest first
        self.recorded: list[Seat] = []  # players of runs that were chosen before
        self.finding = LatestTask(self, "finding runs", lambda sentence: self.tell(sentence, "error"))

    def word_for(self, binding: Binding) -> str:
        return "play" if binding.id == "play.watch" and self.game.watching else binding.description

    @property
    def at_hand(self) -> list[Seat]:
        """Every agent that can play now."""
        return [*self.game.agents, *self.learners, *self.recorded]

    def learnt(self, seats: list[Seat]) -> None:
        """Replace a learner and its snapshots by newer ones."""
        mine = {seat.key for seat in seats}
        self.learners = [*seats, *(seat for seat in self.learners if seat.key not in mine)]
        self.game.renew_seats(seats)

    def ask_who(self, question: str, side: int, then: Callable[[Seat], None], people: bool) -> None:
        """Offer the agents at hand, the player of a run, or (with `people`) another person."""
        seats = {seat.title: seat for seat in self.at_hand}
        now = self.game.seats[side].title
        rows = [(seat.title, seat.about, seat.title == now) for seat in seats.values()]
        rows.append((A_RUN, "a recorded run of self-play", False))
        if people:
            rows.append((ANOTHER, "in turn, at the same keys", self.game.seats[side].person))

        def chosen(title: str | None) -> None:
            if title == ANOTHER:
                then(PERSON)
            elif title == A_RUN:
                self.find_runs(question, then)
            elif title in seats:
                then(seats[title])

        self.app.push_screen(Choose(question, rows), chosen)

    def action_opponent(self) -> None:
        """Choose your opponent; if only agents play, who plays O."""
        if self.game.solution is None:
            return
        side = SECOND if self.game.you is None else -self.game.you

        def sit(seat: Seat) -> None:
            self.game.sit({**self.game.seats, side: seat}, afresh=False)

        question = "Who plays O?" if self.game.watching else "Choose your opponent"
        self.ask_who(question, side, sit, people=not self.game.watching)

    def action_watch(self) -> None:
        """Let two agents play each other; pressed again, a person takes X."""
        if self.game.solution is None:
            return
        if self.game.watching:
            self.game.sit({FIRST: PERSON, SECOND: self.game.seats[SECOND]}, afresh=True)
            return

        def first(seat: Seat) -> None:
            self.ask_who("Who plays O?", SECOND, lambda other: both(seat, other), people=False)

        def both(one: Seat, other: Seat) -> None:
            self.game.running = True
            self.game.sit({FIRST: one, SECOND: other}, afresh=True)

        self.ask_who("Who plays X?", FIRST, first, people=False)

    # The players of runs.

    def find_runs(self, question: str, then: Callable[[Seat], None]) -> None:
        """List the runs that have a player, and ask for one."""
        root: Path = self.app.root  # type: ignore[attr-defined]

        def look(lane: LatestTask) -> list[tuple[str, Path, str]]:
            return self_play_runs(root, lambda: lane.late)

        def ask(found: list[tuple[str, Path, str]]) -> None:
            paths = {name: path for name, path, _ in found}
            if not found:
                self.tell(f"there is no run of self-play in {root}; start one in the Lab: tictactoe")
                return
            rows = [(name, about, False) for name, _, about in found]

            def chosen(name: str | None) -> None:
                if name in paths:
                    self.open_run(paths[name], then)

            self.app.push_screen(Choose(question, rows), chosen)

        self.finding.want(look, ask, holds_keys=True)

    def open_run(self, path: Path, then: Callable[[Seat], None]) -> None:
        """Load the present player of a run, then call `then` with it."""

        def take(seat: Seat) -> None:
            self.recorded = [seat, *(each for each in self.recorded if each.key != seat.key)]
            then(seat)

        self.finding.want(lambda _: seat_of_run(path), take, holds_keys=True)


def self_play_runs(root: Path, stop: Callable[[], bool]) -> list[tuple[str, Path, str]]:
    """Return (name, path, title) of the runs of self-play, newest first."""
    from txlab.runs.directory import RunDirectory, RunInfo
    from txlab.runs.folder import list_runs

    found = []
    for path in list_runs(root):
        if stop():
            break
        try:
            info = RunInfo.load(RunDirectory(path))
        except (OSError, ValueError):
            continue
        if info.kind == "self-play":
            found.append((path.name, path, info.title))
    return found


def seat_of_run(path: Path) -> Seat:
    """Return the latest player of a run. Raises LabError if it has none yet."""
    from txlab.runs.models import player_of_run

    player = player_of_run(path)
    return Seat(f"run {path}", visible(f"run {path.name}"), player.name, player)
