"""The interface of the board games' screen for its panels, which do not import the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from textual.geometry import Size

from txlab.tui.screens.play.players import Seat

if TYPE_CHECKING:
    from txlab.tui.screens.play.following import Progress


class Play(Protocol):
    """The open tab, and below its methods; PlayScreen documents both."""

    tab: str

    @property
    def ascii(self) -> bool: ...
    @property
    def size(self) -> Size: ...
    @property
    def can_learn(self) -> bool: ...

    def show_game(self) -> None: ...
    def show_tab(self, name: str) -> None: ...
    def run_seen(self, progress: Progress) -> None: ...
    def learner_is(self, seats: list[Seat]) -> None: ...
    def give_seat_to_learner(self, key: str) -> None: ...
