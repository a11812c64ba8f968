"""What the Play screen says in words: whose move it is, who plays, what stands on the squares, how the game went.

Notable: plain functions of the game; nothing here knows the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.drawing.tictactoe import SIGN, ended_words, leads_to, position_of, value_text
from txlab.engine.games import tictactoe
from txlab.engine.games.game import FIRST, SECOND, Position
from txlab.engine.games.perfect_play import Solution
from txlab.tui.widgets.table import Column

if TYPE_CHECKING:
    from txlab.tui.screens.play.game import Seat

Seats = Mapping[int, "Seat"]


def title_of(seats: Seats, side: int) -> str:
    """`perfect (O)`"""
    return f"{visible(seats[side].title)} ({SIGN[side]})"


def state(moves: Sequence[int], seats: Seats, you: int | None, ready: bool) -> tuple[str, str]:
    """(what is said, how loud: "live", "over" or "quiet")."""
    position = position_of(moves)
    if not ready:
        return "searching all 5 478 positions…", "quiet"
    result = tictactoe.outcome(position)
    if result is not None:
        words = ended_words(position, you)
        if you is None and result and not seats[result].person:
            words = f"{title_of(seats, result)} has won{words.partition('has won')[2]}"
        return words[:1].upper() + words[1:], "over"
    mover = tictactoe.mover(position)
    if not seats[mover].person:
        return f"{title_of(seats, mover)} is to move", "quiet"
    both = seats[-mover].person
    return (f"{SIGN[mover]} is to move" if both else f"Your move: you are {SIGN[mover]}"), "live"


def headline(moves: Sequence[int], seats: Seats, you: int | None, ready: bool, beside: str) -> Content:
    """The line above the board; `beside` says what else is going on."""
    words, loud = state(moves, seats, you, ready)
    style = {"live": "bold $accent", "over": "bold", "quiet": ""}[loud]
    parts = [Content.styled(words, style)]
    if beside:
        parts.append(Content.styled(f"   {beside}", "$quiet"))
    return Content.assemble(*parts)


def tally_words(tally: Mapping[int, int], you: int | None) -> str:
    """`won 2, drawn 5, lost 1`, of the games between these two."""
    if not sum(tally.values()):
        return ""
    won, drawn, lost = tally.get(you or FIRST, 0), tally.get(0, 0), tally.get(-(you or FIRST), 0)
    if you is None:
        return f"X won {count(won)}, drawn {count(drawn)}, O won {count(lost)}"
    return f"you won {count(won)}, drawn {count(drawn)}, lost {count(lost)}"


def facts(rows: Sequence[tuple[str, str, str]]) -> Content:
    """Names and what there is to say about them; the third of each row is a style."""
    wide = max((len(name) for name, _, _ in rows), default=0)
    parts: list[Content] = []
    for place, (name, words, style) in enumerate(rows):
        parts += [Content("\n")] if place else []
        parts += [Content.styled(f"{name:<{wide}}  ", "$quiet"), Content.styled(words, style)]
    return Content.assemble(*parts)


def move_table(moves: Sequence[int], solution: Solution | None, told: bool) -> tuple[list[Column], list[list[str]]]:
    """The game so far, and with `told` what each move led to and which of them gave something away."""
    columns = [Column("#"), Column("", right=False), Column("square", right=False)]
    told = told and solution is not None
    columns += [Column("best play", right=False, quiet=True), Column("", right=False)] if told else []
    rows = []
    for place, move in enumerate(moves):
        sign = SIGN[FIRST if place % 2 == 0 else SECOND]
        row = [str(place + 1), sign, tictactoe.MOVES[move]]
        if told and solution is not None:
            row += [brief_verdict(solution, moves[:place], move), "mistake" if mistake(solution, moves, place) else ""]
        rows.append(row)
    return columns, rows


def brief_verdict(solution: Solution, before: Sequence[int], move: int) -> str:
    """`draw`, `X in 2` (moves), `X won`"""
    words = leads_to(solution, position_of(before), move)
    if words.startswith("a draw"):
        return "draw"
    return words.removesuffix(" moves").removesuffix(" move").replace(" wins in ", " in ").replace(" has won", " won")


def mistake(solution: Solution, moves: Sequence[int], place: int) -> bool:
    """Whether the move gave away something that best play would have kept."""
    graph = solution.graph
    before, after = (graph.numbered(position_of(moves[:end])) for end in (place, place + 1))
    return int(solution.value[before]) != int(solution.value[after])


def unexplained(title: str, values: Mapping[int, float], position: Position, square: int) -> str:
    """About a value whose making is not known any more, and about who sees nothing."""
    where, sign = tictactoe.MOVES[square], SIGN[tictactoe.mover(position)]
    best = "v shows what is true with best play, and w then says why."
    if square not in values:
        many = len(tictactoe.legal(position))
        return f"{visible(title)} sees nothing: each of the {many} free squares is as likely as another.\n{best}"
    said = f"{visible(title)} expects {value_text(values[square])} of {where}, from the view of {sign}."
    return f"{said}\nOf its table the values were kept, not the updates that made them.\n{best}"
