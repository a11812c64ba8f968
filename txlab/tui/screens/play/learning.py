"""An agent that learns on the Play screen by self-play while the user watches and plays: a session steps it. The same
panel shows a run at the board, which learns elsewhere or has ended, with its recorded strength.

Snapshots after 0, 10, 100, 1 000 … games are kept as opponents. The learner takes a seat immediately, so that its
values can be watched as they form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from textual.app import ComposeResult
from textual.content import Content

from txlab.drawing.formatting import count, share
from txlab.drawing.text import formula, visible
from txlab.engine.explain import Explanation
from txlab.engine.games import tictactoe
from txlab.engine.games.game import Position, SmallGame
from txlab.engine.games.players import MaskPlayer
from txlab.experiments.protocol import Frame, Metrics
from txlab.experiments.tabular.training import Point, Training
from txlab.sources.live import Picture
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.play.following import LOOKS, Progress, RunFollower
from txlab.tui.screens.play.lesson_dialog import LearnDialog, Lesson
from txlab.tui.screens.play.players import Seat
from txlab.tui.session import Session
from txlab.tui.widgets.chart import Chart, ChartSeries

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import GamePanel
    from txlab.tui.screens.play.interface import Play

MARKS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Numbers of games after which a snapshot is kept."""
PICTURES = 7.0  # a second, while learning
ALL_CURVES = 44  # columns of a chart whose legend has room for four
OF_LEARNERS, OF_RUNS = "l lets an agent learn", "o seats the player of a run"


@dataclass(frozen=True)
class LearnerSnapshot:
    """A learner at one time: `player` is its present state, `kept` its snapshots."""

    games: int
    points: tuple[Point, ...]
    player: MaskPlayer
    kept: tuple[tuple[int, MaskPlayer], ...]


class Course:
    """A lesson as an experiment whose updates are games. `snapshot` is replaced as a whole by every frame, so that
    another thread may read it."""

    def __init__(self, lesson: Lesson, title: str, game: SmallGame = tictactoe) -> None:
        self.lesson, self.title, self.game = lesson, title, game
        self.training = Training(lesson.settings, lesson.seed, game)
        self.kept: list[tuple[int, MaskPlayer]] = []
        self.keep()
        self.snapshot = self.look()

    @property
    def step_count(self) -> int:
        return self.training.games

    @property
    def steps(self) -> int:
        return self.lesson.games

    def step(self) -> Metrics:
        self.run(1)
        return {}

    def run(self, games: int) -> None:
        """Play that many more games, stopping at every mark in between."""
        end = self.training.games + games
        while (now := self.training.games) < end:
            self.training.run(min([end, *(mark for mark in MARKS if mark > now)]) - now)
            self.keep()

    def keep(self) -> None:
        """Keep a snapshot if this is a mark."""
        games = self.training.games
        if games in MARKS and games not in dict(self.kept):
            self.kept.append((games, self.training.player(f"{self.title}, {count(games)} games")))

    def look(self) -> LearnerSnapshot:
        training = self.training
        return LearnerSnapshot(training.games, tuple(training.curve), training.player(self.title), tuple(self.kept))

    def frame(self) -> Frame:
        self.snapshot = self.look()
        return Frame(self.training.games)


class LearningPanel(Panel):
    """Shows the learning in words and curves; l starts it."""

    KEYS: ClassVar = (bind("l", "learn", "let an agent learn, and choose how", "learn", id="play.learn"),)

    def __init__(self, play: Play, game: GamePanel) -> None:
        super().__init__(id="learning")
        self.play, self.game = play, game
        self.lesson = Lesson()
        self.course: Course | None = None
        self.courses: dict[str, Course] = {}  # by the title of the learner
        self.progress: Progress | None = None  # of the run at the board, if the learner is one
        self.follower = RunFollower(self, self.show_progress, lambda: game.position)
        self.in_front = True
        self.session: Session[Course] = Session(
            self, self.took, lambda sentence: self.tell(sentence, "error"), pictures=PICTURES, record=False
        )

    def compose(self) -> ComposeResult:
        yield Words(id="learner")
        chart = Chart(id="curves")
        chart.can_focus = False
        yield chart

    def on_mount(self) -> None:
        self.set_interval(LOOKS, self.look_again)

    def come_to_front(self) -> None:
        self.in_front = True

    def unseen(self) -> None:
        self.in_front = False

    # A run at the board.

    def follow(self, path: Path | None) -> None:
        """Show this run; None = the learner here."""
        if path != self.follower.path:
            self.progress = None
            self.follower.follow(path)

    def look_again(self) -> None:
        if self.in_front:
            self.follower.look()

    def show_progress(self, progress: Progress) -> None:
        self.progress = progress
        self.play.run_seen(progress)
        self.show()

    # The learner here.

    @property
    def learning(self) -> bool:
        return self.session.running

    def action_learn(self) -> None:
        """Ask for the lesson, and start."""
        entry = self.game.entry
        if not self.game.ready:
            return
        if not self.play.can_learn:
            self.tell(f"{entry.title} is learnt by a run: {entry.scenario} in the Lab; o then seats its player")
            return
        if self.learning:
            self.tell("training is running; x stops it and keeps what was learnt")
            return
        self.app.push_screen(LearnDialog(self.lesson), lambda lesson: self.learn(lesson) if lesson else None)

    def learn(self, lesson: Lesson) -> None:
        """Start learning; the learner takes the agent's seat at the board."""
        self.lesson = lesson
        rule = formula(lesson.settings.title, self.play.ascii)
        number = 1 + sum(title.split(" #")[0] == rule for title in self.courses)
        game = cast(SmallGame, self.game.entry.game)
        course = self.course = Course(lesson, f"{rule} #{number}" if number > 1 else rule, game)
        self.courses[course.title] = course
        self.session.begin(lambda _: course, run=True)
        self.play.learner_is(self.seats(course))
        self.play.give_seat_to_learner(course.title)
        self.play.show_tab("learning")

    def took(self, picture: Picture[Course]) -> None:
        """Update the learner at the board, in the lists and in the curves."""
        if picture.experiment is self.course:
            self.play.learner_is(self.seats(picture.experiment))
            self.show()

    def seats(self, course: Course) -> list[Seat]:
        """Return the learner and its snapshots as players."""
        snapshot, lesson, title = course.snapshot, course.lesson, course.title
        about = formula(
            f"α {lesson.settings.alpha:g}, ε {lesson.settings.epsilon:g}, seed {lesson.seed}", self.play.ascii
        )
        now = replace(snapshot.player, why=partial(self.explain, course))
        about = f"{count(snapshot.games)} games, {about}"
        seats = [Seat(title, title, about, now, family=title, age=snapshot.games)]
        for games, player in snapshot.kept:
            if games < snapshot.games or not games:
                about = f"what it was after {count(games)} games" if games else "what it was before it learnt"
                named = f"{title} {count(games)}"
                seats.append(Seat(f"{title} {games}", named, about, player, family=title, age=games))
        return seats

    def explain(self, course: Course, position: Position, square: int) -> Explanation:
        """Explain the last update of a move's value; for a worker thread. The learning thread answers, if any."""
        if course is self.session.experiment:
            explanation: Explanation = self.session.ask(lambda course: course.training.explain(position, square))
            return explanation
        return course.training.explain(position, square)

    def show(self, speed: float = 0.0) -> None:
        """Show the run at the board, or the learner of its game; if there is none, how to have one."""
        chart = self.query_one("#curves", Chart)
        words, waiting = Content(), OF_LEARNERS if self.play.can_learn else OF_RUNS
        shown: list[ChartSeries] = []
        if self.progress is not None:
            words, shown, waiting = run_words(self.progress), curve_with_band(self.progress), "nothing is recorded yet"
            chart.log_x, chart.across = False, self.progress.unit
        elif self.course is not None and self.course.game is self.game.entry.game:
            tall, now = self.screen.has_class("-tall"), speed if self.learning else 0.0
            words = learner_words(self.course, now, tall, self.play.ascii)
            shown = curves(self.course.snapshot.points, chart.size.width >= ALL_CURVES)
            chart.log_x, chart.across = True, "games; results against random play"
        self.query_one("#learner", Words).say(words)
        chart.set_series(shown, waiting=waiting)


def run_words(progress: Progress) -> Content:
    """Return the run, its progress, and the title of the curve."""
    most = f" of {count(progress.most)}" if progress.most > progress.age else ""
    state = "learns" if progress.learning else "has ended"
    about = progress.about or "this run records nothing of its strength; the ladder rates it"
    return Content.assemble(
        Content.styled(visible(progress.path.name), "bold"),
        Content.styled(
            f"  {state}, {count(progress.age)}{most} {progress.unit}\n", "$accent" if progress.learning else "$quiet"
        ),
        Content.styled(about, "$quiet"),
    )


def curve_with_band(progress: Progress) -> list[ChartSeries]:
    """Return the recorded strength against the games, with the ends of the intervals dashed, unless it is exact."""
    ages, values, low, high = progress.curve
    steps = ages.astype(np.int64)
    series = [ChartSeries("strength", steps, values, 0, smoothed=False)]
    if (low != high).any():
        series.append(ChartSeries("95 % interval", steps, low, 1, "dashed", smoothed=False))
        series.append(ChartSeries("", steps, high, 1, "dashed", smoothed=False))
    return series if len(steps) else []


def learner_words(course: Course, speed: float | None, tall: bool, ascii: bool) -> Content:
    """Return `TD(0)  α .1  ε .1`, `12 400 of 100 000 games, 41 000/s`, and expected results; a table if there is
    room.

    speed   games a second, 0 if not known yet; None if it is not learning
    """
    lesson, title, snapshot = course.lesson, course.title, course.snapshot
    settings = lesson.settings
    numbers = formula(f"α {settings.alpha:g}  ε {settings.epsilon:g}  seed {lesson.seed}", ascii)
    state = f"{count(snapshot.games)} of {count(lesson.games)} games"
    state += f", {count(speed)}/s" if speed else ""
    last = snapshot.points[-1]
    parts = [Content.styled(title, "bold"), Content.styled(f"  {numbers}\n", "$quiet")]
    parts += [Content.styled(f"{state}\n", "" if speed is None else "bold $accent")]
    lost = (last.perfect_first.lost + last.perfect_second.lost) / 2
    if not tall:
        won = f"won {rate(last.random_first.won)} first, {rate(last.random_second.won)} second"
        parts += [Content.styled("random:  ", "$quiet"), Content(won + "\n")]
        parts += [Content.styled("perfect: ", "$quiet"), Content(f"lost {rate(lost)}")]
        return Content.assemble(*parts)
    parts.append(Content.styled(f"{'':16}  {'won':>6} {'drawn':>6} {'lost':>6}", "$quiet"))
    rows = (
        ("random, first", last.random_first),
        ("random, second", last.random_second),
        ("perfect, first", last.perfect_first),
        ("perfect, second", last.perfect_second),
    )
    for name, chances in rows:
        shares = " ".join(f"{rate(each):>6}" for each in (chances.won, chances.drawn, chances.lost))
        parts += [Content.styled(f"\n{name:<16}  ", "$quiet"), Content(shares)]
    return Content.assemble(*parts)


def rate(value: float) -> str:
    return share(value, 4)


def curves(points: Sequence[Point], all: bool) -> list[ChartSeries]:
    """Return wins, draws and losses against a random player, the mean of both seats; with `all` also losses to
    perfect."""
    steps = np.array([point.games for point in points], dtype=np.int64)

    def series(label: str, values: Sequence[float], dashed: bool = False) -> ChartSeries:
        return ChartSeries(label, steps, np.array(values, dtype=np.float64), style="dashed" if dashed else "line")

    both = [(point.random_first, point.random_second) for point in points]
    shown = [
        series("won", [(first.won + second.won) / 2 for first, second in both]),
        series("drawn", [(first.drawn + second.drawn) / 2 for first, second in both]),
        series("lost", [(first.lost + second.lost) / 2 for first, second in both]),
    ]
    if all:
        losses = [(point.perfect_first.lost + point.perfect_second.lost) / 2 for point in points]
        shown.append(series("to perfect", losses, dashed=True))
    return shown
