"""Backgammon: points in two tones, checkers as discs and rings, dice with pips, and both sides' counts at the right.

The side at the bottom moves towards its home at the lower right; the numbers are of its points. The first
player's checkers are full, the second's are rings. A place of the board is a point of the player to move, its bar or
its tray, as in engine/games/backgammon/game.py.
"""

from __future__ import annotations

from textwrap import wrap

from txlab.drawing.boards import BoardPiece, BoardView, Kind, next_places, sign_of, value_text
from txlab.drawing.boards.backgammon_table import Layout, Table, hops_of, layout, table
from txlab.drawing.boards.canvas import Canvas, mark_size
from txlab.drawing.formatting import plain
from txlab.engine.games.backgammon.rules import BAR, OFF, borne_off, name_of, pips
from txlab.engine.games.game import FIRST, SECOND

LEAST_COLUMNS = 58
"""With fewer its points are too narrow: better alone on the screen than next to a panel."""


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    at, on = layout(columns, rows, ascii), table(view)
    if at is None:
        return in_words(view, columns, rows)
    canvas = Canvas(at.columns, at.rows, ascii)
    frame(canvas, at)
    for slot in range(14):
        for upper in (True, False):
            place = on.place(slot, upper)
            if place is not None:
                top = 0 if upper else at.rows - at.half - 1 - at.middle // 2
                canvas.area(top, at.left(slot), at.half + 1 + at.middle // 2, at.width(slot), place)
    for side, counts in on.sides.items():
        for place, count in enumerate(counts):
            stack(canvas, at, on, side, place, count)
    last_move(canvas, at, on)
    choice(canvas, at, on, view)
    for upper in (True, False):
        panel(canvas, at, on, view, upper)
    return canvas.lines()


def frame(canvas: Canvas, at: Layout) -> None:
    flat, upright, corners, tees = ("-", "|", "++++", "++") if canvas.ascii else ("─", "│", "┌┐└┘", "┬┴")
    edges = (0, at.left(6) - 1, at.left(7) - 1, at.left(13) - 1, at.columns - 1)
    for row in range(1, at.rows - 1):
        for column in edges:
            canvas.write(upright, row, column, "wall")
    for row, ends, tee in ((0, corners[:2], tees[0]), (at.rows - 1, corners[2:], tees[1])):
        canvas.write(ends[0] + flat * (at.columns - 2) + ends[1], row, 0, "wall")
        for column in edges[1:-1]:
            canvas.write(tee, row, column, "wall")
    for slot in (*range(6), *range(7, 13)):
        for upper in (True, False):
            even = (slot + (slot > 6) + upper) % 2 == 0
            top = at.units if upper else (at.rows - 1 - at.half) * at.units
            kind, letter = ("even", ":") if even else ("odd", ".")
            left, wide = at.left(slot) * at.units, at.wide * at.units
            canvas.shape("down" if upper else "up", top, left, at.half * at.units, wide, kind, letter)


def checker(
    canvas: Canvas, at: Layout, spot: tuple[int, bool], number: int, kind: Kind, look: str, text: str = ""
) -> None:
    """Draw the checker with that number, 0 at the edge of the board, as "disc", "ring" or "dashes", a text on it."""
    slot, upper = spot
    top = at.top(upper, number)
    row = (top + at.high // 2) // at.units
    letter = {"disc": "X", "ring": "O", "dashes": "."}[look]
    if look == "dashes" and (at.high < 5 or canvas.ascii):
        text = "( )"
    elif at.high:
        wide = at.wide * at.units - (at.units if at.wide > 3 else 1)
        left = at.left(slot) * at.units + (at.width(slot) * at.units - wide) // 2
        canvas.shape("disc" if canvas.ascii or text else look, top, left, at.high, wide, kind, letter)
    else:
        text = text or (letter * max(1, at.wide - 2) if canvas.ascii else {"disc": "●", "ring": "○"}[look])
    canvas.centre(text, row, at.left(slot), at.width(slot), kind)


def stack(canvas: Canvas, at: Layout, on: Table, side: int, place: int, count: int) -> None:
    """Draw the checkers of a point; if they do not all fit, with their number on the last."""
    spot = on.spot(side, place)
    kind, look = ("first", "disc") if side == FIRST else ("second", "ring")
    for number in range(min(count, at.most)):
        over = count > at.most and number == at.most - 1
        checker(canvas, at, spot, number, kind, look, str(count) if over else "")


def last_move(canvas: Canvas, at: Layout, on: Table) -> None:
    """Mark the checkers of the last move, and where they came from."""
    arrived: dict[int, int] = {}
    for start, to in on.hops:
        arrived[to] = arrived.get(to, 0) + 1
        arrived[start] = arrived.get(start, 0) - 1
    for place, number in arrived.items():
        if place == OFF:  # shown in the panel
            continue
        spot, count = on.spot(on.hopped, place), on.sides[on.hopped][place]
        for moved in range(abs(number)):
            if number < 0 and count + moved < at.most:
                checker(canvas, at, spot, count + moved, "ghost", "dashes")
            elif 0 < number <= count <= at.most:
                mark(canvas, at, spot, count - 1 - moved, on.hopped)
            elif number < 0 or count > at.most:  # there is no room on the point
                sign = "()" if number < 0 else "." if canvas.ascii else "•"
                canvas.centre(sign, at.tip(spot[1]), at.left(spot[0]), at.width(spot[0]), "quiet")


def mark(canvas: Canvas, at: Layout, spot: tuple[int, bool], number: int, side: int) -> None:
    """Mark a checker with a dot in its middle, or between brackets."""
    slot, upper = spot
    top = at.top(upper, number)
    size = mark_size(at.high, side == SECOND)
    if size > 1 and not canvas.ascii:
        left = at.left(slot) * 2 + at.width(slot) - size
        canvas.shape("disc", top + (at.high - size) // 2, left, size, 2 * size, "mark", ".")
    else:
        sign = ("." if canvas.ascii else "•") if at.high else "(" + " " * max(1, at.wide - 2) + ")"
        canvas.centre(sign, (top + at.high // 2) // at.units, at.left(slot), at.width(slot), "mark")


def choice(canvas: Canvas, at: Layout, on: Table, view: BoardView) -> None:
    """Mark the cursor, the chosen and possible places, the hints, and the value of each choice."""
    ascii = canvas.ascii
    following = next_places(view)
    source = view.chosen[-1] if len(view.chosen) % 2 else None
    hints = [hop for move in view.hinted for hop in hops_of(move)] if not view.chosen else []
    froms = {start for start, _ in hints} | ({source} if source is not None else set())
    goals = {to for _, to in hints} | (set(following) if source is not None else set())
    for slot in range(14):
        for upper in (True, False):
            place = on.place(slot, upper)
            if slot == 6 and place is None:
                continue
            here = place is not None and place == view.cursor
            label = "bar" if slot == 6 else str(number_of(slot, upper)) if slot < 13 else "off" if place == OFF else ""
            if at.wide < 3 and slot % 2 and slot < 13 and not here:  # numbers would touch each other
                label = ""
            if here:
                label = (">{}<" if ascii else "▸{}◂").format(label)
                label = label if len(label) <= at.width(slot) else label[:-1]
            kind = "here" if here else "value" if place in following else "quiet"
            canvas.centre(label, 0 if upper else at.rows - 1, at.left(slot), at.width(slot), kind)
            if place is None:
                continue
            signs = ("^v" if ascii else "▲▼")[not upper] * (here and slot != 13)
            signs += ("#" if ascii else "◆") * (place in froms) + ("*" if ascii else "◇") * (place in goals)
            worth = [view.values[move] for move in following.get(place, ()) if move in view.values]
            text = value_text(max(worth)) if worth and slot != 13 else ""
            if text and len(text) < at.width(slot):
                canvas.area(at.tip(upper), at.left(slot), 1, at.width(slot), place, max(-1.0, min(max(worth), 1.0)))
                signs = signs + text if len(signs + text) <= at.width(slot) else text
            kind = "here" if signs != text else "value"
            canvas.centre(plain(signs) if ascii else signs, at.tip(upper), at.left(slot), at.width(slot), kind)
            count = on.sides[on.mover][place] if place != OFF else at.most
            if place in goals and count < at.most:
                checker(canvas, at, (slot, upper), count, "here", "dashes")
    if source is not None:
        look = "disc" if on.mover == FIRST else "ring"
        top = min(on.sides[on.mover][source], at.most) - 1
        checker(canvas, at, on.spot(on.mover, source), top, "here", look)


def number_of(slot: int, upper: bool) -> int:
    """The number of a point, counted from the side at the bottom."""
    column = slot - (slot > 6)
    return 13 + column if upper else 12 - column


def panel(canvas: Canvas, at: Layout, on: Table, view: BoardView, upper: bool) -> None:
    """Half of the column at the right: a side's pips and checkers borne off, and in its turn, words and dice."""
    side = on.bottom * (-1 if upper else 1)
    left, room, counts = at.left(13), at.half + at.middle // 2, on.sides[side]
    sign, kind, off = sign_of(view.game, side), "first" if side == FIRST else "second", borne_off(counts)
    disc = "" if canvas.ascii else "● " if side == FIRST else "○ "
    coin = sign if canvas.ascii else "▌" if side == FIRST else "║"
    fives = [coin * min(5, off - first) for first in range(0, off, 5)]
    now = sum(to == OFF for _, to in on.hops) if side == on.hopped else 0  # with the last move
    rows = [f"{disc}{sign}", f"{off} off" + f" +{now}" * (now > 0), " ".join(fives[:2]), *fives[2:]]
    result, race = view.game.outcome(view.position), f"{pips(counts)} pips"
    canvas.write(race, 1 if upper else at.rows - 2, left + at.tray - len(race), "value")
    for row, text in enumerate(rows[: room - (4 if side == on.turn else 0)], 1):
        style = kind if row != 2 else "value" if off else "quiet"
        canvas.write(text, row if upper else at.rows - 1 - row, left, style)
    if side == (on.turn if result is None else FIRST if result > 0 else SECOND):
        turn(canvas, at, on, view, upper)


def turn(canvas: Canvas, at: Layout, on: Table, view: BoardView, upper: bool) -> None:
    """Whose turn it is, the dice, and a hinted move, from the middle of the board outwards."""
    words, left, room = state_words(view, on).split(", "), at.left(13), at.half + at.middle // 2
    broad = (at.tray - 3) // 4 * 2 + 1
    tall = 3 if broad < 9 else broad // 2
    tall = 0 if not on.dice else tall if room >= tall + 3 else 1
    top = room - tall + 1 if upper else at.rows - 1 - room
    doubled = len(set(on.dice)) == 1
    for number, die in enumerate(on.dice):
        played = on.used.count(die) > (2 * number + 1 if doubled else 0)
        draw_die(canvas, die, top, left + number * (broad + 1), tall, broad, played)
    words[0] += f" ×{4 - len(on.used)}" if doubled and not canvas.ascii else ""
    words += [view.game.name_of_move(view.position, move) for move in list(view.hinted)[:1]]
    if at.high > 3 and not canvas.ascii and room > tall + 9:  # one of its checkers, visible from afar
        first = (on.bottom == FIRST) != upper
        below = (top - 1) * 2 - at.high if upper else (top + tall) * 2 + 1
        canvas.shape(
            "disc" if first else "ring", below, left * 2, at.high, at.high * 2, "first" if first else "second", ""
        )
        left += at.high + 1
    for number, word in enumerate(words):
        canvas.write(word, top - len(words) + number if upper else top + tall + number, left, "here")


def state_words(view: BoardView, on: Table) -> str:
    result = view.game.outcome(view.position)
    if result is not None:
        points = {1: "", 2: ", a gammon", 3: ", backgammon"}[abs(result)]
        return f"{sign_of(view.game, result)} has won{points}"
    if not on.turn:
        return "first throw"
    cannot = ", no move" if on.dice and not view.chosen and not next_places(view) else ""
    return f"{sign_of(view.game, on.turn)} to {'play' if on.dice else 'throw'}{cannot}"


PIPS = {1: "4", 2: "26", 3: "246", 4: "0268", 5: "02468", 6: "012678"}  # of nine places, column by column


def draw_die(canvas: Canvas, die: int, row: int, left: int, tall: int, wide: int, played: bool) -> None:
    """A die with pips, or in one row with a number; a played die is quiet."""
    kind = "odd" if played else "die"
    if tall == 1:
        canvas.write(f"[{die}]", row, left, "quiet" if played else "value")
        return
    if canvas.ascii:
        for y in range(tall):
            canvas.write("[", row + y, left, "quiet")
            canvas.write("]", row + y, left + wide - 1, "quiet")
    else:
        canvas.shape("box", row * 2, left * 2, tall * 2, wide * 2, kind, "#")
    size = tall * 2 // 5 if tall > 4 and not canvas.ascii else 0
    for x, y in (divmod(int(place), 3) for place in PIPS[die]):
        pip = "quiet" if played else "value" if canvas.ascii else "pip"
        if size:
            top, start = third(y, tall * 2, size), third(x, wide * 2, 2 * size)
            canvas.shape("disc", row * 2 + top, left * 2 + start, size, 2 * size, pip, "o")
        else:
            canvas.write("o" if canvas.ascii else "●", row + third(y, tall, 1), left + 1 + third(x, wide - 2, 1), pip)


def third(number: int, length: int, size: int) -> int:
    """The position of the first, second or third of three things of that size within a length."""
    margin = (length - 3 * size) // 4
    return (margin, (length - size) // 2, length - size - margin)[number]


def in_words(view: BoardView, columns: int, rows: int) -> list[list[BoardPiece]]:
    words = sentence(view).replace("; ", "\n").splitlines()
    wrapped = [line for text in words for line in wrap(text, max(1, columns))][:rows]
    return [[BoardPiece(line.ljust(columns)[:columns], None, "value")] for line in wrapped]


def sentence(view: BoardView) -> str:
    """ "X to play 3-1; X 24:2 13:5 8:3 6:5, 167 pips, 0 off; O …", each side's points in its own numbering."""
    on, sides = table(view), []
    for side in (view.bottom, -view.bottom):
        counts = on.sides[side]
        points = " ".join(f"{name_of(place)}:{counts[place]}" for place in range(BAR, -1, -1) if counts[place])
        sides.append(f"{sign_of(view.game, side)} {points or 'none'}, {pips(counts)} pips, {borne_off(counts)} off")
    dice = f" {'-'.join(map(str, on.dice))}" if on.dice else ""
    return "; ".join([state_words(view, on) + dice, *sides])


def step(cursor: int, down: int, right: int, view: BoardView) -> int:
    """Along the points as they are drawn, over the bar if nothing is on it, and to the tray."""
    on = table(view)
    slot, upper = on.spot(on.mover, cursor)
    if down:
        upper = down < 0
        slot = {6: 7, 13: 12}.get(slot, slot)
    slot += right
    if slot == 6 and (on.place(6, upper) is None or not on.sides[on.mover][BAR]):
        slot += right or 1
    place = on.place(slot, upper) if 0 <= slot <= 13 else None
    return cursor if place is None else place


def first_place(view: BoardView) -> int:
    """The rearmost checker that can move, or the nearest place that it can move to."""
    return max(next_places(view), default=12)
