"""The boards of all games in characters: what is on them can be read without colour, at every size and in ASCII, and
nothing is cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.drawing.boards import OURS, BoardPiece, BoardView, board_of, next_places, place_at
from txlab.drawing.boards.canvas import QUARTERS
from txlab.drawing.boards.colour import TONE, tint, tone
from txlab.drawing.palette import Colours, rgb_to_oklab
from txlab.drawing.text import width
from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import FIRST, SECOND, Game, throw_dice

KINDS = {"blank", "wall", "first", "second", "won", "value", "quiet", "here", "mark", "ghost", *TONE}
SIZES = [(20, 8), (40, 12), (60, 20), (80, 18), (80, 24), (120, 40), (200, 60), (220, 70)]


def views(game: Game, seed: int) -> list[BoardView]:
    """All positions of a random game, with all that can be shown: a last move, values, shares, hints, a cursor."""
    chance, found = random.Random(seed), []
    view = BoardView(game, game.start())
    for _ in range(400):
        if game.outcome(view.position) is not None:
            break
        legal = game.legal(view.position)
        if not legal:
            view = replace(view, position=throw_dice(game, view.position, chance.random()))
            continue
        drawing = board_of(game.NAME)
        values = {move: chance.uniform(-1.2, 1.2) for move in legal}
        shown = replace(view, values=values, shares={move: chance.random() for move in legal}, hinted=[legal[0]])
        way = chance.choice(list(game.ways(view.position)) or [()])
        chosen = way[: chance.randrange(max(1, len(way)))]
        found.append(replace(shown, chosen=chosen, bottom=chance.choice((FIRST, SECOND))))
        found[-1] = replace(found[-1], cursor=drawing.first_place(found[-1]))
        move = chance.choice(legal)
        after = game.after(view.position, move)
        view = BoardView(game, after, (*view.moves, move), last=move, before=view.position)
    return [*found, view]


def side(**counts: int) -> tuple[int, ...]:
    """`side(p6=5, bar=1)`"""
    return tuple(counts.get("bar" if point == 24 else f"p{point + 1}", 0) for point in range(25))


DEGENERATE = [
    (SECOND, (2, 1), side(p24=15), side(p24=15)),
    (FIRST, (), side(bar=15), side(bar=15)),
    (SECOND, (), side(bar=1, p20=3, p6=11), side()),
    (FIRST, (), side(), side()),
    (FIRST, (6, 6), side(p1=15), side(bar=2, p20=13)),
    (SECOND, (5, 3), side(bar=3, p1=1), side(**{f"p{point}": 2 for point in range(1, 7)})),
    (0, (), *backgammon.start()[2:]),
]


@cache
def many() -> tuple[BoardView, ...]:
    found = [view for game in (tictactoe, connect_four, backgammon) for view in views(game, 3)]  # type: ignore[arg-type]
    found += [
        BoardView(backgammon, position, cursor=cursor, bottom=bottom)  # type: ignore[arg-type]
        for position in DEGENERATE
        for cursor, bottom in ((-1, FIRST), (24, SECOND))
    ]
    return tuple(found)


def drawn(view: BoardView, columns: int, rows: int, ascii: bool = False) -> list[list[BoardPiece]]:
    return board_of(view.game.NAME).lines(view, columns, rows, ascii)


def texts(lines: Sequence[Sequence[BoardPiece]]) -> list[str]:
    return ["".join(piece.text for piece in line) for line in lines]


def test_every_game_of_txlab_has_its_own_drawing() -> None:
    assert all(board_of(name).__name__ == module for name, module in OURS.items())  # type: ignore[attr-defined]


@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(20, 220), st.integers(8, 70), st.booleans())
def test_every_board_fits_in_every_room(data: st.DataObject, columns: int, rows: int, ascii: bool) -> None:
    view = data.draw(st.sampled_from(many()))
    lines = drawn(view, columns, rows, ascii)
    assert len(lines) <= rows
    assert len({width(text) for text in texts(lines)}) == 1
    assert width(texts(lines)[0]) <= columns
    assert {piece.kind for line in lines for piece in line} <= KINDS
    assert {piece.ground for line in lines for piece in line} <= KINDS | {""}
    assert not ascii or "".join(texts(lines)).isascii()


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (120, 40)])
@pytest.mark.parametrize("ascii", [False, True])
def test_a_click_finds_the_place_that_is_drawn_and_every_choice_can_be_clicked(
    size: tuple[int, int], ascii: bool
) -> None:
    for view in many()[::11]:
        lines, clickable = drawn(view, *size, ascii), set()
        if view.game.NAME == "backgammon" and size == (40, 12):
            continue  # in words
        for y, line in enumerate(lines):
            x = 0
            for piece in line:
                for _ in piece.text:
                    assert place_at(lines, x, y) == piece.place
                    x += 1
                clickable.add(piece.place)
            assert place_at(lines, x, y) is None
        assert set(next_places(view)) <= clickable
        assert place_at(lines, -1, 0) is place_at(lines, 0, len(lines)) is None


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(48, 13), (60, 20), (120, 40)])
def test_a_place_is_where_its_checker_is_drawn(size: tuple[int, int], ascii: bool) -> None:
    def alone(view: BoardView) -> set[int | None]:
        return {piece.place for line in drawn(view, *size, ascii) for piece in line if piece.kind == "first"}

    for bottom in (FIRST, SECOND):
        for point in range(25):
            own = tuple(int(each == point) for each in range(25))
            view = BoardView(backgammon, (FIRST, (), own, (0,) * 25), bottom=bottom, cursor=99)  # type: ignore[arg-type]
            assert point in alone(view) <= {point, -1}  # and the words at the tray
    for column in range(7):
        view = BoardView(connect_four, connect_four.play([column]), cursor=99)  # type: ignore[arg-type]
        assert alone(view) == {column}
    for square in range(9):
        position = tictactoe.after(tictactoe.start(), square)
        assert alone(BoardView(tictactoe, position, cursor=99)) == {square}  # type: ignore[arg-type]


def test_the_arrows_reach_every_place_that_can_be_chosen() -> None:
    for view in many()[::5]:
        drawing = board_of(view.game.NAME)
        reached, fresh = {drawing.first_place(view)}, [drawing.first_place(view)]
        while fresh:
            cursor = fresh.pop()
            for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                there = drawing.step(cursor, down, right, view)
                if there not in reached:
                    reached.add(there)
                    fresh.append(there)
        assert set(next_places(view)) <= reached


@given(st.integers(0, 8), st.integers(5, 100), st.integers(4, 30), st.booleans())
@settings(deadline=None)
def test_a_game_without_a_drawing_is_text_and_the_names_of_its_moves(
    cursor: int, columns: int, rows: int, ascii: bool
) -> None:
    view = BoardView(tictactoe, tictactoe.start(), cursor=cursor, values={4: 0.5, 8: -0.25})  # type: ignore[arg-type]
    drawing = board_of("nim")
    lines = drawing.lines(view, columns, rows, ascii)
    assert len(lines) <= rows
    assert {width(text) for text in texts(lines)} <= set(range(columns + 1))
    assert len({width(text) for text in texts(lines)}) == 1
    assert cursor in {piece.place for line in lines for piece in line}
    assert not ascii or "".join(texts(lines)).isascii()
    assert columns < 40 or tictactoe.MOVES[cursor] in "".join(texts(lines))
    assert len(set(OURS.values()) | {drawing.__name__}) == 1 + len(OURS)  # type: ignore[attr-defined]


# What is on the board is counted as an eye does: connected regions, letters, and the numbers on them.


def cells(lines: Sequence[Sequence[BoardPiece]]) -> list[list[tuple[str, str, str]]]:
    return [[(sign, piece.kind, piece.ground) for piece in line for sign in piece.text] for line in lines]


def regions(lines: Sequence[Sequence[BoardPiece]], kind: str) -> list[tuple[set[tuple[int, int]], str]]:
    """The connected regions of half cells of a kind, and the digits on each."""
    points: dict[tuple[int, int], str] = {}
    for y, line in enumerate(cells(lines)):
        for x, (sign, own, ground) in enumerate(line):
            mask = QUARTERS.find(sign) if own == kind else 15 if ground == kind else 0
            mask = 15 if mask < 0 and ground == kind else max(0, mask)
            for bit in range(4):
                if mask >> bit & 1:
                    points[2 * y + bit // 2, 2 * x + bit % 2] = sign if sign.isdigit() else ""
    found = []
    while points:
        todo, region, digits = [next(iter(points))], set(), {}
        while todo:
            at = todo.pop()
            if at in points:
                digit = points.pop(at)
                region.add(at)
                if digit:
                    digits[at[1] // 2] = digit
                todo += [(at[0] + dy, at[1] + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        found.append((region, "".join(digits[x] for x in sorted(digits))))
    return found


def stacks(lines: Sequence[Sequence[BoardPiece]], kind: str, edge: int) -> list[int]:
    """How many checkers of a kind each stack has: the number on it, or else its regions at different heights."""
    found: dict[tuple[int | None, bool], dict[int, str]] = {}
    for region, number in regions(lines, kind):
        y, x = min(region)
        if x // 2 < edge:
            stack = found.setdefault((place_at(lines, x // 2, y // 2), y < len(lines)), {})
            stack[y] = stack.get(y, "") or number
    return sorted(
        max((int(number) for number in stack.values() if number), default=len(stack)) for stack in found.values()
    )


@pytest.mark.parametrize("size", [(60, 20), (80, 18), (80, 24), (120, 40)])
def test_as_many_checkers_are_drawn_as_are_on_the_board(size: tuple[int, int]) -> None:
    positions = [view.position for view in many() if view.game.NAME == "backgammon"][::20] + DEGENERATE
    for position in positions:
        lines = drawn(BoardView(backgammon, position, cursor=99), *size)  # type: ignore[arg-type]
        edge = texts(lines)[0].rindex("┬")
        for who, kind in ((FIRST, "first"), (SECOND, "second")):
            counts = position[2] if who == (position[0] or FIRST) else position[3]
            assert stacks(lines, kind, edge) == sorted(count for count in counts if count), (position, kind)
            assert f"{15 - sum(counts)} off" in "".join(texts(lines))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_checkers_are_counted_in_letters_too(size: tuple[int, int]) -> None:
    positions = [view.position for view in many() if view.game.NAME == "backgammon"][::12]
    for position in [*positions, (FIRST, (), side(), side(p24=15))]:
        lines = texts(drawn(BoardView(backgammon, position, cursor=99), *size, ascii=True))  # type: ignore[arg-type]
        edge = lines[0].rindex("+", 0, len(lines[0]) - 1)
        text = "\n".join(line[:edge] for line in lines)
        turn, _, own, other = position
        first, second = (own, other) if turn != SECOND else (other, own)
        area, most = (3, 9) if size == (80, 24) else (10, 5)
        for letter, counts in (("X", first), ("O", second)):
            assert (letter in text) == (sum(counts) > 0)
            assert max(counts) > most or text.count(letter) == sum(counts) * area


@pytest.mark.parametrize("size", [(20, 8), (40, 12), (60, 20), (80, 24), (120, 40)])
def test_every_stone_of_connect_four_is_drawn_and_full_ones_and_rings_differ(size: tuple[int, int]) -> None:
    positions = [view.position for view in many() if view.game.NAME == "connect-four"][::3]
    for position in [*positions, connect_four.play(int(column) - 1 for column in "12127272")]:
        lines = drawn(BoardView(connect_four, position, cursor=99), *size)  # type: ignore[arg-type]
        won = len(connect_four.winning_squares(position))
        stones = [each.bit_count() for each in position]
        if size[1] < 20:
            text = "".join(texts(lines))
            assert [text.count("●") + text.count("◆"), text.count("○") + text.count("◇")] == stones
        else:
            first, second, four = (len(regions(lines, kind)) for kind in ("first", "second", "won"))
            assert first + second + four == sum(stones)
            assert four == won


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40), (200, 60)])
def test_below_a_column_are_its_value_its_visits_and_its_prior(size: tuple[int, int], ascii: bool) -> None:
    values = {column: (column - 3) / 4 for column in range(7)}
    written = ["−.75", "−.50", "−.25", ".00", "+.25", "+.50", "+.75"]
    shares = {column: (column + 1) / 28 for column in range(7)}
    notes = {column: f"{column} visits, P .{column}9" for column in range(7)}
    view = BoardView(connect_four, connect_four.play([3]), values=values, shares=shares, notes=notes)  # type: ignore[arg-type]
    lines = drawn(view, *size, ascii)
    for column in range(7):
        text = "\n".join("".join(piece.text for piece in line if piece.place == column) for line in lines)
        wanted = [written[column], f".{100 * shares[column]:02.0f}"]
        wanted += [f"P .{column}9"] * (size[1] >= 40)
        assert all(each.replace("−", "-" if ascii else "−") in text for each in wanted), (text, wanted)


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_what_won_can_be_told_without_colour(size: tuple[int, int], ascii: bool) -> None:
    for moves in ("5135753153441117462", "12127272"):
        position = connect_four.play([int(move) - 1 for move in moves])
        lines = drawn(BoardView(connect_four, position, cursor=99), *size, ascii)  # type: ignore[arg-type]
        again = "".join(texts(lines))
        marks = sum(again.count(mark) for mark in "*★#@◆◇")
        shapes = len(regions(lines, "mark"))
        assert max(marks, shapes) == len(connect_four.winning_squares(position))


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (120, 40)])
def test_turn_cursor_hint_choice_and_last_move_can_be_told_without_colour(size: tuple[int, int], ascii: bool) -> None:
    for view in many()[::5]:
        if view.game.outcome(view.position) is not None or len(view.moves) < 4 or len(next_places(view)) < 2:
            continue
        if view.game.NAME == "backgammon" and size == (40, 12):
            continue
        bare = replace(view, hinted=(), chosen=(), last=None, before=None, values={}, shares={})
        places = list(next_places(bare))
        other = replace(bare, cursor=places[0] if places[0] != bare.cursor else places[-1])
        shown = [bare, other, replace(bare, hinted=[view.game.legal(view.position)[0]])]
        if view.chosen:
            shown.append(replace(bare, chosen=view.chosen[:1]))
        assert len({"\n".join(texts(drawn(each, *size, ascii))) for each in shown}) == len(shown)
        if view.last and view.game.NAME != "tictactoe":
            assert texts(drawn(replace(bare, last=view.last, before=view.before), *size, ascii)) != texts(
                drawn(bare, *size, ascii)
            )


def places_of(lines: Sequence[Sequence[BoardPiece]], signs: str = "", kind: str = "") -> set[int | None]:
    """The places with one of the signs, or with a piece of that kind."""
    return {piece.place for line in lines for piece in line if set(piece.text) & set(signs) or piece.kind == kind}


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
def test_backgammon_marks_the_last_move_the_choice_and_the_hint_at_their_points(
    size: tuple[int, int], ascii: bool
) -> None:
    opening = (FIRST, (3, 1), *backgammon.start()[2:])
    move = backgammon.read_move(opening, "8/5 6/5")
    left = backgammon.after(opening, move)
    replied = (left[0], (6, 4), *left[2:])  # the second player counts from the other end: 8 is 17, at place 16
    view = BoardView(backgammon, replied, cursor=23, last=move, before=opening)  # type: ignore[arg-type]
    lines = drawn(view, *size, ascii)
    assert places_of(lines, kind="ghost") == {16, 18}
    assert places_of(lines, kind="mark") == {19}
    assert places_of(lines, "^v" if ascii else "▲▼") == {23}

    lines = drawn(replace(view, last=None, before=None, chosen=(23,)), *size, ascii)
    assert places_of(lines, "#" if ascii else "◆") == {23}
    assert places_of(lines, "*" if ascii else "◇") == {17}  # 20 is closed

    hint = backgammon.read_move(replied, "24/14")
    lines = drawn(replace(view, last=None, before=None, cursor=0, hinted=[hint]), *size, ascii)
    assert places_of(lines, "#" if ascii else "◆") >= {23}
    assert places_of(lines, "*" if ascii else "◇") >= {13}
    assert backgammon.name_of_move(replied, hint).split()[0] in "".join(texts(lines))


@pytest.mark.parametrize("size", [(11, 5), (24, 11), (60, 20), (80, 36)])
def test_the_squares_of_tic_tac_toe_tell_the_order_of_the_moves_and_what_won(size: tuple[int, int]) -> None:
    position = tictactoe.start()
    for move in (4, 0, 2, 1, 6):
        position = tictactoe.after(position, move)
    view = BoardView(tictactoe, position, (4, 0, 2, 1, 6), last=6, cursor=99)  # type: ignore[arg-type]
    for ascii in (False, True):
        lines = drawn(view, *size, ascii)
        assert places_of(lines, kind="won") == {2, 4, 6}
        if size[1] >= 11:
            assert places_of(lines, "=" if ascii else "━") == {2, 4, 6}
            orders = {piece.place: piece for line in lines for piece in line if piece.text.isdecimal()}
            assert {place: piece.text for place, piece in orders.items()} == {4: "1", 0: "2", 2: "3", 1: "4", 6: "5"}
            assert [place for place, piece in orders.items() if piece.kind == "here"] == [6]


# The colours of values


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_good_and_bad_are_different_hues_and_grow_stronger(colours: Colours, dark: bool) -> None:
    for sign in (1, -1):
        fills = [tint(sign * size, colours, dark)[0] for size in (0.25, 0.5, 0.75, 1.0)]
        lightness = [rgb_to_oklab(fill)[0] for fill in fills if fill is not None]
        assert len(lightness) == 4
        assert lightness == sorted(lightness, reverse=not dark)
    good, bad = (rgb_to_oklab(fill) for value in (1.0, -1.0) if (fill := tint(value, colours, dark)[0]) is not None)
    assert good[2] > 0 > bad[2]  # yellow against blue: told apart by the colour-blind too
    assert tint(0.0, colours, dark) == (None, None)


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_numbers_can_be_read_on_every_colour_and_tones_are_distinguished(colours: Colours, dark: bool) -> None:
    for step in range(-20, 21):
        fill, front = tint(step / 20, colours, dark)
        if fill is not None and front is not None:
            assert abs(rgb_to_oklab(fill)[0] - rgb_to_oklab(front)[0]) > 0.3
    tones = {kind: tone(kind, colours, dark) for kind in (*TONE, "second")}
    assert None not in tones.values()
    assert len(set(tones.values())) == len(tones)
    for ground in ("even", "odd", "hole"):  # quiet: far from the checkers on them
        assert abs(rgb_to_oklab(tones["second"])[0] - rgb_to_oklab(tones[ground])[0]) > 0.2  # type: ignore[arg-type]
