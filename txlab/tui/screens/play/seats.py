"""Choosing the players: the opponent, both sides where agents play each other, the player of a run.

Runs are searched only on request, in a thread; a folder of a thousand runs takes a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from txlab.drawing.run_names import name_runs
from txlab.drawing.text import visible
from txlab.engine.games.game import FIRST, SECOND
from txlab.errors import LabError
from txlab.runs.models import player_of_run, steps_that_play
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import Choose, describe_enter
from txlab.tui.screens.play.players import PERSON, Seat, runs_that_play, seat_of_run

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import GamePanel

ANOTHER = "another player"
A_RUN = "of a run…"
RUNGS = 6
"""Snapshots of a run that are rated in a tournament."""


class SeatsPanel(Panel):
    """Assigns the sides of a game to players."""

    KEYS: ClassVar = (
        bind("o", "opponent", "choose your opponent", "opponent", id="play.opponent"),
        bind("a", "watch", "watch two agents play", "watch", id="play.watch"),
    )
    DEFAULT_CSS = "SeatsPanel { display: none; }"

    def __init__(self, game: GamePanel) -> None:
        super().__init__()
        self.game = game
        self.learners: list[Seat] = []  # learners of this screen, newest first
        self.recorded: list[Seat] = []  # players of runs chosen before
        self.finding = LatestTask(self, "finding runs", lambda sentence: self.tell(sentence, "error"))

    def word_for(self, binding: Binding) -> str:
        return "play" if binding.id == "play.watch" and self.game.watching else binding.description

    @property
    def at_hand(self) -> list[Seat]:
        """Every agent that can play this game now."""
        seats = [*self.game.agents, *self.learners, *self.recorded, *self.game.seats.values()]
        game = self.game.entry.name
        return list({seat.key: seat for seat in seats if seat.player and game == seat.player.game.NAME}.values())

    def replace_learner(self, seats: list[Seat]) -> None:
        """Replace a learner and its snapshots by newer ones."""
        mine = {seat.key for seat in seats}
        self.learners = [*seats, *(seat for seat in self.learners if seat.key not in mine)]
        self.game.renew_seats(seats)

    def replace_player(self, seat: Seat) -> None:
        """Replace the player of a run by a newer one."""
        self.recorded = [seat if each.key == seat.key else each for each in self.recorded]
        self.game.renew_seats([seat])

    def ask_who(self, question: str, side: int, then: Callable[[Seat], None], people: bool) -> None:
        """Offer the available agents, the player of a run, or (with `people`) another human."""
        seats = {seat.title: seat for seat in self.at_hand}
        now = self.game.seats[side].title
        rows = [(seat.title, seat.about, seat.title == now) for seat in seats.values()]
        rows.append((A_RUN, "a run of this game, as it is or as it was", False))
        if people:
            rows.append((ANOTHER, "in turn, at the same keys", self.game.seats[side].person))

        def choose(title: str | None) -> None:
            if title == ANOTHER:
                then(PERSON)
            elif title == A_RUN:
                self.find_runs(question, then)
            elif title in seats:
                then(seats[title])

        self.app.push_screen(Choose(question, rows), choose)

    def action_opponent(self) -> None:
        """Choose your opponent; if only agents play, the player of O."""
        if not self.game.ready:
            return
        side = SECOND if self.game.you is None else -self.game.you

        def sit(seat: Seat) -> None:
            self.game.sit({**self.game.seats, side: seat}, afresh=False)

        question = f"Who plays {self.game.game.SIGNS[1]}?" if self.game.watching else "Choose your opponent"
        self.ask_who(question, side, sit, people=not self.game.watching)

    def action_watch(self) -> None:
        """Let two agents play each other; pressed again, the user takes X."""
        if not self.game.ready:
            return
        if self.game.watching:
            self.game.sit({FIRST: PERSON, SECOND: self.game.seats[SECOND]}, afresh=True)
            return

        signs = self.game.game.SIGNS

        def first(seat: Seat) -> None:
            self.ask_who(f"Who plays {signs[1]}?", SECOND, lambda other: both(seat, other), people=False)

        def both(one: Seat, other: Seat) -> None:
            self.game.running = True
            self.game.sit({FIRST: one, SECOND: other}, afresh=True)

        self.ask_who(f"Who plays {signs[0]}?", FIRST, first, people=False)

    # The players of runs.

    def find_runs(self, question: str, then: Callable[[Seat], None]) -> None:
        """List the runs that have a player of this game, and ask for one; RUN@STEP is its player at a step."""
        root: Path = self.app.root  # type: ignore[attr-defined]
        entry = self.game.entry

        def look(lane: LatestTask) -> tuple[list[tuple[str, str]], dict[str, str]]:
            found = list(runs_that_play(root, entry, lambda: lane.late))
            return [(path.name, info.title) for path, info in found], name_runs(path for path, _ in found)

        def ask(offered: tuple[list[tuple[str, str]], dict[str, str]]) -> None:
            runs, called = offered
            if not runs:
                start = f"; start one in the Lab: {entry.scenario}" if entry.scenario else ""
                self.tell(f"there is no run that plays {entry.title} in {root}{start}")
                return
            rows = [(name, about, False) for name, about in runs]

            def choose(name: str | None) -> None:
                if name:
                    self.open_run(name, then)

            dialog = Choose(f"{question} RUN, or RUN@STEP", rows, free=describe_enter("takes the player of"))
            dialog.called = called
            self.app.push_screen(dialog, choose)

        self.finding.want(look, ask, holds_keys=True)

    def open_run(self, name: str, then: Callable[[Seat], None]) -> None:
        """Load the player of a run, then call `then` with it."""
        root: Path = self.app.root  # type: ignore[attr-defined]

        def take(seat: Seat) -> None:
            if seat.player is not None and self.game.entry.name != seat.player.game.NAME:
                self.tell(f"{seat.title} plays {seat.player.game.TITLE}, not {self.game.entry.title}")
                return
            self.recorded = [seat, *(each for each in self.recorded if each.key != seat.key)]
            then(seat)

        self.finding.want(lambda _: seat_of_run(name, root), take, holds_keys=True)

    def snapshots(self) -> list[Seat]:
        """Earlier players of the available runs, up to `RUNGS` each, evenly spaced; for a worker thread."""
        seats = {}
        for family in {seat.family for seat in self.at_hand if seat.family.startswith("run ")}:
            path = Path(family.removeprefix("run "))
            for step in evenly_spaced(steps_that_play(path), RUNGS):
                with suppress(LabError):  # a step that was thinned out meanwhile
                    player = player_of_run(path, step)
                    title = visible(f"{path.name}@{step}")
                    seats[title] = Seat(title, title, player.name, player, title, family, step)
        return list(seats.values())


def evenly_spaced(steps: Sequence[int], count: int) -> list[int]:
    """A limited number of them, evenly spaced, including the first and the last.

    >>> evenly_spaced([1, 2, 3, 4, 5, 6, 7, 8, 9], 3), evenly_spaced([4, 8], 3)
    ([1, 5, 9], [4, 8])
    """
    if len(steps) <= count:
        return list(steps)
    return [steps[round(k * (len(steps) - 1) / (count - 1))] for k in range(count)]
