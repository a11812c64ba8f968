"""The text of a frame, coloured by one unit; its values along the text; the unit's numbers at the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.captions import recurrent as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.diverging import Scale, scale_of
from txlab.drawing.formatting import count, fixed, number
from txlab.drawing.text import formula, label
from txlab.engine.recurrent.why import NOTES
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.experiments.recurrent_states import explain_with_gates, tokens_of
from txlab.runs.directory import RunDirectory
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import CaptionLine
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.facts import Fact, FactTable
from txlab.tui.widgets.token_strips import TokenRow, TokenStrips
from txlab.tui.widgets.why import ask_why

LOWEST = 5  # lines of the chart
WHOLE_NOTES = 40  # cells of the numbers with a gate's meaning next to its name
LISTED = 12  # listed units of a search
LONGEST = 4000  # tokens that a search reads; with 200, chance alone gives some unit of 512 an r of .2


@dataclass(frozen=True)
class Followed:
    """prop, title   the property's name and description
    units         (layer, unit, r) of all units, |r| largest first
    state         the compared state, "h" or "c"
    tokens, step  the length of the text, and the checkpoint
    """

    prop: str
    title: str
    units: tuple[tuple[int, int, float], ...]
    state: str
    tokens: int
    step: int


def follow(path: Path, step: int | None, prop: str, state: str) -> Followed:
    """Rank the units of the checkpoint nearest to `step`. LabError without one, or without a text to read.

    For worker threads: reading the text takes seconds.
    """
    from txlab.engine.recurrent.language_model import RecurrentLM
    from txlab.engine.recurrent.units import PROPERTIES, correlations, of_tokens
    from txlab.experiments.kind import kind_named
    from txlab.runs.models import open_checkpoint, scenario_of

    run = RunDirectory(path)
    opened, scenario = open_checkpoint(run, step), scenario_of(run)
    if not isinstance(opened.model, RecurrentLM):
        raise LabError("only a recurrent language model is asked which of its units follows what")
    text = kind_named(scenario.kind).validation_text(scenario)
    ids = opened.tokenizer.encode(text[: 8 * LONGEST])[:LONGEST]
    if len(ids) < 100:
        raise LabError(f"the validation text has {len(ids)} tokens; at least 100 tell which unit follows what")
    values = of_tokens(prop, [opened.tokenizer.token_bytes(token) for token in ids])
    if not values.std():
        raise LabError(f"nothing in {len(ids)} tokens of the validation text is {PROPERTIES[prop][0]}")
    states = opened.model.look_at(ids)[1][state]  # (N, T, H)
    N, T, H = states.shape
    r = correlations(states.transpose(0, 1).reshape(T, N * H).numpy(), values)
    order = np.argsort(-np.abs(r), kind="stable")
    units = tuple((int(unit) // H, int(unit) % H, float(r[unit])) for unit in order)
    return Followed(prop, PROPERTIES[prop][0], units, state, len(ids), opened.step or 0)


class UnitsPanel(Panel):
    """`unit` counts the units of all layers; `found` is the last search, in whose order up and down go. `unit` and
    `token` are the requested ones; a frame that has fewer shows another one, and a later frame restores them."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "up", "unit(-1)", "go to the unit before", "unit, token", id="recurrent.unit-before", key_display="arrows"
        ),
        bind("down", "unit(1)", "go to the next unit", id="recurrent.unit-next"),
        bind("left", "token(-1)", "go to the token before", id="recurrent.token-before"),
        bind("right", "token(1)", "go to the next token", id="recurrent.token-next"),
        bind("pageup,pagedown,tab", "layer", "go to the next layer", "layer", id="recurrent.layer", key_display="tab"),
        bind(
            "slash", "search", "find the units that follow a property of the text", "find a unit", id="recurrent.search"
        ),
        bind("v", "view", "show the state h, or an LSTM's memory c", "memory c", id="recurrent.view"),
        bind("escape", "leave", "leave the search", "all units", id="recurrent.leave"),
    )

    def __init__(self, caption: CaptionLine) -> None:
        super().__init__(id="units")
        self.caption = caption
        self.strips = TokenStrips(id="unit-text", lined=True)
        self.legend, self.about = Words(id="unit-legend"), Words(id="unit-about")
        self.facts, self.chart = FactTable(id="unit-facts"), Chart(id="unit-chart")
        self.facts.can_focus = self.chart.can_focus = False
        self.chart.across = "token"
        self.searching = LatestTask(self, "units", self.show_failure)
        self.forget()

    def compose(self) -> ComposeResult:
        yield self.legend
        with Horizontal():
            with Vertical(id="unit-main"):
                yield self.strips
                yield self.chart
            with Vertical(id="unit-side"):
                yield self.facts
                yield self.about

    def forget(self) -> None:
        self.searching.forget()
        self.frame: Frame | None = None
        self.path: Path | None = None
        self.at: int | None = None
        self.unit = self.token = 0
        self.state = "h"
        self.found: Followed | None = None
        self.said = ""
        self.chart.forget()
        if self.is_mounted:
            self.strips.show((), Scale())
            self.legend.say("")
            self.about.say("")
            self.facts.set_facts(())

    def show(self, frame: Frame, path: Path, at: int | None) -> None:
        begins = self.frame is None
        self.frame, self.path, self.at = frame, path, at
        if begins and (values := self.values) is not None and values.shape[1] > 1:  # not where no state is before it
            layer, unit = self.place(values)
            self.token = 1 + int(np.nan_to_num(np.abs(values[layer, 1:, unit])).argmax())
        self.draw()

    # The shown state.

    @property
    def values(self) -> np.ndarray | None:
        """(N, T, H) of the shown state."""
        values = None if self.frame is None else self.frame.tensors.get(f"state/{self.state}")
        return None if values is None or np.ndim(values) != 3 or not np.size(values) else np.asarray(values)

    @property
    def tokens(self) -> list[str]:
        return [] if self.frame is None else tokens_of(self.frame)

    def place(self, values: np.ndarray) -> tuple[int, int]:
        """The shown (layer, unit)."""
        H = values.shape[2]
        if self.found is not None and self.found.state == self.state:
            layer, unit, _ = self.found.units[self.unit % len(self.found.units)]
            if layer < values.shape[0] and unit < H:
                return layer, unit
        return self.unit // H % values.shape[0], self.unit % H

    @property
    def here(self) -> int:
        """The shown token: the last one if the text is shorter."""
        return min(self.token, len(self.tokens) - 1)

    def draw(self) -> None:
        values, tokens = self.values, self.tokens
        if values is None or not self.is_mounted or len(tokens) != values.shape[1]:
            return
        ascii = self.strips.ascii
        room = self.query_one("#unit-main").size.height
        self.strips.most = room - max(LOWEST, room * 2 // 5)
        layer, unit = self.place(values)
        row = values[layer, :, unit].astype(np.float64)
        scale = Scale(-1.0, 1.0) if self.state == "h" else scale_of(np.array([-1.0, 1.0, *row]))
        self.strips.show([TokenRow("", tokens, row)], scale, 0, self.here)
        self.strips.styles.height = max(1, min(len(self.strips.lines) - 1, room - LOWEST))
        where = f"{self.state}, unit {unit + 1} of {values.shape[2]}, layer {layer + 1} of {values.shape[0]}"
        self.legend.say(self.strips.legend(where, scale, self.legend.size.width or self.app.size.width))
        steps = np.arange(1, len(row) + 1)
        self.chart.set_reactive(Chart.cursor, self.here + 1)
        self.chart.set_series([ChartSeries(f"{self.state}(t)", steps, row)], "")
        self.facts.set_facts(self.numbers(layer, unit))
        self.caption.say(self.sentence(layer, unit))
        self.about.say(self.describe_search(ascii))

    def sentence(self, layer: int, unit: int) -> Sentence:
        search = self.found
        if search is not None and search.state == self.state:
            r = search.units[self.unit % len(search.units)][2]
            return captions.followed(search.title, self.state, layer, unit, r, search.tokens)
        return captions.unit(self.frame, self.state, layer, unit) if self.frame is not None else ()

    def numbers(self, layer: int, unit: int) -> list[Fact]:
        frame = self.frame
        assert frame is not None
        ascii = self.strips.ascii
        facts = [Fact("token", label(self.tokens[self.here], ascii), f"{self.here + 1} of {len(self.tokens)}")]
        brief = self.facts.size.width < WHOLE_NOTES
        for letter, note in NOTES.items():
            values = frame.tensors.get(f"gate/{letter}", frame.tensors.get(f"state/{letter}"))
            if values is not None and np.ndim(values) == 3:
                level = "accent" if letter == self.state else "plain"
                value = float(values[layer, self.here, unit])
                note = note.partition(":")[0].partition(" for ")[0].removeprefix("the ") if brief else note
                facts.append(Fact(letter, number(value, 3), note, level=level))
        return facts

    def describe_search(self, ascii: bool) -> Content:
        """The list of a search, or a hint on how to start one."""
        if self.said:
            return Content.styled(formula(self.said, ascii), "$quiet")
        search = self.found
        if search is None or search.state != self.state:
            hint = "/ finds the unit that follows quotes, brackets, capitals or positions best."
            return Content.styled(hint if self.searchable else "", "$quiet")
        lines = [
            Content.styled(f"{search.title}: r with {search.state} over {count(search.tokens)} unseen tokens", "$quiet")
        ]
        first = max(0, min(self.unit - LISTED // 2, len(search.units) - LISTED))
        for rank, (layer, unit, r) in enumerate(search.units[first : first + LISTED], first):
            text = f"{rank + 1:4d}  layer {layer + 1}  unit {unit + 1:<5d} r {fixed(r, 2, signed=True)}"
            lines.append(Content.styled(text, "bold $accent" if rank == self.unit else ""))
        return Content("\n").join(lines)

    def show_failure(self, sentence: str) -> None:
        self.said, self.found = sentence, None
        self.draw()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        values = self.values
        if not self.display or values is None or (action == "search" and not self.searchable):
            return False
        if action == "layer" and len(values) == 1:
            return False
        return self.found is not None or bool(self.said) if action == "leave" else True

    @property
    def searchable(self) -> bool:
        """Whether the units are those of a language model, which can read another text."""
        return self.frame is not None and self.frame.facts.get("tokens", "probe") == "probe"

    def word_for(self, binding: Binding) -> str:
        if binding.id == "recurrent.view":
            states = self.frame.facts.get("state", []) if self.frame is not None else []
            return "" if len(states) < 2 else "state h" if self.state == "c" else "memory c"
        return binding.description

    def action_unit(self, by: int) -> None:
        if (values := self.values) is not None:
            self.unit = (self.unit + by) % (values.shape[0] * values.shape[2])
            self.draw()

    def action_token(self, by: int) -> None:
        if self.tokens:
            self.token = (self.here + by) % len(self.tokens)
        self.draw()

    def action_layer(self) -> None:
        """Go to the same unit of the next layer."""
        values = self.values
        if values is not None:
            layer, unit = self.place(values)
            self.found = None
            self.unit = (layer + 1) % values.shape[0] * values.shape[2] + unit
            self.draw()

    def action_view(self) -> None:
        """Show the other state of an LSTM."""
        states = self.frame.facts.get("state", []) if self.frame is not None else []
        if "c" in states:
            self.state = "c" if self.state == "h" else "h"
            self.draw()
            self.screen.refresh_bindings()

    def action_leave(self) -> None:
        """Leave the search, at the shown unit."""
        values = self.values
        if values is not None:
            layer, unit = self.place(values)
            self.unit = layer * values.shape[2] + unit
        self.found, self.said = None, ""
        self.searching.forget()
        self.draw()
        self.screen.refresh_bindings()

    def action_search(self) -> None:
        """Choose a property, and rank all units by how well they follow it."""
        from txlab.engine.recurrent.units import PROPERTIES

        now = self.found.prop if self.found is not None else ""
        choices = [(name, title, name == now) for name, (title, _) in PROPERTIES.items()]
        self.app.push_screen(Choose("Which property is to be followed?", choices), self.search)

    def search(self, prop: str | None) -> None:
        path, at, state = self.path, self.at, self.state
        if not prop or path is None:
            return

        def show(search: Followed) -> None:
            self.found, self.said, self.unit = search, "", 0
            self.draw()
            self.screen.refresh_bindings()

        self.said = "reading the validation text…"
        self.draw()
        self.searching.want(lambda task: follow(path, at, prop, state), show, holds_keys=True)

    def action_why(self) -> None:
        """Explain the state of the unit at the token, and each gate that it follows from."""
        frame, values = self.frame, self.values
        if frame is None or values is None:
            return
        layer, unit = self.place(values)
        index, tensor = (layer, self.here, unit), f"state/{self.state}"

        ask_why(self.app, lambda: explain_with_gates(frame, tensor, index), again=self.action_why)
