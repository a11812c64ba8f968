"""Screen 6, Arena: learners beside each other in one world, their values, their paths, and the rule with its numbers.

Notable: this file has the keys. What is shown is in arena_showing.py, what a person does in arena_hands.py, the editor
in arena_editing.py, recorded runs in arena_replay.py and on from them in arena_live.py, other worlds in
arena_choosing.py; learning is in a thread of its own (arena_learning.py).
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from txlab.engine.rl.settings import Settings
from txlab.tui.run_summary import GOING
from txlab.tui.screen_registry import ROOMS
from txlab.tui.screens.arena.learning import Learning
from txlab.tui.screens.arena.live import LiveScreen

RUNS = {"run.pause", "run.step"}  # which act on a recorded run while it goes on
HANDS = RUNS | {
    *("arena.slower", "arena.new", "arena.turn", "arena.rule", "arena.second", "arena.greedy", "arena.bands"),
    "arena.edit",
}
EDITS = {"put", "reward", "slip"}


class ArenaScreen(LiveScreen):
    """Opens on the cliff, SARSA at the left, Q-learning at the right, ready to run."""

    CSS_PATH = "arena.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Two learners in one world. A cell's colour and number are its value, its arrows the best actions, the round "
        "sign (@ in ASCII) is the learner, the star (G) the goal, a green bar at the left a trace. Space runs, . "
        "makes one update, - and + change the speed. Below the worlds stands the rule with the numbers of the last "
        "update under its letters; w says the same of the cell under the cursor (arrows, or a click). p turns the "
        "numbers of a side: up and down choose, left and right turn, enter types. m changes the map while they learn "
        "on: # wall, . floor, g goal, h hole, c cliff, s start, r a reward, p slip. y goes through the layers of a "
        "world that has several. On-line is what episodes earned while exploring; greedy, what the best actions would "
        "earn without. Of a recorded run, l goes on by hand: its world, and its learners anew."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "live", "go on by hand", id="arena.live"),
        Binding("space", "pause", "run", id="run.pause", key_display="space"),
        Binding("escape", "leave", "done", id="arena.leave", key_display="esc"),
        Binding("number_sign", "put('#')", "wall", id="arena.wall", key_display="#"),
        Binding("full_stop", "put('.')", "floor", id="arena.floor", key_display="."),
        Binding("g", "put('G')", "goal", id="arena.goal"),
        Binding("h", "put('H')", "hole", id="arena.hole"),
        Binding("c", "put('C')", "cliff", id="arena.cliff"),
        Binding("s", "put('S')", "start", id="arena.start"),
        Binding("s", "picture", "picture", id="screen.picture", show=False),  # else the start above would hide it
        Binding("r", "reward", "reward", id="arena.reward"),
        Binding("p", "slip", "slip", id="arena.slip"),
        Binding("full_stop", "step", "update", id="run.step", key_display="."),
        Binding("minus", "pace(-1)", "speed", id="arena.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="arena.faster", key_display="+", show=False),
        Binding("tab", "side", "side", id="arena.side"),
        Binding("m", "edit", "edit map", id="arena.edit"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("y", "layer", "layer", id="arena.layer"),
        Binding("g", "greedy", "greedy run", id="arena.greedy"),
        Binding("o", "open", "world", id="arena.open"),
        Binding("t", "play", "tic-tac-toe", id="arena.play"),
        Binding("p", "turn_mode", "turn", id="arena.turn"),
        Binding("u,r", "rule", "rule", id="arena.rule", key_display="u"),
        Binding("v", "view", "show", id="arena.view"),
        Binding("n", "forget", "new", id="arena.new"),
        Binding("b", "bands", "band", id="arena.bands"),
        Binding("a", "second", "second side", id="arena.second"),
        Binding("c", "curves", "curves", id="arena.curves"),
        Binding("left_square_bracket", "timeline('earlier')", "earlier, later", id="time.earlier", key_display="[ ]"),
        Binding("right_square_bracket", "timeline('later')", "later", id="time.later", key_display="]", show=False),
        Binding("up", "move(-1, 0)", "cursor up", id="arena.up", show=False),
        Binding("down", "move(1, 0)", "cursor down", id="arena.down", show=False),
        Binding("left", "move(0, -1)", "cursor left", id="arena.left", show=False),
        Binding("right", "move(0, 1)", "cursor right", id="arena.right", show=False),
        Binding("less_than_sign", "turn(-1)", "turn down", id="arena.turn-down", key_display="<", show=False),
        Binding("greater_than_sign", "turn(1)", "turn up", id="arena.turn-up", key_display=">", show=False),
        Binding("enter", "enter", "type it", id="arena.enter"),
    ]

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.learning.order(open_cliff)
        self.show_header()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a map is edited, letters are what is put into it; of a recorded run one only looks."""
        if action in EDITS:
            return self.editing
        if self.editing and action in ("greedy", "step", "picture", "curves", "rule", "turn_mode", "open", "play"):
            return False
        if action == "play":
            return any(room.name == "play" for room in ROOMS)
        if action == "live":
            return self.replaying
        if action == "stop":
            return self.replaying and self.status in GOING
        if action == "layer":
            return self.world is not None and len(self.world.layout.layers) > 1
        if action == "side":
            return self.sides > 1
        if action == "enter":
            return not self.editing
        if action == "leave":
            return self.editing or self.turning is not None or self.cursor is not None or self.replaying
        return True

    def word_for(self, binding: Binding) -> str:
        """What a key would do now; a mode has only its own keys on the bottom line."""
        ident = binding.id or ""
        turning = self.turning is not None
        if self.replaying and ident in HANDS and not (ident in RUNS and self.status in GOING):
            return ""  # it only says what a recording is
        if ident == "run.pause":
            going = self.learning.running if not self.replaying else self.status == "running"
            return "pause" if going else "run"
        if self.editing and ident not in ("arena.leave", "screen.help"):
            return binding.description if ident in EDIT_KEYS else ""
        if ident == "arena.enter":
            return "type it" if turning else ""
        if ident == "arena.edit" and self.world is not None and self.world.map is None:
            return ""
        if ident == "arena.turn":
            return "done" if turning else binding.description
        if ident == "arena.leave":
            return "the learners" if self.replaying and not self.editing else binding.description
        if ident == "arena.second":
            return ("one side" if self.sides < 3 else "without it") if self.sides > 1 else binding.description
        if ident == "arena.bands" and self.bands:
            return "no band"
        return binding.description

    async def action_play(self) -> None:
        """The other room of decisions: tic-tac-toe."""
        await self.run_action("app.room('play')")

    def action_enter(self) -> None:
        """Type the number that is being turned; else ask why."""
        if self.turning is not None:
            self.action_type()
        else:
            self.action_why()

    def action_leave(self) -> None:
        """Out of the editor, of turning, of the chosen cell, of a recorded run, one after the other."""
        if self.editing:
            self.end_editing()
        elif self.turning is not None:
            self.action_turn_mode()
        elif self.cursor is not None:
            self.cursor = None
            self.show_all()
        elif self.replaying:
            self.back_to_the_learners()
        self.refresh_bindings()


EDIT_KEYS = (
    "run.pause", "arena.wall", "arena.floor", "arena.goal", "arena.hole", "arena.cliff", "arena.start", "arena.reward",
    "arena.slip",
)  # fmt: skip


def open_cliff(learning: Learning) -> None:
    """What one sees first."""
    from txlab.engine.rl.worlds import world_named

    if learning.match is None:
        learning.settings = [Settings("sarsa"), Settings("q-learning")]
        learning.move_to(world_named("cliff"), {"name": "cliff"})
