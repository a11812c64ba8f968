"""The game on the Play screen: its moves, the seats, turns, undo, hints, and agents that play each other.

Notable: nothing here depends on the game. An agent answers after a short pause, so that its move is distinct from the
user's; players that need time run in a thread, and their evaluations are cached. The user's game is written to a file
after each move (runs/saved_games.py), so that it outlives the console.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.timer import Timer

from txlab.drawing.boards import BoardView, next_places
from txlab.engine.games.catalogue import game_named
from txlab.engine.games.game import FIRST, SECOND, Game, Move, Position, place_name, showcase
from txlab.engine.games.playing import Playing
from txlab.runs.saved_games import GameFile
from txlab.tui.bindings import MOVING, bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.play.advice import Advice, Answers
from txlab.tui.screens.play.players import PERSON, Seat, title_of
from txlab.tui.screens.play.tree_dialog import TreeDialog
from txlab.tui.widgets.board import Board

ANSWER = 0.3  # seconds until an agent answers the user
NO_CHOICE = 1.5  # seconds to show a throw that allows no move
MOVE_RATES = (0.5, 1.0, 2.0, 5.0, 20.0)  # moves a second when agents play each other
SEEN = 2.0  # moves for which an ended game between agents stays on the screen
VIEWS = ("agent", "perfect", "nothing")


class GamePanel(Panel):
    """The board, and one game at a time."""

    KEYS: ClassVar = (
        bind("enter", "move", "choose this place", "move", id="play.move", key_display="enter"),
        bind("escape", "release", "take back the last place of a move", "take back", id="play.release"),
        bind("space", "run", "pause or continue the game", "pause", id="play.run"),
        bind("full_stop", "one", "play one move", "one move", id="play.step"),
        bind("minus", "pace(-1)", "go slower or faster", "pace", id="play.slower", key_display="- +"),
        bind("plus,equals_sign", "pace(1)", "go faster", id="play.faster", key_display="+"),
        bind("u", "undo", "take the last move back", "undo", id="play.undo", synonyms="take back"),
        bind("h", "hint", "show the best moves", "hint", id="play.hint"),
        bind("n", "new", "begin a new game", "new", id="play.new"),
        bind("c", "sides", "swap sides", "sides", id="play.sides"),
        bind(
            "v",
            "values",
            "show the agent's values, those of the perfect player or the strongest, or none",
            "values",
            id="play.values",
        ),
        bind(
            "T",
            "tree",
            "open the tree of the search, and watch it grow",
            "tree",
            id="play.tree",
            synonyms="puct monte carlo mcts visits",
        ),
        bind("up", "step(-1, 0)", "up", id="play.up", heading=MOVING),
        bind("down", "step(1, 0)", "down", id="play.down", heading=MOVING),
        bind("left", "step(0, -1)", "left", id="play.left", heading=MOVING),
        bind("right", "step(0, 1)", "right", id="play.right", heading=MOVING),
    )
    DEFAULT_CSS = "GamePanel { width: 1fr; height: 1fr; }"

    def __init__(self, changed: Callable[[], None], name: str = "tictactoe") -> None:
        super().__init__()
        self.changed = changed  # redraws the game
        self.board = Board(id="board")
        self.chance = random.Random()
        self.entry = game_named(name)
        self.ready = False
        self.agents: list[Seat] = []  # those that need no run and no learning
        self.playing = Playing(self.entry.game, 0)
        self.chosen: tuple[int, ...] = ()  # the first places of a move
        self.seats: dict[int, Seat] = {FIRST: PERSON, SECOND: PERSON}
        self.tally: dict[int, int] = {}  # results between these two: outcome → number of games
        self.counted: int | None = None  # the outcome of this game, once it has been tallied
        self.hinting = False
        self.view = "agent"
        self.running = True  # whether agents keep playing each other
        self.pace = 1
        self.clock: Timer | None = None
        self.file = GameFile()
        self.answering = LatestTask(self, "answering", lambda sentence: self.tell(sentence, "error"))
        self.answers, self.advice = Answers(self, changed), Advice(self)

    def compose(self) -> ComposeResult:
        yield self.board

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("run", "one", "pace"):
            return self.watching
        if action == "move":
            return self.your_move or self.ended
        if action == "release":
            return bool(self.chosen)
        if action == "undo":
            return bool(self.playing.moves)
        if action == "tree":
            return self.advice.searching() is not None
        return action != "hint" or not self.ended

    def word_for(self, binding: Binding) -> str:
        if binding.id == "play.move" and self.ended:
            return "again"
        return "run" if binding.id == "play.run" and not self.running else binding.description

    # The state of the game.

    @property
    def game(self) -> Game:
        return self.playing.game

    @property
    def position(self) -> Position:
        return self.playing.position

    @property
    def ended(self) -> bool:
        return self.playing.ended

    @property
    def mover(self) -> int:
        return self.playing.mover

    @property
    def watching(self) -> bool:
        """Whether only agents play."""
        return not any(seat.person for seat in self.seats.values())

    @property
    def you(self) -> int | None:
        """The side of the only human; None with two or none."""
        sides = [side for side, seat in self.seats.items() if seat.person]
        return sides[0] if len(sides) == 1 else None

    @property
    def can_move(self) -> bool:
        """Whether a player is to move, not the dice."""
        return self.ready and not self.ended and not self.playing.to_throw

    @property
    def your_move(self) -> bool:
        return self.can_move and self.seats[self.mover].person

    @property
    def no_choice(self) -> bool:
        """Whether the player to move has no move with places to choose."""
        return list(self.game.ways(self.position)) == [()]

    # Taking turns.

    def proceed(self) -> None:
        """Continue after any change of the game: throw dice, tally it if it has ended, let an agent move if it is its
        turn."""
        self.unseen()
        self.playing.throw_all()
        if self.ended and self.counted is None:
            outcome = self.playing.outcome
            assert outcome is not None
            self.counted = outcome
            self.tally[outcome] = self.tally.get(outcome, 0) + 1
        self.save()
        if self.ready and not (self.watching and not self.running):
            pause = 1 / MOVE_RATES[self.pace] if self.watching else ANSWER
            if self.ended:
                if self.watching:
                    self.clock = self.set_timer(max(0.2, SEEN * pause), self.begin_again)
            elif not self.your_move:
                self.clock = self.set_timer(pause, self.let_agent_move)
            elif self.no_choice:
                self.clock = self.set_timer(NO_CHOICE, lambda: self.make(self.game.ways(self.position)[()]))
        self.changed()

    def come_to_front(self) -> None:
        self.proceed()

    def unseen(self) -> None:
        """Make no moves while the screen is hidden."""
        self.answering.forget()
        if self.clock is not None:
            self.clock.stop()
            self.clock = None

    def let_agent_move(self) -> None:
        """Let the agent move if it is its turn."""
        player = None if self.ended else self.seats[self.mover].player
        if player is None:
            return
        position, draw = self.position, self.playing.draw
        if player.quick:
            self.make(player.move(position, draw))
            return

        def answer(lane: LatestTask) -> Move:
            return player.move(position, draw)

        self.answering.want(answer, lambda move: self.make(move) if self.position is position else None)

    def make(self, move: Move) -> None:
        self.playing.make(move)
        self.chosen, self.hinting = (), False
        self.proceed()
        self.place_cursor()

    def begin_again(self) -> None:
        """Start the next game."""
        self.start(Playing(self.entry.game, self.chance.randrange(2**62)))

    def start(self, playing: Playing) -> None:
        """Continue this game."""
        self.playing, self.chosen, self.hinting, self.counted = playing, (), False, None
        self.proceed()
        self.place_cursor(anew=True)

    def put_moves(self, moves: Sequence[Move]) -> None:
        """Continue a game after these moves."""
        playing = Playing(self.entry.game, self.playing.seed)
        playing.throw_all()
        playing.go_on(moves)
        self.start(playing)

    def sit(self, seats: dict[int, Seat], afresh: bool) -> None:
        """Change the players: the tally restarts, and with `afresh` the game too."""
        if {side: seat.key for side, seat in seats.items()} != {side: seat.key for side, seat in self.seats.items()}:
            self.tally = {}
        self.seats = seats
        if afresh or self.ended:
            self.begin_again()
        else:
            self.proceed()
        self.screen.refresh_bindings()

    def begin_showcase(self, seat: Seat) -> bool:
        """If no move has been made, seat a player, and go to the position in which the values differ, with the user to
        move; returns whether that was done."""
        moves, _ = showcase(self.game)
        if not moves or self.playing.moves or self.you is None or not self.ready:
            return False
        position = self.game.start()
        for move in moves:
            position = self.game.after(position, move)
        mover = self.game.mover(position)
        self.sit({mover: self.seats[self.you], -mover: seat}, afresh=False)
        self.put_moves(moves)
        return True

    def showcase_words(self) -> str:
        """The hint for the position in which the values differ."""
        moves, words = showcase(self.game)
        return words if moves and tuple(self.playing.moves) == tuple(moves) else ""

    def renew_seats(self, seats: list[Seat]) -> None:
        """Update the seats with the present state of the same players."""
        known = {seat.key: seat for seat in seats}
        self.seats = {side: known.get(seat.key, seat) for side, seat in self.seats.items()}

    # A game that outlives the console

    def save(self) -> None:
        """Write the user's game, or remove it when it has ended."""
        moves = tuple(self.playing.moves)
        if self.watching or not moves or self.ended or moves == tuple(showcase(self.game)[0]):
            self.file.remove()
            return
        try:
            self.file.write(self.playing, {side: seat.where or seat.title for side, seat in self.seats.items()})
        except OSError as error:
            self.tell(f"the game cannot be kept: {error.strerror or error}", "warning")

    # What is on the board

    def show_board(self) -> str:
        """Draw the board; return in words what it shows of the moves."""
        judged, words = self.advice.evaluation_shown()
        playing = self.playing
        self.board.show(
            BoardView(
                game=self.game,
                position=self.position,
                moves=tuple(playing.moves),
                values=judged.values,
                notes=judged.notes,
                shares=judged.shares,
                hinted=self.advice.moves_hinted(),
                last=playing.moves[-1] if playing.moves else None,
                before=playing.before,
                chosen=self.chosen,
                cursor=self.board.cursor,
                bottom=self.you or FIRST,
            )
        )
        return words

    def place_cursor(self, anew: bool = False) -> None:
        """Put the cursor on the first place of the next choice, if a move takes several places, or at the beginning."""
        view, drawing = self.board.view, self.board.drawing
        if view is None or drawing is None or self.ended:
            return
        if anew or any(len(places) > 1 for places in self.game.ways(self.position)):
            self.board.go(drawing.first_place(view))

    def moves_here(self) -> list[Move]:
        """The moves that remain possible if the place under the cursor is chosen next; all, if none is."""
        view = self.board.view
        if view is None or self.ended or self.playing.to_throw:
            return []
        moves_of = next_places(view)
        return moves_of.get(self.board.cursor) or [move for moves in moves_of.values() for move in moves]

    # Keys.

    @on(Board.PlaceChosen)
    def place_chosen(self, event: Board.PlaceChosen) -> None:
        """Make the user's move when its places are chosen; in an ended game, start the next one."""
        event.stop()
        if not self.ready:
            return
        if self.ended:
            self.action_new()
        elif not self.your_move:
            words = "a makes you one of them" if self.watching else "one moment"
            self.tell(f"{title_of(self.game, self.seats, self.mover)} is to move; {words}")
        else:
            self.choose_place(event.place)

    def choose_place(self, place: int) -> None:
        view = self.board.view
        assert view is not None
        possible = next_places(view)
        if place in possible:
            self.chosen += (place,)
            ways = self.game.ways(self.position)
            if self.chosen in ways:
                self.make(ways[self.chosen])
                return
            self.changed()
            self.place_cursor()
            self.screen.refresh_bindings()
            return
        names = ", ".join(place_name(self.game, self.position, each) for each in possible) or "none"
        self.tell(f"{place_name(self.game, self.position, place)} is not possible; possible are {names}")

    def action_release(self) -> None:
        """Take back the last chosen place."""
        self.chosen = self.chosen[:-1]
        self.changed()
        self.place_cursor()
        self.screen.refresh_bindings()

    def action_undo(self) -> None:
        """Take back the user's last move and everything after it; the same dice come again."""
        playing = self.playing
        kept = len(playing.moves) - 1
        if not self.watching:
            while kept >= 0 and not self.is_by_human(kept):
                kept -= 1
        if kept < 0:
            self.tell("there is no move of yours to take back" if playing.moves else "no move has been made")
            return
        if self.counted is not None:
            self.tally[self.counted] -= 1
            self.counted = None
        playing.take_back(kept)
        self.chosen, self.hinting = (), False
        self.running = self.running and not self.watching
        self.proceed()
        self.place_cursor()

    def is_by_human(self, number: int) -> bool:
        """Whether a human chose that move."""
        position = self.playing.positions[self.playing.decisions[number]]
        return self.seats[self.game.mover(position)].person and list(self.game.ways(position)) != [()]

    def action_hint(self) -> None:
        """Show the best moves, by the perfect player or the strongest, and their results."""
        if not self.ready or self.ended:
            self.tell("the game is over; n begins another one" if self.ended else "one moment")
            return
        self.hinting = not self.hinting
        self.changed()
        hinted = self.advice.moves_hinted()
        ways = [places for places, move in self.game.ways(self.position).items() if move in hinted]
        here = [places[len(self.chosen)] for places in ways if places[: len(self.chosen)] == self.chosen]
        if here and self.board.cursor not in here:
            self.board.go(here[0])

    def action_new(self) -> None:
        self.begin_again()

    def action_sides(self) -> None:
        """Swap the two sides and start a new game."""
        self.sit({FIRST: self.seats[SECOND], SECOND: self.seats[FIRST]}, afresh=True)

    def action_values(self) -> None:
        """Cycle the values on the board: the agent's, the perfect or strongest player's, none."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.changed()

    def action_tree(self) -> None:
        """Open the tree of the search of this position, and let it grow."""
        search = self.advice.searching()
        if search is not None:
            self.app.push_screen(TreeDialog(search))

    def action_run(self) -> None:
        """Let the agents play on, or pause them."""
        self.running = not self.running
        self.proceed()
        self.screen.refresh_bindings()

    def action_one(self) -> None:
        """Make one move of the agents, or start the next game."""
        self.running = False
        if self.ended:
            self.begin_again()
        else:
            self.let_agent_move()
        self.screen.refresh_bindings()

    def action_pace(self, by: int) -> None:
        self.pace = max(0, min(self.pace + by, len(MOVE_RATES) - 1))
        self.proceed()

    def action_step(self, down: int, right: int) -> None:
        self.board.step(down, right)

    def action_move(self) -> None:
        self.board.choose()
