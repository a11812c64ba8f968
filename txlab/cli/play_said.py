"""How a game is said: drawn for a person at a terminal, a line a move on a pipe, an object a line as JSON.

Notable: on a pipe the answers are on standard output and what was typed wrong on standard error, so that a program may
read one and a person the other.
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from txlab.drawing.board import Piece, Square
    from txlab.engine.explain import Explanation
    from txlab.engine.games.game import Position
    from txlab.engine.games.perfect_play import Solution

CELL = (7, 3)
PROMPT = "1-9, h hint, u undo, v values, w why, n new, q quit > "


class Said(Protocol):
    """What is said at each turn of a game."""

    def begins(self, opponent: str, you: int) -> None: ...

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None: ...

    def asks(self, you: int) -> str | None: ...

    def moved(self, moves: Sequence[int], who: str) -> None: ...

    def back(self, moves: Sequence[int]) -> None: ...

    def hints(self, moves: Sequence[int], solution: Solution) -> None: ...

    def explains(self, explanation: Explanation) -> None: ...

    def wrong(self, sentence: str) -> None: ...

    def ends(self, words: str, position: Position, you: int) -> None: ...

    def leaves(self, moves: int) -> None: ...


def said_for(json: bool) -> Said:
    """The way that suits who listens."""
    from txlab.cli.terminal import is_terminal

    return InJson() if json else AtTerminal() if is_terminal() else OnPipe()


def hint_words(moves: Sequence[int], solution: Solution) -> tuple[list[int], str]:
    """(squares of best play from 1, what they do)."""
    from txlab.drawing.tictactoe_words import hints, note_of, position_of

    position = position_of(moves)
    squares = hints(solution, position)
    return [square + 1 for square in squares], note_of(solution, position, squares[0])


class OnPipe:
    """Plain lines."""

    def say(self, sentence: str) -> None:
        from txlab.cli.terminal import shown

        print(shown(sentence), flush=True)

    def begins(self, opponent: str, you: int) -> None:
        from txlab.drawing.tictactoe_words import SIGN

        self.say(f"you are {SIGN[you]}, {opponent} is {SIGN[-you]}; squares are 1 to 9, row by row")

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        from txlab.drawing.tictactoe_words import value_text

        if values:
            from txlab.cli.terminal import ascii_only
            from txlab.drawing.formatting import plain

            listed = ", ".join(f"{square + 1} {value_text(value)}" for square, value in values.items())
            self.say(f"values {plain(listed) if ascii_only() else listed}")
        elif values is not None:
            self.say("it sees no values")

    def asks(self, you: int) -> str | None:
        from txlab.cli.play import read_line

        return read_line("")

    def moved(self, moves: Sequence[int], who: str) -> None:
        from txlab.drawing.tictactoe_words import SIGN, position_of
        from txlab.engine.games import tictactoe

        position = position_of(moves)
        square = moves[-1]
        self.say(f"{SIGN[position[square]]} {square + 1}   {tictactoe.text(position)}   {who}")

    def back(self, moves: Sequence[int]) -> None:
        from txlab.drawing.tictactoe_words import position_of
        from txlab.engine.games import tictactoe

        self.say(f"back  {tictactoe.text(position_of(moves))}")

    def hints(self, moves: Sequence[int], solution: Solution) -> None:
        squares, what = hint_words(moves, solution)
        self.say(f"hint {' '.join(map(str, squares))}: {what}")

    def explains(self, explanation: Explanation) -> None:
        from txlab.cli.explain import print_explanation

        print_explanation(explanation)

    def wrong(self, sentence: str) -> None:
        from txlab.cli import complain

        complain(sentence)

    def ends(self, words: str, position: Position, you: int) -> None:
        self.say(words)

    def leaves(self, moves: int) -> None:
        self.say(f"left after {moves} move{'' if moves == 1 else 's'}; nobody has won")


class InJson(OnPipe):
    """One object a line; what is wrong is an object too."""

    def tell(self, event: str, **values: Any) -> None:
        print(json_.dumps({"event": event, **values}), flush=True)

    def begins(self, opponent: str, you: int) -> None:
        from txlab.drawing.tictactoe_words import SIGN

        self.tell("begin", you=SIGN[you], against=opponent)

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        if values is not None:
            self.tell("values", values={str(square + 1): value for square, value in values.items()})

    def moved(self, moves: Sequence[int], who: str) -> None:
        from txlab.drawing.tictactoe_words import SIGN, position_of
        from txlab.engine.games import tictactoe

        position, square = position_of(moves), moves[-1]
        self.tell("move", sign=SIGN[position[square]], square=square + 1, position=tictactoe.text(position), by=who)

    def back(self, moves: Sequence[int]) -> None:
        from txlab.drawing.tictactoe_words import position_of
        from txlab.engine.games import tictactoe

        self.tell("back", position=tictactoe.text(position_of(moves)))

    def hints(self, moves: Sequence[int], solution: Solution) -> None:
        squares, what = hint_words(moves, solution)
        self.tell("hint", squares=squares, leads_to=what)

    def explains(self, explanation: Explanation) -> None:
        from txlab.cli.explain import explanation_json

        self.tell("why", **explanation_json(explanation))

    def wrong(self, sentence: str) -> None:
        self.tell("wrong", sentence=sentence)

    def ends(self, words: str, position: Position, you: int) -> None:
        from txlab.engine.games import tictactoe

        outcome = tictactoe.outcome(position)
        result = {1: "won", 0: "drawn", -1: "lost"}[(outcome or 0) * you]
        self.tell("end", you=result, winner={1: "X", 0: None, -1: "O"}[outcome or 0], said=words)

    def leaves(self, moves: int) -> None:
        self.tell("left", moves=moves)


class AtTerminal(OnPipe):
    """The board drawn anew for each move."""

    def board(self, moves: Sequence[int], values: Mapping[int, float] | None) -> None:
        from dataclasses import replace

        from txlab.cli.terminal import ascii_only
        from txlab.drawing.board import lines_of_board
        from txlab.drawing.tictactoe_words import squares_of

        squares = squares_of(moves, values)
        for place, square in enumerate(squares):
            if not square.sign:
                digit = str(place + 1)
                squares[place] = replace(square, number=square.number or digit, order=digit if square.number else "")
        print()
        for line in lines_of_board(squares, CELL, ascii_only()):
            print("  " + "".join(self.painted(piece, squares) for piece in line).rstrip())
        print()

    def painted(self, piece: Piece, squares: Sequence[Square]) -> str:
        """A piece in this terminal's colours; what they say is said without them too."""
        from txlab.cli.terminal import coloured

        square = squares[piece.square] if piece.square >= 0 else None
        if square is None or piece.kind == "order" or (piece.kind == "number" and square.merit is None):
            return coloured(piece.text, 90)
        if piece.kind in ("mark", "under"):
            return coloured(piece.text, 33 if square.won else 36 if square.last else 1)
        if piece.kind == "number" and square.merit:
            return coloured(piece.text, 33 if square.merit > 0 else 34)
        return piece.text

    def asks(self, you: int) -> str | None:
        from txlab.cli.play import read_line

        return read_line(PROMPT)

    def moved(self, moves: Sequence[int], who: str) -> None:
        if who != "you":
            from txlab.engine.games import tictactoe

            self.say(f"{who} takes {moves[-1] + 1}, {tictactoe.MOVES[moves[-1]]}")

    def back(self, moves: Sequence[int]) -> None:
        pass  # the board is drawn anew

    def wrong(self, sentence: str) -> None:
        self.say(sentence)

    def leaves(self, moves: int) -> None:
        if sys.stdin.isatty():
            print()
        super().leaves(moves)
