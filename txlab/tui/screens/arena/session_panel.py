"""The line above the worlds, and the keys that run the learners: run and pause, one update, speed, restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding

from txlab.drawing.formatting import STATES, count
from txlab.drawing.text import visible, width
from txlab.engine.rl.world import World
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.words import Parts, spread
from txlab.tui.screens.words import Words
from txlab.tui.session import PACES
from txlab.tui.theme import glyphs

if TYPE_CHECKING:
    from txlab.tui.screens.arena.interface import Arena

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", ".:-=+*#@"


class SessionPanel(Panel):
    """Steps the arena's session; `show` redraws the line."""

    KEYS: ClassVar = (
        Binding("space", "pause", "run", id="run.pause", key_display="space"),
        Binding("full_stop", "step", "update", id="run.step", key_display="."),
        Binding("minus", "pace(-1)", "speed", id="arena.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="arena.faster", key_display="+", show=False),
        Binding("n", "forget", "new", id="arena.new"),
    )
    DEFAULT_CSS = "SessionPanel { height: 1; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena, self.session = arena, arena.session

    def compose(self) -> ComposeResult:
        yield Words(id="header")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A run that is running is paused and stepped by its own panel; while a map is edited, . is a tile."""
        if action in ("pause", "step") and self.arena.run_goes_on:
            return False
        return action != "step" or not self.arena.editing

    def word_for(self, binding: Binding) -> str:
        if binding.id == "run.pause" and self.session.running:
            return "pause"
        return binding.description

    def action_pause(self) -> None:
        """Run or pause; at the lowest speed, one update."""
        if self.arena.live():
            self.arena.look_at_now()
            if not self.session.running and not self.session.pace:
                self.session.step()
            else:
                self.session.run(not self.session.running)

    def action_step(self) -> None:
        """One update of every learner."""
        if self.arena.live():
            self.arena.look_at_now()
            self.session.step()

    def action_pace(self, by: int) -> None:
        if self.arena.live():
            at = max(0, min(PACES.index(self.session.pace) + by, len(PACES) - 1))
            self.session.pace = PACES[at]
            if self.session.running:
                self.session.run(PACES[at] > 0)
            self.show()

    def action_forget(self) -> None:
        """Restart with nothing learnt."""
        if self.arena.live():
            self.arena.begin(lambda old: old.again())

    def show(self) -> None:
        arena, session, ascii = self.arena, self.session, self.arena.ascii
        if arena.replaying:
            status, step, total = arena.standing
            groups = run_groups(status, arena.frame.step if arena.frame is not None else step, total, ascii)
        else:
            speed = arena.picture.speed if arena.picture is not None else 0.0
            groups = live_groups(session.pace, session.running, speed, ascii)
        header = header_parts(arena.world, arena.where(), groups, arena.size.width - 2, ascii)
        self.query_one("#header", Words).say(spread(header, groups, arena.size.width - 2), layout=False)


def header_parts(world: World | None, where: str, groups: list[Parts], cells: int, ascii: bool) -> Parts:
    """Return `Cliff walking   Sutton and Barto 2018, example 6.6`, or the present mode in place of the source."""
    left: Parts = [(visible(world.title or world.name, ascii) if world is not None else "Arena", "bold")]
    if where:
        left.append((f"   {visible(where, ascii)}", "$accent"))
    elif world is not None and world.source:
        taken = sum(width(text) for text, _ in [*left, *(part for group in groups for part in group)])
        if cells - taken - width(visible(world.source, ascii)) > 8:
            left.append((f"   {visible(world.source, ascii)}", "$quiet"))
    return left


def live_groups(pace: float, running: bool, speed: float, ascii: bool) -> list[Parts]:
    """Return whether it runs, its speed, and the speed limit, the least important first."""
    signs, bars, at = glyphs(ascii), ASCII_BARS if ascii else BARS, PACES.index(pace)
    words = f"{count(pace)} updates/s" if pace else "one update a key"
    words = "as fast as it goes" if pace == float("inf") else words
    live = f"{signs.live} {count(speed)} updates/s" if running and speed else f"{signs.live} learning"
    return [
        [(f"  {words}", "$quiet")],
        [("  speed ", "$quiet"), (bars[: at + 1], "$accent"), (bars[at + 1 :], "$rule")],
        [(f"   {live}" if running else f"   {signs.paused} paused", "bold $accent" if running else "$quiet")],
    ]


def run_groups(status: str, step: int, total: int, ascii: bool) -> list[Parts]:
    """Return the status of a recorded run."""
    signs = glyphs(ascii)
    sign = {"running": signs.live, "paused": signs.paused, "done": signs.done, "failed": signs.failed}.get(status, "")
    words = f"{sign} {STATES.get(status, status)}".strip()
    steps = f" at step {count(step)}" + (f" of {count(total)}" if total > step else "")
    return [[(steps, "$quiet")], [(f"   {words}", "bold $accent" if status == "running" else "")]]
