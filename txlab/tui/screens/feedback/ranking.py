"""The ranking panel: a prompt, its answers, the keys that order them, and the reward model's scores of them.

Notable: a ranking is written in a thread, since the file is locked and flushed to the disk; keys that come meanwhile
wait for the next question, so that fast typing never loses one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content

from txlab.drawing.curve import Style
from txlab.drawing.explanation import wrap_text
from txlab.drawing.formatting import STATES, count, fixed
from txlab.drawing.text import formula, visible, visible_lines
from txlab.engine.rlhf.preferences import Ranking
from txlab.engine.rlhf.why import explain_pair, pairs_in_order
from txlab.errors import LabError
from txlab.runs.remote.state import remote_state
from txlab.runs.summary import GOING
from txlab.tui.bindings import bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.feedback.snapshot import Asked, RunFeedback, Snapshot
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.why import ask_why

ENDED = {
    "stopped": "was stopped", "interrupted": "was interrupted", "failed": "failed", "lost": "was lost",
}  # fmt: skip
FEWEST, MOST_RATERS = 3, 3  # rankings that are listed before the curve is drawn; raters that are named
LOWEST_CHART, TYPED = 8, 3  # rows of the curve; of what is said below the answers
ROOMY = (12, 18)  # rows of the panel from which on the second and third of them are said
WITH_SIDE, WITH_PROMPTS = 72, 110  # cells of the panel that have room for the scores too, and for prompts
INDENT = 8  # cells before an answer: its number and its rank


class Order:
    """The order as typed: `placed` are (answer, whether tied with the one before), best first.

    >>> order = Order(4)
    >>> for answer in (2, 0, 3): order.place(answer)
    >>> order.tie(); order.place(1); order.ranks()
    [2, 3, 1, 3]
    """

    def __init__(self, answers: int = 0) -> None:
        self.answers = answers
        self.placed: list[tuple[int, bool]] = []
        self.ties = False  # the next one is tied with the last

    def place(self, answer: int) -> None:
        """Place the next best. LabError if there is no such answer, or it is already placed."""
        if not 0 <= answer < self.answers:
            raise LabError(f"there is no answer {answer + 1}; there are {self.answers}")
        if any(answer == placed for placed, _ in self.placed):
            raise LabError(f"answer {answer + 1} has its place; backspace takes the last one back")
        self.placed.append((answer, self.ties))
        self.ties = False

    def tie(self) -> None:
        """The next answer will be as good as the last one. LabError if there is none yet."""
        if not self.placed or len(self.placed) == self.answers:
            raise LabError("= goes between two answers that are equally good, as in 3 = 1")
        self.ties = True

    def take_back(self) -> None:
        if self.ties:
            self.ties = False
        elif self.placed:
            self.placed.pop()

    def ranks(self) -> list[int]:
        """The rank of each answer, 0 = not placed yet; tied ones have the same."""
        ranks = [0] * self.answers
        for place, (answer, tied) in enumerate(self.placed):
            ranks[answer] = ranks[self.placed[place - 1][0]] if tied else place + 1
        return ranks

    def finish(self) -> list[int]:
        """The ranks of all; a single remaining answer is placed last. LabError if more remain."""
        left = [answer for answer in range(self.answers) if not self.ranks()[answer]]
        if len(left) > 1:
            raise LabError(f"{len(left)} answers have no place yet: {', '.join(str(each + 1) for each in left)}")
        for answer in left:
            self.place(answer)
        return self.ranks()


class RankingPanel(Panel):
    """`asked` is the current question to the rater; `order` the ranking typed so far."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "1",
            "place(1)",
            "place an answer: the best first",
            "best first",
            id="feedback.answer-one",
            key_display="1-9",
        ),
        *(
            bind(str(digit), f"place({digit})", f"answer {digit}", id=f"feedback.answer-{name}")
            for digit, name in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine"), 2)
        ),
        bind("equals_sign", "tie", "make the next answer as good as the last one", "tie", id="feedback.tie"),
        bind("backspace", "take_back", "take the last place back", id="feedback.take-back"),
        bind("enter", "give", "give the ranking", "give", id="feedback.give"),
        bind("s", "skip", "skip this question", "skip", id="feedback.skip"),
        bind("u", "undo", "take back your last ranking", "undo", id="feedback.undo"),
        bind(
            "h", "human", "rank yourself, or leave it to the simulated labeller", "rank yourself", id="feedback.human"
        ),
        bind("r", "resume", "continue the run, which ended early", "continue the run", id="feedback.resume"),
    )

    def __init__(self, run: Playback) -> None:
        super().__init__(id="ranking")
        self.run = run
        self.text, self.typed_words = Words(id="ranking-text"), Words(id="ranking-typed")
        self.side = Vertical(id="ranking-side")
        self.chart = Chart("accuracy comes with the first rankings", id="accuracy")
        self.chart.can_focus, self.chart.across = False, "ranking"
        self.about, self.table = Words(id="ranking-about"), Table(id="ranking-table")
        self.history = Table(id="ranking-history")
        self.table.can_focus = self.history.can_focus = False
        self.forget()

    def compose(self) -> ComposeResult:
        with Vertical():
            with Horizontal(id="ranking-top"):
                with VerticalScroll(id="ranking-scroll", can_focus=False):
                    yield self.text
                with self.side:
                    yield self.about
                    yield self.table
                    yield self.history
            yield self.typed_words
            yield self.chart

    def forget(self) -> None:
        self.snap: Snapshot | None = None
        self.feedback: RunFeedback | None = None
        self.asked = Asked()
        self.order = Order()
        self.busy = False
        self.typed: list[Callable[[], None]] = []  # while a ranking is being written
        if self.is_mounted:
            self.text.say("")
            self.typed_words.say("")
            self.about.say("")
            self.table.set_table((), ())
            self.history.set_table((), ())
            self.chart.forget()

    # Drawing.

    def show(self, snap: Snapshot, feedback: RunFeedback) -> None:
        self.snap, self.feedback = snap, feedback
        if snap.asked.version >= self.asked.version and not self.busy and not self.order.placed:
            shown = self.asked.question
            if shown is not None and self.asking and (by := snap.asked.ranked.get(shown.id)) is not None:
                self.tell(f"{shown.id} was ranked by {visible(by) or 'another user'} meanwhile")
            self.ask(snap.asked)
        self.draw()

    def ask(self, asked: Asked) -> None:
        before, self.asked = self.asked, asked
        if before.question != asked.question:
            self.order = Order(len(asked.order))

    @property
    def asking(self) -> bool:
        """Whether this rater has a question now."""
        snap = self.snap
        return snap is not None and snap.human and self.asked.question is not None and self.run.at is None

    @property
    def expecting(self) -> bool:
        """Whether this rater has a question now, or will have one soon: a digit means an answer all along."""
        snap = self.snap
        going = snap is not None and snap.human and snap.taking and snap.status in GOING and self.run.at is None
        return going or self.asking

    def draw(self) -> None:
        snap = self.snap
        if snap is None or not self.is_mounted:
            return
        ascii = self.chart.ascii
        self.side.display = self.size.width >= WITH_SIDE
        room = max(20, (self.size.width * 55 // 100 if self.side.display else self.size.width) - 4)
        text = self.question(room, ascii) if self.asking else self.situation(snap, room, ascii)
        self.text.say(text)
        first = next((stage.first for stage in snap.stages if stage.name == "rankings"), 0)
        known: list[tuple[str, str, Style]] = [("accuracy_20", "last 20", "line")]
        known.append(("val_accuracy", "unseen answers", "dashed"))
        series = [
            ChartSeries(label, series_here.steps - first, series_here.values, style=style)
            for name, label, style in known
            if (series_here := snap.series.get(name)) is not None and len(series_here)
        ]
        self.chart.set_series(series, "pairs in the right order", "accuracy comes with the first rankings")
        self.draw_scores(snap, ascii)
        self.draw_history(ascii)
        typed = self.typed_lines(ascii) if self.asking else []
        typed = typed[: 1 + sum(self.size.height >= rows for rows in ROOMY)]
        self.typed_words.say(Content("\n").join(Content.styled(words, style) for words, style in typed))
        self.typed_words.display = bool(typed)
        beside = len(self.table.rows) + 4
        beside += min(FEWEST + 2, len(self.history.rows) + 2) if self.history.rows and not self.asking else 0
        left = self.size.height - len(typed) - 1 - max(lines_of(text), beside if self.side.display else 0)
        self.chart.display = left >= LOWEST_CHART  # the curve has what the texts leave
        if self.chart.display:
            self.chart.styles.height = left

    def question(self, room: int, ascii: bool) -> Content:
        """The prompt, and the answers with their numbers and the ranks they have so far."""
        asked = self.asked
        assert asked.question is not None
        ranks = self.order.ranks()
        listed: list[list[Content]] = []
        for place, index in enumerate(asked.order):
            rank = ranks[place]
            style = "bold $accent" if rank else ""
            mark = f"{rank}." if rank else ""
            number = Content.assemble((f" {place + 1}", "bold"), (f"  {mark:<4}", "$accent"))
            listed.append([number, *answer_lines(asked.question.answers[index], room, ascii, style)])
        parts = [*prompt_lines(asked.question.prompt, room, ascii), *(part for answer in listed for part in answer)]
        apart = prompt_lines(asked.question.prompt, room, ascii)
        apart += [part for answer in listed for part in (*answer, Content("\n"))]
        close, spaced = Content.assemble(*parts), Content.assemble(*apart)
        rows = self.size.height - TYPED
        least = LOWEST_CHART if lines_of(close) + LOWEST_CHART <= rows else 0
        return spaced if lines_of(spaced) + least <= rows else close

    def typed_lines(self, ascii: bool) -> list[tuple[str, str]]:
        """The lines below the answers, with their styles: the order as typed; once it is complete, the reward model's.

        It is not shown before: a rater who knows what the model thinks is led by it.
        """
        ranks = self.order.ranks()
        typed = "".join(f"{' =' if tied else ''} {answer + 1}" for answer, tied in self.order.placed)
        typed += " =" if self.order.ties else ""
        question, scores = self.asked.question, None
        if question is not None and self.snap is not None:
            scores = self.snap.scores_of(question)
        if not self.order.placed:
            lines = [("Type the numbers from best to worst, = between equals.", "$foreground")]
            if scores is not None:
                lines.append(("The reward model's order is shown when yours is complete.", "$quiet"))
            return lines
        if sum(rank == 0 for rank in ranks) > 1:
            return [(f"best first:{typed}", "$accent")]
        lines = [(f"best first:{typed}   enter gives it", "$accent")]
        if scores is not None and question is not None:
            last = [rank or len(ranks) for rank in ranks]  # a single answer that is left is the last
            shown = [scores[index] for index in self.asked.order]
            order = sorted(range(len(shown)), key=lambda place: -shown[place])
            theirs = Ranking("", question.id, question.prompt, question.answers, tuple(last))
            right, pairs = pairs_in_order(theirs, shown)
            words = "model:      " + " ".join(str(place + 1) for place in order)
            lines.append((f"{words}   {right} of {pairs} pairs as yours", "$foreground"))
            lines.append(
                ("its scores: " + "  ".join(f"{place + 1} {fixed(shown[place], 2)}" for place in order), "$quiet")
            )
        return [(formula(text, ascii), style) for text, style in lines]

    def situation(self, snap: Snapshot, room: int, ascii: bool) -> Content:
        """The state of the run when there is no question, and the last ranking the reward model learnt from."""
        stage = next((stage for stage in snap.stages if stage.name == "rankings"), None)
        if stage is None:
            words = "This run takes no rankings. Runs of feedback-reviews and feedback-rewards do: F1 opens the Lab."
        elif snap.at < stage.first:
            words = f"The rankings begin at step {count(stage.first)}; before that the model learns to answer."
        elif self.run.at is not None:
            words = f"This is step {count(snap.at)}; }} goes back to what is asked now."
        elif not snap.taking and snap.edge >= stage.first:
            words = f"All {count(snap.wanted)} rankings have been taken{self.raters()}."
        elif snap.status not in GOING:
            words = f"The run {ENDED.get(snap.status, 'has ended')} after {count(snap.ranked)} of "
            words += f"{count(snap.wanted)} rankings{self.raters()}."
            if self.can_continue:
                words += " r continues it, and it asks more." if snap.human else " r continues it."
        elif not snap.human:
            words = "The simulated labeller ranks. h: rank yourself."
        else:
            words = self.next_words(snap)
        parts = [Content.styled(words, "$quiet")]
        ranking = snap.ranking
        if ranking is not None:
            parts += [Content("\n\n"), *prompt_lines(ranking.prompt, room, ascii)]
            scores = self.scores_of_ranking(snap, ranking)
            for index in sorted(range(len(ranking.ranks)), key=lambda index: ranking.ranks[index]):
                parts.append(Content.styled(f" {ranking.ranks[index]}.     ", "$accent"))
                answer = ranking.answers[index].rstrip()
                if scores is not None and not self.side.display:
                    before, now = (fixed(of[index], 2) for of in scores)
                    answer += formula(f"   (scored {before}, now {now})", ascii)
                parts += answer_lines(answer, room, ascii)
        return Content.assemble(*parts)

    def raters(self) -> str:
        """Whose rankings those on disk are, the most first: ": 5 by you, 3 by ann@lab"."""
        number = Counter(ranking.by for ranking in self.asked.rankings).most_common(MOST_RATERS)
        names = [f"{count(each)} by {self.rater(by)}" for by, each in number]
        return f": {', '.join(names)}" if names else ""

    def rater(self, by: str) -> str:
        if by == "simulated":
            return "the simulated labeller"
        return "you" if by == self.by else visible(by, self.chart.ascii) or "an unknown user"

    @staticmethod
    def scores_of_ranking(snap: Snapshot, ranking: Ranking) -> tuple[list[float], list[float]] | None:
        """The reward model's scores of its answers, before and after learning from it; None if they are not known."""
        tensors = snap.judged.tensors if snap.judged is not None else {}
        both = tensors.get("ranking/scores"), tensors.get("ranking/scores_after")
        if any(of is None or of.shape != (len(ranking.ranks),) for of in both):
            return None
        before, after = ([float(score) for score in of] for of in both if of is not None)
        return before, after

    def next_words(self, snap: Snapshot) -> str:
        """Why there is no question although people rank."""
        if 0 < snap.wanted <= self.asked.given:
            return f"All {count(snap.wanted)} rankings are given; the reward model is learning from them."
        return "The run is preparing the next question."

    def draw_scores(self, snap: Snapshot, ascii: bool) -> None:
        """The reward model's scores of the answers of the last ranking, before and after learning from it."""
        ranking = snap.ranking
        scores = self.scores_of_ranking(snap, ranking) if ranking is not None else None
        if ranking is None or scores is None:
            self.about.say("")
            self.table.set_table((), ())
            return
        before, after = scores
        by = "your last ranking" if ranking.by == self.by else f"last ranked by {self.rater(ranking.by)}"
        (had, pairs), (has, _) = (pairs_in_order(ranking, of) for of in scores)
        words = f"the model had {had} of {pairs} pairs right, now {has}"
        self.about.say(Content.assemble(Content.styled(by + "\n", "bold"), Content.styled(words, "$quiet")))
        order = sorted(range(len(ranking.ranks)), key=lambda i: (ranking.ranks[i], -before[i]))
        rows = [
            [
                str(ranking.ranks[i]),
                fixed(before[i], 2),
                fixed(after[i], 2),
                fixed(after[i] - before[i], 2, signed=True),
                visible(ranking.answers[i].strip(), ascii) or Signs.dot,
            ]
            for i in order
        ]
        columns = [*map(Column, ("rank", "score", "now", "moved")), Column("answer", right=False)]
        most = max(range(len(order)), key=lambda row: abs(after[order[row]] - before[order[row]]))
        self.table.set_table(columns, rows, marked=[most])

    def draw_history(self, ascii: bool) -> None:
        """The rankings on disk, the newest first: whose, of which prompt, and the answer that was best."""
        rows = []
        for place, ranking in reversed([*enumerate(self.asked.rankings, 1)]):
            prompt = ranking.prompt.strip().partition("\n")[0]
            best = [answer for answer, rank in zip(ranking.answers, ranking.ranks, strict=True) if rank == 1]
            by = "you" if ranking.by == self.by else visible(ranking.by, ascii) or "?"
            rows.append([count(place), by, visible(prompt, ascii), visible(" = ".join(map(str.strip, best)), ascii)])
        columns = [Column("ranking"), *(Column(name, right=False) for name in ("by", "prompt", "best answer"))]
        if self.size.width < WITH_PROMPTS:
            del columns[2]
            rows = [[*row[:2], row[3]] for row in rows]
        self.history.set_table(columns if rows else (), rows)
        self.history.display = bool(rows)

    @property
    def by(self) -> str:
        return self.feedback.by if self.feedback else ""

    def action_why(self) -> None:
        """Explain the loss of each pair of the last ranking, the largest first."""
        ranking, frame = (self.snap.ranking, self.snap.judged) if self.snap else (None, None)
        tensor = frame.tensors.get("ranking/scores") if frame is not None else None
        if ranking is None or tensor is None or tensor.shape != (len(ranking.ranks),):
            self.tell("The reward model has learnt from no ranking at this step.")
            return
        scores = [float(score) for score in tensor]
        pairs = sorted(ranking.pairs(), key=lambda pair: scores[pair[0]] - scores[pair[1]])
        ask_why(self.app, lambda: [explain_pair(ranking, scores, *pair) for pair in pairs] or "All answers were tied.")

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.display or self.snap is None:
            return False
        if action == "resume":
            return self.run.at is None and self.run.status in ENDED and self.can_continue
        if action == "human":
            return self.snap.taking and self.run.status in GOING and self.run.at is None
        if action == "undo":
            return self.asked.mine and self.run.at is None and self.snap.human
        return self.expecting if action == "place" else self.asking

    def word_for(self, binding: Binding) -> str:
        if binding.id == "feedback.human" and self.snap is not None and self.snap.human:
            return "let it be simulated"
        if binding.id == "feedback.answer-one" and not self.asking:
            return ""
        return binding.description

    def when_free(self, act: Callable[[], None]) -> None:
        """Do it now, or for the next question if the last ranking is still being written."""
        if self.busy:
            self.typed.append(act)
            return
        try:
            act()
        except LabError as error:
            self.tell(str(error), "warning")
        self.draw()

    def action_place(self, number: int) -> None:
        if self.asked.question is None and not self.busy and self.snap is not None:
            self.tell(self.next_words(self.snap))
            return
        self.when_free(lambda: self.order.place(number - 1))

    def action_tie(self) -> None:
        self.when_free(lambda: self.order.tie())

    def action_take_back(self) -> None:
        self.when_free(lambda: self.order.take_back())

    def action_give(self) -> None:
        def give() -> None:
            question, shown, feedback = self.asked.question, self.asked.order, self.feedback
            if question is None or feedback is None:
                return
            by_place = self.order.finish()
            ranks = [by_place[shown.index(index)] for index in range(len(shown))]
            self.write(lambda: feedback.rank(question, ranks))

        self.when_free(give)

    def action_skip(self) -> None:
        def skip() -> None:
            question, feedback = self.asked.question, self.feedback
            if question is not None and feedback is not None:
                self.write(lambda: feedback.skip(question))

        self.when_free(skip)

    def action_undo(self) -> None:
        """Take back this rater's last ranking or skip."""

        def undo() -> None:
            if self.feedback is not None:
                self.write(self.feedback.undo)

        self.when_free(undo)

    @property
    def can_continue(self) -> bool:
        """Whether the run can be continued from here: it is on this machine, and of txlab."""
        run = self.run.recorded
        return run is not None and not run.by_another_program and remote_state(run.path) is None

    def action_resume(self) -> None:
        """Continue a run that ended early, in a process of its own."""
        from txlab.tui.screens.train.controls import start_detached_again

        path = self.run.path
        if path is None:
            return
        self.tell(f"{path.name}: {STATES['created']}")
        run_in_thread(self, lambda: start_detached_again(path), "start", keys=False)

    def action_human(self) -> None:
        """Let people rank, or the simulated labeller."""
        if self.snap is not None:
            self.run.ask("set", key="human", value=0.0 if self.snap.human else 1.0)

    def write(self, line: Callable[[], Asked]) -> None:
        """Write a line in a thread; then show the next question, and handle the keys typed meanwhile."""
        self.busy = True
        feedback = self.feedback

        def work() -> None:
            try:
                asked, error = line(), ""
            except LabError as failure:
                asked, error = None, str(failure)
            self.app.call_from_thread(finish, asked, error)

        def finish(asked: Asked | None, error: str) -> None:
            if self.feedback is not feedback:  # another run was chosen meanwhile
                return
            self.busy = False
            if asked is None:
                self.typed.clear()
                self.tell(error, "error")
            else:
                self.order = Order()
                self.asked = Asked()
                self.ask(asked)
                if asked.refused:
                    self.tell(visible(asked.refused), "warning")
                self.screen.refresh_bindings()
            typed, self.typed = self.typed, []
            for act in typed:
                self.when_free(act)
            self.draw()
            self.run.wants_read()

        run_in_thread(self, work, "ranking")


def lines_of(text: Content) -> int:
    return text.plain.count("\n") + 1


def prompt_lines(prompt: str, room: int, ascii: bool) -> list[Content]:
    lines = [piece for line in visible_lines(prompt, ascii) for piece in (wrap_text(line, room) if line else [""])]
    return [Content.styled("\n".join(lines), "bold"), Content("\n\n")]


def answer_lines(answer: str, room: int, ascii: bool, style: str = "") -> list[Content]:
    """The answer after its number, with a hanging indent."""
    lines = [
        piece for line in visible_lines(answer.strip(), ascii) for piece in (wrap_text(line, room - INDENT) or [""])
    ]
    if lines == [""]:
        return [Content.styled("(nothing)\n", "$quiet")]
    return [Content.styled(("\n" + " " * INDENT).join(lines) + "\n", style)]
