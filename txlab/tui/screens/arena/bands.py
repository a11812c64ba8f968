"""Bands over seeds: the learners of the screen, lived many times beside, as a mean with its standard error.

Notable: they are computed in a thread of their own by the batched learners (engine/rl/sweeps), anew whenever a number,
a rule or the map changes; a newer wish overtakes an older one. What is seen on the curves is then one life beside the
mean of many.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.rl.settings import Settings
from txlab.engine.rl.world import World
from txlab.tui.latest_task import Lane
from txlab.tui.screens.arena.choosing import ChoosingScreen

SEEDS = 30
LEAST_EPISODES, MOST_EPISODES = 200, 1000

Band = tuple[np.ndarray, np.ndarray, np.ndarray]


class BandsScreen(ChoosingScreen):
    """b adds the bands, and takes them away."""

    def __init__(self) -> None:
        super().__init__()
        self.banding = Lane(self, "bands", self.no_bands)
        self.wants_bands = False

    def action_bands(self) -> None:
        """A band over seeds, computed beside."""
        if self.wants_bands:
            self.wants_bands = False
            self.banding.forget()
            self.bands, self.band_said = {}, ""
            self.show_curves()
        elif self.live():
            self.wants_bands = True
            self.changed()
            if not self.has_class("-chart"):
                self.action_curves()
        self.refresh_bindings()

    def changed(self) -> None:
        """Other settings or another map: other bands."""
        world, settings = self.learning.world, self.learning.settings_now()
        if not self.wants_bands or world is None or not settings:
            return
        self.bands = {}
        longest = max((each.episodes[-1] for each in self.curves if len(each.episodes)), default=0)
        episodes = int(max(LEAST_EPISODES, min(MOST_EPISODES, longest)))
        self.band_said = f"{SEEDS} seeds, computing…"
        self.banding.want(lambda lane: self.compute(lane, world, settings, episodes), lambda _: self.bands_ready())
        self.show_curves()

    def compute(self, lane: Lane, world: World, settings: list[Settings], episodes: int) -> None:
        """In the thread: a band for each side, shown as it grows."""
        from txlab.experiments.tabular.bands import growing

        for side, each in enumerate(settings):
            for found in growing(world, each, range(SEEDS), episodes, lambda: lane.late):
                if lane.late:
                    return
                lane.say(self.take_band, side, found, episodes)

    def take_band(self, side: int, found: Band, episodes: int) -> None:
        self.bands[side] = found
        self.band_said = f"{SEEDS} seeds ± standard error, {len(found[0]) / episodes:.0%}"
        self.show_curves()

    def bands_ready(self) -> None:
        if self.bands:
            self.band_said = f"{SEEDS} seeds ± standard error"
            self.show_curves()

    def no_bands(self, sentence: str) -> None:
        self.wants_bands, self.band_said = False, ""
        self.tell(sentence, "error")
        self.show_curves()
