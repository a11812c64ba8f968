"""An agent that learns on the Play screen by playing against itself, in a thread, while one looks on and plays.

Notable: what it is at 0, 10, 100, 1 000 … games is kept, so that one may play against each of them afterwards; and the
learner sits down at the board as soon as it begins, so that its values are seen to come. The thread works in slices of
some milliseconds and sleeps a little after a key, for Python runs one thread at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from textual.content import Content

from txlab.drawing.formatting import count, share
from txlab.drawing.text import formula
from txlab.engine.games.game import SECOND
from txlab.engine.games.players import MaskPlayer
from txlab.experiments.tabular.training import Point, Training
from txlab.tui.latest_task import Lane
from txlab.tui.screens.play.knobs import Lesson
from txlab.tui.screens.play.players import Seat
from txlab.tui.screens.play.seats import SeatingScreen
from txlab.tui.screens.words import Words
from txlab.tui.widgets.chart import Chart, ChartSeries

MARKS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Games after which what it is by then is kept."""
LOOKS = 0.15  # seconds between two pictures of what is being learnt
ALL_CURVES = 44  # columns of a chart whose legend has room for four
KEY = 0.1  # seconds after a key in which the thread gives way
REST = 0.004  # seconds that it then sleeps after a slice of about as long


@dataclass(frozen=True)
class Look:
    """A learner at one moment: `player` is what it is by now, `kept` what it was at the marks."""

    lesson: Lesson
    games: int
    speed: float  # games a second
    points: tuple[Point, ...]
    player: MaskPlayer
    kept: tuple[tuple[int, MaskPlayer], ...]
    done: bool = False


class Course:
    """A training, the lock that keeps it to one thread at a time, and what it was at the marks."""

    def __init__(self, lesson: Lesson, title: str) -> None:
        self.lesson, self.title = lesson, title
        self.lock = threading.Lock()
        self.training = Training(lesson.settings, lesson.seed)
        self.kept: list[tuple[int, MaskPlayer]] = []
        self.stopped = False
        self.begun = time.monotonic()
        self.keep()

    def keep(self) -> None:
        """What it is by now, if this is a mark."""
        games = self.training.games
        if games in MARKS and games not in dict(self.kept):
            self.kept.append((games, self.training.player(f"{self.title}, {games} games")))

    def slice(self, games: int) -> bool:
        """At most so many games more, not beyond the next mark; False where there are no more to play."""
        now = self.training.games
        ends = [mark for mark in MARKS if mark > now]
        end = min([now + games, self.lesson.games, *ends])
        with self.lock:
            self.training.run(end - now)
        self.keep()
        return end < self.lesson.games

    def look(self, done: bool = False) -> Look:
        games = self.training.games
        speed = games / max(1e-3, time.monotonic() - self.begun)
        player = self.training.player(self.title)
        return Look(self.lesson, games, speed, tuple(self.training.curve), player, tuple(self.kept), done)


class LearningScreen(SeatingScreen):
    """A screen with #learner, a Words, and #curves, a Chart."""

    def __init__(self) -> None:
        super().__init__()
        self.lesson = Lesson()
        self.course: Course | None = None
        self.courses: dict[str, Course] = {}  # by the title of the learner
        self.look: Look | None = None
        self.teaching = Lane(self, "learning", lambda sentence: self.tell(sentence, "error"))

    @property
    def learning(self) -> bool:
        return not self.teaching.idle

    def action_learn(self) -> None:
        """Ask what is to be learnt, and begin."""
        from txlab.tui.screens.play.knobs import LearnDialog

        if self.solution is None:
            return
        if self.learning:
            self.tell("one learns already; x ends that, and what it has learnt stays")
            return

        def begin(lesson: Lesson | None) -> None:
            if lesson is not None:
                self.learn(lesson)

        self.app.push_screen(LearnDialog(self.lesson), begin)

    def learn(self, lesson: Lesson) -> None:
        """Begin in a thread; the learner takes the place of the agent at the board."""
        self.lesson = lesson
        rule = formula(lesson.settings.title, self.ascii)
        number = 1 + sum(title.split(" #")[0] == rule for title in self.courses)
        course = self.course = Course(lesson, f"{rule} #{number}" if number > 1 else rule)
        self.courses[course.title] = course
        self.took(course.look())
        seat = next(seat for seat in self.learners if seat.key == course.title)
        side = SECOND if self.you is None else -self.you
        self.sit({**self.seats, side: seat}, afresh=not self.moves)
        self.show_tab("learning")
        self.teaching.want(lambda lane: self.teach(lane, course), self.took)

    def teach(self, lane: Lane, course: Course) -> Look:
        """In the thread: slices of games until there are enough, or it is told to stop."""
        games, shown = 10, time.monotonic()
        while not (lane.late or course.stopped):
            begun = time.perf_counter()
            if not course.slice(games):
                break
            spent = time.perf_counter() - begun
            games = max(1, min(1000, int(games * REST / max(spent, 1e-6)))) if spent > REST else min(1000, games * 2)
            now = time.monotonic()
            pressed = now - float(getattr(self.app, "last_input", 0.0)) < KEY
            time.sleep(REST if pressed else 0)
            if now - shown > LOOKS:
                shown = now
                lane.say(self.took, course.look())
        return course.look(done=True)

    def took(self, look: Look) -> None:
        """On the event loop: what the learner is by now, at the board, in the lists and in the curves."""
        course = self.course
        if course is None or look.lesson is not course.lesson or not self.is_attached:
            return
        self.look = look
        title = course.title
        settings = look.lesson.settings
        about = formula(f"α {settings.alpha:g}, ε {settings.epsilon:g}, seed {look.lesson.seed}", self.ascii)
        seats = [Seat(title, title, f"{count(look.games)} games, {about}", look.player)]
        for games, player in look.kept:
            if games < look.games or not games:
                about = f"what it was after {count(games)} games" if games else "what it was before it learnt"
                seats.append(Seat(f"{title} {games}", f"{title} {count(games)}", about, player))
        mine = {seat.key for seat in seats}
        self.learners = [*seats, *(seat for seat in self.learners if seat.key not in mine)]
        self.seats = {side: next((s for s in seats if s.key == seat.key), seat) for side, seat in self.seats.items()}
        self.show_learner()
        self.show_game()

    def action_cancel(self) -> None:
        """End the learning; what it has learnt so far stays."""
        if self.course is not None and self.learning:
            self.course.stopped = True

    def show_tab(self, name: str) -> None:
        """Open a tab of the side."""
        raise NotImplementedError

    # What is seen of it.

    def show_learner(self) -> None:
        look = self.look
        if look is None or self.course is None:
            return
        words = learner_words(look, self.course.title, self.learning, self.has_class("-tall"), self.ascii)
        self.query_one("#learner", Words).say(words)
        chart = self.query_one("#curves", Chart)
        chart.set_series(curves(look.points, chart.size.width >= ALL_CURVES))


def learner_words(look: Look, title: str, learning: bool, tall: bool, ascii: bool) -> Content:
    """`TD(0)  α .1  ε .1`, `12 400 of 100 000 games, 41 000/s`, and how it would fare; a table where there is room."""
    settings = look.lesson.settings
    numbers = formula(f"α {settings.alpha:g}  ε {settings.epsilon:g}  seed {look.lesson.seed}", ascii)
    state = f"{count(look.games)} of {count(look.lesson.games)} games"
    state += f", {count(look.speed)}/s" if learning else ""
    last = look.points[-1]
    parts = [Content.styled(title, "bold"), Content.styled(f"  {numbers}\n", "$quiet")]
    parts += [Content.styled(f"{state}\n", "bold $accent" if learning else "")]
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
    """Won, drawn and lost against a random player, the mean of both seats; with `all` also lost to the perfect one."""
    steps = np.array([point.games for point in points], dtype=np.int64)

    def series(label: str, values: Sequence[float], dashed: bool = False) -> ChartSeries:
        return ChartSeries(label, steps, np.array(values, dtype=np.float64), style="dashed" if dashed else "line")

    both = [(point.random_first, point.random_second) for point in points]
    found = [
        series("won", [(first.won + second.won) / 2 for first, second in both]),
        series("drawn", [(first.drawn + second.drawn) / 2 for first, second in both]),
        series("lost", [(first.lost + second.lost) / 2 for first, second in both]),
    ]
    if all:
        losses = [(point.perfect_first.lost + point.perfect_second.lost) / 2 for point in points]
        found.append(series("to perfect", losses, dashed=True))
    return found
