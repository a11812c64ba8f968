"""The board games: the board large and in the middle, the players, the agent's expectations, its training.

The game, the seats, learning and ratings are panels; this file arranges them and has the tabs below the board.
On a large terminal the moves are always shown above the tabs; where the board needs the whole width, tab turns to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.boards import least_columns, sign_of
from txlab.drawing.text import formula, visible
from txlab.engine.explain import Explanation
from txlab.engine.games.game import FIRST, SECOND, Game, Move, Position
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.perfect_play import chances
from txlab.engine.games.players import Player, TabularPlayer
from txlab.tui.bindings import WHY, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.play.following import Progress
from txlab.tui.screens.play.game import MOVE_RATES, GamePanel
from txlab.tui.screens.play.games import GamesPanel
from txlab.tui.screens.play.ladder import LadderPanel
from txlab.tui.screens.play.learning import LearningPanel, rate
from txlab.tui.screens.play.players import Seat, seat_of_run
from txlab.tui.screens.play.ratings import RatingsPanel
from txlab.tui.screens.play.seats import SeatsPanel
from txlab.tui.screens.play.texts import facts, move_table, sentence, state, tally_words, value_table
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.why import ask_why

TABS = ("moves", "values", "learning", "ladder", "ratings", "pairs")


class PlayScreen(BenchScreen):
    """The board, and the side panel with its tabs."""

    CSS_PATH = "play.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "g chooses the game, o your opponent. The arrows and enter move, or a click; where a move has several points, "
        "as in backgammon, choose them in order; esc takes one back. The board shows the value that the agent expects "
        "for each move, in points, for the player to move: +1 you win, 0 a draw, -1 you lose; v switches to the "
        "values of the perfect or the strongest player, or to none. T opens the tree of an agent that searches. a "
        "lets two agents play each other, l lets one learn by playing against itself, m lets all of them play each "
        "other and rates them, including earlier snapshots of a run. While an agent learns, here or in a run at the "
        "board, its snapshots play each other and a fixed player, and the ladder rates them, the first as 0; f stops "
        "and starts that. A game that you leave is kept: r continues it, from any terminal."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (
        GamePanel,
        GamesPanel,
        SeatsPanel,
        LearningPanel,
        LadderPanel,
        RatingsPanel,
    )
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "play.resume", "play.move", "play.release", "play.run", "play.step", "play.slower", "play.faster", "play.undo",
        "play.hint", "play.tree", "play.new", "play.opponent", "play.learn", "play.cancel", "play.tournament",
        "play.measure", "play.game", "play.sides", "play.values", "screen.why", "play.watch", "play.tab",
        "play.tab-before", "play.worlds",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "x", "cancel", "cancel the learning, the tournament or the rating of snapshots", "cancel", id="play.cancel"
        ),
        WHY,
        bind("tab", "tab(1)", "turn to the next page of the side panel", "side", id="play.tab"),
        bind("shift+tab", "tab(-1)", "turn to the page before", id="play.tab-before", synonyms="side"),
        bind("t", "worlds", "go back to the worlds of the Arena", "worlds", id="play.worlds"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.tab = "moves"
        self.exact: tuple[Player, Player, str] | None = None  # (the two players, the sentence)
        self.game = GamePanel(self.show_game)
        self.games, self.seats = GamesPanel(self.game), SeatsPanel(self.game)
        self.lessons, self.ratings = LearningPanel(self, self.game), RatingsPanel(self, self.game, self.seats)
        self.ladder = LadderPanel(self)
        self.game.advice.strongest = self.ratings.strongest
        self.shown = ""  # the name of the game on the board

    def compose_body(self) -> ComposeResult:
        yield Words(id="headline")
        yield Rule()
        with Horizontal(id="play"):
            yield self.game
            with Vertical(id="side"):
                yield Words(id="facts")
                yield Rule()
                yield without_focus(Table(id="game"))
                yield Rule(id="game-rule")
                yield TabLine(id="tabs")
                yield without_focus(Table(id="moves"))
                yield without_focus(Table(id="values"))
                yield self.ratings
                yield self.lessons
                yield self.ladder
                yield self.seats
                yield self.games

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.show_tab("moves")
        self.show_game()

    def open_run(self, name: str) -> None:
        """Play against a run: open its game, with its player as the opponent."""
        from txlab.engine.games.catalogue import game_named

        root = self.app.root  # type: ignore[attr-defined]

        def seat() -> Seat:
            return seat_of_run(name, root)

        def find(lane: object) -> tuple[str, Seat]:
            agent = seat()
            assert agent.player is not None
            return agent.player.game.NAME, agent

        self.games.preparing.want(find, lambda pair: self.games.prepare(game_named(pair[0]), lambda: pair[1]))

    # Drawing.

    def show_game(self) -> None:
        if not self.is_attached:
            return
        game = self.game
        if self.shown != game.entry.name:
            self.shown = game.entry.name
            self.ratings.forget()
            self.exact = None
            self.ladder.follow("", "", None)
            self.lessons.follow(None)
            self.lessons.show()
            game.show_board()  # of this game, whose drawing says what room it needs
            self.fold()
            self.remove_class("-side")
        self.follow_learner()
        shown = game.show_board()
        self.query_one("#headline", Words).say(self.headline())
        rows = [
            (sign_of(game.game, side), self.who(side), "bold" if self.at_turn(side) else "") for side in (FIRST, SECOND)
        ]
        rows.append(("moves", shown, ""))
        if game.hinting and not game.ended:
            rows.append(("hint", game.advice.hint_words(), "$accent"))
        if watched := game.showcase_words():
            rows.append(("watch", watched, "$accent"))
        if exact := self.exact_words():
            rows.append(("exactly", exact, ""))
        tally = tally_words(game.game, game.tally, game.you)
        rows.append(("games", tally or "none yet", "" if tally else "$quiet"))
        self.query_one("#facts", Words).say(facts(rows))
        rated = game.view != "nothing" or game.ended  # whether the moves are rated
        for name in ("#moves", "#game"):
            self.query_one(name, Table).set_table(*move_table(game, rated))
        self.query_one("#values", Table).set_table(
            *value_table(game.game, game.position, game.advice.evaluation_shown()[0])
        )
        self.caption.say(sentence(game))
        game.answers.ask()
        self.refresh_bindings()

    def headline(self) -> Content:
        words, loud = state(self.game)
        style = {"live": "bold $accent", "over": "bold", "quiet": ""}[loud]
        parts = [Content.styled(f"{self.game.entry.title}   ", "$quiet"), Content.styled(words, style)]
        if beside := self.beside():
            parts.append(Content.styled(f"   {beside}", "$quiet"))
        return Content.assemble(*parts)

    def exact_words(self) -> str:
        """Return `X .9678, drawn .0322, O .0000`: the results of these two, computed rather than played."""
        first, second = self.game.seats[FIRST].player, self.game.seats[SECOND].player
        if not isinstance(first, TabularPlayer) or not isinstance(second, TabularPlayer):
            return ""
        if self.exact is None or self.exact[:2] != (first, second):
            chance = chances(compile_graph(first.game), first.policy(), second.policy())  # type: ignore[arg-type]
            one, other = self.game.game.SIGNS
            words = f"{one} {rate(chance.won)}, drawn {rate(chance.drawn)}, {other} {rate(chance.lost)}"
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
        """Return the rest of the line above the board."""
        if not self.game.watching:
            return ""
        pace = MOVE_RATES[self.game.pace]
        return f"{f'{pace:g}' if pace >= 1 else 'every second'} {'moves a second' if pace > 1 else 'move a second'}"

    # The learner.

    @property
    def can_learn(self) -> bool:
        """Whether a table can learn the game here: whether it is small."""
        return "self-play" in self.game.entry.kinds

    def follow_learner(self) -> None:
        """Show how the learner or the run at the board learns, and rate its snapshots."""
        seats = [seat for side in (SECOND, FIRST) if (seat := self.game.seats[side]).family and self.game.ready]
        if seats:
            family = seats[0].family
            run = Path(family.removeprefix("run ")) if family.startswith("run ") else None
            self.lessons.follow(run)
            self.ladder.follow(family, family if run is None else run.name, self.game.entry)

    def run_seen(self, progress: Progress) -> None:
        """Replace a run's player by its current one, and rate its new snapshots."""
        if progress.rewound:
            self.ladder.follow("", "", None)
            self.follow_learner()
        self.ladder.offer(progress.rungs, progress.learning, progress.unit)
        if progress.newest is not None:
            seat, position, judged = progress.newest
            if judged is not None and seat.player is not None:
                self.game.answers.said[seat.player, position] = judged
            self.seats.replace_player(seat)
            if progress.learning and any(each.key == seat.key for each in self.game.seats.values()):
                self.game.begin_showcase(seat)
        self.show_game()

    def learner_is(self, seats: list[Seat]) -> None:
        """Update a learner among the players."""
        self.seats.replace_learner(seats)
        self.ladder.offer_seats(seats, self.lessons.learning)
        self.show_game()

    def give_seat_to_learner(self, key: str) -> None:
        """Seat the learner in the agent's place; a game without moves starts where its values change."""
        seat = next(seat for seat in self.seats.learners if seat.key == key)
        if self.game.begin_showcase(seat):
            return
        side = SECOND if self.game.you is None else -self.game.you
        self.game.sit({**self.game.seats, side: seat}, afresh=not self.game.playing.moves)

    def action_cancel(self) -> None:
        """End the tournament and the learning, keeping the learner; if there is neither, stop rating."""
        if self.ratings.contest or self.lessons.learning:
            self.ratings.cancel()
            self.lessons.session.pause()
        elif self.ladder.busy:
            self.ladder.action_measure()

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

    def fold(self) -> None:
        """Give the board the whole width where it needs that: on a narrow terminal, and sooner if it is wide."""
        needs = least_columns(self.game.board.drawing)
        side = 76 if self.has_class("-huge") else 43 if self.has_class("-narrow") else 50
        self.set_class(self.size.width < 60 or self.has_class("-tiny") or self.size.width - side < needs, "-folded")

    def on_resize(self) -> None:
        self.call_after_refresh(self.fit_size)

    def fit_size(self) -> None:
        """Choose tabs and table columns for the new size."""
        if self.is_attached:
            self.fold()
            self.show_tab(self.tab)
            self.lessons.show()
            self.ratings.show()
            self.ladder.show()

    def action_tab(self, by: int) -> None:
        """Go to the next tab; where the board has the whole width, it is one of them."""
        folded = self.has_class("-folded")
        names = ("board", *self.tabs) if folded else self.tabs
        now = "board" if folded and not self.has_class("-side") else self.tab
        at = names.index(now) if now in names else -by  # after a resize that moved that one above the tabs
        name = names[(at + by) % len(names)]
        self.set_class(folded and name != "board", "-side")
        if name != "board":
            self.show_tab(name)

    @on(TabLine.Chosen)
    def tab_clicked(self, event: TabLine.Chosen) -> None:
        self.show_tab(event.name)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return self.lessons.learning or self.ratings.contest or self.ladder.busy
        return super().check_action(action, parameters)

    def action_why(self) -> None:
        """Explain the value of the move under the cursor, or of all moves that it may begin, the best first."""
        game = self.game
        if not game.ready:
            return
        seat, moves = game.advice.seat_shown() or game.advice.seer(), game.moves_here()
        if seat is None or seat.player is None or not moves:
            self.game.tell("no player has a value to explain here; o chooses another opponent, v another view")
            return
        ask_why(self.app, partial(explain_moves, game.game, seat, game.position, moves), "one moment…")

    def action_worlds(self) -> None:
        """Go back to the worlds of the Arena."""
        self.app.action_open_screen("arena")  # type: ignore[attr-defined]


def explain_moves(
    game: Game, seat: Seat, position: Position, moves: Sequence[Move]
) -> Explanation | list[Explanation | Callable[[], Explanation]] | str:
    """Return explanations of a player's values of these moves, the best first; for a worker thread."""
    player = seat.player
    assert player is not None
    values = player.values(position)
    ranked = sorted((move for move in moves if move in values), key=lambda move: -values[move]) or list(moves)
    first = player.explain(position, ranked[0])
    if first is None:
        many = len(game.legal(position))
        alike = f"each of the {many} moves is as likely as another" if not values else "of this move it knows nothing"
        return f"{visible(seat.title)} sees nothing: {alike}.\nv shows what the perfect player or the strongest says."
    if len(ranked) == 1:
        return first

    def later(move: Move) -> Callable[[], Explanation]:
        def explain() -> Explanation:
            explanation = player.explain(position, move)
            assert explanation is not None
            return explanation

        return explain

    return [first, *(later(move) for move in ranked[1:])]


def without_focus(table: Table) -> Table:
    table.can_focus = False
    return table
