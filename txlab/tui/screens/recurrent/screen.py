"""Screen 0, Recurrent: a text coloured by one unit's state; or, of cells that have to remember, the gradients that
reach back to the beginning. The choice depends on the run's recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from txlab.drawing.captions import recurrent as captions
from txlab.engine.explain import Explanation
from txlab.experiments.protocol import Frame
from txlab.tui.bindings import WHY
from txlab.tui.frame_viewer import FrameViewer
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.recurrent.units import UnitsPanel
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.frame_curves import CURVE, has_curves, show_curves
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind


def is_recurrent(kind: Kind) -> bool:
    """Whether runs of a kind are shown here."""
    return kind.screen == "recurrent" or kind.remembers


def cells_of(scenario: Mapping[str, Any]) -> str:
    """ "lstm", or "rnn, gru, lstm" """
    model = scenario.get("model")
    cells = (model.get("cell") or model.get("cells", "")) if isinstance(model, dict) else ""
    return ", ".join(map(str, cells)) if isinstance(cells, list) else str(cells)


class RecurrentScreen(BenchScreen):
    CSS_PATH = "recurrent.tcss"
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "Every token of the text is coloured by the state of one unit after reading it: amber above zero, blue below. "
        "Up and down choose the unit, left and right move through the text; / finds the units that follow a property "
        "best, measured on text outside the training set, and up and down then step through them. For cells that have "
        "to remember, the chart shows the norm of the gradient at every step back."
    )
    PANELS = (Playback, UnitsPanel)
    KEY_ORDER = (
        *("recurrent.unit-before", "screen.why", "recurrent.search", "recurrent.view", "recurrent.layer"),
        *("recurrent.leave", "time.earlier", "run.pause"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [WHY]

    def __init__(self) -> None:
        super().__init__()
        self.viewer = FrameViewer(self, cells_of, self.show_frame, self.forget)
        self.run = Playback(self.viewer, is_recurrent)
        self.units, self.gradients = UnitsPanel(self.caption), Chart(id="gradients")
        self.gradients.can_focus = False
        self.frame: Frame | None = None  # with the gradients that are drawn

    def compose_body(self) -> ComposeResult:
        yield self.viewer.heading
        yield Rule()
        with Vertical(id="page"):
            yield self.units
            yield self.gradients
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.viewer.source_changed()

    def forget(self) -> None:
        self.caption.say(())
        self.frame = None
        self.units.forget()
        self.gradients.forget()
        self.units.display = self.gradients.display = False

    def show_frame(self, frame: Frame, path: Path) -> str:
        curves = has_curves(frame)
        self.units.display = "state/h" in frame.tensors
        self.gradients.display = curves and not self.units.display
        if self.units.display:
            self.units.show(frame, path, None if self.run.at is None else frame.step)
            self.call_after_refresh(self.units.draw)
        elif curves:
            self.frame = frame
            show_curves(self.gradients, frame)
            self.caption.say(captions.gradients(frame))
        return "" if self.units.display or curves else "nothing is recorded that this screen shows"

    def on_resize(self) -> None:
        self.call_after_refresh(self.units.draw)

    def action_why(self) -> None:
        """Explain the state under the cursor, or the gradients that reach the first step."""
        if self.units.display:
            self.units.action_why()
        elif self.frame is not None:
            ask_why(self.app, partial(explain_gradients, self.frame), again=self.action_why)


def explain_gradients(frame: Frame) -> list[Explanation]:
    """The gradient at the first step of each cell, the one that has lost most first."""
    from txlab.experiments.kinds.memory import KIND

    curves = {name: values for name, values in frame.tensors.items() if name.startswith(CURVE)}
    names = sorted(curves, key=lambda name: float(curves[name][-1] - curves[name][0]))
    return [KIND.explain_frame(frame, name, (len(curves[name]) - 1,)) for name in names]
