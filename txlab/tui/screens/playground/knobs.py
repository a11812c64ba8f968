"""The knobs of the learning network: p selects the next one, - and + turn it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size

from txlab.drawing.formatting import significant
from txlab.engine.feedforward.graph import ACTIVATIONS
from txlab.engine.feedforward.layers import MOST_LAYERS, MOST_WIDE, hidden_layers
from txlab.sources.live import PACES
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.playground.shown import Shown

if TYPE_CHECKING:
    from txlab.experiments.kinds.playground.experiment import Playground
    from txlab.tui.playback import Playback
    from txlab.tui.session import Session


@dataclass(frozen=True)
class Knob:
    """adjusts   the adjustable parameter of the experiment, "" = handled here"""

    word: str
    adjusts: str
    stops: Sequence[float]

    def next_stop(self, value: float, by: int) -> float:
        """The next stop above or below a value."""
        at = bisect_right(self.stops, value) if by > 0 else bisect_left(self.stops, value) - 1
        return self.stops[max(0, min(at, len(self.stops) - 1))]


SMALL = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
KNOBS = (
    Knob("speed", "", PACES[1:]),
    Knob("rate", "lr", (0.0003, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 1.0)),
    Knob("batch", "batch", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    Knob("noise", "noise", (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)),
    Knob("L2", "weight_decay", (*SMALL, 3.0, 10.0)),
    Knob("L1", "l1", SMALL),
    Knob("layers", "", tuple(range(MOST_LAYERS + 1))),
    Knob("width", "", tuple(range(1, MOST_WIDE + 1))),
    Knob("activation", "", tuple(range(len(ACTIVATIONS)))),
)


class Bench(Protocol):
    """The interface of the screen for the knobs: the learning network, its shown frame, and the chosen neuron."""

    session: Session[Playground]
    playback: Playback
    shown: Shown | None
    cursor: str

    @property
    def size(self) -> Size: ...


class KnobsPanel(Panel):
    """One line with all of them; the chosen one is marked."""

    KEYS: ClassVar = (
        bind("p", "choose(1)", "choose the parameter that - and + turn", "parameter", id="playground.knob"),
        bind("P", "choose(-1)", "choose the parameter before", id="playground.knob-before"),
        bind("minus", "turn(-1)", "turn the chosen parameter", "less, more", id="playground.less", key_display="- +"),
        bind(
            "plus,equals_sign",
            "turn(1)",
            "turn the chosen parameter up",
            id="playground.more",
            synonyms="more",
            key_display="+",
        ),
    )
    DEFAULT_CSS = "KnobsPanel { height: 1; } KnobsPanel Words { padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self, playground: Bench) -> None:
        super().__init__()
        self.playground = playground
        self.at = 0

    def compose(self) -> ComposeResult:
        yield Words(id="knobs")

    def value(self, knob: Knob, shown: Shown) -> float:
        """The value in the frame."""
        if knob.adjusts:
            value = shown.facts.get("adjusted", {}).get(knob.adjusts, 0.0)
            return float(value) if isinstance(value, (int, float)) else 0.0
        if knob.word == "speed":
            return self.playground.session.pace
        if knob.word == "layers":
            return len(shown.columns) - 2
        layer = self.layer_here(shown)
        if knob.word == "width":
            return len(shown.columns[layer])
        label = shown.activations.get(shown.columns[layer][0], "tanh")
        return ACTIVATIONS.index(label) if label in ACTIVATIONS else 0

    def layer_here(self, shown: Shown) -> int:
        """The hidden layer of the cursor, from 1; the nearest one if it is elsewhere."""
        column = next((at for at, names in enumerate(shown.columns) if self.playground.cursor in names), 1)
        return max(1, min(column, len(shown.columns) - 2))

    def format_knob(self, knob: Knob, shown: Shown) -> str:
        value = self.value(knob, shown)
        if knob.word == "activation":
            return ACTIVATIONS[int(value)]
        if knob.word == "speed":
            return "full" if value == float("inf") else f"{value:g}/s"
        if knob.word == "width":
            return f"{value:g}" if len(shown.columns) > 2 else "-"
        return f"{value:g}" if value == int(value) else significant(value).removeprefix("0").rstrip("0")

    def show(self) -> None:
        shown = self.playground.shown
        if shown is None:
            return
        knobs: list[Content] = []
        roomy = self.playground.size.width >= 100
        for at, knob in enumerate(KNOBS):
            here = at == self.at
            word = "" if knob.word == "activation" and not roomy else knob.word + " "
            value = self.format_knob(knob, shown)
            named = Content.styled(word, "$accent" if here else "$quiet")
            knobs.append(named + Content.styled(value, "bold reverse $accent" if here else ""))
        gap, first, end = "   " if roomy else " ", 0, len(knobs)
        room = self.playground.size.width - 2 + len(gap)
        while end - first > 1 and sum(knob.cell_length + len(gap) for knob in knobs[first:end]) > room:
            first, end = (first, end - 1) if end - 1 > self.at else (first + 1, end)  # never the chosen one
        self.query_one("#knobs", Words).say(Content(gap).join(knobs[first:end]))

    def action_choose(self, by: int) -> None:
        self.at = (self.at + by) % len(KNOBS)
        self.show()

    def action_turn(self, by: int) -> None:
        playground, shown, knob = self.playground, self.playground.shown, KNOBS[self.at]
        if shown is None or not playground.playback.ready():
            return
        if knob.word == "speed":
            playground.session.pace = knob.next_stop(playground.session.pace, by)
            playground.session.look()
            self.show()
            return
        layer, session = self.layer_here(shown), playground.session

        def work(experiment: Playground) -> None:
            """Turn from the current value, which may not be shown yet."""
            if knob.adjusts:
                now = experiment.adjustable()[knob.adjusts].value
                experiment.adjust(knob.adjusts, knob.next_stop(now, by))
                return
            graph = experiment.model.graph
            if knob.word == "layers":
                experiment.set_depth(int(knob.next_stop(len(hidden_layers(graph)), by)))
            elif knob.word == "width":
                wide = [len(each) for each in hidden_layers(graph)][layer - 1 : layer]
                experiment.set_width(layer - 1, int(knob.next_stop(sum(wide), by)))
            else:
                label = next((each.activation for each in graph.neurons if each.name not in graph.outputs), "tanh")
                at = ACTIVATIONS.index(label) if label in ACTIVATIONS else 0
                experiment.set_activation(ACTIVATIONS[int(knob.next_stop(at, by))])

        session.edit(work)
