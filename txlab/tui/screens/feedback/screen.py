"""Screen 7, Feedback: rankings by people, the reward model that learns from them, the policy that follows it.

The pipeline is always visible; below it is one of several pages. Unless a page was chosen, it follows the stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content

from txlab.drawing.captions import feedback as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, number, share
from txlab.drawing.run_names import fit_handle
from txlab.drawing.text import formula, visible, width
from txlab.runs.summary import GOING
from txlab.tui.bindings import MOVING, PICTURE, bind
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.feedback.answers import AnswersPanel
from txlab.tui.screens.feedback.comparison import ComparisonPanel
from txlab.tui.screens.feedback.episodes import EpisodesPanel
from txlab.tui.screens.feedback.policy import PolicyPanel
from txlab.tui.screens.feedback.ranking import RankingPanel
from txlab.tui.screens.feedback.snapshot import RunFeedback, Snapshot
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.tabs import TabLine

if TYPE_CHECKING:
    from txlab.sources.recorded import Recorded

PAGES = (
    ("ranking", "rank"),
    ("policy", "proxy and gold"),
    ("answers", "answers"),
    ("episodes", "tokens"),
    ("compared", "compare"),
)
PAGE_OF_STAGE = {"rankings": "ranking", "policy": "policy"}
LONGEST_NAME = 24  # cells of the name of the run


class FeedbackScreen(BenchScreen):
    """`page` is shown; `chosen` is the page that the user has turned to, "" = the one of the stage."""

    CSS_PATH = "feedback.tcss"
    FOLDS_IN_HALL = False
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "The line at the top is the pipeline. Rank answers by typing their numbers from best to worst; the reward "
        "model learns from each ranking, and the policy is then trained on the reward model. tab changes the page; [ "
        "and ] step through the recording; the last page compares two models blindly. While people rank, and on the "
        "last page, digits are answers; F1 to F10 open other screens."
    )
    PANELS = (Playback, RankingPanel, PolicyPanel, EpisodesPanel, AnswersPanel, ComparisonPanel)
    KEY_ORDER = (
        "feedback.answer-one", "feedback.tie", "feedback.give", "feedback.skip", "feedback.undo", "feedback.human",
        "feedback.better", "feedback.neither", "feedback.pass", "feedback.compared-undo", "feedback.compare",
        "feedback.resume", "feedback.beta-down", "feedback.next-beta", "feedback.token-before", "feedback.view",
        "feedback.prompt-before", "feedback.page", "screen.why", "time.earlier", "run.pause",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("tab", "turn(1)", "turn to the next page", "next page", id="feedback.page"),
        bind("shift+tab", "turn(-1)", "turn to the page before", id="feedback.page-before"),
        bind("pagedown", "scroll(1)", "scroll the texts down", id="feedback.scroll", heading=MOVING),
        bind("pageup", "scroll(-1)", "scroll the texts up", id="feedback.scroll-back", heading=MOVING),
        PICTURE,  # after the ranking's skip
    ]

    def __init__(self) -> None:
        super().__init__()
        self.run = Playback(self, lambda kind: kind.screen == "feedback")
        self.ranking, self.policy, self.answers = RankingPanel(self.run), PolicyPanel(self.run), AnswersPanel()
        self.episodes, self.compared = EpisodesPanel(), ComparisonPanel()
        self.pages: dict[str, RankingPanel | PolicyPanel | AnswersPanel | EpisodesPanel | ComparisonPanel] = {
            "ranking": self.ranking,
            "policy": self.policy,
            "answers": self.answers,
            "episodes": self.episodes,
            "compared": self.compared,
        }
        self.page, self.chosen = "ranking", ""
        self.snap: Snapshot | None = None
        self.feedback: RunFeedback | None = None
        self.seen: tuple[object, ...] = ()  # inputs of the last read

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Words(id="state")
        yield Rule()
        yield TabLine(id="pages")
        with Vertical(id="page"):
            yield from self.pages.values()
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.source_changed()

    # The view of its Playback.

    def source_changed(self) -> None:
        self.snap, self.feedback, self.chosen, self.seen = None, None, "", ()
        for panel in self.pages.values():
            panel.forget()
        words = f"reading {self.run.path.name}…" if self.run.path is not None else ""
        self.query_one("#header", Words).say(Content.styled(words, "$quiet"))
        self.query_one("#state", Words).say("")
        self.caption.say(())
        self.show_page("ranking")

    def read(self, source: Recorded, at: int | None, changed: bool) -> Snapshot | None:
        feedback = self.feedback
        if feedback is None or feedback.path != source.path:
            self.feedback = feedback = RunFeedback(source.path)
        snap = feedback.read(source.reader, at)
        seen = (snap.asked, at)
        if not changed and seen == self.seen:
            return None
        self.seen = seen
        return snap

    def show(self, snap: Snapshot) -> None:
        feedback = self.feedback
        if feedback is None or feedback.path != snap.path:
            return
        self.snap = snap
        if not self.chosen:
            self.show_page(PAGE_OF_STAGE.get(snap.stage, "answers"))
        self.ranking.show(snap, feedback)
        self.policy.show(snap)
        self.answers.show(snap)
        self.episodes.show(snap)
        self.compared.show(snap)
        self.show_words()
        self.refresh_bindings()

    def show_words(self) -> None:
        if self.snap is not None:
            room = self.size.width - 2
            self.query_one("#header", Words).say(pipeline(self.snap, room, self.ascii))
            self.query_one("#state", Words).say(state(self.snap, room, self.ascii))
            self.caption.say(sentence(self.snap))

    def on_resize(self) -> None:
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        self.show_words()
        for panel in self.pages.values():
            panel.draw()

    # Pages.

    def show_page(self, name: str) -> None:
        if name == self.page and self.query_one("#pages", TabLine).tabs:
            return
        self.page = name
        for each, panel in self.pages.items():
            panel.display = each == name
        self.query_one("#pages", TabLine).set_tabs(PAGES, name)
        self.refresh_bindings()
        self.call_after_refresh(self.redraw)

    def action_turn(self, by: int) -> None:
        """Turn to the next page, and stay there."""
        names = [name for name, _ in PAGES]
        self.turn_to(names[(names.index(self.page) + by) % len(names)])

    @on(TabLine.Chosen)
    def tab_chosen(self, event: TabLine.Chosen) -> None:
        self.turn_to(event.name)

    def turn_to(self, name: str) -> None:
        self.chosen = name
        self.show_page(name)

    def action_scroll(self, by: int) -> None:
        """Scroll the texts of the page, where they are longer than the terminal is high."""
        for texts in self.pages[self.page].query(VerticalScroll):
            texts.scroll_relative(y=by * max(1, texts.size.height - 1), animate=False)

    def action_why(self) -> None:
        """Explain the number under the cursor of the page."""
        why: Any = getattr(self.pages[self.page], "action_why", None)
        if why is None or self.snap is None:
            self.tell("There is no number here to ask about; the pages rank and tokens have some.")
            return
        why()


# The two lines at the top: the stages with the run's position, and the numbers of the current stage.


def pipeline(snap: Snapshot, room: int, ascii: bool) -> Content:
    """`reviews @ 312   ✓ demonstrations → ● rankings 12 of 40 → ○ policy`; the present stage alone if that is short."""
    title = fit_handle(visible(snap.called, ascii), LONGEST_NAME)
    head = [Content.styled(title, "bold"), Content(f" @ {count(snap.at)}   ")]
    going = snap.status in GOING
    parts: list[tuple[str, str]] = []
    for index, stage in enumerate(snap.stages):
        name = visible(formula(stage.name, ascii), ascii)
        if index < snap.place or snap.at >= stage.last:
            parts.append((f"{Signs.done} {name}", "$quiet"))
        elif index == snap.place:
            sign = Signs.live if going else Signs.stopped
            done, of = snap.at - stage.first, stage.last - stage.first
            if stage.name == "rankings" and 0 < snap.wanted <= of:  # the remaining steps settle the reward model
                name += " settling" if done >= snap.wanted else ""
                done, of = (done - snap.wanted, of - snap.wanted) if done >= snap.wanted else (snap.ranked, snap.wanted)
            parts.append((f"{sign} {name} {count(max(0, done))} of {count(of)}", "bold $accent"))
        else:
            parts.append((f"{Signs.waiting} {name}", "$quiet"))
    left = room - sum(part.cell_length for part in head)
    arrow = f" {Signs.arrow} "
    if sum(width(text) for text, _ in parts) + width(arrow) * (len(parts) - 1) > left and parts:
        text, style = parts[snap.place]
        parts = [(f"{text}  (stage {snap.place + 1} of {len(parts)})", style)]
    for index, (text, style) in enumerate(parts):
        if index:
            head.append(Content.styled(arrow, "$quiet"))
        head.append(Content.styled(text, style))
    return Content.assemble(*head)


def state(snap: Snapshot, room: int, ascii: bool) -> Content:
    """The reason why the run waits, then as many numbers of its stage as fit."""
    parts: list[tuple[str, str]] = []
    if snap.trouble:
        parts.append((visible(snap.trouble, ascii), "bold $error"))
    elif snap.stage == "rankings" and snap.human and snap.taking and snap.status in GOING:
        learning = snap.ranked > snap.at - snap.stages[snap.place].first  # how many there are is said in the pipeline
        doing = "learning from your rankings" if learning else "waiting for your ranking"
        parts.append((f"{Signs.live} {doing}", "$accent"))
    if snap.status not in GOING:
        parts.append((snap.status, "$quiet"))
    parts += [(formula(f"{name} {value}", ascii), "") for name, value in numbers_of_stage(snap)]
    if snap.omission:
        parts.append((snap.omission, "$quiet"))
    numbers: list[Content] = []
    for text, style in parts:
        if width(text) + 3 <= room:
            numbers.append(Content.styled(text + "   ", style))
            room -= width(text) + 3
    return Content.assemble(*numbers)


def sentence(snap: Snapshot) -> Sentence:
    """The caption: what the selected stage has reached."""
    series = {name: (each.steps, each.values) for name, each in snap.series.items()}
    return captions.stage(snap.stage, series, snap.mark, snap.at - snap.stages[snap.place].first if snap.stages else 0)


def numbers_of_stage(snap: Snapshot) -> list[tuple[str, str]]:
    """(name, value) of the metrics of the selected stage."""
    if snap.stage == "rankings":
        wanted = [("accuracy, last 20", "accuracy_20"), ("on unseen answers", "val_accuracy")]
        return [(name, share(value)) for name, metric in wanted if (value := snap.latest(metric)) is not None]
    if snap.stage == "policy":
        wanted = [("β", "beta"), ("KL", "kl"), ("proxy", "proxy"), ("gold", "gold"), ("clipped", "clip_fraction")]
        return [(name, number(v, 3)) for name, metric in wanted if (v := snap.latest(metric + snap.mark)) is not None]
    wanted = [("loss", "loss"), ("validation", "val_loss"), ("learning rate", "lr")]
    return [(name, number(value, 3)) for name, metric in wanted if (value := snap.latest(metric)) is not None]
