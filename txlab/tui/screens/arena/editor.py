"""The map editor: walls, goals, holes and rewards change while the learners continue to learn.

An edit is compiled before the learners see it; if it is impossible (a goal that cannot be reached), the reason is shown
and map, tables and memory stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from txlab.errors import LabError
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.parameters import parse_number
from txlab.tui.screens.dialogs import AskValue

if TYPE_CHECKING:
    from txlab.engine.rl.maps.drawn import Map
    from txlab.engine.rl.world import World
    from txlab.tui.screens.arena.interface import Arena
    from txlab.tui.screens.arena.learners import LiveMatch


class EditorPanel(Panel):
    """m starts editing, esc ends it; while editing, letters are tiles for the cell under the cursor."""

    KEYS: ClassVar = (
        bind("number_sign", "put('#')", "put a wall here", "wall", id="arena.wall"),
        bind("full_stop", "put('.')", "put plain floor here", "floor", id="arena.floor"),
        bind("g", "put('G')", "put a goal here", "goal", id="arena.goal"),
        bind("h", "put('H')", "put a hole here", "hole", id="arena.hole"),
        bind("c", "put('C')", "put a cliff here", "cliff", id="arena.cliff"),
        bind("s", "put('S')", "put the start here", "start", id="arena.start"),
        bind("r", "reward", "set the reward of this cell", "reward", id="arena.reward"),
        bind("p", "slip", "set how often a step slips aside", "slip", id="arena.slip"),
        bind("m", "edit", "edit the map", "edit map", id="arena.edit", synonyms="draw wall"),
    )
    DEFAULT_CSS = "EditorPanel { display: none; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.begins_in: World | None = None  # start as soon as this world is live

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
            self.begins_in = world if self.arena.go_live() else None
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
            f"Reward of ({row},{column})", "paid on arriving there, instead of the step's", "-1",
            lambda text: f"arriving pays {parse_number(text):g}",
        )  # fmt: skip

        def give(text: str | None) -> None:
            if text:
                self.change(lambda map: map.with_reward(row, column, parse_number(text)))

        self.app.push_screen(question, give)

    def action_slip(self) -> None:
        """Set how often a move slips to one of its two sides."""
        world = self.arena.world
        if not self.arena.editing or world is None or world.map is None:
            return

        def probability(text: str) -> float:
            value = parse_number(text)
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
        """Change the learners' map; LabErrors reach the screen as for any order."""
        session = self.arena.session

        def work(live: LiveMatch) -> None:
            for note in live.edit(edit):
                session.say(self.tell, note)
            session.say(self.arena.settings_changed)

        if self.arena.playback.ready():
            session.edit(work)
