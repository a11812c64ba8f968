"""One game at the shell: the players, the input, and the output: drawn at a terminal, plain text on a pipe, or JSON.

The same loop reads a person's input at a terminal and another program's lines on a pipe; only the output differs. On a
pipe, answers go to standard output and input errors to standard error, so that a program may read one and a person the
other. After invalid input the question is repeated; the end of the input is not an error.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from txlab.cli.models import print_explanation, print_json
from txlab.cli.terminal import Column, ascii_only, coloured, complain, is_terminal, shown, spaced, table
from txlab.drawing.formatting import count, interval, plain
from txlab.drawing.tictactoe import (
    SIGN,
    BoardPiece,
    Square,
    ended_words,
    hints,
    lines_of_board,
    note_of,
    position_of,
    squares_of,
    value_text,
)
from txlab.engine.explain import Explanation
from txlab.engine.games import tictactoe
from txlab.engine.games.game import Position
from txlab.engine.games.graph import compiled
from txlab.engine.games.learner import SelfPlaySettings, make_learner
from txlab.engine.games.perfect_play import Solution, explain, solved
from txlab.engine.games.players import Player, perfect_player, random_player
from txlab.engine.games.self_play_why import explain as explain_learner
from txlab.engine.games.tournament import tournament
from txlab.errors import LabError, nearest

OPPONENTS = ("perfect", "random", "td")
CELL = (7, 3)
AGES = (0, 100, 1_000, 10_000, 100_000)  # training games of the learners that are rated
BETWEEN_TWO = 1_000  # games between each pair
KEYS = {"q": "quit", "h": "hint", "u": "undo", "v": "values", "w": "why", "n": "new"}
KEYS |= {word: word for word in KEYS.values()}

Why = Callable[[Sequence[int], int], Explanation | None]
"""Why a player values a move as it does; None where that is not known."""


class ShellGame:
    """One game and its players. `you` is +1 for X, −1 for O."""

    def __init__(
        self, opponent: Player, why: Why | None, second: bool, chance: random.Random, values: bool, said: OnPipe
    ) -> None:
        self.opponent, self.why, self.chance, self.values, self.said = opponent, why, chance, values, said
        self.you = -1 if second else 1
        self.moves: list[int] = []
        self.solution: Solution = solved(tictactoe)

    def sit(self) -> None:
        """Play until the game or the input ends."""
        self.said.begins(self.opponent.name, self.you)
        while True:
            position = position_of(self.moves)
            if tictactoe.outcome(position) is not None:
                self.said.board(self.moves, None)
                self.said.ends(ended_words(position, self.you), position, self.you)
                return
            if tictactoe.mover(position) != self.you:
                self.make(self.opponent.move(position, self.chance.random()), self.opponent.name)
                continue
            self.said.board(self.moves, self.opponent.values(position) if self.values else None)
            if not self.answer():
                return

    def make(self, square: int, who: str) -> None:
        self.moves.append(square)
        self.said.moved(self.moves, who)

    def answer(self) -> bool:
        """Ask until the board changes; return False when the input ends or the player quits."""
        while True:
            line = self.said.asks()
            if line is None:
                self.said.leaves(len(self.moves))
                return False
            try:
                if self.take(line.strip().lower()):
                    return True
            except LabError as error:
                self.said.wrong(str(error))
            except EOFError:
                self.said.leaves(len(self.moves))
                return False

    def take(self, line: str) -> bool:
        """Execute the input; return whether the board changed. Raises EOFError to quit."""
        word, _, rest = line.partition(" ")
        doing = KEYS.get(word)
        free = tictactoe.legal(position_of(self.moves))
        if doing == "quit":
            raise EOFError
        if doing == "hint":
            self.said.hints(self.moves, self.solution)
            return False
        if doing == "values":
            self.values = not self.values
            return True
        if doing == "new":
            self.moves.clear()
            self.said.back(self.moves)
            return True
        if doing == "undo":
            if len(self.moves) < 2:
                raise LabError("there is no move of yours to take back")
            del self.moves[-2:]
            self.said.back(self.moves)
            return True
        if doing == "why":
            square = square_of(rest, free) if rest else None
            self.said.explains(self.explained(square))
            return False
        self.make(square_of(line, free), "you")
        return True

    def explained(self, square: int | None) -> Explanation:
        """Explain the value of a free square or, without one, of the position."""
        if square is not None and self.why is not None:
            found = self.why(self.moves, square)
            if found is not None:
                return found
        return explain(self.solution, position_of(self.moves), square)


def square_of(text: str, free: Sequence[int]) -> int:
    """Return the square that was typed, from 0. Raises LabError naming the free squares."""
    allowed = " ".join(str(square + 1) for square in free)
    if not (text.isascii() and text.isdigit()):
        quoted = text if len(text) <= 20 else f"{text[:20]}…"
        what = f"{quoted!r} is not a square" if text else "nothing was typed"
        raise LabError(f"{what}; free are {allowed}, and h hints, u undoes, v shows values, w explains, q leaves")
    square = int(text[:4]) - 1
    if square not in free:
        raise LabError(f"{text} is {'taken' if 0 <= square < 9 else 'not a square'}; free are {allowed}")
    return square


def read_line(prompt: str) -> str | None:
    """Read a line of input without its line end; None at the end. At a terminal, `prompt` is shown."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    if prompt:
        sys.stdout.write(prompt)
        sys.stdout.flush()
    data: bytes = sys.stdin.buffer.readline()  # bytes: invalid UTF-8 is a wrong move, not an error
    return data.decode(errors="replace").rstrip("\r\n") if data else None


def said_for(as_json: bool) -> OnPipe:
    """Return the kind of output that suits standard output."""
    return InJson() if as_json else AtTerminal() if is_terminal() else OnPipe()


def hint_words(moves: Sequence[int], solution: Solution) -> tuple[list[int], str]:
    """Return (squares of best play, from 1; a description of their outcome)."""
    position = position_of(moves)
    squares = hints(solution, position)
    return [square + 1 for square in squares], note_of(solution, position, squares[0])


class OnPipe:
    """Output as plain lines."""

    PROMPT = ""

    def say(self, sentence: str) -> None:
        print(shown(sentence), flush=True)

    def begins(self, opponent: str, you: int) -> None:
        self.say(f"you are {SIGN[you]}, {opponent} is {SIGN[-you]}; squares are 1 to 9, row by row")

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        if values:
            listed = ", ".join(f"{square + 1} {value_text(value)}" for square, value in values.items())
            self.say(f"values {plain(listed) if ascii_only() else listed}")
        elif values is not None:
            self.say("it sees no values")

    def asks(self) -> str | None:
        return read_line(self.PROMPT)

    def moved(self, moves: Sequence[int], who: str) -> None:
        position = position_of(moves)
        square = moves[-1]
        self.say(f"{SIGN[position[square]]} {square + 1}   {tictactoe.text(position)}   {who}")

    def back(self, moves: Sequence[int]) -> None:
        self.say(f"back  {tictactoe.text(position_of(moves))}")

    def hints(self, moves: Sequence[int], solution: Solution) -> None:
        squares, what = hint_words(moves, solution)
        self.say(f"hint {' '.join(map(str, squares))}: {what}")

    def explains(self, explanation: Explanation) -> None:
        print_explanation(explanation)

    def wrong(self, sentence: str) -> None:
        complain(sentence)

    def ends(self, words: str, position: Position, you: int) -> None:
        self.say(words)

    def leaves(self, moves: int) -> None:
        self.say(f"left after {moves} move{'' if moves == 1 else 's'}; nobody has won")


class InJson(OnPipe):
    """Output as one JSON object per line, errors included."""

    def tell(self, event: str, **values: Any) -> None:
        print(json.dumps({"event": event, **values}), flush=True)

    def begins(self, opponent: str, you: int) -> None:
        self.tell("begin", you=SIGN[you], against=opponent)

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        if values is not None:
            self.tell("values", values={str(square + 1): value for square, value in values.items()})

    def moved(self, moves: Sequence[int], who: str) -> None:
        position, square = position_of(moves), moves[-1]
        self.tell("move", sign=SIGN[position[square]], square=square + 1, position=tictactoe.text(position), by=who)

    def back(self, moves: Sequence[int]) -> None:
        self.tell("back", position=tictactoe.text(position_of(moves)))

    def hints(self, moves: Sequence[int], solution: Solution) -> None:
        squares, what = hint_words(moves, solution)
        self.tell("hint", squares=squares, leads_to=what)

    def explains(self, explanation: Explanation) -> None:
        self.tell("why", **explanation.as_json())

    def wrong(self, sentence: str) -> None:
        self.tell("wrong", sentence=sentence)

    def ends(self, words: str, position: Position, you: int) -> None:
        outcome = tictactoe.outcome(position)
        result = {1: "won", 0: "drawn", -1: "lost"}[(outcome or 0) * you]
        self.tell("end", you=result, winner={1: "X", 0: None, -1: "O"}[outcome or 0], said=words)

    def leaves(self, moves: int) -> None:
        self.tell("left", moves=moves)


class AtTerminal(OnPipe):
    """Output with the board redrawn for each move."""

    PROMPT = "1-9, h hint, u undo, v values, w why, n new, q quit > "

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        squares = squares_of(moves, values)
        for place, square in enumerate(squares):  # the corner of each shows its number, not the order of moves
            digit, free = str(place + 1), not square.sign
            number = square.number or digit if free else square.number
            squares[place] = replace(square, number=number, order=digit if square.number or not free else "")
        print()
        for line in lines_of_board(squares, CELL, ascii_only()):
            print("  " + "".join(self.painted(piece, squares) for piece in line).rstrip())
        print()

    def painted(self, piece: BoardPiece, squares: Sequence[Square]) -> str:
        """Return a piece in this terminal's colours, which convey nothing that the text does not."""
        square = squares[piece.square] if piece.square >= 0 else None
        if square is None or piece.kind == "order" or (piece.kind == "number" and square.merit is None):
            return coloured(piece.text, 90)
        if piece.kind in ("mark", "under"):
            return coloured(piece.text, 33 if square.won else 36 if square.last else 1)
        if piece.kind == "number" and square.merit:
            return coloured(piece.text, 33 if square.merit > 0 else 34)
        return piece.text

    def moved(self, moves: Sequence[int], who: str) -> None:
        if who != "you":
            self.say(f"{who} takes {moves[-1] + 1}, {tictactoe.MOVES[moves[-1]]}")

    def back(self, moves: Sequence[int]) -> None:
        pass  # the board is redrawn

    def wrong(self, sentence: str) -> None:
        self.say(sentence)

    def leaves(self, moves: int) -> None:
        if sys.stdin.isatty():
            print()
        super().leaves(moves)


def opponent_of(name: str, games: int, seed: int) -> tuple[Player, Why | None]:
    """Return the opponent and the function that explains its values, if any. Raises LabError for an unknown name."""
    if name == "perfect":
        return perfect_player(tictactoe), None
    if name == "random":
        return random_player(tictactoe), None
    if name == "td":
        learner = make_learner(compiled(tictactoe), SelfPlaySettings(), seed)
        learner.run(games)
        return learner.player(), lambda moves, square: explain_learner(learner, position_of(moves), square)
    from txlab.runs.finding import find_run
    from txlab.runs.models import player_of_run

    try:
        run = find_run(name)
    except LabError as error:
        close = nearest(name, OPPONENTS)
        if close:
            raise LabError(
                f"--against: {name!r} is not known{close}; allowed: {', '.join(OPPONENTS)}, or a run"
            ) from None
        raise LabError(f"--against: {error}; or one of {', '.join(OPPONENTS)}") from None
    return player_of_run(run), None


def print_ratings(games: int, seed: int, as_json: bool) -> None:
    """Print the ratings of TD(0) after up to `games` games, the perfect and the random player, best first."""
    learner = make_learner(compiled(tictactoe), SelfPlaySettings(), seed)
    players = [perfect_player(tictactoe), random_player(tictactoe)]
    for age in sorted({*(age for age in AGES if age < games), games}):
        learner.run(age - learner.games)
        players.append(learner.player(f"TD(0), {spaced(age)} games"))
    standings = tournament(players, BETWEEN_TWO, seed)
    assert standings is not None  # it is never stopped early
    rows = standings.rows()
    if as_json:
        print_json({"games_between_two": BETWEEN_TWO, "players": [asdict(row) for row in rows]})
        return
    head = [Column("player"), *(Column(name, "right") for name in ("rating", "95 % interval", "won", "drawn", "lost"))]
    cells = [
        [shown(text) for text in (row.name, count(row.rating), interval(row.low, row.high))]
        + [spaced(each) for each in (row.won, row.drawn, row.lost)]
        for row in rows
    ]
    print(table(head, cells))
    games_each = f"{spaced(BETWEEN_TWO)} games between every two, half from either seat"
    print(f"\n{games_each}, the first move drawn")
