"""One game at the shell: the players, the input, and the output: drawn at a terminal, plain text on a pipe, or JSON.

The same loop reads the user's input at a terminal and another program's lines on a pipe; only the output differs. On a
pipe, answers go to standard output and input errors to standard error, so that a program can read one and a human the
other. After invalid input the question is repeated; the end of the input is not an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.style import Style
from rich.text import Text

from txlab.cli.models import print_explanation
from txlab.cli.output import Column, print_json, table
from txlab.cli.terminal import (
    ascii_only,
    complain,
    depth,
    group_digits,
    is_terminal,
    print_lines,
    sanitize,
    wrap_for_terminal,
)
from txlab.drawing import game_words
from txlab.drawing.boards import BoardPiece, BoardView, board_of
from txlab.drawing.boards.colour import TEXTURE, texture_text, tint, tone
from txlab.drawing.formatting import count, interval, plain
from txlab.drawing.palette import RGB, Colours, contrast
from txlab.engine.explain import Explanation
from txlab.engine.games.game import (
    FIRST,
    Game,
    Move,
    NamesThrows,
    NumbersPlaces,
    Position,
    SaysHow,
    number_of_move,
    read_move,
)
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import SelfPlaySettings, make_learner
from txlab.engine.games.players import Player
from txlab.engine.games.playing import Playing
from txlab.engine.games.records.record import PlayedGame, Turn
from txlab.engine.games.tournament import tournament
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.games.catalogue import GameEntry

AGES = (0, 100, 1_000, 10_000, 100_000)  # training games of the rated learners
BETWEEN_TWO = 1_000  # games between each pair
KEYS = {"q": "quit", "h": "hint", "u": "undo", "v": "values", "w": "why", "n": "new"}
KEYS |= {word: word for word in KEYS.values()}
MOST_LISTED = 8  # values of moves at a terminal
HELP = "h hints, u undoes, v shows values, w explains, q leaves"


class ShellGame:
    """The games of one sitting. `you` is +1 for the first player, −1 for the second."""

    def __init__(
        self, entry: GameEntry, opponent: Player, name: str, you: int, seed: int, values: bool, printer: OnPipe
    ) -> None:
        self.entry, self.game, self.opponent, self.name, self.you = entry, entry.game, opponent, name, you
        self.values, self.said = values, printer
        self.advisers = advisers_of(entry, opponent)
        self.games: list[PlayedGame] = []  # earlier games of this sitting
        self.playing = Playing(self.game, seed)

    @property
    def position(self) -> Position:
        return self.playing.position

    def sit(self) -> None:
        """Play until the game or the input ends."""
        self.said.begins(self.name, self.you, self.playing.seed)
        while True:
            if self.playing.ended:
                self.said.board(self.playing, self.you, None)
                self.said.ends(self.position, self.you)
                return
            if self.playing.to_throw:
                self.playing.throw()
                self.said.throws(self.position)
            elif not self.has_choice(self.position):
                self.make(self.game.legal(self.position)[0], "you" if self.playing.mover == self.you else self.name)
            elif self.playing.mover != self.you:
                self.make(self.opponent.move(self.position, self.playing.draw), self.name)
            else:
                self.said.board(self.playing, self.you, self.opponent if self.values else None)
                if not self.answer():
                    return

    def has_choice(self, position: Position) -> bool:
        """Whether the player has a choice: a forced pass uses no place of the board."""
        return () not in self.game.ways(position)

    def make(self, move: Move, who: str) -> None:
        before = self.position
        self.playing.make(move)
        self.said.show_move(Turn(before, move), self.position, who)

    def answer(self) -> bool:
        """Ask until the board changes; return False when the input ends or the player quits."""
        while True:
            line = self.said.asks()
            if line is None:
                self.said.leaves(len(self.playing.moves))
                return False
            try:
                if self.take(line.strip().lower()):
                    return True
            except LabError as error:
                self.said.wrong(str(error))
            except EOFError:
                self.said.leaves(len(self.playing.moves))
                return False

    def take(self, line: str) -> bool:
        """Execute the input; return whether the board changed. Raises EOFError to quit."""
        word, _, rest = line.partition(" ")
        doing = KEYS.get(word)
        if doing == "quit":
            raise EOFError
        if doing == "hint":
            self.hint()
        elif doing == "why":
            self.explain(rest)
        elif doing == "values":
            self.values = not self.values
            return True
        elif doing == "new":
            self.keep()
            self.playing = Playing(self.game, self.playing.seed + 1)
            self.said.back(self.position)
            return True
        elif doing == "undo":
            self.undo()
            return True
        else:
            try:
                move = read_move(self.game, self.position, line)
            except LabError as error:
                raise LabError(f"{error}; {HELP}") from None
            self.make(move, "you")
            return True
        return False

    def undo(self) -> None:
        """Take back your last chosen move, and everything after it; the dice stay the same."""
        playing = self.playing
        for number in reversed(range(len(playing.moves))):
            if playing.side_of(number) == self.you and self.has_choice(playing.positions[playing.decisions[number]]):
                playing.take_back(number)
                self.said.back(self.position)
                return
        raise LabError("there is no move of yours to take back")

    def hint(self) -> None:
        for adviser in self.advisers:
            if best := adviser.best(self.position):
                self.said.hints(self.position, best, note_of(adviser, self.position, best[0]))
                return
        raise LabError(f"no hint here: {self.advisers[0].sees(self.position)}")

    def explain(self, text: str) -> None:
        """Explain the value of a move, by default the best."""
        position = self.position
        if text:
            move = read_move(self.game, position, text)
        else:
            move = next((best[0] for each in self.advisers if (best := each.best(position))), None)
            move = self.game.legal(position)[0] if move is None else move
        for player in (self.opponent, *self.advisers):
            if (explanation := player.explain(position, move)) is not None:
                self.said.explains(explanation)
                return
        raise LabError(f"nothing to explain: {self.opponent.sees(position)}")

    # The record

    def keep(self) -> None:
        """Add this game to the record."""
        playing = self.playing
        if playing.moves:
            names = ("you", self.name) if self.you == FIRST else (self.name, "you")
            turns = [Turn(playing.positions[at], m) for at, m in zip(playing.decisions, playing.moves, strict=True)]
            self.games.append(PlayedGame(names, tuple(turns), playing.outcome))

    def write(self, path: Path) -> None:
        """Write all games of the sitting, including the unfinished one."""
        from txlab.cli.records import write_record

        self.keep()
        if self.games:
            write_record(self.entry, self.games, path)


def advisers_of(entry: GameEntry, opponent: Player) -> list[Player]:
    """The players that give hints: the game's perfect player where it can, then the opponent, then other available
    ones."""
    named = [each for each in entry.players if each.name != "random"]
    named.sort(key=lambda each: each.name != "perfect")
    perfect = [each.make_player(entry.game) for each in named]
    return [*perfect[:1], opponent, *perfect[1:]] if perfect else [opponent]


def note_of(player: Player, position: Position, move: Move) -> str:
    """The result of a move: "wins in 2"; or the expected points, and the player that expects them."""
    note, value = player.notes(position).get(move, ""), player.values(position).get(move)
    if value is None or note.startswith(("win", "draw", "lose")):
        return note
    return f"{', '.join(filter(None, (value_words(player.game, value), note)))} ({player.sees(position)})"


def no_values(player: Player, position: Position) -> str:
    sees = player.sees(position)
    return "it sees no values" if sees == f"{player.name} sees nothing" else f"it sees no values: {sees}"


def value_words(game: Game, value: float) -> str:
    words = game_words.value_words(game, value)
    return plain(words) if ascii_only() else words


def type_move(game: Game, position: Position, move: Move) -> str:
    """A move as the user types it: the number of its place, or its name."""
    return number_of_move(game, position, move) or game.name_of_move(position, move)


def read_line(prompt: str) -> str | None:
    """Read a line of input without its line end; None at the end. At a terminal, `prompt` is shown."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    if prompt:
        sys.stdout.write(prompt)
        sys.stdout.flush()
    data: bytes = sys.stdin.buffer.readline()  # bytes: invalid UTF-8 is an invalid move, not an error
    return data.decode(errors="replace").rstrip("\r\n") if data else None


def output_for(entry: GameEntry, as_json: bool) -> OnPipe:
    """Return the kind of output that suits standard output."""
    return InJson(entry) if as_json else AtTerminal(entry) if is_terminal() else OnPipe(entry)


class OnPipe:
    """Output as plain lines."""

    def __init__(self, entry: GameEntry) -> None:
        self.entry, self.game = entry, entry.game

    def say(self, sentence: str) -> None:
        print(wrap_for_terminal(sanitize(sentence)), flush=True)

    def sign(self, side: int) -> str:
        return self.game.SIGNS[0 if side == FIRST else 1]

    def prompt(self) -> str:
        return ""

    def begins(self, opponent: str, you: int, seed: int) -> None:
        how = self.game.HOW if isinstance(self.game, SaysHow) else "moves are written by their names"
        dice = f"; the dice follow from --seed {seed}" if self.has_dice() else ""
        self.say(f"you are {self.sign(you)}, {opponent} is {self.sign(-you)}; {how}{dice}")

    def has_dice(self) -> bool:
        return bool(self.game.chances(self.game.start()))

    def board(self, playing: Playing, you: int, seer: Player | None) -> None:
        """Show the board, with the values of `seer`."""
        if seer is None:
            return
        if values := seer.values(playing.position):
            each = (
                f"{type_move(self.game, playing.position, m)} {value_words(self.game, v)}" for m, v in values.items()
            )
            self.say(f"values {', '.join(each)}")
        else:
            self.say(no_values(seer, playing.position))

    def asks(self) -> str | None:
        return read_line(self.prompt())

    def throws(self, position: Position) -> None:
        self.say(f"{self.sign(self.game.mover(position))} throws {self.dice(position)}")

    def dice(self, position: Position) -> str:
        """The dice, by the game's name for the throw, or as the position shows them."""
        return self.game.name_of_throw(position) if isinstance(self.game, NamesThrows) else self.game.text(position)

    def show_move(self, turn: Turn, reached: Position, who: str) -> None:
        move = type_move(self.game, *turn)
        self.say(f"{self.sign(self.game.mover(turn.position))} {move}   {self.game.text(reached)}   {who}")

    def back(self, position: Position) -> None:
        self.say(f"back  {self.game.text(position)}")

    def hints(self, position: Position, moves: Sequence[Move], note: str) -> None:
        space = " " if number_of_move(self.game, position, moves[0]) else ", "
        self.say(f"hint {space.join(type_move(self.game, position, move) for move in moves)}: {note}")

    def explains(self, explanation: Explanation) -> None:
        print_explanation(explanation)

    def wrong(self, sentence: str) -> None:
        complain(sentence)

    def ends(self, position: Position, you: int) -> None:
        self.say(game_words.describe_end(self.game, position, you))

    def leaves(self, moves: int) -> None:
        self.say(f"left after {moves} move{'' if moves == 1 else 's'}; the game has no winner")


class InJson(OnPipe):
    """Output as one JSON object per line, errors included."""

    def tell(self, event: str, **values: Any) -> None:
        print_json({"event": event, **values})

    @property
    def place(self) -> str | None:
        """The thing that a move is the number of, "square"; None for moves with names."""
        return self.game.PLACE if isinstance(self.game, NumbersPlaces) else None

    def begins(self, opponent: str, you: int, seed: int) -> None:
        self.tell("begin", you=self.sign(you), against=opponent, **({"seed": seed} if self.has_dice() else {}))

    def board(self, playing: Playing, you: int, seer: Player | None) -> None:
        if seer is not None:
            values = seer.values(playing.position).items()
            self.tell("values", values={type_move(self.game, playing.position, move): value for move, value in values})

    def throws(self, position: Position) -> None:
        sign = self.sign(self.game.mover(position))
        self.tell("throw", sign=sign, dice=self.dice(position), position=self.game.text(position))

    def show_move(self, turn: Turn, reached: Position, who: str) -> None:
        move = type_move(self.game, *turn)
        what: dict[str, Any] = {self.place: int(move)} if self.place else {"move": move}
        sign = self.sign(self.game.mover(turn.position))
        self.tell("move", sign=sign, **what, position=self.game.text(reached), by=who)

    def back(self, position: Position) -> None:
        self.tell("back", position=self.game.text(position))

    def hints(self, position: Position, moves: Sequence[Move], note: str) -> None:
        written = [type_move(self.game, position, move) for move in moves]
        what: dict[str, Any] = {f"{self.place}s": list(map(int, written))} if self.place else {"moves": written}
        self.tell("hint", **what, leads_to=note)

    def explains(self, explanation: Explanation) -> None:
        self.tell("why", **explanation.as_json())

    def wrong(self, sentence: str) -> None:
        self.tell("wrong", sentence=sentence)

    def ends(self, position: Position, you: int) -> None:
        outcome = self.game.outcome(position) or 0
        result = "drawn" if not outcome else "won" if outcome * you > 0 else "lost"
        winner = self.sign(1 if outcome > 0 else -1) if outcome else None
        points = {"points": abs(outcome)} if self.game.MOST_POINTS > 1 else {}
        self.tell("end", you=result, winner=winner, **points, said=game_words.describe_end(self.game, position, you))

    def leaves(self, moves: int) -> None:
        self.tell("left", moves=moves)


ROWS, BELOW = 17, 6  # the most rows of a board, and the rows left for messages and the prompt
NOWHERE = -99  # no place: the cursor when moves are typed
LOOKS = {
    "wall": Style(color="bright_black"), "quiet": Style(color="bright_black"), "value": Style(),
    "first": Style(bold=True), "won": Style(color="yellow", bold=True), "here": Style(color="yellow", bold=True),
    "mark": Style(color="yellow", bold=True),
}  # fmt: skip
DARK = os.environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")
"""Whether the terminal is dark, as assumed if unknown."""


class AtTerminal(OnPipe):
    """Output with the board redrawn for each move."""

    def prompt(self) -> str:
        places = self.game.ways(self.game.start())
        move = f"1-{max(places)[0] + 1}" if isinstance(self.game, NumbersPlaces) else "your move"
        return f"{move}, h hint, u undo, v values, w why, n new, q quit > "

    def board(self, playing: Playing, you: int, seer: Player | None) -> None:
        position = playing.position
        values = {} if seer is None else seer.values(position)
        view = BoardView(
            self.game, position, playing.moves, values, cursor=NOWHERE, bottom=you, numbered=True,
            last=playing.moves[-1] if playing.moves else None, before=playing.before,
        )  # fmt: skip
        size, colours = get_terminal_size((80, 24)), depth()
        rows = max(8, min(ROWS, size.lines - BELOW))
        drawn = board_of(self.entry.name).lines(view, size.columns - 4, rows, ascii_only())
        while drawn and not "".join(piece.text for piece in drawn[-1]).strip():
            drawn.pop()
        print()
        print_lines([Text.assemble("  ", *(style_piece(piece, colours) for piece in line)) for line in drawn])
        print()
        if not playing.ended and self.has_dice():
            self.say(f"{self.sign(playing.mover)} to play {self.dice(position)}")
        if seer is not None and not values:
            self.say(no_values(seer, position))
        elif not isinstance(self.game, NumbersPlaces):
            self.list_values(position, values)

    def list_values(self, position: Position, values: Mapping[Move, float]) -> None:
        """The best moves with their values, for a board without room for them."""
        best = sorted(values, key=values.__getitem__, reverse=True)[:MOST_LISTED]
        for move in best:
            print(sanitize(f"  {value_words(self.game, values[move]):>7}  {self.game.name_of_move(position, move)}"))
        if len(values) > len(best):
            self.say(f"  and {len(values) - len(best)} more")

    def throws(self, position: Position) -> None:
        pass  # the board shows the dice

    def show_move(self, turn: Turn, reached: Position, who: str) -> None:
        if (
            who == "you"
            and turn.move in self.game.ways(turn.position).values()
            and () not in self.game.ways(turn.position)
        ):
            return
        number, name = number_of_move(self.game, *turn), self.game.name_of_move(*turn)
        dice = f" throws {self.dice(turn.position)}:" if self.has_dice() else " takes" if number else ":"
        both = f"{number}, {name}" if number and number != name else name
        self.say(f"{who}{dice} {both}")

    def back(self, position: Position) -> None:
        pass  # the board is redrawn

    def wrong(self, sentence: str) -> None:
        self.say(sentence)

    def leaves(self, moves: int) -> None:
        if sys.stdin.isatty():
            print()
        super().leaves(moves)


def style_piece(piece: BoardPiece, colours: Colours) -> tuple[str, Style]:
    """The text of a piece, and its style in the terminal's colours, which repeat what the text says."""
    few = colours in ("16", "none")
    text = texture_text(piece) if few else piece.text
    look = LOOKS.get(piece.kind, Style())
    if piece.kind not in LOOKS:
        look += Style(color=colour_of(tone(piece.kind, colours, DARK)))
    if piece.ground in LOOKS and piece.kind in ("mark", "pip", piece.ground):
        return text, LOOKS[piece.ground] + Style(reverse=True)
    if piece.ground and not (few and piece.ground in TEXTURE):
        ground = tone(piece.ground, colours, DARK)
        if ground is not None and piece.kind in ("mark", "pip", piece.ground):
            look += Style(color=colour_of(contrast(ground)))
        look += Style(bgcolor=colour_of(ground))
    if piece.merit is not None:
        fill, ink = tint(piece.merit, colours, DARK)
        look += Style(color=colour_of(ink), bgcolor=colour_of(fill))
    return text, look


def colour_of(colour: RGB | None) -> Color | None:
    return None if colour is None else Color.from_rgb(*colour)


def print_ratings(entry: GameEntry, games: int, seed: int, as_json: bool) -> None:
    """Print the ratings of the built-in players and of TD(0) after up to `games` games, best first."""
    players = [each.make_player(entry.game) for each in entry.players]
    learner = make_learner(compile_graph(entry.game), SelfPlaySettings(), seed)  # type: ignore[arg-type]
    for age in sorted({*(age for age in AGES if age < games), games}):
        learner.run(age - learner.games)
        players.append(learner.player(f"TD(0), {group_digits(age)} games"))
    standings = tournament(players, BETWEEN_TWO, seed)
    assert standings is not None  # it is never stopped early
    rows = standings.rows()
    if as_json:
        print_json({"games_between_two": BETWEEN_TWO, "players": [asdict(row) for row in rows]})
        return
    head = [Column("player"), *(Column(name, "right") for name in ("rating", "95 % interval", "won", "drawn", "lost"))]
    cells = [
        [sanitize(text) for text in (row.name, count(row.rating), interval(row.low, row.high))]
        + [group_digits(each) for each in (row.won, row.drawn, row.lost)]
        for row in rows
    ]
    print(table(head, cells))
    games_each = f"{group_digits(BETWEEN_TWO)} games between every two, half from either seat"
    print(f"\n{games_each}, the first move drawn")
