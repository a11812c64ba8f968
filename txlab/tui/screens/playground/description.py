"""The network as text, edited in a dialog: errors are shown while typing."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import TextArea

from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words

ABOUT = "a line for each neuron, in any order: h1 = tanh(0.5*x - y + 0.1); a weight _ is drawn"


class DescriptionDialog(Dialog[str]):
    """Answers with the description, or None."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave it", id="description.leave", priority=True),
        Binding("ctrl+s,f2", "take", "take it", id="description.take", priority=True),
    ]
    DEFAULT_CSS = """
    DescriptionDialog .dialog { width: 90%; max-width: 110; }
    DescriptionDialog TextArea { height: 16; max-height: 50vh; margin: 1 0; }
    DescriptionDialog TextArea, DescriptionDialog TextArea:focus { border: none; padding: 0; }
    DescriptionDialog #verdict { height: 2; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words("The network as text", classes="dialog-title")
            yield Words(Content(ABOUT), classes="dialog-body")
            yield TextArea(self.text, soft_wrap=False, show_line_numbers=False)
            yield Words("", id="verdict")
            yield Words(key_hints(("ctrl+s", "take it"), ("esc", "leave it")), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()
        self.judge()

    def judge(self) -> bool:
        from txlab.experiments.kinds.playground.schema import parse_description

        try:
            graph = parse_description(self.query_one(TextArea).text)
            if graph is None:
                raise LabError("a network needs a neuron, as in out = tanh(0.5*x - y + 0.1)")
            edges = sum(len(neuron.weights) for neuron in graph.neurons)
            words, style = f"{len(graph.neurons)} neurons, {edges} weights, depth {len(graph.levels)}", "$quiet"
        except LabError as error:
            words, style = str(error), "$error"
        self.query_one("#verdict", Words).say(Content.styled(visible(words), style))
        return style == "$quiet"

    def on_text_area_changed(self) -> None:
        self.judge()

    def action_take(self) -> None:
        if self.judge():
            self.dismiss(self.query_one(TextArea).text)

    def action_leave(self) -> None:
        self.dismiss(None)
