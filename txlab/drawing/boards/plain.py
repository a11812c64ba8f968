"""The board of a game that has no drawing: its position on lines of text, and the names of its moves to choose from."""

from __future__ import annotations

from txlab.drawing.boards import BoardPiece, BoardView, next_places, turn_words


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    drawn = [[BoardPiece(part[:columns], None, "first")] for part in view.game.text(view.position).split("/")]
    drawn.append([])
    for place, (move, *_) in next_places(view).items():
        here = place == view.cursor
        mark = (">" if ascii else "▸") if here else " "
        value = f"  {view.values[move]:+.2f}" if move in view.values else ""
        kind = "here" if here or move in view.hinted else "value"
        text = f"{mark} {view.game.name_of_move(view.position, move)}{value}"
        drawn.append([BoardPiece(text[:columns], place, kind)])
    return drawn[:rows]


def step(cursor: int, down: int, right: int, view: BoardView) -> int:
    places = list(next_places(view))
    if not places:
        return cursor
    at = places.index(cursor) if cursor in places else 0
    return places[max(0, min(at + down + right, len(places) - 1))]


def first_place(view: BoardView) -> int:
    return next(iter(next_places(view)), 0)


def sentence(view: BoardView) -> str:
    return f"{view.game.text(view.position)}; {turn_words(view)}"
