"""The game on the Play screen: its moves, the seats, turns, undo, hints, and agents that play each other.

Notable: a game is the list of its moves; everything else about it is looked up in the solved game. An agent answers
after a short pause, so that its move can be told from the user's; a key pressed meanwhile acts on what is shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.timer import Timer

from txlab.drawing.text import visible
from txlab.drawing.tictactoe import SIGN, hints, note_of, position_of, squares_of
from txlab.engine.games import tictactoe
from txlab.engine.games.game import FIRST, SECOND, Position
from txlab.engine.games.perfect_play import Solution, solved
from txlab.engine.games.players import MaskPlayer, perfect_player, random_player
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.widgets.board import Board

ANSWER = 0.3  # seconds until an agent answers the user
PACES = (0.5, 1.0, 2.0, 5.0, 20.0)  # moves a second when agents play each other
SEEN = 2.0  # moves for which an ended game stays on show between agents
VIEWS = ("agent", "perfect", "nothing")


@dataclass(frozen=True)
class Seat:
    """A player at the board: a person, the perfect player, a random one, a learner of this screen, or one from a
    run.

    key     stays the same while a player learns; its knowledge is looked up when it moves
    player  None for a person     about   stands beside the title where players are chosen
    """

    key: str
    title: str
    about: str = ""
    player: MaskPlayer | None = None

    @property
    def person(self) -> bool:
        return self.player is None


PERSON = Seat("you", "you")


def title_of(seats: Mapping[int, Seat], side: int) -> str:
    """`perfect (O)`"""
    return f"{visible(seats[side].title)} ({SIGN[side]})"


class GamePanel(Panel):
    """The board, and one game at a time."""

    KEYS: ClassVar = (
        Binding("enter", "move", "move", id="play.move", key_display="enter"),
        Binding("space", "run", "pause", id="play.run", key_display="space"),
        Binding("full_stop", "one", "one move", id="play.step", key_display="."),
        Binding("minus", "pace(-1)", "pace", id="play.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="play.faster", key_display="+", show=False),
        Binding("u", "undo", "undo", id="play.undo"),
        Binding("h", "hint", "hint", id="play.hint"),
        Binding("n", "new", "new", id="play.new"),
        Binding("c", "sides", "sides", id="play.sides"),
        Binding("v", "values", "values", id="play.values"),
        Binding("up", "step(-1, 0)", "up", id="play.up", show=False),
        Binding("down", "step(1, 0)", "down", id="play.down", show=False),
        Binding("left", "step(0, -1)", "left", id="play.left", show=False),
        Binding("right", "step(0, 1)", "right", id="play.right", show=False),
    )
    DEFAULT_CSS = "GamePanel { width: 1fr; height: 1fr; }"

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self.changed = changed  # shows the game anew
        self.board = Board(id="board")
        self.solution: Solution | None = None
        self.perfect: MaskPlayer | None = None
        self.agents: list[Seat] = []  # those that need no learning
        self.moves: list[int] = []
        self.seats: dict[int, Seat] = {FIRST: PERSON, SECOND: PERSON}
        self.tally: dict[int, int] = {}  # results between these two: outcome → number of games
        self.counted: int | None = None  # the outcome of this game, once it has been tallied
        self.hinted: list[int] = []
        self.view = "agent"
        self.running = True  # whether agents keep playing each other
        self.pace = 1
        self.clock: Timer | None = None
        self.chance = random.Random(0)
        self.preparing = LatestTask(self, "solving", lambda sentence: self.tell(sentence, "error"))

    def compose(self) -> ComposeResult:
        yield self.board

    def on_mount(self) -> None:
        self.prepare()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("run", "one", "pace"):
            return self.watching
        if action == "move":
            return self.your_move or self.ended
        if action == "undo":
            return bool(self.moves)
        return action != "hint" or not self.ended

    def word_for(self, binding: Binding) -> str:
        if binding.id == "play.move" and self.ended:
            return "again"
        return "run" if binding.id == "play.run" and not self.running else binding.description

    # The game as it stands.

    @property
    def position(self) -> Position:
        return position_of(self.moves)

    @property
    def ended(self) -> bool:
        return tictactoe.outcome(self.position) is not None

    @property
    def mover(self) -> int:
        return tictactoe.mover(self.position)

    @property
    def watching(self) -> bool:
        """Whether only agents play."""
        return not any(seat.person for seat in self.seats.values())

    @property
    def you(self) -> int | None:
        """The side of the only person; None with two of them, or none."""
        sides = [side for side, seat in self.seats.items() if seat.person]
        return sides[0] if len(sides) == 1 else None

    @property
    def your_move(self) -> bool:
        return self.solution is not None and not self.ended and self.seats[self.mover].person

    def prepare(self) -> None:
        """Search the whole game once, in a thread: 0.1 s that would delay the first paint."""

        def search(lane: LatestTask) -> tuple[Solution, MaskPlayer, MaskPlayer]:
            return solved(tictactoe), perfect_player(tictactoe), random_player(tictactoe)

        self.preparing.want(search, lambda found: self.prepared(*found), holds_keys=True)

    def prepared(self, solution: Solution, perfect: MaskPlayer, at_random: MaskPlayer) -> None:
        self.solution, self.perfect = solution, perfect
        self.agents = [
            Seat("perfect", "perfect", "never loses; evenly among the best moves", perfect),
            Seat("random", "random", "any free square", at_random),
        ]
        self.seats = {FIRST: PERSON, SECOND: self.agents[0]}
        self.proceed()

    # Taking turns.

    def proceed(self) -> None:
        """Continue after any change of the game: tally it if it has ended, let an agent move if it is its turn."""
        self.unseen()
        if self.ended and self.counted is None:
            outcome = tictactoe.outcome(self.position)
            assert outcome is not None
            self.counted = outcome
            self.tally[outcome] = self.tally.get(outcome, 0) + 1
        if self.solution is not None and not (self.watching and not self.running):
            pause = 1 / PACES[self.pace] if self.watching else ANSWER
            if not self.ended and not self.your_move:
                self.clock = self.set_timer(pause, self.let_agent_move)
            elif self.ended and self.watching:
                self.clock = self.set_timer(max(0.2, SEEN * pause), self.begin_again)
        self.changed()

    def seen(self) -> None:
        self.proceed()

    def unseen(self) -> None:
        """Make no moves while the screen is hidden."""
        if self.clock is not None:
            self.clock.stop()
            self.clock = None

    def let_agent_move(self) -> None:
        """Let the agent whose turn it is move."""
        player = None if self.ended else self.seats[self.mover].player
        if player is not None:
            self.move(player.move(self.position, self.chance.random()))

    def move(self, square: int) -> None:
        self.moves.append(square)
        self.hinted = []
        self.proceed()

    def begin_again(self) -> None:
        """Start the next game from the empty board."""
        self.moves, self.hinted, self.counted = [], [], None
        self.proceed()

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

    def renew_seats(self, seats: list[Seat]) -> None:
        """Update the seats with the present state of the same players."""
        known = {seat.key: seat for seat in seats}
        self.seats = {side: known.get(seat.key, seat) for side, seat in self.seats.items()}

    # The numbers on the squares.

    def show_board(self) -> str:
        """Draw the board; return in words what its free squares show."""
        values, notes, said = self.on_the_squares()
        self.board.set_squares(squares_of(self.moves, values, notes, self.hinted))
        return said

    def seer(self) -> Seat | None:
        """Return the agent whose values are shown: the mover, or the mover's opponent."""
        return next((seat for side in (self.mover, -self.mover) if not (seat := self.seats[side]).person), None)

    def on_the_squares(self) -> tuple[dict[int, float] | None, dict[int, str] | None, str]:
        """Return (values of the free squares, notes below them, their description)."""
        solution, perfect = self.solution, self.perfect
        if solution is None or perfect is None or self.ended:
            return None, None, "the game is over" if self.ended else "nothing yet"
        seat, position, sign = self.seer(), self.position, SIGN[self.mover]
        player = perfect if self.view == "perfect" or seat is None or seat.player is None else seat.player
        if self.view == "nothing":
            return None, None, "nothing; v shows values"
        values = player.values(position)
        if player is perfect:
            notes = {move: note_of(solution, position, move) for move in values}
            return values, notes, f"best play, {sign}'s view"
        title = seat.title if seat is not None else ""
        return values, None, f"what {title} expects, {sign}'s view" if values else f"{title} sees nothing"

    # Keys.

    @on(Board.SquareChosen)
    def chosen(self, event: Board.SquareChosen) -> None:
        """Make the user's move; in an ended game, start the next one."""
        event.stop()
        if self.solution is None:
            return
        if self.ended:
            self.action_new()
        elif not self.your_move:
            words = "a makes you one of them" if self.watching else "one moment"
            self.tell(f"{title_of(self.seats, self.mover)} is to move; {words}")
        elif self.position[event.square]:
            free = ", ".join(tictactoe.MOVES[square] for square in tictactoe.legal(self.position))
            self.tell(f"{tictactoe.MOVES[event.square]} is taken; free are {free}")
        else:
            self.move(event.square)

    def action_undo(self) -> None:
        """Take back the user's last move and all that followed it."""
        kept = len(self.moves) - 1
        if not self.watching:
            while kept >= 0 and not self.seats[FIRST if kept % 2 == 0 else SECOND].person:
                kept -= 1
        if kept < 0:
            self.tell("there is no move of yours to take back" if self.moves else "nobody has moved yet")
            return
        if self.counted is not None:
            self.tally[self.counted] -= 1
            self.counted = None
        self.moves, self.hinted = self.moves[:kept], []
        self.running = self.running and not self.watching
        self.proceed()

    def action_hint(self) -> None:
        """Show the moves of best play, and what they lead to."""
        if self.solution is None or self.ended:
            self.tell("the game is over; n begins another one" if self.ended else "one moment")
            return
        self.hinted = [] if self.hinted else hints(self.solution, self.position)
        if self.hinted and self.board.cursor not in self.hinted:
            self.board.go(self.hinted[0])
        self.changed()

    def hint_words(self) -> str:
        """Return the hinted moves as `centre: wins in 2`."""
        if not self.hinted or self.solution is None:
            return ""
        what = note_of(self.solution, self.position, self.hinted[0])
        squares = ", ".join(tictactoe.MOVES[square] for square in self.hinted)
        if len(self.hinted) == len(tictactoe.legal(self.position)) > 1:
            squares = "any square"
        return f"{squares}: {what}"

    def action_new(self) -> None:
        self.begin_again()

    def action_sides(self) -> None:
        """Swap the two sides and start a new game."""
        self.sit({FIRST: self.seats[SECOND], SECOND: self.seats[FIRST]}, afresh=True)

    def action_values(self) -> None:
        """Cycle what the free squares show: the agent's values, the true ones, nothing."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.changed()

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
        self.pace = max(0, min(self.pace + by, len(PACES) - 1))
        self.proceed()

    def action_step(self, down: int, right: int) -> None:
        self.board.step(down, right)

    def action_move(self) -> None:
        self.board.choose()
