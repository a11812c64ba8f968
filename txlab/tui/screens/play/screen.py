"""The board games: the board large and in the middle, the players, what the agent expects, how it learnt it.

The game, the seats, learning and ratings are panels; this file has the facts beside the board and the tabs below them.
On a large terminal the moves are always shown above the tabs; where the board needs the whole width, tab turns to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing import game_words
from txlab.drawing.boards import sign_of, value_text
from txlab.drawing.formatting import count
from txlab.drawing.text import formula, visible
from txlab.engine.explain import Explanation
from txlab.engine.games.game import FIRST, SECOND, Game, Move, Position, throw_words
from txlab.engine.games.graph import compiled
from txlab.engine.games.perfect_play import chances
from txlab.engine.games.players import Player, TabularPlayer
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.play.advice import Judged
from txlab.tui.screens.play.following import Progress
from txlab.tui.screens.play.game import PACES, GamePanel
from txlab.tui.screens.play.ladder import LadderPanel
from txlab.tui.screens.play.learning import LearningPanel, rate
from txlab.tui.screens.play.players import Seat, seat_of_run, title_of
from txlab.tui.screens.play.ratings import RatingsPanel
from txlab.tui.screens.play.seats import SeatsPanel
from txlab.tui.screens.words import Words
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.why import ask_why

TABS = ("moves", "values", "learning", "ladder", "ratings", "pairs")
SMALL_LOSS, MISTAKE = 0.005, 0.08
"""Points that a move gives away: from where they are shown, and called a mistake."""


class PlayScreen(BenchScreen):
    """The board, and the side panel with its tabs."""

    CSS_PATH = "play.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "g chooses the game, o whom you play. The arrows and enter move, or a click; where a move has several places, "
        "as in backgammon, choose them one after the other, esc takes one back. The board shows what the agent expects "
        "of each move, in points, seen from who is to move: +1 you win, 0 a draw, -1 you lose; v changes to what the "
        "perfect player or the strongest says, or to nothing. T opens the tree of an agent that searches. a lets two "
        "agents play each other, l lets one learn by playing against itself, m lets all of them play each other and "
        "rates them, with what a run was before. "
        "While one learns, here or as a run at the board, its snapshots play each other and a player that does not "
        "learn, and the ladder rates them, the first as 0; f stops and starts that. "
        "A game that you leave is kept: r continues it, from any terminal."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (
        GamePanel,
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
        Binding("x", "cancel", "cancel", id="play.cancel"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("tab", "tab(1)", "side", id="play.tab"),
        Binding("shift+tab", "tab(-1)", "side before", id="play.tab-before", show=False),
        Binding("t", "worlds", "worlds", id="play.worlds"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.tab = "moves"
        self.exact: tuple[Player, Player, str] | None = None  # (the two players, the sentence)
        self.game = GamePanel(self.show_game)
        self.seats = SeatsPanel(self.game)
        self.lessons, self.ratings = LearningPanel(self, self.game), RatingsPanel(self, self.game, self.seats)
        self.ladder = LadderPanel(self)
        self.game.strongest = self.ratings.strongest
        self.shown = ""  # the name of the game on the board

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
                yield unfocused(Table(id="values"))
                yield self.ratings
                yield self.lessons
                yield self.ladder
                yield self.seats

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.show_tab("moves")
        self.show_game()

    def open_run(self, name: str) -> None:
        """Play against a run: its game, and its player opposite."""
        from txlab.engine.games.catalogue import game_named

        root = self.app.root  # type: ignore[attr-defined]

        def seat() -> Seat:
            return seat_of_run(name, root)

        def find(lane: object) -> tuple[str, Seat]:
            found = seat()
            assert found.player is not None
            return found.player.game.NAME, found

        self.game.preparing.want(find, lambda found: self.game.prepare(game_named(found[0]), lambda: found[1]))

    # What is shown.

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
            game.show_board()  # of this game, whose drawing says what room it needs
            self.fold()
        self.follow_learner()
        said = game.show_board()
        self.query_one("#headline", Words).say(self.headline(), layout=False)
        rows = [
            (sign_of(game.game, side), self.who(side), "bold" if self.at_turn(side) else "") for side in (FIRST, SECOND)
        ]
        rows.append(("moves", said, ""))
        if game.hinting and not game.ended:
            rows.append(("hint", game.hint_words(), "$accent"))
        if watched := game.showcase_words():
            rows.append(("watch", watched, "$accent"))
        if exact := self.exact_words():
            rows.append(("exactly", exact, ""))
        tally = tally_words(game.game, game.tally, game.you)
        rows.append(("games", tally or "none yet", "" if tally else "$quiet"))
        self.query_one("#facts", Words).say(facts(rows))
        told = game.view != "nothing" or game.ended  # whether the moves are rated
        for name in ("#moves", "#game"):
            self.query_one(name, Table).set_table(*move_table(game, told))
        self.query_one("#values", Table).set_table(*value_table(game.game, game.position, game.on_the_board()[0]))
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
            found = chances(compiled(first.game), first.policy(), second.policy())  # type: ignore[arg-type]
            one, other = self.game.game.SIGNS
            words = f"{one} {rate(found.won)}, drawn {rate(found.drawn)}, {other} {rate(found.lost)}"
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

    def follow_learner(self) -> None:
        """Show how the learner or the run at the board learns, and rate its snapshots."""
        seats = [seat for side in (SECOND, FIRST) if (seat := self.game.seats[side]).family and self.game.ready]
        if seats:
            family = seats[0].family
            run = Path(family.removeprefix("run ")) if family.startswith("run ") else None
            self.lessons.follow(run)
            self.ladder.follow(family, family if run is None else run.name, self.game.entry)

    def run_seen(self, progress: Progress) -> None:
        """Let the player that a run is now take the seat of the one that it was, and rate its new snapshots."""
        if progress.rewound:
            self.ladder.follow("", "", None)
            self.follow_learner()
        self.ladder.offer(progress.rungs, progress.learning, progress.unit)
        if progress.newest is not None:
            seat, position, judged = progress.newest
            if judged is not None and seat.player is not None:
                self.game.answers.said[seat.player, position] = judged
            self.seats.learnt_elsewhere(seat)
            if progress.learning and any(each.key == seat.key for each in self.game.seats.values()):
                self.game.begin_showcase(seat)
        self.show_game()

    def learner_is(self, seats: list[Seat]) -> None:
        """Update a learner among the players."""
        self.seats.learnt(seats)
        self.ladder.offer_seats(seats, self.lessons.learning)
        self.show_game()

    def give_seat_to_learner(self, key: str) -> None:
        """Seat the learner in the agent's place; a game that has not begun begins where its values move."""
        seat = next(seat for seat in self.seats.learners if seat.key == key)
        if self.game.begin_showcase(seat):
            return
        side = SECOND if self.game.you is None else -self.game.you
        self.game.sit({**self.game.seats, side: seat}, afresh=not self.game.playing.moves)

    def action_cancel(self) -> None:
        """End the tournament and the learning, whatever was learnt stays; if there is neither, stop rating."""
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
        drawing = self.game.board.drawing
        needs = getattr(drawing, "LEAST_COLUMNS", 0)
        side = 76 if self.has_class("-huge") else 43 if self.has_class("-narrow") else 50
        self.set_class(self.size.width < 60 or self.size.width - side < needs, "-folded")

    def on_resize(self) -> None:
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
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
        self.set_class(name != "board", "-side")
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
        """Explain the value of the move under the cursor, or of all that it may begin, the best first."""
        game = self.game
        if not game.ready:
            return
        seat, moves = game.shown_seat() or game.seer(), game.moves_here()
        if seat is None or seat.player is None or not moves:
            self.game.tell("nobody has a value to explain here; o chooses another opponent, v another view")
            return
        ask_why(self.app, partial(explained, game.game, seat, game.position, moves), "one moment…")

    def action_worlds(self) -> None:
        """Go back to the worlds of the Arena."""
        self.app.action_open_screen("arena")  # type: ignore[attr-defined]


def explained(
    game: Game, seat: Seat, position: Position, moves: Sequence[Move]
) -> Explanation | list[Explanation | Callable[[], Explanation]] | str:
    """Return why a player values these moves as it does, the best first; for a worker thread."""
    player = seat.player
    assert player is not None
    values = player.values(position)
    ranked = sorted((move for move in moves if move in values), key=lambda move: -values[move]) or list(moves)
    found = player.explain(position, ranked[0])
    if found is None:
        many = len(game.legal(position))
        alike = f"each of the {many} moves is as likely as another" if not values else "of this move it knows nothing"
        return f"{visible(seat.title)} sees nothing: {alike}.\nv shows what the perfect player or the strongest says."
    if len(ranked) == 1:
        return found

    def later(move: Move) -> Callable[[], Explanation]:
        def explain() -> Explanation:
            told = player.explain(position, move)
            assert told is not None
            return told

        return explain

    return [found, *(later(move) for move in ranked[1:])]


def unfocused(table: Table) -> Table:
    table.can_focus = False
    return table


# The text of the screen.


def state(panel: GamePanel) -> tuple[str, str]:
    """Return (sentence, style: "live", "over" or "quiet")."""
    game, position, seats, you = panel.game, panel.position, panel.seats, panel.you
    if not panel.ready:
        return "one moment…", "quiet"
    result = panel.playing.outcome
    if result is not None:
        side = FIRST if result >= 0 else SECOND
        words = game_words.ended_words(game, position, you)
        if you is None and result and not seats[side].person:
            words = f"{title_of(game, seats, side)} has won{words.partition('has won')[2]}"
        return words[:1].upper() + words[1:], "over"
    if panel.playing.to_throw:
        return "the dice are thrown…", "quiet"
    mover, thrown = panel.mover, throw_words(game, position)
    dice = f" with {thrown}" if thrown else ""
    if not seats[mover].person:
        thinks = "" if panel.answering.idle else " and thinks"
        return f"{title_of(game, seats, mover)} is to move{dice}{thinks}", "quiet"
    if panel.no_choice:
        return f"{sign_of(game, mover)} cannot move{dice}", "live"
    words = (
        f"{sign_of(game, mover)} is to move" if seats[-mover].person else f"Your move: you are {sign_of(game, mover)}"
    )
    return words + (f"{',' if dice and not seats[-mover].person else ''}{dice}" if dice else ""), "live"


def tally_words(game: Game, tally: Mapping[int, int], you: int | None) -> str:
    """Return `won 2, drawn 5, lost 1`, of the games between these two, and points where a win may have several."""
    if not sum(tally.values()):
        return ""
    side = you or FIRST
    won = sum(number for outcome, number in tally.items() if outcome * side > 0)
    lost = sum(number for outcome, number in tally.items() if outcome * side < 0)
    drawn = tally.get(0, 0)
    one, other = game.SIGNS
    if you is None:
        words = f"{one} won {count(won)}, drawn {count(drawn)}, {other} won {count(lost)}"
    else:
        words = f"you won {count(won)}, drawn {count(drawn)}, lost {count(lost)}"
    if game.MOST_POINTS > 1:
        words = words.replace(", drawn 0", "")
        points = sum(outcome * side * number for outcome, number in tally.items())
        words += f"; points {value_text(float(points))}"
    return words


def facts(rows: Sequence[tuple[str, str, str]]) -> Content:
    """Return names and values as aligned lines; the third item of each row is a style."""
    wide = max((len(name) for name, _, _ in rows), default=0)
    parts: list[Content] = []
    for place, (name, words, style) in enumerate(rows):
        parts += [Content("\n")] if place else []
        parts += [Content.styled(f"{name:<{wide}}  ", "$quiet"), Content.styled(words, style)]
    return Content.assemble(*parts)


def move_table(panel: GamePanel, told: bool) -> tuple[list[Column], list[list[str]]]:
    """Return the game so far, with `told` also what each move led to and what it gave away."""
    playing, game = panel.playing, panel.game
    columns = [Column("#"), Column("", right=False), Column("move", right=False)]
    columns += [Column("leads to", right=False, quiet=True), Column("gave away", right=False)] if told else []
    rows = []
    for number, name in enumerate(playing.names()):
        thrown = throw_words(game, playing.positions[playing.decisions[number]])
        row = [str(number + 1), sign_of(game, playing.side_of(number)), f"{thrown}: {name}" if thrown else name]
        if told:
            lost = panel.loss(number)
            row += ["", ""] if lost is None else [lost[1], loss_text(lost[0])]
        rows.append(row)
    return columns, rows


def loss_text(points: float) -> str:
    """Return ``, `−.03` or `−.21 mistake`."""
    if points < SMALL_LOSS:
        return ""
    return value_text(-points) + (" mistake" if points >= MISTAKE else "")


def value_table(game: Game, position: Position, judged: Judged) -> tuple[list[Column], list[list[str]]]:
    """Return the legal moves with their values, the best first."""
    columns = [Column("move", right=False), Column("points"), Column("", right=False, quiet=True)]
    ranked = sorted(judged.values, key=lambda move: -judged.values[move])
    rows = [
        [game.name_of_move(position, move), value_text(judged.values[move], 3), judged.notes.get(move, "")]
        for move in ranked
    ]
    return columns, rows
