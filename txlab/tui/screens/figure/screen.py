"""Figure: a run's own figures, step by step: curves, or vectors in the plane, as for superposition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.captions import figures as captions
from txlab.drawing.captions.figures import SHORTEST
from txlab.drawing.scatter import Camera, Label, Shows, ground, scatter
from txlab.drawing.text import fit, visible
from txlab.engine.explain import Explanation
from txlab.experiments.kind import kind_of_run
from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory, info_of
from txlab.tui.bindings import WHY
from txlab.tui.frame_viewer import FrameViewer
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.frame_curves import CURVE, has_curves, show_curves
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind

POINTS = "points/"
HIGHEST = 5  # points of a curve that are explained
STYLES = {Shows.ARROW: "$accent", Shows.LABEL: "bold", Shows.POINTS: "$quiet"}


def has_figures(kind: Kind) -> bool:
    """Whether runs of a kind are shown here."""
    return kind.draws


def title_of(scenario: Mapping[str, Any]) -> str:
    about = scenario.get("about")
    return str(about.get("title", "")) if isinstance(about, dict) else ""


class FigureScreen(BenchScreen):
    CSS_PATH = "figure.tcss"
    AUTO_FOCUS = None
    HELP_ABOUT = (
        "A run may record curves or vectors in its frames: the share of each frequency, or the direction of each "
        "feature. [ and ] step through the run, and the figure follows; for a running run it is updated as it trains."
    )
    PANELS = (Playback,)
    KEY_ORDER = ("time.earlier", "run.pause", "screen.why")
    BINDINGS: ClassVar[list[BindingType]] = [WHY]

    def __init__(self) -> None:
        super().__init__()
        self.viewer = FrameViewer(self, title_of, self.show_frame, self.forget)
        self.run = Playback(self.viewer, has_figures)
        self.curves, self.vectors = Chart(id="curves"), Words(id="vectors")
        self.curves.can_focus = False
        self.groups: dict[str, np.ndarray] = {}
        self.frame: Frame | None = None
        self.path: Path | None = None

    def compose_body(self) -> ComposeResult:
        yield self.viewer.heading
        yield Rule()
        with Vertical(id="figures"):
            yield self.vectors
            yield self.curves
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.viewer.source_changed()

    def forget(self) -> None:
        self.curves.forget()
        self.groups, self.frame = {}, None
        self.vectors.say("")
        self.caption.say(())
        self.curves.display = self.vectors.display = False

    def show_frame(self, frame: Frame, path: Path) -> str:
        self.frame, self.path = frame, path
        self.groups = {
            name.removeprefix(POINTS): np.asarray(values, np.float64)
            for name, values in frame.tensors.items()
            if name.startswith(POINTS) and np.ndim(values) == 2 and np.shape(values)[1] >= 2 and len(values)
        }
        curves = has_curves(frame)
        self.caption.say(captions.vectors(self.groups) if self.groups else captions.curves(frame))
        self.vectors.display, self.curves.display = bool(self.groups), curves and not self.groups
        if self.groups:
            self.call_after_refresh(self.draw)
        elif curves:
            show_curves(self.curves, frame)
        return "" if self.groups or curves else "this run draws no figures; Train (3) has its curves"

    def draw(self) -> None:
        """All groups of vectors side by side, as large as possible."""
        size, names = self.query_one("#figures").size, list(self.groups)
        if not names or size.width < 12 or size.height < 6:
            return
        rows = max(1, min(len(names), round((len(names) * 2 * size.height / size.width) ** 0.5)))
        columns = -(-len(names) // rows)
        width, height = size.width // columns, size.height // rows
        names.sort(key=lambda name: float(name) if name.replace(".", "", 1).isdigit() else 0.0)
        blocks = [self.block(name, self.groups[name], width - 2, height) for name in names]
        lines = []
        for first in range(0, len(blocks), columns):
            for line in zip(*blocks[first : first + columns], strict=True):
                lines.append(Content.assemble(*(part for each in line for part in (each, Content("  ")))))
        self.vectors.say(Content("\n").join(lines))

    def block(self, name: str, points: np.ndarray, width: int, height: int) -> list[Content]:
        """A title and the vectors of a group from the origin, each with its number."""
        points = np.nan_to_num(points[:, :2])
        furthest = max(1.0, float(np.abs(points).max())) * 1.25
        origin, long = np.zeros(2), np.hypot(*points.T)
        drawn = scatter(
            ground(points, Camera(0.0, 0.0, furthest, furthest), height - 2, width),
            labels=[Label(i, str(i + 1)) for i in np.argsort(-long) if long[i] > SHORTEST],
            arrows=[(origin, point) for point, size in zip(points, long, strict=True) if size > SHORTEST],
            ascii=self.ascii,
        )
        kept = int((long > SHORTEST).sum())
        title = fit(f"S = {visible(name)}   {kept} of {len(points)}", width)
        lines = [Content.styled(title, "bold")]
        for characters, shows in zip(drawn.characters, drawn.shows, strict=True):
            parts = []
            for character, what in zip(characters, shows, strict=True):
                parts.append(Content.styled(character, STYLES.get(Shows(int(what)), "")))
            lines.append(Content.assemble(*parts))
        return [*lines, Content(" " * width)]

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def action_why(self) -> None:
        """Explain the vectors, from the last group on, or the highest points of the curves."""
        if self.frame is not None and self.path is not None:
            ask_why(self.app, partial(explain_figure, self.frame, self.path), again=self.action_why)


def explain_figure(frame: Frame, path: Path) -> list[Explanation]:
    """The explanations of a run's kind: of every vector, the longest of a group first, or of the highest points."""
    kind = kind_of_run(info_of(RunDirectory(path)).kind)
    asked: list[tuple[str, int]] = []
    for name, values in frame.tensors.items():
        array = np.asarray(values, np.float64)
        if name.startswith(POINTS) and array.ndim == 2:
            asked = [(name, int(i)) for i in np.argsort(-np.hypot(*array[:, :2].T))] + asked
        elif name.startswith(CURVE) and array.ndim == 1:
            asked += [(name, int(i)) for i in np.argsort(-array)[:HIGHEST]]
    return [kind.explain_frame(frame, name, (i,)) for name, i in asked]
