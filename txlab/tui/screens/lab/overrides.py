"""Change a scenario before it starts: lines `key = value`, validated at every key stroke."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import TextArea
from textual.worker import get_current_worker

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.words import Words


def overrides_in(text: str) -> list[str]:
    """Return the `a.b=c` overrides of lines "a.b = c"; empty lines and # comments are skipped."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


class ChangeFirst(Dialog[list[str]]):
    """Answers with the overrides, or None. The scenario's present values are listed below, to copy from."""

    CSS_PATH = ["../dialogs.tcss", "overrides.tcss"]
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = None  # the app's: the listing takes all the room there is
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "start", "start", id="change.start", priority=True),
        Binding("enter", "start", "start", id="change.start-too"),
        Binding("escape", "leave", "leave it", id="change.leave", priority=True),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.scenario_name = name
        self.good = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog change"):
            yield Words(Content(f"{visible(self.scenario_name)}, changed"), classes="dialog-title")
            yield Words(Content.styled("one change a line, as in   train.steps = 200", "$quiet"), classes="dialog-body")
            yield TextArea("", id="lines", soft_wrap=True, tab_behavior="focus")
            yield Words("", id="verdict")
            with VerticalScroll(id="now", can_focus=True):
                yield Words("", id="now-text")
            yield Words(key_hints(("F5", "or"), ("tab enter", "start"), ("esc", "leave it")))

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()
        self.judge()

    def on_text_area_changed(self) -> None:
        self.judge()

    def judge(self) -> None:
        """Validate in a thread; only the newest text counts."""
        overrides = overrides_in(self.query_one(TextArea).text)
        self.run_worker(lambda: self.check(overrides), thread=True, group="check", exclusive=True, exit_on_error=False)

    def check(self, overrides: list[str]) -> None:
        from txlab.runs.scenario import dump_scenario, load_scenario

        try:
            text, wrong = dump_scenario(load_scenario(self.scenario_name, overrides).scenario), ""
        except LabError as error:
            text, wrong = "", str(error)
        if not get_current_worker().is_cancelled and self.is_attached:
            self.app.call_later(self.say, text, wrong, len(overrides))

    def say(self, text: str, wrong: str, changes: int) -> None:
        if not self.is_attached:
            return
        self.good = not wrong
        verdict = self.query_one("#verdict", Words)
        if wrong:
            verdict.say(Content.styled(visible(wrong), "$error"))
            return
        words = (
            "nothing changed yet"
            if not changes
            else "one change, valid"
            if changes == 1
            else f"{changes} changes, valid"
        )
        verdict.say(Content.styled(words, "$quiet"))
        lines = [line for line in text.split("\n") if line]
        about = next((i for i, line in enumerate(lines) if line == "[about]"), None)
        if about is not None:
            end = next((i for i in range(about + 1, len(lines)) if lines[i].startswith("[")), len(lines))
            lines = lines[:about] + lines[end:]
        parts = [Content.styled(visible(line) + "\n", "bold" if line.startswith("[") else "$quiet") for line in lines]
        self.query_one("#now-text", Words).say(Content.assemble(*parts))

    def action_start(self) -> None:
        if self.good:
            self.dismiss(overrides_in(self.query_one(TextArea).text))
        else:
            self.app.bell()

    def action_leave(self) -> None:
        self.dismiss(None)
