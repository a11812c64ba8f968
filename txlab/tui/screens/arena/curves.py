"""The curves below the worlds: returns during learning, returns of greedy policies, and bands over many seeds.

Bands are computed in a separate thread by the batched learners (engine/rl/sweeps), again whenever a parameter, a rule
or the map changes; a newer request replaces an older one. The worlds show one run, the bands the mean of many.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal

from txlab.drawing import curve
from txlab.drawing.axis import Window
from txlab.drawing.captions.decisions import FAMILIES
from txlab.drawing.text import width
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.words import learner_facts, titles_of
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart, ChartSeries

if TYPE_CHECKING:
    from txlab.engine.rl.settings import Settings
    from txlab.engine.rl.world import World
    from txlab.tui.screens.arena.interface import Arena

SEEDS = 30
LEAST_EPISODES, MOST_EPISODES = 200, 1000
CURVES_EVERY = 0.6  # seconds between two redraws of the curves while learning
INSIDE = 0.93  # of the points are inside the chart
BAND_POINTS = 50  # across a chart
LEAST_FACTS, MOST_FACTS, BESIDE_FACTS = 40, 60, 2  # cells of the facts next to the chart; of them the gap
OUTLYING = 2.5  # times the height of the rest; outliers nearer than that are not cut off

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(mean return of each episode, the mean minus and plus its standard error)."""


class CurvesPanel(Panel):
    """`show` draws the arena's curves and facts."""

    KEYS: ClassVar = (
        bind("b", "bands", "draw the spread over seeds", "band", id="arena.bands"),
        bind("c", "curves", "show the curves", "curves", id="arena.curves"),
    )
    DEFAULT_CSS = "CurvesPanel { height: 1fr; layout: vertical; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.wanted = False  # whether the chart is shown on a small terminal too
        self.drawn_at = 0.0
        self.banding = LatestTask(arena, "bands", self.no_bands)
        self.wants_bands = False
        self.bands: dict[int, Band] = {}
        self.band_said = ""
        self.facts_cells = LEAST_FACTS

    def compose(self) -> ComposeResult:
        yield Rule()
        with Horizontal(id="below"):
            chart = ReturnsChart("episode returns appear here", id="returns")
            chart.across = "episode"
            chart.can_focus = False
            yield chart
            yield Words(id="facts")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "curves" or not self.arena.editing

    def word_for(self, binding: Binding) -> str:
        return "no band" if binding.id == "arena.bands" and self.bands else binding.description

    @property
    def room(self) -> int:
        """Lines available to the chart; 0 if it does not fit."""
        return self.arena.planned.chart if self.arena.planned is not None else 0

    # Drawing.

    def show(self) -> None:
        """Draw the returns while exploring, with the greedy policy's as points; or the bands over seeds."""
        self.drawn_at = time.monotonic()
        if not self.room:
            return
        chart = self.query_one("#returns", ReturnsChart)
        if self.band_said:
            chart.set_series(self.band_series(), f"on-line return, {self.band_said}", "computing the bands…")
            return
        drawn: list[ChartSeries] = []
        recorded = not self.arena.playback.can_edit
        blocks, what, all_curves = 1, "on-line return", self.arena.curves
        titles = titles_of(self.arena.facts, len(all_curves), self.arena.ascii)
        for side, (title, each) in enumerate(zip(titles, all_curves, strict=True)):
            blocks, what = max(blocks, each.block), each.label or what
            band = (each.low, each.high) if each.low is not None and each.high is not None else ()
            if recorded:
                drawn += band_curves(title, side, each.episodes, each.returns, band)
            elif len(each.episodes):
                drawn.append(ChartSeries(title, each.episodes, each.returns, colour=side))
            if len(each.greedy_episodes):
                drawn.append(
                    ChartSeries(
                        *("greedy", each.greedy_episodes, each.greedy_returns),
                        colour=len(all_curves) + side,  # of its own: the points are among those of the line
                        style="points",
                    )
                )
        chart.log_y = what == "delta"
        chart.across = all_curves[0].across if all_curves else "episode"
        what = FAMILIES.get(what, what) + (f", mean of {blocks}" if blocks > 1 else "")
        if recorded and any(each.low is not None for each in all_curves):
            what += ", ± standard error"
        chart.set_series(drawn, what, "no returns of episodes yet")

    def show_now_and_then(self, running: bool) -> None:
        """Redraw at most every CURVES_EVERY seconds while learning: with every picture would cost too much."""
        if not running or time.monotonic() - self.drawn_at > CURVES_EVERY:
            self.show()

    def show_facts(self) -> None:
        """Write the facts, in as many columns as the widest one so far needed: they stay where they are."""
        if self.room:
            cells = MOST_FACTS - BESIDE_FACTS
            facts = learner_facts(self.arena.facts, self.arena.curves, self.room - 1, cells, self.arena.ascii)
            words = self.query_one("#facts", Words)
            words.say(facts)
            needed = max(map(width, facts.plain.split("\n"))) + BESIDE_FACTS
            if needed > self.facts_cells:
                self.facts_cells = min(needed, MOST_FACTS)
                words.styles.width = self.facts_cells

    def action_curves(self) -> None:
        """Show the curves even on a small terminal, or stop doing so."""
        self.wanted = not self.wanted
        self.arena.lay_out()
        self.arena.show_all()
        self.show()

    # Bands.

    def band_series(self) -> list[ChartSeries]:
        """Return the mean over seeds and its standard error for each side."""
        series: list[ChartSeries] = []
        titles = titles_of(self.arena.facts, self.arena.sides, self.arena.ascii)
        for side, (mean, low, high) in self.bands.items():
            if side < self.arena.sides:
                series += band_curves(titles[side], side, np.arange(1, len(mean) + 1), mean, (low, high))
        return series

    def action_bands(self) -> None:
        """Compute a band over seeds alongside the learning, or remove it."""
        if self.wants_bands:
            self.wants_bands = False
            self.banding.forget()
            self.bands, self.band_said = {}, ""
            self.show()
        elif self.arena.playback.ready():
            self.wants_bands = True
            self.settings_changed()
            if not self.room:
                self.action_curves()
        self.arena.refresh_bindings()

    def settings_changed(self) -> None:
        """Recompute the bands after a change of the settings or the map."""
        live = self.arena.session.experiment
        if not self.wants_bands or live is None:
            return
        world, settings = live.world, live.settings
        self.bands = {}
        longest = max((each.episodes[-1] for each in self.arena.curves if len(each.episodes)), default=0)
        episodes = int(max(LEAST_EPISODES, min(MOST_EPISODES, longest)))
        self.band_said = f"{SEEDS} seeds, computing…"
        self.banding.want(lambda lane: self.compute(lane, world, settings, episodes), lambda _: self.bands_ready())
        self.show()

    def compute(self, lane: LatestTask, world: World, settings: Sequence[Settings], episodes: int) -> None:
        """Compute a band for each side in the worker thread, shown as it grows."""
        from txlab.experiments.tabular.bands import growing

        for side, each in enumerate(settings):
            for band in growing(world, each, range(SEEDS), episodes, lambda: lane.late):
                if lane.late:
                    return
                lane.say(self.take_band, side, band, episodes)

    def take_band(self, side: int, band: Band, episodes: int) -> None:
        self.bands[side] = band
        self.band_said = f"{SEEDS} seeds ± standard error, {len(band[0]) / episodes:.0%}"
        self.show()

    def bands_ready(self) -> None:
        if self.bands:
            self.band_said = f"{SEEDS} seeds ± standard error"
            self.show()

    def no_bands(self, sentence: str) -> None:
        self.wants_bands, self.band_said = False, ""
        self.tell(sentence, "error")
        self.show()


class ReturnsChart(Chart, inherit_css=True):
    """Curves of returns. The first episodes may earn a thousand times less than all later ones and would flatten the
    rest, so the axis covers most of the points and the outliers below run off it."""

    def window(self, curves: Sequence[curve.Curve]) -> Window | None:
        window = super().window(curves)
        values = [each.values[np.isfinite(each.values)] for each in curves]
        everything = np.concatenate(values) if values else np.empty(0)
        if window is None or len(everything) < 8 or self.log_y:
            return window
        low, high = np.quantile(everything, [1 - INSIDE, 1.0])
        room = max(float(high - low), 1e-9)
        if window.low < low - OUTLYING * room:
            return replace(window, low=float(low - 0.25 * room))
        return window


def band_curves(
    title: str, colour: int, steps: np.ndarray, mean: np.ndarray, edges: Sequence[np.ndarray]
) -> list[ChartSeries]:
    """Return a curve, and the edges of its band as points, all as means over blocks; there are at most BAND_POINTS."""
    block = max(1, -(-len(mean) // BAND_POINTS))
    whole = len(mean) // block * block
    if not whole:
        return []

    def thin(values: np.ndarray) -> np.ndarray:
        means: np.ndarray = np.asarray(values, np.float64)[:whole].reshape(-1, block).mean(axis=1)
        return means

    ends = np.asarray(steps)[block - 1 : whole : block]
    series = [ChartSeries(title, ends, thin(mean), colour=colour)]
    return series + [ChartSeries("", ends, thin(edge), colour=colour, style="points") for edge in edges]
