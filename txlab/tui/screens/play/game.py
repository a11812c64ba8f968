"""The game on the Play screen: its moves, the seats, turns, undo, hints, and agents that play each other.

Notable: nothing here knows which game it is. An agent answers after a short pause, so that its move can be told from
the user's; players that need time are asked in a thread, and what they said of a position is remembered. The game of a
person is written to a file after each move (runs/saved_games.py), so that it outlives the console.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.timer import Timer

from txlab.drawing.boards import BoardView, next_places, sign_of, value_text
from txlab.drawing.text import visible
from txlab.engine.games.catalogue import GameEntry, game_named, games
from txlab.engine.games.game import FIRST, SECOND, Game, Move, Position, place_name, showcase
from txlab.engine.games.playing import Playing
from txlab.runs.saved_games import GameFile, SavedGame, left_behind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import Choose
from txlab.tui.screens.play.advice import Answers, Judged
from txlab.tui.screens.play.players import PERSON, Seat, agents_of, seat_named, title_of, usual_opponent
from txlab.tui.widgets.board import Board

ANSWER = 0.3  # seconds until an agent answers the user
NO_CHOICE = 1.5  # seconds for which a throw is shown that allows no move
PACES = (0.5, 1.0, 2.0, 5.0, 20.0)  # moves a second when agents play each other
SEEN = 2.0  # moves for which an ended game stays on show between agents
VIEWS = ("agent", "perfect", "nothing")


@dataclass(frozen=True)
class Prepared:
    """What is ready when a game begins: the rules, those who play without a run, and who sits opposite."""

    entry: GameEntry
    agents: list[Seat]
    opponent: Seat
    left: tuple[Path, SavedGame] | None


class GamePanel(Panel):
    """The board, and one game at a time."""

    KEYS: ClassVar = (
        Binding("enter", "move", "move", id="play.move", key_display="enter"),
        Binding("escape", "release", "take back", id="play.release", key_display="esc"),
        Binding("space", "run", "pause", id="play.run", key_display="space"),
        Binding("full_stop", "one", "one move", id="play.step", key_display="."),
        Binding("minus", "pace(-1)", "pace", id="play.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="play.faster", key_display="+", show=False),
        Binding("u", "undo", "undo", id="play.undo"),
        Binding("h", "hint", "hint", id="play.hint"),
        Binding("n", "new", "new", id="play.new"),
        Binding("g", "game", "game", id="play.game"),
        Binding("r", "resume", "continue", id="play.resume"),
        Binding("c", "sides", "sides", id="play.sides"),
        Binding("v", "values", "values", id="play.values"),
        Binding("up", "step(-1, 0)", "up", id="play.up", show=False),
        Binding("down", "step(1, 0)", "down", id="play.down", show=False),
        Binding("left", "step(0, -1)", "left", id="play.left", show=False),
        Binding("right", "step(0, 1)", "right", id="play.right", show=False),
    )
    DEFAULT_CSS = "GamePanel { width: 1fr; height: 1fr; }"

    def __init__(self, changed: Callable[[], None], name: str = "tictactoe") -> None:
        super().__init__()
        self.changed = changed  # shows the game anew
        self.board = Board(id="board")
        self.chance = random.Random()
        self.entry = game_named(name)
        self.ready = False
        self.agents: list[Seat] = []  # those that need no run and no learning
        self.strongest: Callable[[], Sequence[Seat]] = tuple  # the others, best first; the ratings know
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
        self.left: tuple[Path, SavedGame] | None = None  # a game that another console did not finish
        complain = lambda sentence: self.tell(sentence, "error")  # noqa: E731
        self.preparing = LatestTask(self, "preparing", complain)
        self.answering = LatestTask(self, "answering", complain)
        self.answers = Answers(self, changed)

    def compose(self) -> ComposeResult:
        yield self.board

    def on_mount(self) -> None:
        self.prepare(self.entry)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("run", "one", "pace"):
            return self.watching
        if action == "move":
            return self.your_move or self.ended
        if action == "release":
            return bool(self.chosen)
        if action == "undo":
            return bool(self.playing.moves)
        if action == "resume":
            return self.left is not None
        return action != "hint" or not self.ended

    def word_for(self, binding: Binding) -> str:
        if binding.id == "play.move" and self.ended:
            return "again"
        return "run" if binding.id == "play.run" and not self.running else binding.description

    # The game as it stands.

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
        """The side of the only person; None with two of them, or none."""
        sides = [side for side, seat in self.seats.items() if seat.person]
        return sides[0] if len(sides) == 1 else None

    @property
    def your_move(self) -> bool:
        return self.ready and not self.ended and not self.playing.to_throw and self.seats[self.mover].person

    @property
    def no_choice(self) -> bool:
        """Whether the player to move has no move that places could be chosen for."""
        return list(self.game.ways(self.position)) == [()]

    # Which game

    def prepare(self, entry: GameEntry, opponent: Callable[[], Seat] | None = None) -> None:
        """Find the rules and the players of a game, in a thread: some need seconds and torch."""
        root: Path = self.app.root  # type: ignore[attr-defined]
        self.ready = False
        self.unseen()

        def find(lane: LatestTask) -> Prepared:
            agents = agents_of(entry)
            for seat in agents:
                if seat.player is not None and seat.player.quick:
                    Judged.by(seat.player, Playing(entry.game, 0).position)  # a solved game is searched here
            against = opponent() if opponent is not None else usual_opponent(root, entry, agents, lambda: lane.late)
            return Prepared(entry, agents, against, next(left_behind(), None))

        self.preparing.want(find, self.prepared, holds_keys=True)

    def prepared(self, found: Prepared) -> None:
        if self.entry is not found.entry:
            self.file.remove()
        self.entry, self.agents, self.ready = found.entry, found.agents, True
        self.answers.forget()
        self.seats, self.tally = {FIRST: PERSON, SECOND: found.opponent}, {}
        if found.opponent.key == "random" and found.entry.scenario:
            self.tell(f"no run has learnt {found.entry.title} yet; {found.entry.scenario} in the Lab does")
        self.left = found.left
        if found.left is not None:
            saved = found.left[1]
            when = datetime.fromtimestamp(saved.time)
            title = games()[saved.game].title if saved.game in games() else saved.game
            many = len(saved.moves)
            self.tell(f"a game of {title} was not finished, {when:%d %b %H:%M}, {many} moves; r continues it")
        self.begin_again()

    def action_game(self) -> None:
        """Choose another game."""
        known = {entry.title: entry for entry in games().values()}
        rows = [(title, "", entry.name == self.entry.name) for title, entry in known.items()]

        def chosen(title: str | None) -> None:
            if title in known and known[title] is not self.entry:
                self.prepare(known[title])

        self.app.push_screen(Choose("Which game?", rows), chosen)

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
            pause = 1 / PACES[self.pace] if self.watching else ANSWER
            if self.ended:
                if self.watching:
                    self.clock = self.set_timer(max(0.2, SEEN * pause), self.begin_again)
            elif not self.your_move:
                self.clock = self.set_timer(pause, self.let_agent_move)
            elif self.no_choice:
                self.clock = self.set_timer(NO_CHOICE, lambda: self.make(self.game.ways(self.position)[()]))
        self.changed()

    def seen(self) -> None:
        self.proceed()

    def unseen(self) -> None:
        """Make no moves while the screen is hidden."""
        self.answering.forget()
        if self.clock is not None:
            self.clock.stop()
            self.clock = None

    def let_agent_move(self) -> None:
        """Let the agent whose turn it is move."""
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
        """Go on with this game."""
        self.playing, self.chosen, self.hinting, self.counted = playing, (), False, None
        self.proceed()
        self.place_cursor(anew=True)

    def put_moves(self, moves: Sequence[Move]) -> None:
        """Go on with a game in which these moves have been made."""
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
        """If no move has been made, seat a learner, and go to the position of the game in which its values move, where
        the person is to move; whether that was done."""
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
        """What to look at, in the position in which the values of a learner move."""
        moves, words = showcase(self.game)
        learnt = any(seat.family for seat in self.seats.values())
        return words if moves and learnt and tuple(self.playing.moves) == tuple(moves) else ""

    def renew_seats(self, seats: list[Seat]) -> None:
        """Update the seats with the present state of the same players."""
        known = {seat.key: seat for seat in seats}
        self.seats = {side: known.get(seat.key, seat) for side, seat in self.seats.items()}

    # A game that outlives the console

    def save(self) -> None:
        """Write a person's game, or remove it when it has ended."""
        if self.watching or not self.playing.moves or self.ended:
            self.file.remove()
            return
        try:
            self.file.write(self.playing, {side: seat.where or seat.title for side, seat in self.seats.items()})
        except OSError as error:
            self.tell(f"the game cannot be kept: {error.strerror or error}", "warning")

    def action_resume(self) -> None:
        """Continue the game that another console did not finish."""
        if self.left is None:
            return
        (path, saved), self.left = self.left, None
        self.file.remove()
        if not self.file.take_over(path):
            self.tell("another console continues that game")
            return
        root: Path = self.app.root  # type: ignore[attr-defined]

        def find(lane: LatestTask) -> tuple[GameEntry, list[Seat], dict[int, Seat], Playing, list[str]]:
            entry, playing = game_named(saved.game), saved.playing()
            agents = agents_of(entry)
            missing: list[str] = []
            seats = {int(side): seat_named(who, agents, root, missing) for side, who in saved.seats.items()}
            return entry, agents, seats, playing, missing

        def go_on(found: tuple[GameEntry, list[Seat], dict[int, Seat], Playing, list[str]]) -> None:
            self.entry, self.agents, self.seats, playing, missing = found
            self.tally, self.ready = {}, True
            for who in missing:
                self.tell(f"{who} is not there any more; {self.agents[0].title} plays on")
            self.start(playing)

        self.preparing.want(find, go_on, holds_keys=True)

    # What is best

    def advisers(self, everyone: bool) -> list[Seat]:
        """Whose values tell what is best: the perfect player, the strongest by the ratings, the agents at the board;
        with `everyone` also the others, who may have to search."""
        perfect = [seat for seat in self.agents if seat.key == "perfect"]
        seated = [self.seats[side] for side in (SECOND, FIRST)]
        found = [*perfect, *self.strongest(), *seated, *(self.agents if everyone else ())]
        return list({seat.key: seat for seat in found if seat.player is not None}.values())

    def advice(self, position: Position, everyone: bool = True) -> tuple[Seat, Judged] | None:
        """The first adviser who has values here, and what it says; None if there is none, or not yet."""
        for seat in self.advisers(everyone):
            assert seat.player is not None
            found = self.answers.known(seat.player, position)
            if found is None:
                return None
            if found.best:
                return seat, found
        return None

    def loss(self, number: int) -> tuple[float, str] | None:
        """What a move gave away, in points, and what the adviser says of it; None if that is not known."""
        position, move = self.playing.positions[self.playing.decisions[number]], self.playing.moves[number]
        found = self.advice(position, everyone=False)
        if found is None or move not in found[1].values:
            return None
        values = found[1].values
        return max(values.values()) - values[move], found[1].notes.get(move, "")

    # What is on the board

    def show_board(self) -> str:
        """Draw the board; return in words what it shows of the moves."""
        judged, said = self.on_the_board()
        hinted = self.hinted()
        playing = self.playing
        self.board.show(
            BoardView(
                game=self.game,
                position=self.position,
                moves=tuple(playing.moves),
                values=judged.values,
                notes=judged.notes,
                shares=judged.shares,
                hinted=hinted,
                last=playing.moves[-1] if playing.moves else None,
                before=playing.before,
                chosen=self.chosen,
                cursor=self.board.cursor,
                bottom=self.you or FIRST,
            )
        )
        return said

    def seer(self) -> Seat | None:
        """Return the agent whose values are shown: the mover, or the mover's opponent."""
        return next((seat for side in (self.mover, -self.mover) if not (seat := self.seats[side]).person), None)

    def shown_seat(self) -> Seat | None:
        """Whose values are shown; None if nobody's are."""
        if not self.ready or self.ended or self.playing.to_throw or self.view == "nothing":
            return None
        seat = self.seer() if self.view == "agent" else None
        if seat is not None:
            return seat
        found = self.advice(self.position)
        return None if found is None else found[0]

    def on_the_board(self) -> tuple[Judged, str]:
        """What is shown of the legal moves, and its description."""
        if not self.ready or self.ended:
            return Judged(), "the game is over" if self.ended else "nothing yet"
        if self.view == "nothing":
            return Judged(), "nothing; v shows values"
        seat = self.shown_seat()
        if seat is None or seat.player is None:
            return Judged(), "thinking…" if self.answers.awaited else "nobody has values here"
        found = self.answers.known(seat.player, self.position)
        if found is None:
            return Judged(), f"{visible(seat.title)} thinks…"
        return found, f"{found.sees}, {sign_of(self.game, self.mover)}'s view" if found.values else found.sees

    def hinted(self) -> tuple[Move, ...]:
        found = self.advice(self.position) if self.hinting and not self.ended else None
        return () if found is None else found[1].best

    def hint_words(self) -> str:
        """Return the hinted moves as `centre: wins in 2`."""
        found = self.advice(self.position)
        if found is None:
            return "thinking…"
        seat, judged = found
        move = judged.best[0]
        what = judged.notes.get(move, "")
        if seat.key != "perfect" or not what:
            value = f"{value_text(judged.values[move])} " if move in judged.values else ""
            what = f"{value}{what and f'({what}) '}says {visible(seat.title)}"
        names = ", ".join(self.game.name_of_move(self.position, each) for each in judged.best)
        if len(judged.best) == len(self.game.legal(self.position)) > 1:
            names = "any move"
        return f"{names}: {what}"

    def place_cursor(self, anew: bool = False) -> None:
        """Put the cursor where the next choice begins, if a move takes several places, or at the beginning."""
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
        found = next_places(view)
        return found.get(self.board.cursor) or [move for moves in found.values() for move in moves]

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
        """Take back the last place that was chosen."""
        self.chosen = self.chosen[:-1]
        self.changed()
        self.place_cursor()
        self.screen.refresh_bindings()

    def action_undo(self) -> None:
        """Take back the user's last move and all that followed it; the same dice come again."""
        playing = self.playing
        kept = len(playing.moves) - 1
        if not self.watching:
            while kept >= 0 and not self.decided(kept):
                kept -= 1
        if kept < 0:
            self.tell("there is no move of yours to take back" if playing.moves else "nobody has moved yet")
            return
        if self.counted is not None:
            self.tally[self.counted] -= 1
            self.counted = None
        playing.take_back(kept)
        self.chosen, self.hinting = (), False
        self.running = self.running and not self.watching
        self.proceed()
        self.place_cursor()

    def decided(self, number: int) -> bool:
        """Whether a person chose that move."""
        position = self.playing.positions[self.playing.decisions[number]]
        return self.seats[self.game.mover(position)].person and list(self.game.ways(position)) != [()]

    def action_hint(self) -> None:
        """Show the best moves, by the perfect player or the strongest, and what they lead to."""
        if not self.ready or self.ended:
            self.tell("the game is over; n begins another one" if self.ended else "one moment")
            return
        self.hinting = not self.hinting
        self.changed()
        hinted = self.hinted()
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
        """Cycle what the board shows: the agent's values, those of the perfect player or the strongest, nothing."""
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
