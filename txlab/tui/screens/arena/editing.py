"""The map editor: walls, goals, holes and rewards put under the feet of learners that go on learning.

Notable: an edit is compiled before anything happens to the learners; what is impossible (a goal that cannot be reached)
is said in a sentence, and map, tables and memory stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.tui.screens.arena.actions import HandsScreen
from txlab.tui.screens.arena.learning import Learning
from txlab.tui.screens.arena.parameters import typed

if TYPE_CHECKING:
    from txlab.engine.rl.maps.drawn import Map
    from txlab.engine.rl.world import World

Edit = Callable[["Map"], "Map"]


class EditingScreen(HandsScreen):
    """m begins, esc ends; in between letters are what is put into the cell under the cursor."""

    def action_edit(self) -> None:
        """Change the map in place, while it is learnt."""
        if self.editing:
            self.end_editing()
            return
        if not self.live() or self.world is None:
            return
        if self.world.map is None:
            self.refuse_to_edit(self.world)
            return
        self.end_walk()
        self.to_now()
        self.editing, self.turning = True, None
        if self.cursor is None:
            state = self.state_asked()
            place = self.world.layout.place[state, 1:].tolist() if state is not None else (0, 0)
            self.cursor = (int(place[0]), int(place[1]))
        self.refresh_bindings()
        self.show_all()

    def refuse_to_edit(self, world: World) -> None:
        self.tell(f"{world.name} is not drawn as a map and cannot be edited; o opens one that can")

    def end_editing(self) -> None:
        self.editing, self.cursor = False, None
        self.refresh_bindings()
        self.show_all()

    def action_move(self, down: int, right: int) -> None:
        """The cursor a cell further; with numbers being turned, another number, or this one up and down."""
        if self.turning is not None and not self.editing:
            if down:
                self.choose_parameter(down)
            else:
                self.action_turn(right)
            return
        if self.world is None:
            return
        layout = self.world.layout
        if self.cursor is None:
            state = self.state_asked()
            row, column = layout.place[state, 1:].tolist() if state is not None else (0, 0)
        else:
            row, column = self.cursor[0] + down, self.cursor[1] + right
        self.cursor = (max(0, min(row, layout.height - 1)), max(0, min(column, layout.width - 1)))
        self.show_worlds()
        self.show_header()

    def action_put(self, sign: str) -> None:
        """Put a tile into the cell under the cursor."""
        if self.cursor is not None:
            row, column = self.cursor
            self.change_map(lambda map: map.with_cell(row, column, sign))

    def action_reward(self) -> None:
        """A reward for arriving in the cell under the cursor."""
        from txlab.tui.screens.dialogs import AskValue

        if self.cursor is None or not self.editing:
            return
        row, column = self.cursor

        def give(text: str | None) -> None:
            if text:
                self.change_map(lambda map: map.with_reward(row, column, typed(text)))

        question = AskValue(
            f"Reward of ({row},{column})", "paid on arriving there, in place of the step's", "-1",
            lambda text: f"arriving pays {typed(text):g}",
        )  # fmt: skip
        self.app.push_screen(question, give)

    def action_slip(self) -> None:
        """How often a move goes to one of its two sides instead."""
        from txlab.tui.screens.dialogs import AskValue

        world = self.world
        if not self.editing or world is None or world.map is None:
            return

        def probability(text: str) -> float:
            value = typed(text)
            if not 0 <= value <= 1:
                raise LabError(f"slip = {value:g} is no probability; allowed: 0 … 1")
            return value

        question = AskValue(
            "Slip", "the probability that a move goes to one of its two sides instead", f"{world.map.slip:g}",
            lambda text: f"{probability(text):.0%} of the moves slip",
        )  # fmt: skip
        self.app.push_screen(
            question, lambda text: self.change_map(lambda map: map.with_slip(probability(text))) if text else None
        )

    def change_map(self, edit: Edit) -> None:
        def change(learning: Learning) -> None:
            learning.edit(edit)
            self.app.call_later(self.changed)

        if self.live():
            self.learning.order(change)
