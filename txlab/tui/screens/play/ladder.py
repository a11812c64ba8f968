"""The ladder of the learner at the board: its snapshots play each other while it learns, and are rated (MATH H6).

Notable: the games are played in a thread by copies, which do not use the learner's random numbers. It rests after every
few games, `share` being the fraction of time that it plays, so that a learner on the same cores keeps its pace. On a
busy machine the games take longer, and so does the rest. It plays only while the screen is in front.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from txlab.drawing.boards import value_text
from txlab.drawing.formatting import count, interval
from txlab.engine.games.catalogue import GameEntry
from txlab.engine.games.ladder import MOST_AT_ONCE, Ladder, Rung, further_rungs
from txlab.engine.games.players import Player
from txlab.engine.games.tournament import Interrupted
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.play.players import Seat
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from txlab.tui.screens.play.interface import Play

WHILE_LEARNING, AFTERWARDS = 0.1, 0.5
"""The fraction of one core's time for the games while a learner learns, and otherwise."""
QUICK = 0.1  # if a few games take less than this (seconds), the next batch is larger
DOUBLED = 2.0  # growth of the games from rung to rung for a learner here, which can be sampled after any game
MANY = 10_000  # ratio of the last snapshot's games to the first's from which the axis is logarithmic
WIDE = 150  # columns of the screen from which the table has all intervals
NOTICED = 0.05  # seconds until a resting thread notices that it is no longer wanted
OF_LEARNERS = "l lets an agent learn, o seats the player of a run: their snapshots are rated here"
OF_RUNS = "o seats the player of a run: its snapshots are rated here"


class Subject:
    """A learner or a run whose snapshots are rated; `unit` is that of their ages, "games" or "steps".

    offers   snapshots that have not been added to the ladder yet, as (age, player); any thread may append
    """

    def __init__(self, family: str, name: str, entry: GameEntry) -> None:
        self.family, self.name, self.unit = family, name, "games"
        known = {each.name for each in entry.players}
        anchors = [entry.player(each) for each in entry.anchors if each in known]
        self.anchor_names = [player.name for player in anchors]
        self.ladder = Ladder(entry.game, anchors)
        self.offers: deque[tuple[int, Player]] = deque()
        self.ages: list[int] = []  # of all snapshots offered
        self.at_once = 1
        self.rungs: list[Rung] = []
        self.games = 0

    def offer(self, age: int, player: Player) -> None:
        self.ages.append(age)
        self.offers.append((age, player))

    def play(self, late: Callable[[], bool]) -> bool:
        """Play a few games and update all ratings; False if all have been played."""
        while self.offers:
            self.ladder.add(*self.offers.popleft())
        begun = time.monotonic()
        played = self.ladder.play(self.at_once, late)
        taken = time.monotonic() - begun
        self.at_once = min(2 * self.at_once, MOST_AT_ONCE) if taken < QUICK else max(1, self.at_once // 2)
        return played > 0


class LadderPanel(Panel):
    """#strength, the ratings of the snapshots over their ages, and #rungs, the same as a table."""

    KEYS: ClassVar = (
        bind("f", "measure", "rate the snapshots of what learns here, or do not", "rate", id="play.measure"),
    )

    def __init__(self, play: Play) -> None:
        super().__init__(id="ladder")
        self.play = play
        self.subject: Subject | None = None
        self.on = True  # whether games are played
        self.learning = False
        self.in_front = True
        self.measuring = LatestTask(self, "ladder", lambda sentence: self.tell(sentence, "error"))

    def compose(self) -> ComposeResult:
        yield Words(id="ladder-words")
        chart = Chart(id="strength", waiting="")
        chart.can_focus = False
        yield chart
        table = Table(id="rungs")
        table.can_focus = False
        yield table

    def come_to_front(self) -> None:
        self.in_front = True
        self.start()

    def unseen(self) -> None:
        self.in_front = False
        self.measuring.forget()

    # The subject

    def follow(self, family: str, name: str, entry: GameEntry | None) -> None:
        """Rate the snapshots of another learner from now on; None = none."""
        if self.subject is not None and entry is not None and self.subject.family == family:
            return
        self.measuring.forget()
        self.learning = False
        self.subject = None if entry is None else Subject(family, name, entry)
        self.show()

    def offer(self, rungs: Sequence[tuple[int, Player]], learning: bool, unit: str = "games") -> None:
        """Take new snapshots of the subject, as (age, player)."""
        self.learning = learning
        if self.subject is not None:
            self.subject.unit = unit
            for rung in rungs:
                self.subject.offer(*rung)
            self.start()

    def offer_seats(self, seats: Sequence[Seat], learning: bool) -> None:
        """Take the snapshots of the subject, given as seats, that become rungs."""
        subject = self.subject
        if subject is not None:
            known = {seat.age: seat.player for seat in seats if seat.family == subject.family and seat.player}
            if known:  # it is the subject that learns, not a learner of another game
                wanted = further_rungs(sorted(known), subject.ages, not learning, dense=2, factor=DOUBLED)
                self.offer([(age, known[age]) for age in wanted], learning)

    # Playing

    @property
    def busy(self) -> bool:
        """Whether games are being played; False if a thread that is no longer wanted is ending."""
        task = self.measuring
        return task.waiting is not None or (task.busy and task.running == task.generation)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "measure" or self.subject is not None

    def word_for(self, binding: Binding) -> str:
        return "do not rate" if self.on else "rate"

    def action_measure(self) -> None:
        """Switch the games and ratings of the snapshots on or off."""
        self.on = not self.on
        self.measuring.forget()
        self.start()
        self.show()
        self.screen.refresh_bindings()

    def start(self) -> None:
        """Play on, if there is something to play."""
        subject = self.subject
        if subject is None or not (self.on and self.in_front) or self.busy:
            return
        idle = self.measuring.idle  # until then, a thread that is only ending plays on this ladder
        if idle and not subject.offers and subject.ladder.next_pair is None:
            return
        self.measuring.want(lambda lane: self.measure(subject, lane), lambda _: self.start())
        self.show()

    def measure(self, subject: Subject, lane: LatestTask) -> None:
        """Play until all have played, with rests; in a thread. The ratings take at most as long as the games."""
        rating, played = 0.0, True
        while played and not lane.late:
            begun = time.monotonic()
            try:
                while (played := subject.play(lambda: lane.late)) and time.monotonic() - begun < rating:
                    pass
            except Interrupted:
                return
            rated_from = time.monotonic()
            lane.say(self.show_rungs, subject, subject.ladder.rungs(), subject.ladder.games)
            rests_from = time.monotonic()
            taken, rating = rests_from - begun, rests_from - rated_from
            while not lane.late and time.monotonic() - rests_from < taken * (1 / self.share - 1):
                time.sleep(NOTICED)

    @property
    def share(self) -> float:
        return WHILE_LEARNING if self.learning else AFTERWARDS

    def show_rungs(self, subject: Subject, rungs: list[Rung], games: int) -> None:
        subject.rungs, subject.games = rungs, games
        self.show()

    # Drawing

    def show(self) -> None:
        if not self.is_attached:
            return
        subject = self.subject
        self.query_one("#ladder-words", Words).say(self.words())
        chart, table = self.query_one("#strength", Chart), self.query_one("#rungs", Table)
        rungs = [] if subject is None else subject.rungs
        chart.across = "games" if subject is None else subject.unit
        chart.log_x = bool(rungs) and rungs[-1].age > MANY * max(1, rungs[0].age)
        chart.set_series(strengths(rungs))
        table.display = bool(rungs)
        table.set_table(*rung_table(rungs, chart.across, self.play.size.width >= WIDE))

    def words(self) -> Content:
        """Return the subject, its opponents, and the progress."""
        subject = self.subject
        if subject is None:
            return Content.styled(OF_LEARNERS if self.play.can_learn else OF_RUNS, "$quiet")
        *others, last = ["two earlier", *subject.anchor_names]
        words = f"against {', '.join(others)} and {last}" if others else f"against {last}"
        if any(rung.points is not None for rung in subject.rungs):
            words += f"; points a game are those against {subject.anchor_names[0]}"
        state = f"{count(subject.games)} games, {'playing on' if self.busy else 'all played'}"
        if not self.on:
            state = f"{count(subject.games)} games; f rates on"
        elif not subject.games:
            state = "waits for its first two snapshots" if not self.busy else "the first games are played"
        return Content.assemble(
            Content.styled(subject.name, "bold"),
            Content.styled(f"  {state}\n", "$accent" if self.busy else "$quiet"),
            Content.styled(words, "$quiet"),
        )


def strengths(rungs: Sequence[Rung]) -> list[ChartSeries]:
    """Return the ratings over the ages, with the ends of the intervals dashed, as far as they are known."""
    series = []
    rungs = [rung for rung in rungs if np.isfinite(rung.low) or np.isfinite(rung.high)]
    for label, style, values in (
        ("rating, first = 0", "line", [rung.rating for rung in rungs]),
        ("95 % interval", "dashed", [rung.low for rung in rungs]),
        ("", "dashed", [rung.high for rung in rungs]),
    ):
        ages, ends = np.array([rung.age for rung in rungs], dtype=np.int64), np.array(values, dtype=np.float64)
        known = np.isfinite(ends)
        if known.sum() > 1:
            colour = 0 if style == "line" else 1
            series.append(ChartSeries(label, ages[known], ends[known], colour, style, smoothed=False))  # type: ignore[arg-type]
    return series


def rung_table(rungs: Sequence[Rung], unit: str, wide: bool) -> tuple[list[Column], list[list[str]]]:
    """Return the rungs, the most trained first; with `wide` also the intervals of the points."""
    columns = [Column(unit), Column("rating"), Column("95 % interval", right=False)]
    pointed = any(rung.points is not None for rung in rungs)
    columns += [Column("points", right=not wide)] if pointed else []
    rows = []
    for rung in reversed(rungs):
        is_zero = rung is rungs[0]
        row = [count(rung.age), count(rung.rating), "by definition" if is_zero else interval(rung.low, rung.high)]
        if pointed:
            mean, *ends = rung.points or (None,)
            points = "" if mean is None else value_text(mean)
            row.append(f"{points} ({' to '.join(map(value_text, ends))})" if wide and ends else points)
        rows.append(row)
    return columns, rows
