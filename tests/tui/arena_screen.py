"""The Arena for tests: opened, settled, and trained for a given number of updates at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import recorded
from recorded import settle
from textual.pilot import Pilot

from txlab.engine.rl.settings import Settings
from txlab.tui.screens.arena.learners import GreedyWalk, LiveMatch
from txlab.tui.screens.arena.screen import ArenaScreen

app_on = partial(recorded.app_on, screen="arena")


async def opened(pilot: Pilot[None]) -> ArenaScreen:
    await pilot.pause()
    await pilot.press("6")
    screen = pilot.app.screen
    assert isinstance(screen, ArenaScreen)
    await settle(pilot, lambda: screen.frame is not None and screen.planned is not None)
    return screen


async def learn(pilot: Pilot[None], screen: ArenaScreen, updates: int) -> None:
    """Make this many updates of each learner at once."""
    done: list[int] = []

    def run(live: LiveMatch) -> None:
        live.run(updates)
        done.append(1)

    screen.session.edit(run)
    await settle(pilot, lambda: bool(done) and quiet(screen))


def quiet(screen: ArenaScreen) -> bool:
    """Whether nothing is being computed and everything is on the screen."""
    picture, playback = screen.session.picture, screen.playback
    if not screen.session.idle or picture is None:
        return False
    return playback.at is not None or not playback.can_edit or screen.frame is picture.frame


async def order(pilot: Pilot[None], screen: ArenaScreen, *keys: str) -> None:
    await pilot.press(*keys)
    await settle(pilot, lambda: quiet(screen))


def notices(app: Any) -> str:
    return "\n".join(str(notice.message) for notice in app._notifications)


def settings_of(screen: ArenaScreen) -> list[Settings]:
    assert screen.session.experiment is not None
    return screen.session.experiment.settings


def walks(screen: ArenaScreen) -> list[GreedyWalk]:
    assert screen.session.experiment is not None
    return screen.session.experiment.greedy_walks()
