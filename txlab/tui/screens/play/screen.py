"""Tic-tac-toe: the board large and in the middle, the players, what the agent expects, how it learnt it.

The game, the seats, learning and ratings are panels; this file has the facts beside the board and the tabs below them.
On a large terminal the moves are always shown above the tabs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import formula, visible
from txlab.drawing.tictactoe import SIGN, ended_words, leads_to, position_of, value_text
from txlab.engine.explain import Explanation
from txlab.engine.games import tictactoe
from txlab.engine.games.game import FIRST, SECOND, Position
from txlab.engine.games.perfect_play import Solution, chances, explain
from txlab.engine.games.players import MaskPlayer
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.play.game import PACES, GamePanel, Seat, title_of
from txlab.tui.screens.play.learning import LearningPanel, rate
from txlab.tui.screens.play.ratings import RatingsPanel
from txlab.tui.screens.play.seats import SeatsPanel
from txlab.tui.screens.words import Words
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.why import ask_why

TABS = ("moves", "learning", "ratings", "pairs")


class PlayScreen(BenchScreen):
    """The board, and the side panel with its tabs."""

    CSS_PATH = "play.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Three in a row wins. The arrows and enter move, or a click. On each free square stands what the agent expects "
        "if you move there: +1 you win, 0 a draw, -1 you lose, seen from who is to move; v changes to what is true "
        "with best play, or to nothing. o chooses whom you play, a lets two agents play each other, l lets one learn "
        "by playing against itself, m lets all of them play each other and rates them."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (GamePanel, SeatsPanel, LearningPanel, RatingsPanel)
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "play.move", "play.run", "play.step", "play.slower", "play.faster", "play.undo", "play.hint", "play.new",
        "play.opponent", "play.learn", "play.cancel", "play.tournament", "play.sides", "play.values", "screen.why",
        "play.watch", "play.tab", "play.tab-before", "play.worlds",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", "cancel", id="play.cancel"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("tab", "tab(1)", "side", id="play.tab"),
        Binding("shift+tab", "tab(-1)", "side before", id="play.tab-before", show=False),
        Binding("t", "worlds", "worlds", id="play.worlds"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.tab = "moves"
        self.exact: tuple[MaskPlayer, MaskPlayer, str] | None = None  # (the two players, the sentence)
        self.game = GamePanel(self.show_game)
        self.seats = SeatsPanel(self.game)
        self.lessons, self.ratings = LearningPanel(self, self.game), RatingsPanel(self, self.game, self.seats)

    def compose_body(self) -> ComposeResult:
        yield Words(id="headline")
        yield Rule()
        with Horizontal(id="play"):
            yield self.game
            with Vertical(id="side"):
                yield Words(id="facts")
                yield Rule()
                yield unfocused(Table(id="game"))
                yield Rule(id="game-rule")
                yield TabLine(id="tabs")
                yield unfocused(Table(id="moves"))
                yield self.ratings
                yield self.lessons
                yield self.seats

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.show_tab("moves")
        self.show_game()

    # What is shown.

    def show_game(self) -> None:
        if not self.is_attached:
            return
        game, said = self.game, self.game.show_board()
        line = headline(game.moves, game.seats, game.you, game.solution is not None, self.beside())
        self.query_one("#headline", Words).say(line, layout=False)
        rows = [(SIGN[side], self.who(side), "bold" if self.at_turn(side) else "") for side in (FIRST, SECOND)]
        rows.append(("squares", said, ""))
        if game.hinted:
            rows.append(("hint", game.hint_words(), "$accent"))
        if game.watching:
            rows.append(("exactly", self.exact_words(), ""))
        tally = tally_words(game.tally, game.you)
        rows.append(("games", tally or "none yet", "" if tally else "$quiet"))
        self.query_one("#facts", Words).say(facts(rows))
        told = game.view != "nothing" or game.ended  # whether the moves are rated
        for name in ("#moves", "#game"):
            self.query_one(name, Table).set_table(*move_table(game.moves, game.solution, told))
        self.refresh_bindings()

    def exact_words(self) -> str:
        """Return `X .9678, drawn .0322, O .0000`: the results of these two, computed rather than played."""
        first, second = self.game.seats[FIRST].player, self.game.seats[SECOND].player
        if first is None or second is None:
            return ""
        if self.exact is None or self.exact[:2] != (first, second):
            found = chances(first.graph, first.policy(), second.policy())
            words = f"X {rate(found.won)}, drawn {rate(found.drawn)}, O {rate(found.lost)}"
            self.exact = first, second, words
        return self.exact[2]

    def who(self, side: int) -> str:
        """Return `TD(0), rating 1 480 ± 21`."""
        title = self.game.seats[side].title
        rating = self.ratings.rating_of(title)
        return formula(f"{title}, rating {rating}" if rating else title, self.ascii)

    def at_turn(self, side: int) -> bool:
        return not self.game.ended and self.game.mover == side

    def beside(self) -> str:
        """Return what else the line above the board says."""
        if not self.game.watching:
            return ""
        pace = PACES[self.game.pace]
        return f"{f'{pace:g}' if pace >= 1 else 'every second'} {'moves a second' if pace > 1 else 'move a second'}"

    # The learner.

    def learner_is(self, seats: list[Seat]) -> None:
        """Update a learner among the players."""
        self.seats.learnt(seats)
        self.show_game()

    def give_seat_to_learner(self, key: str) -> None:
        """Seat the learner in the agent's place."""
        seat = next(seat for seat in self.seats.learners if seat.key == key)
        side = SECOND if self.game.you is None else -self.game.you
        self.game.sit({**self.game.seats, side: seat}, afresh=not self.game.moves)

    def action_cancel(self) -> None:
        """End the tournament and the learning; whatever was learnt stays."""
        self.ratings.cancel()
        if self.lessons.learning:
            self.lessons.session.pause()

    # The side panel.

    @property
    def tabs(self) -> tuple[str, ...]:
        """The tabs; if there is room for the moves above them, they are not among them."""
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
        """Choose tabs and table columns for the new size."""
        if self.is_attached:
            self.show_tab(self.tab)
            self.lessons.show()
            self.ratings.show()

    def action_tab(self, by: int) -> None:
        """Go to the next tab; on a tiny terminal the board is one of them."""
        folded = self.has_class("-tiny")
        names = ("board", *self.tabs) if folded else self.tabs
        now = "board" if folded and not self.has_class("-side") else self.tab
        at = names.index(now) if now in names else -by  # after a resize that moved that one above the tabs
        name = names[(at + by) % len(names)]
        self.set_class(name != "board", "-side")
        if name != "board":
            self.show_tab(name)

    @on(TabLine.Chosen)
    def tab_clicked(self, event: TabLine.Chosen) -> None:
        self.show_tab(event.name)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return self.lessons.learning or self.ratings.contest
        return super().check_action(action, parameters)

    def action_why(self) -> None:
        """Explain the value on the square under the cursor."""
        game = self.game
        if game.solution is not None:
            square = game.board.cursor if not game.ended and not game.position[game.board.cursor] else None
            ask = partial(self.explained, game.position, square, game.seer(), game.view)
            ask_why(self.app, ask, "one moment…")

    def explained(self, position: Position, square: int | None, seat: Seat | None, view: str) -> Explanation | str:
        """Return the last update of a learner's value, or what is known of another player's value; the result of best
        play if that is shown. For a worker thread."""
        player = seat.player if seat is not None and view == "agent" else None
        if seat is not None and player is not None and player is not self.game.perfect and square is not None:
            course = self.lessons.courses.get(seat.key)
            if course is None:
                return unexplained(seat.title, player.values(position), position, square)
            return self.lessons.explain(course, position, square)
        assert self.game.solution is not None
        return explain(self.game.solution, position, square)

    def action_worlds(self) -> None:
        """Go back to the worlds of the Arena."""
        self.app.action_open_screen("arena")  # type: ignore[attr-defined]


def unfocused(table: Table) -> Table:
    table.can_focus = False
    return table


# The text of the screen.


def state(moves: Sequence[int], seats: Mapping[int, Seat], you: int | None, ready: bool) -> tuple[str, str]:
    """Return (sentence, style: "live", "over" or "quiet")."""
    position = position_of(moves)
    if not ready:
        return "searching all 5 478 positions…", "quiet"
    result = tictactoe.outcome(position)
    if result is not None:
        words = ended_words(position, you)
        if you is None and result and not seats[result].person:
            words = f"{title_of(seats, result)} has won{words.partition('has won')[2]}"
        return words[:1].upper() + words[1:], "over"
    mover = tictactoe.mover(position)
    if not seats[mover].person:
        return f"{title_of(seats, mover)} is to move", "quiet"
    both = seats[-mover].person
    return (f"{SIGN[mover]} is to move" if both else f"Your move: you are {SIGN[mover]}"), "live"


def headline(moves: Sequence[int], seats: Mapping[int, Seat], you: int | None, ready: bool, beside: str) -> Content:
    """Return the line above the board; `beside` says what else is going on."""
    words, loud = state(moves, seats, you, ready)
    style = {"live": "bold $accent", "over": "bold", "quiet": ""}[loud]
    parts = [Content.styled(words, style)]
    if beside:
        parts.append(Content.styled(f"   {beside}", "$quiet"))
    return Content.assemble(*parts)


def tally_words(tally: Mapping[int, int], you: int | None) -> str:
    """Return `won 2, drawn 5, lost 1`, of the games between these two."""
    if not sum(tally.values()):
        return ""
    won, drawn, lost = tally.get(you or FIRST, 0), tally.get(0, 0), tally.get(-(you or FIRST), 0)
    if you is None:
        return f"X won {count(won)}, drawn {count(drawn)}, O won {count(lost)}"
    return f"you won {count(won)}, drawn {count(drawn)}, lost {count(lost)}"


def facts(rows: Sequence[tuple[str, str, str]]) -> Content:
    """Return names and values as aligned lines; the third item of each row is a style."""
    wide = max((len(name) for name, _, _ in rows), default=0)
    parts: list[Content] = []
    for place, (name, words, style) in enumerate(rows):
        parts += [Content("\n")] if place else []
        parts += [Content.styled(f"{name:<{wide}}  ", "$quiet"), Content.styled(words, style)]
    return Content.assemble(*parts)


def move_table(moves: Sequence[int], solution: Solution | None, told: bool) -> tuple[list[Column], list[list[str]]]:
    """Return the game so far, with `told` also what each move led to and which were mistakes."""
    columns = [Column("#"), Column("", right=False), Column("square", right=False)]
    told = told and solution is not None
    columns += [Column("best play", right=False, quiet=True), Column("", right=False)] if told else []
    rows = []
    for place, move in enumerate(moves):
        sign = SIGN[FIRST if place % 2 == 0 else SECOND]
        row = [str(place + 1), sign, tictactoe.MOVES[move]]
        if told and solution is not None:
            row += [brief_verdict(solution, moves[:place], move), "mistake" if mistake(solution, moves, place) else ""]
        rows.append(row)
    return columns, rows


def brief_verdict(solution: Solution, before: Sequence[int], move: int) -> str:
    """Return `draw`, `X in 2` (moves) or `X won`."""
    words = leads_to(solution, position_of(before), move)
    if words.startswith("a draw"):
        return "draw"
    return words.removesuffix(" moves").removesuffix(" move").replace(" wins in ", " in ").replace(" has won", " won")


def mistake(solution: Solution, moves: Sequence[int], place: int) -> bool:
    """Return whether the move gave away something that best play would have kept."""
    graph = solution.graph
    before, after = (graph.numbered(position_of(moves[:end])) for end in (place, place + 1))
    return int(solution.value[before]) != int(solution.value[after])


def unexplained(title: str, values: Mapping[int, float], position: Position, square: int) -> str:
    """Describe a value whose update is no longer known, or a player that has no values."""
    where, sign = tictactoe.MOVES[square], SIGN[tictactoe.mover(position)]
    best = "v shows what is true with best play, and w then says why."
    if square not in values:
        many = len(tictactoe.legal(position))
        return f"{visible(title)} sees nothing: each of the {many} free squares is as likely as another.\n{best}"
    said = f"{visible(title)} expects {value_text(values[square])} of {where}, from the view of {sign}."
    return f"{said}\nOnly the table's values were kept, not the updates that made them.\n{best}"
