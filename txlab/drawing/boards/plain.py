"""The board of a game that has no drawing: its position on lines of text, and the names of its moves to choose from."""

from __future__ import annotations

from txlab.drawing.boards import BoardPiece, BoardView
from txlab.engine.games.game import CHANCE, Move


def choices(view: BoardView) -> list[tuple[int, Move]]:
    """The next place that can be chosen, and a move that it belongs to, in order."""
    have = len(view.chosen)
    ways = view.game.ways(view.position)
    found: dict[int, Move] = {}
    for places, move in ways.items():
        if places[:have] == view.chosen and len(places) > have:
            found.setdefault(places[have], move)
    return sorted(found.items())


def size(columns: int, rows: int) -> tuple[int, int]:
    return columns, rows


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    drawn = [[BoardPiece(part[:columns], None, "first")] for part in view.game.text(view.position).split("/")]
    drawn.append([])
    for place, move in choices(view):
        here = place == view.cursor
        mark = (">" if ascii else "▸") if here else " "
        value = f"  {view.values[move]:+.2f}" if move in view.values else ""
        kind = "corner" if here else "hint" if move in view.hinted else "number"
        text = f"{mark} {view.game.name_of_move(view.position, move)}{value}"
        drawn.append([BoardPiece(text[:columns], place, kind)])
    return drawn[:rows]


def place_at(x: int, y: int, columns: int, rows: int, bottom: int) -> int | None:
    return None  # the number of lines is not known without the position; the keys choose


def step(cursor: int, down: int, right: int, view: BoardView) -> int:
    places = [place for place, _ in choices(view)]
    if not places:
        return cursor
    at = places.index(cursor) if cursor in places else 0
    return places[max(0, min(at + down + right, len(places) - 1))]


def first_place(view: BoardView) -> int:
    return next((place for place, _ in choices(view)), 0)


def sentence(view: BoardView) -> str:
    game, position = view.game, view.position
    mover = game.mover(position)
    turn = "the dice are to be thrown" if mover == CHANCE else f"{game.SIGNS[0 if mover > 0 else 1]} is to move"
    return f"{game.text(position)}; {turn}"
