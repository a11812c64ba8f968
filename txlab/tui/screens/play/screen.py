"""Tic-tac-toe on the bench: the board large and in the middle, who plays, what the agent sees, how it learnt it.

Notable: the game is in play_game, learning in play_learning, ratings in play_ratings; this file has the keys and what
is seen. The side has three tabs; where there is much room, the first is always open above the other two.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from txlab.drawing.text import formula
from txlab.drawing.tictactoe_words import SIGN, note_of, squares_of
from txlab.engine.explain import Explanation
from txlab.engine.games.game import FIRST, SECOND, Position
from txlab.engine.games.perfect_play import chances, explain
from txlab.engine.games.players import MaskPlayer
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.play.game import PACES
from txlab.tui.screens.play.learning import rate
from txlab.tui.screens.play.players import Seat
from txlab.tui.screens.play.ratings import RatingScreen
from txlab.tui.screens.play.words import facts, headline, move_table, tally_words, unexplained
from txlab.tui.screens.words import Words
from txlab.tui.widgets.board import Board
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.tabs import TabLine

TABS = ("moves", "learning", "ratings", "pairs")
NO_RATINGS = "m lets all agents play each other"


class PlayScreen(RatingScreen):
    """The board, and the side with its tabs."""

    CSS_PATH = "play.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Three in a row wins. The arrows and enter move, or a click. On each free square stands what the agent expects "
        "if you move there: +1 you win, 0 a draw, -1 you lose, seen from who is to move; v changes to what is true "
        "with best play, or to nothing. o chooses whom you play, a lets two agents play each other, l lets one learn "
        "by playing against itself, m lets all of them play each other and rates them."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "move", "move", id="play.move", key_display="enter"),
        Binding("space", "run", "pause", id="play.run", key_display="space"),
        Binding("full_stop", "one", "one move", id="play.step", key_display="."),
        Binding("minus", "pace(-1)", "pace", id="play.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="play.faster", key_display="+", show=False),
        Binding("u", "undo", "undo", id="play.undo"),
        Binding("h", "hint", "hint", id="play.hint"),
        Binding("n", "new", "new", id="play.new"),
        Binding("o", "opponent", "opponent", id="play.opponent"),
        Binding("l", "learn", "learn", id="play.learn"),
        Binding("x", "cancel", "cancel", id="play.cancel"),
        Binding("m", "tournament", "tournament", id="play.tournament"),
        Binding("c", "sides", "sides", id="play.sides"),
        Binding("v", "values", "values", id="play.values"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("a", "watch", "watch", id="play.watch"),
        Binding("tab", "tab(1)", "side", id="play.tab"),
        Binding("shift+tab", "tab(-1)", "side before", id="play.tab-before", show=False),
        Binding("t", "worlds", "worlds", id="play.worlds"),
        Binding("shift+up", "row(-1)", "player above", id="play.row-up", show=False),
        Binding("shift+down", "row(1)", "player below", id="play.row-down", show=False),
        Binding("up", "step(-1, 0)", "up", id="play.up", show=False),
        Binding("down", "step(1, 0)", "down", id="play.down", show=False),
        Binding("left", "step(0, -1)", "left", id="play.left", show=False),
        Binding("right", "step(0, 1)", "right", id="play.right", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.tab = "moves"
        self.exact: tuple[MaskPlayer, MaskPlayer, str] | None = None  # of whom, and what

    def compose_body(self) -> ComposeResult:
        yield Words(id="headline")
        yield Rule()
        with Horizontal(id="play"):
            yield Board(id="board")
            with Vertical(id="side"):
                yield Words(id="facts")
                yield Rule()
                table = Table(id="game")
                table.can_focus = False
                yield table
                rule = Rule()
                rule.id = "game-rule"
                yield rule
                yield TabLine(id="tabs")
                for name, waiting in (("moves", ""), ("ratings", NO_RATINGS), ("pairs", NO_RATINGS)):
                    table = Table(id=name, waiting=waiting)
                    table.can_focus = False
                    yield table
                with Vertical(id="learning"):
                    yield Words(id="learner")
                    chart = Chart(id="curves", waiting="l lets an agent learn")
                    chart.can_focus = False
                    chart.log_x, chart.across = True, "games"
                    yield chart

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.show_tab("moves")
        self.show_game()
        self.prepare()

    # What is seen.

    def show_game(self) -> None:
        if not self.is_attached:
            return
        values, notes, said = self.on_the_squares()
        self.query_one("#board", Board).set_squares(squares_of(self.moves, values, notes, self.hinted))
        you, ready = self.you, self.solution is not None
        self.query_one("#headline", Words).say(
            headline(self.moves, self.seats, you, ready, self.beside()), layout=False
        )
        rows = [(SIGN[side], self.who(side), "bold" if self.at_turn(side) else "") for side in (FIRST, SECOND)]
        rows.append(("squares", said, ""))
        if self.hinted:
            rows.append(("hint", self.hint_words(), "$accent"))
        if self.watching:
            rows.append(("exactly", self.exact_words(), ""))
        rows.append(("games", tally_words(self.tally, you) or "none yet", "" if sum(self.tally.values()) else "$quiet"))
        self.query_one("#facts", Words).say(facts(rows))
        for name in ("#moves", "#game"):
            self.query_one(name, Table).set_table(*move_table(self.moves, self.solution, self.told))
        self.refresh_bindings()

    def exact_words(self) -> str:
        """`X .9678, drawn .0322, O .0000`: how games between these two end, computed and not played."""
        first, second = self.seats[FIRST].player, self.seats[SECOND].player
        if first is None or second is None:
            return ""
        if self.exact is None or self.exact[:2] != (first, second):
            found = chances(first.graph, first.policy(), second.policy())
            words = f"X {rate(found.won)}, drawn {rate(found.drawn)}, O {rate(found.lost)}"
            self.exact = first, second, words
        return self.exact[2]

    def who(self, side: int) -> str:
        """`TD(0), 1 480 ± 21`"""
        seat = self.seats[side]
        rating = self.rating_of(seat)
        return formula(f"{seat.title}, rating {rating}" if rating else seat.title, self.ascii)

    @property
    def told(self) -> bool:
        """Whether it is said what the moves are worth."""
        return self.view != "nothing" or self.ended

    def at_turn(self, side: int) -> bool:
        return not self.ended and self.mover == side

    def beside(self) -> str:
        """What else the line above the board says."""
        if self.watching:
            pace = PACES[self.pace]
            return f"{f'{pace:g}' if pace >= 1 else 'every second'} {'moves a second' if pace > 1 else 'move a second'}"
        return ""

    def seer(self) -> Seat | None:
        """The agent whose values are looked at: the mover, or who plays against the mover."""
        for side in (self.mover, -self.mover):
            if not self.seats[side].person:
                return self.seats[side]
        return None

    def on_the_squares(self) -> tuple[dict[int, float] | None, dict[int, str] | None, str]:
        """(values of the free squares, notes below them, what they are in words)."""
        solution, perfect = self.solution, self.perfect
        if solution is None or perfect is None or self.ended:
            return None, None, "the game is over" if self.ended else "nothing yet"
        position, sign = self.position, SIGN[self.mover]
        seat = self.seer()
        player: MaskPlayer | None = perfect if self.view == "perfect" or seat is None else seat.player
        if self.view == "nothing" or player is None:
            return None, None, "nothing; v shows values"
        values = player.values(position)
        exact = player is perfect
        notes = {move: note_of(solution, position, move) for move in values} if exact else None
        if exact:
            said = f"best play, {sign}'s view"
        elif values:
            assert seat is not None
            said = f"what {seat.title} expects, {sign}'s view"
        else:
            assert seat is not None
            said = f"{seat.title} sees nothing"
        return values, notes, said

    # The side.

    @property
    def tabs(self) -> tuple[str, ...]:
        """Where there is room for the moves above the tabs, they are none of them."""
        return TABS[1:] if self.has_class("-tall") else TABS

    def show_tab(self, name: str) -> None:
        name = name if name in self.tabs else self.tabs[0]
        self.tab = name
        self.query_one("#tabs", TabLine).set_tabs([(each, each) for each in self.tabs], name)
        for each in TABS:
            self.set_class(each == name, f"-{each}")

    def on_resize(self) -> None:
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        """Another size: other tabs, and tables with other columns."""
        if self.is_attached:
            self.show_tab(self.tab)
            self.show_learner()
            self.show_ratings()

    def action_tab(self, by: int) -> None:
        """The next tab; on a tiny terminal the board is one of them."""
        folded = self.has_class("-tiny")
        names = ("board", *self.tabs) if folded else self.tabs
        now = "board" if folded and not self.has_class("-side") else self.tab
        at = names.index(now) if now in names else -by  # another size has put that one above the tabs
        name = names[(at + by) % len(names)]
        self.set_class(name != "board", "-side")
        if name != "board":
            self.show_tab(name)

    @on(TabLine.Chosen)
    def tab_clicked(self, event: TabLine.Chosen) -> None:
        self.show_tab(event.name)

    # Keys.

    def word_for(self, binding: Binding) -> str:
        words = {
            "play.move": "again" if self.ended else "move",
            "play.run": "pause" if self.running else "run",
            "play.watch": "play" if self.watching else "watch",
        }
        return words.get(binding.id or "", binding.description)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("run", "one", "pace"):
            return self.watching
        if action == "move":
            return self.your_move or self.ended
        if action == "cancel":
            return self.learning or self.contest
        if action == "row":
            return self.tab in ("ratings", "pairs") and bool(self.rows)
        if action == "undo":
            return bool(self.moves)
        if action == "hint":
            return not self.ended
        return True

    def action_why(self) -> None:
        """Why the square under the cursor is worth what stands on it."""
        from txlab.tui.widgets.why import ask_why

        if self.solution is None:
            return
        square = self.query_one("#board", Board).cursor
        free = not self.ended and not self.position[square]
        ask = partial(self.explained, self.position, square if free else None, self.seer(), self.view)
        ask_why(self.app, ask, "one moment…")

    def explained(self, position: Position, square: int | None, seat: Seat | None, view: str) -> Explanation | str:
        """In a thread: the last update of what a learner sees, or what is known of another one's value; what best play
        leads to where that is what stands there."""
        player = seat.player if seat is not None and view == "agent" else None
        if seat is not None and player is not None and player is not self.perfect and square is not None:
            course = self.courses.get(seat.key)
            if course is None:
                return unexplained(seat.title, player.values(position), position, square)
            with course.lock:
                return course.training.explain(position, square)
        assert self.solution is not None
        return explain(self.solution, position, square)

    def action_step(self, down: int, right: int) -> None:
        self.query_one("#board", Board).step(down, right)

    def action_move(self) -> None:
        self.query_one("#board", Board).choose()

    def action_worlds(self) -> None:
        """Back to the worlds of the Arena."""
        self.app.action_room("arena")  # type: ignore[attr-defined]
