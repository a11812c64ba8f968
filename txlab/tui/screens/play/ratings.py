"""A tournament on the Play screen: all available agents play each other, and get a rating.

Notable: it is played in a thread, by the agents in their state at the start; without dice the first move of each game
is random, since two deterministic players would otherwise repeat one game. Earlier snapshots of an available run take
part, so its strength can be compared over its training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from txlab.drawing.boards import value_text
from txlab.drawing.formatting import count, interval
from txlab.engine.games.players import TabularPlayer
from txlab.engine.games.tournament import Standing, Standings, tournament
from txlab.tui.bindings import MOVING, bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.play.players import Seat
from txlab.tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import GamePanel
    from txlab.tui.screens.play.interface import Play
    from txlab.tui.screens.play.seats import SeatsPanel

GAMES = 1_000
"""Games between every two tables: a rating is then known to about 20 points either way."""
FEWER = 100
"""Games between every two players if one of them is not a table."""
NO_RATINGS = "m lets all agents play each other"


class RatingsPanel(Panel):
    """Two tables, #ratings and #pairs of the player selected in it."""

    KEYS: ClassVar = (
        bind("m", "tournament", "play a tournament of all agents", "tournament", id="play.tournament"),
        bind("shift+up", "row(-1)", "player above", id="play.row-up", heading=MOVING),
        bind("shift+down", "row(1)", "player below", id="play.row-down", heading=MOVING),
    )

    def __init__(self, play: Play, game: GamePanel, seats: SeatsPanel) -> None:
        super().__init__()
        self.play, self.game, self.seats = play, game, seats
        self.standings: Standings | None = None
        self.rows: list[Standing] = []
        self.rated_seats: dict[str, Seat] = {}
        self.row = 0
        self.played: tuple[int, int] | None = None  # (games played, total) during a tournament
        self.rating = LatestTask(play, "tournament", lambda sentence: self.tell(sentence, "error"))

    def compose(self) -> ComposeResult:
        for name in ("ratings", "pairs"):
            table = Table(id=name, waiting=NO_RATINGS)
            table.can_focus = False
            yield table

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "row" or (self.play.tab in ("ratings", "pairs") and bool(self.rows))

    @property
    def contest(self) -> bool:
        """Whether a tournament is being played."""
        return not self.rating.idle

    def action_tournament(self) -> None:
        if not self.game.ready or self.contest:
            return
        self.play.show_tab("ratings")
        at_hand, seed = self.seats.at_hand, self.game.chance.randrange(1 << 30)

        def compete(lane: LatestTask) -> tuple[Standings, dict[str, Seat]] | None:
            seats = {seat.title: seat for seat in [*self.seats.snapshots(), *at_hand]}
            players = [seat.player for seat in seats.values() if seat.player is not None]
            games = GAMES if all(isinstance(player, TabularPlayer) for player in players) else FEWER
            standings = tournament(
                players,
                games,
                seed,
                late=lambda: lane.late,
                say=lambda done, all: lane.say(self.went_on, done, all),
                names=list(seats),
            )
            return None if standings is None else (standings, seats)

        self.played = (0, 1)
        self.rating.want(compete, self.show_results)
        self.show()
        self.screen.refresh_bindings()

    def went_on(self, done: int, all: int) -> None:
        self.played = (done, all)
        self.show()

    def show_results(self, results: tuple[Standings, dict[str, Seat]] | None) -> None:
        self.played = None
        if results is not None:
            self.standings, self.rated_seats = results
            self.rows = self.standings.rows()
            self.row = 0
        self.show()
        self.play.show_game()

    def forget(self) -> None:
        """A new game begins, whose players are not rated."""
        self.rating.forget()
        self.played = self.standings = None
        self.rows, self.rated_seats = [], {}
        self.show()

    def strongest(self) -> list[Seat]:
        """The rated players, best first."""
        return [self.rated_seats[row.name] for row in self.rows]

    def cancel(self) -> None:
        """End the tournament."""
        if self.contest:
            self.rating.forget()
            self.played = None
            self.show()
            self.tell("the tournament is cancelled; the ratings before it stay")

    def action_row(self, by: int) -> None:
        """Select another player of the table, and show its pairs."""
        self.row = max(0, min(self.row + by, len(self.rows) - 1))
        self.show()

    def rating_of(self, name: str) -> str:
        """Return `1 480 (1 459 to 1 502)`, if the player was in a tournament."""
        standing = next((row for row in self.rows if row.name == name), None)
        return "" if standing is None else rating_text(standing)

    def show(self) -> None:
        if not self.is_attached:
            return
        wide = self.play.size.width >= 100
        table, pairs = self.query_one("#ratings", Table), self.query_one("#pairs", Table)
        if self.played is not None:
            done, all = self.played
            table.waiting = f"playing: {count(done)} of {count(all)} games" if all > 1 else "playing…"
            table.set_table([], [])
            table.refresh()
            return
        table.waiting = NO_RATINGS
        if self.standings is None:
            table.set_table([], [])
            pairs.set_table([], [])
            return
        table.set_table(*rating_table(self.rows, wide, self.standings.most > 1), marked=[self.row])
        pairs.set_table(*pair_table(self.standings, self.rows, self.row))


def rating_text(row: Standing) -> str:
    """Return `1 480 (1 459 to 1 502)`, the rating and its 95 % interval."""
    return f"{count(row.rating)} ({interval(row.low, row.high)})"


def points_text(mean: float, low: float, high: float) -> str:
    """Return `+.31 (+.22 to +.40)`, points a game and the 95 % interval."""
    return f"{value_text(mean)} ({value_text(low)} to {value_text(high)})"


def rating_table(rows: Sequence[Standing], wide: bool, points: bool) -> tuple[list[Column], list[list[str]]]:
    """Return the ratings, best first, with numbers of games if there is room, else shares of all; with points a game
    where a win may have several."""
    columns = [Column("player", right=False), Column("rating (95 % interval)")]
    if points:
        return [*columns, Column("points a game" if wide else "points")], [
            [row.name, rating_text(row), points_text(row.points, row.points_low, row.points_high)]
            if wide
            else [row.name, rating_text(row), value_text(row.points)]
            for row in rows
        ]
    if wide:
        columns += [Column("won"), Column("drawn"), Column("lost")]
        return columns, [
            [row.name, rating_text(row), count(row.won), count(row.drawn), count(row.lost)] for row in rows
        ]
    columns += [Column("won"), Column("lost")]
    return columns, [
        [row.name, rating_text(row), percent(row.won, row.games), percent(row.lost, row.games)] for row in rows
    ]


def percent(part: int, all: int) -> str:
    return f"{100 * part / max(1, all):.0f}%"


def pair_table(standings: Standings, rows: Sequence[Standing], chosen: int) -> tuple[list[Column], list[list[str]]]:
    """Return the results of the selected player against each of the others, with points where a win may have
    several."""
    if not rows:
        return [], []
    me = standings.names.index(rows[chosen].name)
    points = standings.most > 1
    columns = [Column(f"{rows[chosen].name} against", right=False), Column("won"), Column("drawn"), Column("lost")]
    columns = [*columns[:1], Column("won"), Column("lost"), Column("points a game")] if points else columns
    cells = []
    for row in rows:
        other = standings.names.index(row.name)
        if other != me:
            won, drawn, lost = map(count, standings.against(me, other))
            mean = points_text(*standings.points(me, other))
            cells.append([row.name, won, lost, mean] if points else [row.name, won, drawn, lost])
    return columns, cells
