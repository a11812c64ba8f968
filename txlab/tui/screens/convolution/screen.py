"""Convolution: a filter slid over a picture step by step, the patch, the products and the sum in view (MATH F7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from txlab.experiments.protocol import Frame
from txlab.tui.bindings import WHY
from txlab.tui.frame_viewer import FrameViewer
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.convolution.slide import SlidePanel

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind


def has_filters(kind: Kind) -> bool:
    """Whether runs of a kind are shown here."""
    return kind.screen == "convolution"


def filters_of(scenario: Mapping[str, Any]) -> str:
    """ "8 + 32 filters" """
    model = scenario.get("model")
    channels = model.get("channels", ()) if isinstance(model, dict) else ()
    return f"{' + '.join(map(str, channels))} filters" if channels else ""


class ConvolutionScreen(BenchScreen):
    CSS_PATH = "convolution.tcss"
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "A filter of the first layer covers a patch of the picture: each weight is multiplied by the pixel below it, "
        "and the sum is the filter's output there. The arrows move the filter, enter slides it over the whole "
        "picture, tab selects the next filter; [ and ] go back to filters that were less trained. The picture is not "
        "in the training set."
    )
    PANELS = (Playback, SlidePanel)
    KEY_ORDER = ("conv.up", "conv.slide", "conv.filter", "conv.table", "screen.why", "time.earlier", "run.pause")
    BINDINGS: ClassVar[list[BindingType]] = [WHY]

    def __init__(self) -> None:
        super().__init__()
        self.viewer = FrameViewer(self, filters_of, self.show_frame, self.forget)
        self.run = Playback(self.viewer, has_filters)
        self.slide = SlidePanel(self.caption)

    def compose_body(self) -> ComposeResult:
        yield self.viewer.heading
        yield Rule()
        yield self.slide
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.viewer.source_changed()

    def forget(self) -> None:
        self.slide.forget()

    def show_frame(self, frame: Frame, path: Path) -> str:
        self.slide.show(frame)
        return "" if self.slide.arrays is not None else "nothing is recorded that this screen shows"

    def on_resize(self) -> None:
        self.call_after_refresh(self.slide.draw)

    def action_why(self) -> None:
        """Explain the filter's output at this place."""
        self.slide.action_why()
