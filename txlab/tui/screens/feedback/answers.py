"""The model's answers to the same prompts before and after, with the scores of the reward model and of gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content

from txlab.drawing.formatting import number
from txlab.drawing.text import visible
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.feedback.ranking import answer_lines, prompt_lines
from txlab.tui.screens.feedback.snapshot import Snapshot, numbers
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.terminal import is_ascii

# For each answer in a frame's texts: its name there, its title, and when its scores were given.
WHEN = (
    ("before", "before, as it was fine-tuned", "before"),
    ("during", "now", "now"),
    ("after", "at the end", ""),
)


class AnswersPanel(Panel):
    """A table of the prompts with their scores, and the answers to the one under the cursor."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "up",
            "choose(-1)",
            "go to the prompt before, or the next one",
            "prompt",
            id="feedback.prompt-before",
            key_display="up down",
        ),
        bind("down", "choose(1)", "go to the next prompt", id="feedback.prompt-next"),
    )

    def __init__(self) -> None:
        super().__init__(id="answers")
        self.table, self.text = Table(id="answers-table", waiting="no answers are recorded yet"), Words()
        self.table.can_focus = False
        self.forget()

    def compose(self) -> ComposeResult:
        yield self.table
        with VerticalScroll(id="answers-scroll", can_focus=False):
            yield self.text

    def forget(self) -> None:
        self.snap: Snapshot | None = None
        self.cursor = 0
        self.table.set_table((), ())
        if self.is_mounted:
            self.text.say("")

    def show(self, snap: Snapshot) -> None:
        self.snap = snap
        self.draw()

    @property
    def prompts(self) -> list[str]:
        """The probe prompts of the frame."""
        texts = self.snap.frame.texts if self.snap and self.snap.frame else {}
        prompts: list[str] = []
        while f"prompt/{len(prompts)}" in texts:
            prompts.append(texts[f"prompt/{len(prompts)}"])
        return prompts

    def draw(self) -> None:
        if self.snap is None or not self.is_mounted:
            return
        prompts, frame, ascii = self.prompts, self.snap.frame, is_ascii(self)
        if not prompts or frame is None:
            self.table.set_table((), ())
            self.text.say(Content.styled("No answers are recorded at this step yet.", "$quiet"))
            return
        self.cursor = min(self.cursor, len(prompts) - 1)
        scores = {
            ("proxy", "before"): numbers(frame.facts, "probe_scores", "before"),
            ("proxy", "now"): numbers(frame.facts, "probe_scores", "now"),
            ("gold", "before"): numbers(frame.facts, "gold_before"),
            ("gold", "now"): numbers(frame.facts, "gold_now"),
        }
        kept = {name: values for name, values in scores.items() if len(values) == len(prompts)}
        columns = [Column("prompt", right=False), *(Column(f"{what} {when}") for what, when in kept)]
        rows = [
            [visible(prompt.replace("\n", " "), ascii), *(number(values[i], 3) for values in kept.values())]
            for i, prompt in enumerate(prompts)
        ]
        self.table.set_table(columns, rows, marked=[self.cursor])
        room = max(20, self.query_one("#answers-scroll").scrollable_content_region.width - 1)
        parts = prompt_lines(prompts[self.cursor], room, ascii)
        for key, title, when in WHEN:
            answer = frame.texts.get(f"{key}/{self.cursor}")
            if answer is None:
                continue
            kept_numbers = [
                f"{what} {number(values[self.cursor], 3)}" for (what, at), values in kept.items() if at == when
            ]
            parts.append(
                Content.assemble(Content.styled(title, "$quiet"), "   ", "   ".join(kept_numbers), "\n        ")
            )
            parts += [*answer_lines(answer, room, ascii, "$accent" if key == "during" else ""), Content("\n")]
        self.text.say(Content.assemble(*parts))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.display and len(self.prompts) > 1

    def action_choose(self, by: int) -> None:
        self.cursor = (self.cursor + by) % max(1, len(self.prompts))
        self.draw()
