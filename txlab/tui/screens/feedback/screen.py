"""Screen 7, Feedback: rankings by people, the reward model that learns from them, the policy that follows it.

The pipeline is always visible; below it is one of several pages. A page that nobody has chosen follows the stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content

from txlab.runs.summary import GOING
from txlab.tui.run_panel import RunPanel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.feedback.answers import AnswersPanel
from txlab.tui.screens.feedback.comparison import ComparisonPanel
from txlab.tui.screens.feedback.episodes import EpisodesPanel
from txlab.tui.screens.feedback.pipeline import pipeline, state
from txlab.tui.screens.feedback.policy import PolicyPanel
from txlab.tui.screens.feedback.ranking import RankingPanel
from txlab.tui.screens.feedback.snapshot import RunFeedback, Snapshot
from txlab.tui.screens.words import Words
from txlab.tui.widgets.tabs import TabLine

if TYPE_CHECKING:
    from pathlib import Path

    from txlab.experiments.kind import Kind
    from txlab.runs.reader import RunReader

NO_RUN = "No run is chosen: start feedback-reviews in the Lab (1), or choose one of its runs."
PAGES = (
    ("ranking", "rank"),
    ("policy", "proxy and gold"),
    ("answers", "answers"),
    ("episodes", "tokens"),
    ("compared", "compare"),
)
PAGE_OF_STAGE = {"rankings": "ranking", "policy": "policy"}


def learns_from_people(kind: Kind) -> bool:
    """Whether runs of a kind are shown here."""
    return kind.screen == "feedback"


class FeedbackScreen(BenchScreen):
    """`page` is shown; `chosen` is the page that the user has turned to, "" = the one of the stage."""

    CSS_PATH = "feedback.tcss"
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "The line at the top is the pipeline. Rank answers by typing their numbers from the best to the worst; the "
        "reward model learns from each ranking, and the policy then follows the reward model. tab turns the pages; "
        "[ and ] go through what was recorded; on the last page two models are compared blindly. While a question is "
        "asked, digits rank; F1 to F10 open other screens."
    )
    PANELS = (RunPanel, RankingPanel, PolicyPanel, EpisodesPanel, AnswersPanel, ComparisonPanel)
    KEY_ORDER = (
        *("feedback.answer-one", "feedback.tie", "feedback.give", "feedback.skip", "feedback.undo", "feedback.human"),
        *("feedback.better", "feedback.neither", "feedback.pass", "feedback.compared-undo", "feedback.compare"),
        *(
            "feedback.beta-down",
            "feedback.token-before",
            "feedback.view",
            "feedback.prompt-before",
            "feedback.page",
            "screen.why",
            "time.earlier",
            "run.pause",
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "turn(1)", "next page", id="feedback.page"),
        Binding("shift+tab", "turn(-1)", "page before", id="feedback.page-before", show=False),
        Binding("pagedown", "scroll(1)", "scroll the texts down", id="feedback.scroll", show=False),
        Binding("pageup", "scroll(-1)", "scroll the texts up", id="feedback.scroll-back", show=False),
        Binding("s", "picture", "picture", id="screen.picture", show=False),  # after the ranking's skip
    ]

    def __init__(self) -> None:
        super().__init__()
        self.run = RunPanel(self, opens=learns_from_people)
        self.ranking, self.policy, self.answers = RankingPanel(self.run), PolicyPanel(self.run), AnswersPanel()
        self.episodes, self.compared = EpisodesPanel(), ComparisonPanel(self.run)
        self.pages = {
            "ranking": self.ranking,
            "policy": self.policy,
            "answers": self.answers,
            "episodes": self.episodes,
            "compared": self.compared,
        }
        self.page, self.chosen = "ranking", ""
        self.snap: Snapshot | None = None
        self.feedback: RunFeedback | None = None
        self.read: tuple[object, ...] = ()

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
        self.run_changed()

    # Called by RunPanel.

    def run_changed(self) -> None:
        self.snap, self.feedback, self.chosen, self.read = None, None, "", ()
        for panel in (self.ranking, self.policy, self.answers, self.episodes, self.compared):
            panel.forget()
        said = NO_RUN if self.run.path is None else f"reading {self.run.path.name}…"
        self.query_one("#header", Words).say(Content.styled(said, "$quiet"), layout=False)
        self.query_one("#state", Words).say("", layout=False)
        self.show_page("ranking")

    def read_run(self, reader: RunReader, changed: bool) -> Snapshot | None:
        path: Path = reader.directory.path
        feedback = self.feedback
        if feedback is None or feedback.path != path:
            self.feedback = feedback = RunFeedback(path)
        snap = feedback.read(reader, self.run.at)
        seen = (snap.asked, self.run.at)
        if not changed and seen == self.read:
            return None
        self.read = seen
        return snap

    def show_run(self, snap: Snapshot) -> None:
        feedback = self.feedback
        if feedback is None or feedback.path != snap.path:
            return
        self.snap = snap
        self.run.status = snap.status
        self.run.timeline.set_frames(snap.frames, snap.steps, snap.edge, ended=snap.status not in GOING)
        if not self.chosen:
            self.show_page(PAGE_OF_STAGE.get(snap.stage, "answers"))
        self.ranking.show(snap, feedback)
        self.policy.show(snap)
        self.answers.show(snap)
        self.episodes.show(snap)
        self.compared.show(snap)
        self.show_words()
        self.refresh_bindings()

    def moved(self) -> None:
        self.run.wants_read()

    def show_words(self) -> None:
        if self.snap is not None:
            room = self.size.width - 2
            self.query_one("#header", Words).say(pipeline(self.snap, room, self.ascii), layout=False)
            self.query_one("#state", Words).say(state(self.snap, room, self.ascii), layout=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        self.show_words()
        self.ranking.draw()
        self.policy.draw()
        self.answers.draw()
        self.episodes.draw()
        self.compared.draw()

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
