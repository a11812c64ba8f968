"""Why this number? An engine Explanation on the screen: the equation, its inputs and the steps to the result.

The widget computes nothing; txlab/drawing/explanation.py lays out the explanation. Answering may need torch, whose
import takes a second, so WhyScreen asks in a thread and says that it is waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from txlab.drawing.explanation import PARTS, explanation_lines, wrap_text
from txlab.drawing.text import visible_lines, width
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.formula_links import find_citations, link_line
from txlab.tui.key_order import run_in_thread
from txlab.tui.screens.dialogs import Dialog
from txlab.tui.theme import IN_ASCII
from txlab.tui.widgets.terminal import is_ascii


class WhyPanel(Widget, can_focus=False):
    """Shows an explanation, or a sentence while there is none."""

    COMPONENT_CLASSES = {f"why--{part}" for part in PARTS}
    DEFAULT_CSS = """
    WhyPanel { height: auto; width: 1fr; }
    WhyPanel > .why--question { color: $foreground; text-style: bold; }
    WhyPanel > .why--equation { color: $accent; text-style: bold; }
    WhyPanel > .why--quiet { color: $text-muted; }
    WhyPanel > .why--heading { color: $text-muted; text-style: underline; }
    WhyPanel > .why--name { color: $secondary; }
    WhyPanel > .why--value { color: $foreground; }
    WhyPanel > .why--asked { color: $accent; text-style: bold; }
    WhyPanel > .why--wrong { color: $error; }
    """

    def __init__(self, explanation: Explanation | None = None, sentence: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.explanation, self.sentence = explanation, sentence

    def explain(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.refresh(layout=True)

    def say(self, sentence: str) -> None:
        """Show a sentence instead of an explanation; it is literal text, not markup."""
        self.explanation, self.sentence = None, sentence
        self.refresh(layout=True)

    def lines(self, cells: int) -> list[Text]:
        ascii = is_ascii(self)
        if self.explanation is None:
            quiet = self.get_component_rich_style("why--quiet", partial=True)
            return [
                Text(piece, quiet)
                for line in visible_lines(self.sentence.translate(IN_ASCII) if ascii else self.sentence, ascii)
                for piece in ([line] if width(line) <= cells else wrap_text(line, max(1, cells)))
            ]
        style = {part: self.get_component_rich_style(f"why--{part}", partial=True) for part in PARTS}
        lines = explanation_lines(self.explanation, cells, style, ascii)  # type: ignore[arg-type]
        return [link_line(line) for line in lines]

    def get_content_height(self, container: object, viewport: object, cells: int) -> int:
        return len(self.lines(max(1, cells)))

    def render(self) -> Text:
        return Text("\n", no_wrap=True, overflow="crop").join(self.lines(max(1, self.size.width)))


Answer: TypeAlias = Explanation | Callable[[], Explanation]
Ask: TypeAlias = Callable[[], Explanation | list[Answer] | list[Explanation] | str | None]


def ask_why(
    app: App[Any], ask: Ask, waiting: str = "loading the engine…", again: Callable[[], object] | None = None
) -> None:
    """Open the dialog that answers, showing `waiting` until it does.

    `again` repeats the question for a frame that was read again: for a run on another machine the exact numbers of a
    frame are fetched first.
    """
    if again is not None:
        for panel in app.screen.query("Playback"):
            if panel.watch_run.exactly(again):  # type: ignore[attr-defined]
                return
    put_in_front(app, "why", WhyScreen, lambda screen: screen.begin(ask, waiting))


class WhyScreen(Dialog[None]):
    """Calls `ask()` in a thread and shows the Explanation or the lines it returns; None or a LabError is shown as a
    sentence. Of a list of explanations it shows the first; left, right and tab go through them. A slow explanation is a
    function in this list, and is called in a thread when it is selected.

    ask_why(self.app, lambda: explain(frame, "attention/pattern", (l, h, i, j)))
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,w,q", "dismiss", "close", id="why.close"),
        Binding("up,k", "scroll('up')", "up", id="why.up", show=False),
        Binding("down,j", "scroll('down')", "down", id="why.down", show=False),
        Binding("pageup", "scroll('page_up')", "page up", id="why.page-up", show=False),
        Binding("pagedown,space", "scroll('page_down')", "page down", id="why.page-down", show=False),
        Binding("left", "turn(-1)", "the one before", id="why.before", show=False),
        Binding("right,tab", "turn(1)", "the next one", id="why.next", show=False),
        Binding("m,M", "formula", "the formula", id="why.formula", show=False),
        Binding("home", "scroll('home')", "top", id="why.top", show=False),
        Binding("end", "scroll('end')", "end", id="why.end", show=False),
    ]
    DEFAULT_CSS = """
    WhyScreen { align: center middle; background: $background 60%; }
    WhyScreen > VerticalScroll {
        width: 90%; max-width: 110; height: auto; max-height: 90%;
        background: $background; border: round $accent; padding: 1 2;
        scrollbar-size-vertical: 1;
        border-title-color: $accent; border-subtitle-color: $text-muted;
    }
    WhyScreen.-ascii > VerticalScroll { border: ascii $accent; scrollbar-size: 0 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.ask: Ask = lambda: None
        self.waiting = ""
        self.answers: list[Answer] = []
        self.at = 0
        self.asking: Worker[Any] | None = None

    def begin(self, ask: Ask = lambda: None, waiting: str = "") -> None:
        super().begin()
        self.ask, self.waiting = ask, waiting
        if self.is_mounted:
            self.query_one(VerticalScroll).scroll_home(animate=False)
            self.start()

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as box:
            box.border_title = Text("why?")  # type: ignore[assignment]
            yield WhyPanel()

    def on_mount(self) -> None:
        self.set_class(is_ascii(self), "-ascii")
        self.start()

    def show_keys(self) -> None:
        """Show the keys in the frame, and the index of the shown explanation."""
        ascii, many = is_ascii(self), len(self.answers)
        keys = "esc close" if ascii else "↑ ↓ scroll · esc close"
        if self.formula:
            keys = f"m {self.formula} {'-' if ascii else '·'} {keys}"
        if many > 1:
            keys = f"{self.at + 1} of {many} {'-' if ascii else '·'} {'tab' if ascii else '← →'} the others, {keys}"
        self.query_one(VerticalScroll).border_subtitle = Text(keys)  # type: ignore[assignment]

    @property
    def formula(self) -> str:
        """The number of the formula that the explanation shown cites; "" = none."""
        shown = self.query_one(WhyPanel).explanation
        return next((number for _, number in find_citations(f"MATH {shown.math}")), "") if shown is not None else ""

    async def action_formula(self) -> None:
        """Open the formula with its letters and its example."""
        if self.formula:
            await self.run_action(f"app.open_formula({self.formula!r})")

    def action_turn(self, by: int) -> None:
        """Show another one of the explanations."""
        if self.answers:
            self.at = (self.at + by) % len(self.answers)
            answer = self.answers[self.at]
            if isinstance(answer, Explanation):
                self.asking = None
                self.query_one(WhyPanel).explain(answer)
            else:
                self.query_one(WhyPanel).say("computing it again…")
                self.asking = self.ask_in_thread(answer)
            self.query_one(VerticalScroll).scroll_home(animate=False)
            self.show_keys()

    def start(self) -> None:
        self.query_one(WhyPanel).say(self.waiting)
        self.answers = []
        self.show_keys()
        self.asking = self.ask_in_thread(self.ask)

    def ask_in_thread(self, ask: Callable[[], Any]) -> Worker[Any]:
        """Ask in a thread; the next key waits for the answer, as it may select another one."""
        return run_in_thread(self, ask, "why")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if event.worker is not self.asking or not self.is_active:  # superseded by another question, or closed
            return
        panel = self.query_one(WhyPanel)
        if event.state is WorkerState.SUCCESS:
            if event.worker.result is None:
                panel.say("Nothing is known about this number.")
            elif isinstance(event.worker.result, str):
                panel.say(event.worker.result)
            else:
                result = event.worker.result
                if isinstance(result, list):
                    self.answers, self.at = result, 0
                elif self.answers:  # it was selected
                    self.answers[self.at] = result
                else:
                    self.answers, self.at = [result], 0
                shown = self.answers[self.at]
                assert isinstance(shown, Explanation)
                panel.explain(shown)
                self.show_keys()
        elif event.state is WorkerState.ERROR:
            error = event.worker.error
            report = getattr(self.app, "report", None)
            if report is not None and not isinstance(error, LabError):
                report(error)
            panel.say(str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}")

    def action_scroll(self, where: str) -> None:
        getattr(self.query_one(VerticalScroll), f"scroll_{where}")(animate=False)
