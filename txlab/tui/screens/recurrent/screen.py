"""Screen 0, Recurrent: a text coloured by one unit's state; or, of cells that have to remember, the gradients that
reach back to the beginning. Which of them is shown depends on what the run records.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from txlab.experiments.protocol import Frame
from txlab.tui.frame_viewer import FrameViewer
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.recurrent.units import UnitsPanel
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.frame_curves import has_curves, show_curves

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind

NO_RUN = "No run is chosen: start recurrent-docs or vanishing-gradient in the Lab (1), or choose one of their runs."


def is_recurrent(kind: Kind) -> bool:
    """Whether runs of a kind are shown here."""
    return kind.screen == "recurrent"


def cells_of(scenario: Mapping[str, Any]) -> str:
    """ "lstm", or "rnn, gru, lstm" """
    model = scenario.get("model")
    cells = (model.get("cell") or model.get("cells", "")) if isinstance(model, dict) else ""
    return ", ".join(map(str, cells)) if isinstance(cells, list) else str(cells)


class RecurrentScreen(BenchScreen):
    CSS_PATH = "recurrent.tcss"
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "Every token of the text is coloured by the state that one unit has after reading it: amber above zero, blue "
        "below. Up and down go through the units, left and right through the text; / finds the units that follow a "
        "property best, measured on text that the network did not learn from, and up and down then go through them. "
        "For cells that have to remember, the chart shows how long the gradient is at every step back."
    )
    PANELS = (Playback, UnitsPanel)
    KEY_ORDER = (
        *("recurrent.unit-before", "recurrent.layer", "recurrent.search", "recurrent.view"),
        *("recurrent.leave", "screen.why", "time.earlier", "run.pause"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("w", "why", "why", id="screen.why")]

    def __init__(self) -> None:
        super().__init__()
        self.viewer = FrameViewer(self, NO_RUN, cells_of, self.show_frame, self.forget)
        self.run = Playback(self.viewer, is_recurrent)
        self.units, self.gradients = UnitsPanel(), Chart(id="gradients")
        self.gradients.can_focus = False

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
            show_curves(self.gradients, frame)
        return "" if self.units.display or curves else "nothing is recorded that this screen shows"

    def on_resize(self) -> None:
        self.call_after_refresh(self.units.draw)

    def action_why(self) -> None:
        """Explain the state under the cursor."""
        if self.units.display:
            self.units.action_why()
        elif self.run.path is None:
            self.tell(self.run.no_run(NO_RUN))
        else:
            self.tell("Press w on Train (3) for the numbers of this run: fall is how much a gradient loses on its way.")
