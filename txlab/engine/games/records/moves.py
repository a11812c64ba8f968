"""Games without dice as strings of moves, a line each: "4453" in Connect Four, "5193" in tic-tac-toe.

A move is the number of its place, counted from 1: a column or a square, as the solvers of Connect Four write it. Where
a board has more than nine places, the moves are words with spaces between them. A number after a string of digits is
left alone: it is a score in the collections of positions for solvers. Lines that begin with # are comments; tags in
them name the game and the players of the games that follow:

    # [Game "connect-four"]
    # [X "perfect"] [O "random"]
"""

from __future__ import annotations

import re
from functools import cache

from txlab.engine.games.game import CHANCE, Game, Move, Position, number_of_move, read_move
from txlab.engine.games.records.record import PlayedGame, Record, Turn, numbered_lines, replay
from txlab.errors import LabError, prefix_errors

ENDING = ".txt"
NOTE = "games as strings of moves, a line each"
TAG = re.compile(r'\[(?P<key>[^\s"\]]{1,40}) "(?P<value>(?:[^"\\]|\\.){0,200})"\]')
GAME_TAG = re.compile(r'^\s*#.*\[Game "([^"]{1,80})"\]', re.MULTILINE)


@cache
def in_digits(game: Game) -> bool:
    """Whether every place has a single digit. LabError if the game has dice, for which there is no such form."""
    start = game.start()
    if game.mover(start) == CHANCE or game.chances(start):
        raise LabError(f"games of {game.TITLE} have dice, so they cannot be written as strings of moves")
    return all(len(places) == 1 and places[0] < 9 for places in game.ways(start))


def write_move(game: Game, position: Position, move: Move) -> str:
    """A move by the number of its place, else by its name."""
    number = number_of_move(game, position, move) if in_digits(game) else None
    return number or "_".join(game.name_of_move(position, move).split())


def write(game: Game, record: Record) -> str:
    joint = "" if in_digits(game) else " "
    lines = [f'# [Game "{game.NAME}"]']
    names: tuple[str, str] | None = None
    for each in record.games:
        if each.names != names:
            names = each.names
            tags = (f'[{sign} "{quote(name)}"]' for sign, name in zip(game.SIGNS, names, strict=True))
            lines.append(f"# {' '.join(tags)}")
        lines.append(joint.join(write_move(game, *turn) for turn in each.turns))
    return "\n".join(lines) + "\n"


def quote(name: str) -> str:
    name = "".join(sign if sign.isprintable() else "?" for sign in name)
    return name[:100].replace("\\", r"\\").replace('"', r"\"")


def read(game: Game, text: str) -> Record:
    """LabError naming the line and the move."""
    names = game.SIGNS
    games = []
    for number, line in numbered_lines(text):
        with prefix_errors(f"line {number}"):
            if line.lstrip().startswith("#"):
                tags = {tag["key"]: re.sub(r"\\(.)", r"\1", tag["value"]) for tag in TAG.finditer(line)}
                if tags.get("Game", game.NAME) != game.NAME:
                    raise LabError(f"these are games of {tags['Game'][:60]!r}, not of {game.NAME}")
                names = tags.get(game.SIGNS[0], names[0]), tags.get(game.SIGNS[1], names[1])
            elif line.strip():
                games.append(read_game(game, names, moves_of(game, line)))
    if not games:
        raise LabError("there is no game in it")
    return Record(tuple(games))


def moves_of(game: Game, line: str) -> list[str]:
    words = line.split()
    if not in_digits(game):
        return [word.replace("_", " ") for word in words]
    if len(words) == 2 and re.fullmatch(r"-?\d{1,4}", words[1], re.ASCII):
        words.pop()  # a score
    return list("".join(words))


def read_game(game: Game, names: tuple[str, str], moves: list[str]) -> PlayedGame:
    position, turns = game.start(), list[Turn]()
    for number, word in enumerate(moves, 1):
        with prefix_errors(f"move {number}"):
            if game.outcome(position) is not None:
                raise LabError("the game had ended before it")
            move = read_move(game, position, word)
        turns.append(Turn(position, move))
        position = game.after(position, move)
    return PlayedGame(names, tuple(turns), replay(game, turns))


def recognises(game: Game, text: str) -> bool:
    """Whether a tag of the file names this game."""
    tag = GAME_TAG.search(text[:20_000])
    return tag is not None and tag[1] == game.NAME
