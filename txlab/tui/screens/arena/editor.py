"""The map editor: walls, goals, holes and rewards change while the learners go on learning.

An edit is compiled before the learners see it; if it is impossible (a goal that cannot be reached), the reason is shown
and map, tables and memory stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from txlab.errors import LabError
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.parameters import typed
from txlab.tui.screens.dialogs import AskValue

if TYPE_CHECKING:
    from txlab.engine.rl.maps.drawn import Map
    from txlab.tui.screens.arena.interface import Arena
    from txlab.tui.screens.arena.learners import LiveMatch


class EditorPanel(Panel):
    """m starts editing, esc ends it; while editing, letters are tiles for the cell under the cursor."""

    KEYS: ClassVar = (
        Binding("number_sign", "put('#')", "wall", id="arena.wall", key_display="#"),
        Binding("full_stop", "put('.')", "floor", id="arena.floor", key_display="."),
        Binding("g", "put('G')", "goal", id="arena.goal"),
        Binding("h", "put('H')", "hole", id="arena.hole"),
        Binding("c", "put('C')", "cliff", id="arena.cliff"),
        Binding("s", "put('S')", "start", id="arena.start"),
        Binding("r", "reward", "reward", id="arena.reward"),
        Binding("p", "slip", "slip", id="arena.slip"),
        Binding("m", "edit", "edit map", id="arena.edit"),
    )
    DEFAULT_CSS = "EditorPanel { display: none; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.begins_next = False  # start as soon as the world of a recorded run is live

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "edit" or self.arena.editing

    def word_for(self, binding: Binding) -> str:
        world = self.arena.world
        no_map = world is not None and world.map is None
        return "" if binding.id == "arena.edit" and no_map else binding.description

    def action_edit(self) -> None:
        """Edit the map while the learners run; the world of a recorded run is made live first."""
        world, recorded = self.arena.world, not self.arena.playback.can_edit
        if self.arena.editing:
            self.end()
        elif world is not None and world.map is None and (recorded or self.arena.playback.ready()):
            self.tell(f"{world.name} is not drawn as a map and cannot be edited; o opens one that can")
        elif recorded:
            self.begins_next = self.arena.go_live()
        elif self.arena.playback.ready() and world is not None:
            self.arena.begin_editing()

    def end(self) -> None:
        self.arena.editing, self.arena.cursor = False, None
        self.arena.refresh_bindings()
        self.arena.show_all()

    def action_put(self, sign: str) -> None:
        """Put a tile into the cell under the cursor."""
        if self.arena.cursor is not None:
            row, column = self.arena.cursor
            self.change(lambda map: map.with_cell(row, column, sign))

    def action_reward(self) -> None:
        """Set a reward for entering the cell under the cursor."""
        if self.arena.cursor is None or not self.arena.editing:
            return
        row, column = self.arena.cursor
        question = AskValue(
            f"Reward of ({row},{column})", "paid on arriving there, in place of the step's", "-1",
            lambda text: f"arriving pays {typed(text):g}",
        )  # fmt: skip

        def give(text: str | None) -> None:
            if text:
                self.change(lambda map: map.with_reward(row, column, typed(text)))

        self.app.push_screen(question, give)

    def action_slip(self) -> None:
        """Set how often a move slips to one of its two sides."""
        world = self.arena.world
        if not self.arena.editing or world is None or world.map is None:
            return

        def probability(text: str) -> float:
            value = typed(text)
            if not 0 <= value <= 1:
                raise LabError(f"slip = {value:g} is not a probability; allowed: 0 … 1")
            return value

        question = AskValue(
            "Slip", "the probability that a move goes to one of its two sides instead", f"{world.map.slip:g}",
            lambda text: f"{probability(text):.0%} of the moves slip",
        )  # fmt: skip
        self.app.push_screen(
            question, lambda text: self.change(lambda map: map.with_slip(probability(text))) if text else None
        )

    def change(self, edit: Callable[[Map], Map]) -> None:
        """Change the learners' map; LabErrors reach the screen as those of any order do."""
        session = self.arena.session

        def work(live: LiveMatch) -> None:
            for note in live.edit(edit):
                session.say(self.tell, note)
            session.say(self.arena.settings_changed)

        if self.arena.playback.ready():
            session.edit(work)
