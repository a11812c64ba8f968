"""The comparison page: answers of two models to one prompt, the judgement, and the result of all comparisons so far.

Blind: the models are named only when the pair has been judged.

Notable: a result is written, and the next pair drawn, in a thread; keys that come meanwhile wait for that pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content

from txlab.drawing.explanation import wrap_text
from txlab.drawing.text import formula, visible
from txlab.drawing.verdict import verdict_lines
from txlab.engine.rlhf.comparisons import Comparison
from txlab.engine.rlhf.ratings import Verdict
from txlab.errors import LabError
from txlab.runs.control import asker
from txlab.tui.bindings import bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import Choose, describe_enter
from txlab.tui.screens.feedback.ranking import answer_lines, prompt_lines
from txlab.tui.screens.feedback.snapshot import Snapshot
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.terminal import is_ascii

if TYPE_CHECKING:
    from txlab.experiments.kinds.human_feedback.contest import Pair
    from txlab.runs.comparisons import Comparing


@dataclass(frozen=True)
class Seen:
    """The state after a key: the pair to judge, the result of all comparisons, and the pair judged last."""

    pair: Pair
    verdict: Verdict
    last: Comparison | None = None


class ComparisonPanel(Panel):
    """`comparing` has both models; `seen` is the part shown to the rater."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind("enter", "begin", "begin to compare two models blindly", "compare", id="feedback.compare"),
        bind(
            "1",
            "better(0)",
            "the first answer is better, or the second",
            "the better one",
            id="feedback.better",
            key_display="1 2",
        ),
        bind("2", "better(1)", "the second answer is better", id="feedback.better-second"),
        bind(
            "3,4,5,6,7,8,9",
            "no_answer",
            "no answer: there are two; F1 to F10 open other screens",
            id="feedback.no-answer",
        ),
        bind("equals_sign", "neither", "both answers are equally good", "equal", id="feedback.neither"),
        bind("s", "pass", "pass over this pair", "skip", id="feedback.pass"),
        bind("u", "undo", "take back your last comparison", "undo", id="feedback.compared-undo"),
        bind("c", "against", "compare with another model", "compare with another", id="feedback.against"),
    )

    def __init__(self) -> None:
        super().__init__(id="compared")
        self.text = Words()
        self.opening = LatestTask(self, "compared", self.show_failure)
        self.path: Path | None = None
        self.forget()

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="compared-scroll", can_focus=False):
            yield self.text

    def forget(self) -> None:
        self.opening.forget()
        self.path = None
        self.comparing: Comparing | None = None
        self.seen_now: Seen | None = None
        self.busy = False
        self.typed: list[Callable[[], None]] = []  # while a result is being written
        self.said = ""
        if self.is_mounted:
            self.text.say("")

    # Drawing.

    def show(self, snap: Snapshot) -> None:
        self.path = snap.path
        if self.display:
            self.draw()

    def draw(self) -> None:
        if not self.is_mounted or self.path is None:
            return
        room = max(20, self.query_one("#compared-scroll").scrollable_content_region.width - 1)
        self.text.say(self.question(self.seen_now, room, is_ascii(self)) if self.seen_now else self.invitation(room))

    def invitation(self, room: int) -> Content:
        words = self.said or (
            "Two answers to a prompt are shown, one by the model as it was fine-tuned and one by the model as it is "
            "now; which is whose is shown after the better one is named. enter begins; c chooses another "
            "model to compare with."
        )
        return Content.styled("\n".join(wrap_text(words, room)), "$quiet")

    def question(self, seen: Seen, room: int, ascii: bool) -> Content:
        assert self.comparing is not None
        parts = prompt_lines(seen.pair.prompt, room, ascii)
        for number, text in enumerate(seen.pair.texts, 1):
            parts.append(Content.assemble((f" {number}", "bold"), " " * 6))
            parts += [*answer_lines(text, room, ascii), Content("\n")]
        lines = []
        if seen.last is not None:
            first, second = (seen.last.a, seen.last.b) if seen.last.shown == "ab" else (seen.last.b, seen.last.a)
            lines.append(f"the pair before: 1 was {self.short(first.model)}, 2 was {self.short(second.model)}")
        lines += verdict_lines(seen.verdict, [self.short(name) for name in reversed(self.comparing.names)])
        lines_wrapped = [piece for line in lines for piece in wrap_text(formula(visible(line, ascii), ascii), room)]
        return Content.assemble(*parts, Content.styled("\n".join(lines_wrapped), "$quiet"))

    def short(self, name: str) -> str:
        """A model's short name: "now", "as fine-tuned", or the name of another model."""
        assert self.comparing is not None
        own = self.comparing.names[1]
        return "now" if name == own else name.removeprefix(f"{own}, ")

    def show_failure(self, sentence: str) -> None:
        self.said = visible(sentence)
        self.comparing, self.seen_now = None, None
        self.draw()
        self.screen.refresh_bindings()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.display or self.path is None:
            return False
        if action == "begin":
            return self.comparing is None and self.opening.idle
        return action in ("against", "better", "no_answer") or self.seen_now is not None

    def word_for(self, binding: Binding) -> str:
        return "" if binding.id == "feedback.better" and self.seen_now is None else binding.description

    def action_begin(self) -> None:
        self.begin("")

    def action_against(self) -> None:
        """Choose the model to compare with."""
        from txlab.tui.screens.attention.dialogs import offer_models

        dialog = Choose("Compare with: a run, or RUN@STEP", [], free=describe_enter("compares with"))
        self.app.push_screen(dialog, lambda name: self.begin(name) if name else None)
        root: Path = self.app.root  # type: ignore[attr-defined]
        offer = run_in_thread(self, lambda: offer_models(dialog, root), "models", keys=False)
        keys_wait(self, offer)

    def begin(self, other: str) -> None:
        """Open both models in a thread, and draw the first pair."""
        path, root = self.path, self.app.root  # type: ignore[attr-defined]
        if path is None:
            return

        def work(task: LatestTask) -> tuple[Comparing, Seen]:
            from txlab.runs.comparisons import Comparing

            comparing = Comparing(path, asker(), other, root)
            return comparing, Seen(comparing.next(), comparing.verdict())

        def show(beginning: tuple[Comparing, Seen]) -> None:
            self.comparing, self.seen_now = beginning
            self.said = ""
            self.draw()
            self.screen.refresh_bindings()

        self.said, self.comparing, self.seen_now = "opening the two models…", None, None
        self.draw()
        self.opening.want(work, show, holds_keys=True)

    def action_better(self, place: int) -> None:
        """Judge; a digit opens no screen here, whether the comparison has begun or not."""
        if self.seen_now is None:
            self.tell("The models are being opened." if not self.opening.idle else "enter begins the comparison first.")
            return
        self.write(lambda comparing, pair: comparing.judge(pair, pair.result(place)))

    def action_no_answer(self) -> None:
        self.tell("There are two answers: 1 and 2. F1 to F10 open other screens.", "warning")

    def action_neither(self) -> None:
        self.write(lambda comparing, pair: comparing.judge(pair, pair.result(None)))

    def action_pass(self) -> None:
        self.write(lambda comparing, pair: comparing.judge(pair, "skip"))

    def action_undo(self) -> None:
        """Take back this rater's last result."""

        def undo(comparing: Comparing, pair: Pair) -> Comparison | None:
            if comparing.undo() is None:
                raise LabError("there is nothing of yours to take back")
            return None

        self.write(undo)

    def write(self, line: Callable[[Comparing, Pair], Comparison | None]) -> None:
        """Write a line in a thread; then show the next pair, and handle the keys typed meanwhile."""
        if self.busy:
            self.typed.append(lambda: self.write(line))
            return
        comparing, seen = self.comparing, self.seen_now
        if comparing is None or seen is None:
            return
        self.busy = True

        def work() -> None:
            now, error = seen, ""
            try:
                last = line(comparing, seen.pair)
                now = Seen(comparing.next(), comparing.verdict(), last)
            except LabError as failure:
                error = str(failure)
            self.app.call_from_thread(finish, now, error)

        def finish(now: Seen, error: str) -> None:
            if self.comparing is not comparing:  # another run or another model was chosen meanwhile
                return
            self.busy, self.seen_now = False, now
            typed, self.typed = self.typed, []
            if error:
                typed.clear()
                self.tell(error, "error")
            for act in typed:
                act()
            self.draw()
            self.screen.refresh_bindings()

        run_in_thread(self, work, "compared-line")
