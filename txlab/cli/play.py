"""`txlab play tictactoe`: a game against the perfect player, a random one, one that learns first, or the one of a run.

Notable: the same loop reads a person's keys at a terminal and another program's lines on a pipe; only how it is said
differs (play_said.py). What is typed wrong is answered with a sentence and asked again; the end of the input is no
error.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.cli.play_said import Said
    from txlab.engine.explain import Explanation
    from txlab.engine.games.perfect_play import Solution
    from txlab.engine.games.players import Player

GAMES = ("tictactoe",)
OPPONENTS = ("perfect", "random", "td")
LEARNT = 100_000  # games of `--against td`: as many as the figures of `txlab verify` are of, about a second
KEYS = {"q": "quit", "quit": "quit", "h": "hint", "hint": "hint", "u": "undo", "undo": "undo", "v": "values"}
KEYS |= {"values": "values", "w": "why", "why": "why", "n": "new", "new": "new"}


def play(
    game: Annotated[str, typer.Argument(metavar="GAME", help="tictactoe")],
    against: Annotated[
        str, typer.Option("--against", metavar="PLAYER", help="perfect, random, td (learns first), or a run")
    ] = "perfect",
    games: Annotated[
        int | None,
        typer.Option("--games", metavar="N", help=f"games td learns by first, up to {LEARNT}", min=0),
    ] = None,
    second: Annotated[bool, typer.Option("--second", help="the other side begins: you are O")] = False,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="the same choices again", min=0)] = None,
    values: Annotated[bool, typer.Option("--values", help="begin with the values it sees on the squares")] = False,
    tournament: Annotated[bool, typer.Option("--tournament", help="let all play each other, and rate them")] = False,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Play against what has learnt, or against what cannot lose. Squares are 1 to 9; h, u, v, w, n and q help."""
    if game not in GAMES:
        raise LabError(f"GAME: {game!r} is not known{nearest(game, GAMES)}; allowed: {', '.join(GAMES)}")
    if games is not None and against != "td" and not tournament:
        raise LabError("--games is how long td learns; give it with --against td, or with --tournament")
    if games is not None and games > LEARNT:
        raise LabError(f"--games: {games} is not allowed; allowed: at most {LEARNT}")
    chosen = random.Random(seed)
    if tournament:
        from txlab.cli.play_ratings import print_ratings

        print_ratings(LEARNT if games is None else games, seed or 0, json)
        return
    from txlab.cli.play_said import said_for

    opponent, why = opponent_of(against, LEARNT if games is None else games, seed or 0)
    Table(opponent, why, second, chosen, values, said_for(json)).sit()


def opponent_of(
    name: str, games: int, seed: int
) -> tuple[Player, Callable[[Sequence[int], int], Explanation | None] | None]:
    """Who plays, and who can say why a value of theirs is what it is. LabError for a name that is nothing."""
    from txlab.engine.games import tictactoe
    from txlab.engine.games.players import perfect_player, random_player

    if name == "perfect":
        return perfect_player(tictactoe), None
    if name == "random":
        return random_player(tictactoe), None
    if name == "td":
        from txlab.cli.play_ratings import learnt

        return learnt(games, seed)
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


class Table:
    """One game, and who sits at it. `you` is +1 for X, −1 for O."""

    def __init__(
        self,
        opponent: Player,
        why: Callable[[Sequence[int], int], Explanation | None] | None,
        second: bool,
        chance: random.Random,
        values: bool,
        said: Said,
    ) -> None:
        from txlab.engine.games import tictactoe
        from txlab.engine.games.perfect_play import solved

        self.opponent, self.why, self.chance, self.values, self.said = opponent, why, chance, values, said
        self.you = -1 if second else 1
        self.moves: list[int] = []
        self.solution: Solution = solved(tictactoe)

    def sit(self) -> None:
        """Play until the game has ended, or the input has."""
        from txlab.drawing.tictactoe_words import ended_words, position_of
        from txlab.engine.games import tictactoe

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
            self.said.board(self.moves, self.seen())
            if not self.answer():
                return

    def seen(self) -> dict[int, float] | None:
        from txlab.drawing.tictactoe_words import position_of

        return self.opponent.values(position_of(self.moves)) if self.values else None

    def make(self, square: int, who: str) -> None:
        self.moves.append(square)
        self.said.moved(self.moves, who)

    def answer(self) -> bool:
        """Ask until there is something to do; False where there is no more input, or enough of it."""
        while True:
            line = self.said.asks(self.you)
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
        """Do what was typed; whether the board is another one now. EOFError where it was to leave."""
        from txlab.drawing.tictactoe_words import position_of
        from txlab.engine.games import tictactoe

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
        """Why the value of a free square, or without one of the position, is what it is."""
        from txlab.drawing.tictactoe_words import position_of
        from txlab.engine.games.perfect_play import explain

        if square is not None and self.why is not None:
            found = self.why(self.moves, square)
            if found is not None:
                return found
        return explain(self.solution, position_of(self.moves), square)


def square_of(text: str, free: Sequence[int]) -> int:
    """The square that was typed, from 0. LabError says which are free."""
    allowed = " ".join(str(square + 1) for square in free)
    if not (text.isascii() and text.isdigit()):
        shown = text if len(text) <= 20 else f"{text[:20]}…"
        what = f"{shown!r} is no square" if text else "nothing was typed"
        raise LabError(f"{what}; free are {allowed}, and h hints, u undoes, v shows values, w explains, q leaves")
    square = int(text[:4]) - 1
    if square not in free:
        raise LabError(f"{text} is {'taken' if 0 <= square < 9 else 'no square'}; free are {allowed}")
    return square


def read_line(prompt: str) -> str | None:
    """A line of the input without its end; None where there is no more. A person is asked with `prompt`."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    if prompt:
        sys.stdout.write(prompt)
        sys.stdout.flush()
    data: bytes = sys.stdin.buffer.readline()  # bytes: what is no text is a wrong move, and the next line is read
    return data.decode(errors="replace").rstrip("\r\n") if data else None
