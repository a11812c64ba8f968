"""The interface of the Arena's screen for its panels, which do not import the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from textual.geometry import Size

from txlab.engine.rl.world import World
from txlab.tui.playback import Playback
from txlab.tui.screens.arena.layout import PanePlan
from txlab.tui.screens.arena.learners import LiveMatch, ReturnCurves, WorldFrame
from txlab.tui.session import Session


class Arena(Protocol):
    """Its state, and below its methods; ArenaScreen documents both.

    The Protocol has only what the panels use, so that it lists their dependencies.
    """

    session: Session[LiveMatch]
    playback: Playback
    frame: WorldFrame | None
    curves: tuple[ReturnCurves, ...]
    planned: PanePlan | None
    side: int
    alone: bool
    cursor: tuple[int, int] | None
    turning: int | None
    editing: bool

    @property
    def ascii(self) -> bool: ...
    @property
    def size(self) -> Size: ...
    @property
    def world(self) -> World | None: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def sides(self) -> int: ...
    @property
    def shown(self) -> Sequence[int]: ...

    def begin_editing(self) -> None: ...
    def enter_world(self, world: World, table: Mapping[str, Any], edit: bool = False) -> None: ...
    def go_live(self) -> bool: ...
    def settings_changed(self) -> None: ...
    def lay_out(self) -> None: ...
    def fit_size(self) -> None: ...
    def show_all(self) -> None: ...
    def show_header(self) -> None: ...
    def show_heads(self) -> None: ...
    def refresh_bindings(self) -> None: ...
