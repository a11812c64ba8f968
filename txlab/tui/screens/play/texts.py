"""The text next to the board: who is to move or has won, the results so far, the moves and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content

from txlab.drawing import game_words
from txlab.drawing.boards import sign_of, value_text
from txlab.drawing.captions import decisions as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count
from txlab.engine.games.game import FIRST, SECOND, Game, Position, throw_words
from txlab.tui.screens.play.advice import Judged
from txlab.tui.screens.play.game import GamePanel
from txlab.tui.screens.play.players import title_of
from txlab.tui.widgets.table import Column

SMALL_LOSS, MISTAKE = 0.005, 0.08
"""Points that a move gives away: from where they are shown, and called a mistake."""


def state(panel: GamePanel) -> tuple[str, str]:
    """Return (sentence, style: "live", "over" or "quiet")."""
    game, position, seats, you = panel.game, panel.position, panel.seats, panel.you
    if not panel.ready:
        return "one moment…", "quiet"
    result = panel.playing.outcome
    if result is not None:
        side = FIRST if result >= 0 else SECOND
        words = game_words.describe_end(game, position, you)
        if you is None and result and not seats[side].person:
            words = f"{title_of(game, seats, side)} has won{words.partition('has won')[2]}"
        return words[:1].upper() + words[1:], "over"
    if panel.playing.to_throw:
        return "the dice are thrown…", "quiet"
    mover, thrown = panel.mover, throw_words(game, position)
    dice = f" with {thrown}" if thrown else ""
    if not seats[mover].person:
        thinks = "" if panel.answering.idle else " and thinks"
        return f"{title_of(game, seats, mover)} is to move{dice}{thinks}", "quiet"
    if panel.no_choice:
        return f"{sign_of(game, mover)} cannot move{dice}", "live"
    if seats[-mover].person:
        return f"{sign_of(game, mover)} is to move{dice}", "live"
    against = title_of(game, seats, -mover)
    return f"Your move: you are {sign_of(game, mover)}{',' if dice else ''}{dice}, against {against}", "live"


def sentence(panel: GamePanel) -> Sentence:
    """Return the caption: the best move and the worst by the values shown, or how the game ended."""
    game, position = panel.game, panel.position
    if not panel.ready:
        return ()
    if panel.ended:
        return captions.position(
            "", {}, {}, "", len(panel.playing.moves), game_words.describe_end(game, position, None)
        )
    seat, (judged, _) = panel.advice.seat_shown(), panel.advice.evaluation_shown()
    if seat is None:
        return ()
    names = {move: game.name_of_move(position, move) for move in judged.values}
    values = {names[move]: value for move, value in judged.values.items()}
    notes = {names[move]: note for move, note in judged.notes.items() if move in names}
    return captions.position(
        sign_of(game, panel.mover),
        values,
        notes,
        "" if seat.key == "perfect" else seat.title,
        len(panel.playing.moves),
        "",
    )


def tally_words(game: Game, tally: Mapping[int, int], you: int | None) -> str:
    """Return `won 2, drawn 5, lost 1`, of the games between these two, and points where a win may have several."""
    if not sum(tally.values()):
        return ""
    side = you or FIRST
    won = sum(number for outcome, number in tally.items() if outcome * side > 0)
    lost = sum(number for outcome, number in tally.items() if outcome * side < 0)
    drawn = tally.get(0, 0)
    one, other = game.SIGNS
    if you is None:
        words = f"{one} won {count(won)}, drawn {count(drawn)}, {other} won {count(lost)}"
    else:
        words = f"you won {count(won)}, drawn {count(drawn)}, lost {count(lost)}"
    if game.MOST_POINTS > 1:
        words = words.replace(", drawn 0", "")
        points = sum(outcome * side * number for outcome, number in tally.items())
        words += f"; points {value_text(float(points))}"
    return words


def facts(rows: Sequence[tuple[str, str, str]]) -> Content:
    """Return names and values as aligned lines; the third item of each row is a style."""
    wide = max((len(name) for name, _, _ in rows), default=0)
    parts: list[Content] = []
    for place, (name, words, style) in enumerate(rows):
        parts += [Content("\n")] if place else []
        parts += [Content.styled(f"{name:<{wide}}  ", "$quiet"), Content.styled(words, style)]
    return Content.assemble(*parts)


def move_table(panel: GamePanel, rated: bool) -> tuple[list[Column], list[list[str]]]:
    """Return the game so far, with `rated` also what each move led to and what it gave away."""
    playing, game = panel.playing, panel.game
    columns = [Column("#"), Column("", right=False), Column("move", right=False)]
    columns += [Column("leads to", right=False, quiet=True), Column("gave away", right=False)] if rated else []
    rows = []
    for number, name in enumerate(playing.names()):
        thrown = throw_words(game, playing.positions[playing.decisions[number]])
        row = [str(number + 1), sign_of(game, playing.side_of(number)), f"{thrown}: {name}" if thrown else name]
        if rated:
            lost = panel.advice.loss(number)
            row += ["", ""] if lost is None else [lost[1], loss_text(lost[0])]
        rows.append(row)
    return columns, rows


def loss_text(points: float) -> str:
    """Return ``, `−.03` or `−.21 mistake`."""
    if points < SMALL_LOSS:
        return ""
    return value_text(-points) + (" mistake" if points >= MISTAKE else "")


def value_table(game: Game, position: Position, judged: Judged) -> tuple[list[Column], list[list[str]]]:
    """Return the legal moves with their values, the best first."""
    columns = [Column("move", right=False), Column("points"), Column("", right=False, quiet=True)]
    ranked = sorted(judged.values, key=lambda move: -judged.values[move])
    rows = [
        [game.name_of_move(position, move), value_text(judged.values[move], 3), judged.notes.get(move, "")]
        for move in ranked
    ]
    return columns, rows
