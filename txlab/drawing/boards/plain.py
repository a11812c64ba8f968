"""The board of a game without a drawing: its position as lines of text, and the names of its moves to choose from."""

from __future__ import annotations

from txlab.drawing.boards import BoardPiece, BoardView, next_places, turn_words, value_text
from txlab.drawing.formatting import plain
from txlab.drawing.text import fit, visible, width


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    """The position, whose turn it is, and as many moves around the cursor as fit."""
    drawn: list[tuple[str, int | None, str]] = [
        (part, None, "first") for part in view.game.text(view.position).split("/")
    ]
    drawn += [("", None, "blank"), (turn_words(view), None, "value")]
    choices = list(next_places(view).items())
    room = max(1, rows - len(drawn))
    at = next((number for number, (place, _) in enumerate(choices) if place == view.cursor), 0)
    start = max(0, min(at - room // 2, len(choices) - room))
    for place, moves in choices[start : start + room]:
        worth = [view.values[move] for move in moves if move in view.values]
        value = f"  {value_text(max(worth))}" if worth else ""
        hint = any(move in view.hinted for move in moves)
        here = (">" if ascii else "▸") if place == view.cursor else " "
        mark = ("*" if ascii else "◆") if hint else " "
        text = f"{here}{mark} {view.game.name_of_move(view.position, moves[0])}{plain(value) if ascii else value}"
        drawn.append((text, place, "here" if place == view.cursor or hint else "value"))
    shown = [(visible(text, ascii), place, kind) for text, place, kind in drawn[-rows:]]
    wide = min(columns, max(width(text) for text, _, _ in shown))
    return [[BoardPiece(fit(text, wide, ellipsis="" if ascii else "…"), place, kind)] for text, place, kind in shown]


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
