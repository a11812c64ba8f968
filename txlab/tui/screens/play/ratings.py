"""A tournament on the Play screen: all agents at hand play each other, and get a rating.

Notable: it is played in a thread, by what the agents are when it begins; the first move of each game is drawn, for two
players that leave nothing to chance would play one game over and over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from txlab.drawing.formatting import count
from txlab.engine.games.tournament import Standing, Standings, tournament
from txlab.tui.latest_task import Lane
from txlab.tui.screens.play.learning import LearningScreen
from txlab.tui.screens.play.players import Seat
from txlab.tui.widgets.table import Column, Table

GAMES = 1_000
"""Between every two: a rating is then known to about 10 points."""


class RatingScreen(LearningScreen):
    """A screen with two tables: #ratings, and #pairs of the player that is chosen in it."""

    def __init__(self) -> None:
        super().__init__()
        self.standings: Standings | None = None
        self.rows: list[Standing] = []
        self.row = 0
        self.played: tuple[int, int] | None = None  # of how many games, while they are played
        self.rating = Lane(self, "tournament", lambda sentence: self.tell(sentence, "error"))

    @property
    def contest(self) -> bool:
        """Whether a tournament is being played."""
        return not self.rating.idle

    def action_tournament(self) -> None:
        if self.solution is None or self.contest:
            return
        self.show_tab("ratings")
        seats = {seat.title: seat for seat in self.at_hand()}
        players = [replace(seat.player, name=title) for title, seat in seats.items() if seat.player is not None]
        seed = self.chance.randrange(1 << 30)

        def compete(lane: Lane) -> Standings | None:
            return tournament(
                players, GAMES, seed, late=lambda: lane.late, say=lambda done, all: lane.say(self.went_on, done, all)
            )

        self.played = (0, 1)
        self.rating.want(compete, self.rated)
        self.show_ratings()
        self.refresh_bindings()

    def went_on(self, done: int, all: int) -> None:
        self.played = (done, all)
        self.show_ratings()

    def rated(self, standings: Standings | None) -> None:
        self.played = None
        if standings is not None:
            self.standings, self.rows, self.row = standings, standings.rows(), 0
        self.show_ratings()
        self.show_game()

    def action_cancel(self) -> None:
        """End the tournament, and the learning."""
        if self.contest:
            self.rating.forget()
            self.played = None
            self.show_ratings()
            self.tell("the tournament is cancelled; the ratings before it stay")
        super().action_cancel()

    def action_row(self, by: int) -> None:
        """Another player of the table, whose pairs are looked at."""
        self.row = max(0, min(self.row + by, len(self.rows) - 1))
        self.show_ratings()

    def rating_of(self, seat: Seat) -> str:
        """`1 480 ± 21`, if it has played in a tournament."""
        found = next((row for row in self.rows if row.name == seat.title), None)
        return "" if found is None else rating_text(found)

    def show_ratings(self) -> None:
        if not self.is_attached:
            return
        wide = self.size.width >= 100
        table, pairs = self.query_one("#ratings", Table), self.query_one("#pairs", Table)
        if self.played is not None:
            done, all = self.played
            table.waiting = f"playing: {count(done)} of {count(all)} games" if all > 1 else "playing…"
            table.set_table([], [])
            table.refresh()
            return
        if self.standings is None:
            return
        table.set_table(*rating_table(self.rows, wide), marked=[self.row])
        pairs.set_table(*pair_table(self.standings, self.rows, self.row))


def rating_text(row: Standing) -> str:
    return f"{count(row.rating)} ± {count(row.error)}"


def rating_table(rows: Sequence[Standing], wide: bool) -> tuple[list[Column], list[list[str]]]:
    """Best first; games where there is room for them, else shares of all."""
    columns = [Column("player", right=False), Column("rating")]
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
    """The one that is chosen against each of the others."""
    if not rows:
        return [], []
    me = standings.names.index(rows[chosen].name)
    columns = [Column(f"{rows[chosen].name} against", right=False), Column("won"), Column("drawn"), Column("lost")]
    found = []
    for row in rows:
        other = standings.names.index(row.name)
        if other != me:
            found.append([row.name, *(count(each) for each in standings.against(me, other))])
    return columns, found
