"""The interface of Descent's screen for its panels, which do not import the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from textual.geometry import Size

from txlab.drawing.scatter import Camera
from txlab.tui.playback import Playback
from txlab.tui.screens.descent.shown import Ground, Shown
from txlab.tui.session import Session

if TYPE_CHECKING:
    from txlab.tui.screens.descent.live import LiveDescent


class Descent(Protocol):
    """Its state, and below its methods; DescentScreen documents both."""

    session: Session[LiveDescent]
    playback: Playback
    shown: Shown | None
    ground: Ground | None
    camera: Camera
    home: Camera
    chosen: int
    turned: str

    @property
    def ascii(self) -> bool: ...
    @property
    def size(self) -> Size: ...

    def begin(self, make: Callable[[LiveDescent], LiveDescent], run: bool = True) -> None: ...
    def look_from(self, camera: Camera) -> None: ...
    def want_ground(self) -> None: ...
    def show_all(self) -> None: ...
    def refresh_bindings(self) -> None: ...
