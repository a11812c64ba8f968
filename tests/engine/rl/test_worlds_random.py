"""Any map makes a process or is refused in one sentence; the process is what a slow reading of the rules gives."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.engine.rl.maps.compiling import can_end, compile_map, reachable, sides
from txlab.engine.rl.maps.drawn import ACTIONS, STEPS, Map, parse_map
from txlab.engine.rl.maps.tiles import Tile
from txlab.engine.rl.process import check
from txlab.engine.rl.world import World
from txlab.errors import LabError

rewards = st.sampled_from([-100.0, -1.0, -0.04, 0.0, 1 / 3, 1.0, 2.5])
shares = st.sampled_from([0.0, 0.2, 2 / 3, 1.0])
signs = st.sampled_from("................##CCHPPQQMM")
Made = TypeVar("Made")
OWN = {
    "P": Tile(pays=3.0),
    "Q": Tile(adds=0.5),
    "L": Tile(leaving_pays=7.0, leaving_leads="b"),
    "M": Tile(leaving_pays=-2.0),
    "J": Tile(leads="b"),
    "b": Tile(),
}


@st.composite
def maps(draw: st.DrawFn) -> Map:
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rows = [[draw(signs) for _ in range(width)] for _ in range(height)]
    for sign in draw(st.sampled_from(["bJLGS", "GS", "SS", "S", "LbS", "JbGS", "JS", "GG"])):
        rows[draw(st.integers(0, height - 1))][draw(st.integers(0, width - 1))] = sign
    return Map(
        rows=tuple("".join(row) for row in rows),
        signs=OWN,
        moves=draw(st.sampled_from(list(ACTIONS))),
        slip=draw(shares),
        wind=tuple(draw(st.integers(-3, 3)) for _ in range(width)) if draw(st.booleans()) else (),
        gusts=draw(shares),
        step=draw(rewards),
        bump=draw(st.none() | rewards),
        discount=draw(shares),
        limit=draw(st.sampled_from([0, 9])),
        start=draw(st.sampled_from(["any", "any", "everywhere", "one"])),
    )


def world_or_sentence(map: Map) -> World | None:
    return tried(lambda: compile_map(map))


def tried(make: Callable[[], Made]) -> Made | None:
    """What is made, or None where it is refused in a sentence for the user."""
    sentence = ""
    try:
        return make()
    except LabError as error:
        sentence = str(error)
    assert sentence.isprintable()
    assert 10 < len(sentence) < 300
    return None


@given(maps())
@settings(max_examples=120)
def test_every_map_makes_a_process_or_a_sentence(map: Map) -> None:
    world = world_or_sentence(map)
    if world is None:
        return
    check(world.process)
    assert (world.process.terminal[world.process.next] == world.process.done).all()
    # Every start can come to an end, or is cut off.
    assert world.process.limit > 0 or can_end(world.process)[reachable(world.process)].all()
    assert bool(world.notes) <= (world.process.limit > 0)


@given(maps())
@settings(max_examples=120)
def test_the_arrays_say_what_a_slow_reading_of_the_rules_says(map: Map) -> None:
    world = world_or_sentence(map)
    if world is None:
        return
    process = world.process
    cells = [(r, c) for r in range(map.height) for c in range(map.width) if map.tile(r, c).stood]
    assert [tuple(place) for place in world.layout.place[:, 1:].tolist()] == cells
    for s, cell in enumerate(cells):
        for a, action in enumerate(process.actions):
            found: dict[tuple[tuple[int, int], float], float] = {}
            for o in process.outcomes(s, a):
                key = (cells[o.next], o.reward)
                assert key not in found, "the same outcome twice"
                found[key] = o.probability
            assert found == pytest.approx(slowly(map, cell, action))


def slowly(map: Map, cell: tuple[int, int], action: str) -> dict[tuple[tuple[int, int], float], float]:
    """{(cell, reward): probability} of an action, one case after the other."""
    here = map.tile(*cell)
    if here.exit:
        return {}
    law: dict[tuple[tuple[int, int], float], float] = defaultdict(float)
    left, right = sides(map.moves, action)
    for way, p in ((action, 1 - map.slip), (left, map.slip / 2), (right, map.slip / 2)):
        blowing = bool(map.wind) and map.wind[cell[1]] != 0
        gusts = [(0, 1 - map.gusts), (1, map.gusts / 2), (-1, map.gusts / 2)] if blowing else [(0, 1.0)]
        for gust, q in gusts:
            if p * q == 0:
                continue
            wind = map.wind[cell[1]] + gust if blowing else 0
            there, hit = walked(map, cell, STEPS[way], wind)
            tile = map.tile(*there)
            if hit and there == cell and way != "stay" and map.bump is not None:
                reward = map.bump
            elif tile.pays is not None:
                reward = tile.pays
            else:
                reward = map.step + tile.adds
            if here.leaving_leads:
                reward = map.step
            if here.leaving_pays is not None:
                reward = here.leaving_pays
            if here.leaving_leads:
                ends = [cells_of(map, here.leaving_leads)[0]]
            elif tile.leads == "the start":
                ends = starts(map)
            else:
                ends = [cells_of(map, tile.leads)[0]] if tile.leads else [there]
            for end in ends:
                law[end, reward] += p * q / len(ends)
    return dict(law)


def walked(map: Map, cell: tuple[int, int], step: tuple[int, int], wind: int) -> tuple[tuple[int, int], bool]:
    """Where one comes from a cell, a step at a time, and whether something was hit."""

    def free(r: int, c: int) -> bool:
        return 0 <= r < map.height and 0 <= c < map.width and not map.tile(r, c).wall

    r, c = cell
    down, right = step
    fall, hit = down - wind, False
    if down and right and fall * down > 0 and free(r + down, c + right):
        r, c, fall = r + down, c + right, fall - down
    elif free(r, c + right):
        c += right
    else:
        hit = True
    while fall:
        one = 1 if fall > 0 else -1
        if not free(r + one, c):
            return (r, c), True
        r, fall = r + one, fall - one
    return (r, c), hit


def cells_of(map: Map, sign: str) -> list[tuple[int, int]]:
    return [(r, c) for r in range(map.height) for c in range(map.width) if map.rows[r][c] == sign]


def starts(map: Map) -> list[tuple[int, int]]:
    if map.start != "everywhere":
        return cells_of(map, "S")
    cells = [(r, c) for r in range(map.height) for c in range(map.width)]
    return [cell for cell in cells if map.tile(*cell).stood and not map.tile(*cell).exit]


@given(maps(), st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=60))
@settings(max_examples=120)
def test_the_text_of_a_map_is_read_as_the_same_map(map: Map, title: str) -> None:
    try:
        titled = Map(**{**vars(map), "title": title})
    except LabError:
        titled = map
    assert parse_map(titled.text()) == titled
    assert parse_map(titled.text().replace("\n", "\r\n")) == titled


tiles = (
    st.builds(
        Tile,
        start=st.booleans(),
        pays=st.none() | st.floats(-1e9, 1e9, allow_nan=False),
        leaving_pays=st.none() | st.floats(-1e9, 1e9, allow_nan=False),
        leaving_leads=st.sampled_from(["", "b", ",", "!"][:2]),
    )
    | st.builds(Tile, ends=st.booleans(), goal=st.booleans(), adds=st.floats(-1e9, 1e9, allow_nan=False))
    | st.builds(Tile, pays=st.none() | rewards, leads=st.sampled_from(["b", "the start"]))
)


@given(st.dictionaries(st.sampled_from("ABDEFS123$+-G~"), tiles, max_size=6), st.floats(0, 1), st.floats(-1e9, 1e9))
@settings(max_examples=60)
def test_signs_and_numbers_are_read_back_exactly(own: dict[str, Tile], slip: float, step: float) -> None:
    map = Map(rows=("S.G",), signs=own, slip=slip, step=step)
    assert parse_map(map.text()) == map


@given(st.text(alphabet=".#SGHCAab \n\r\t:-1/9,slipwndte\x1b世", max_size=80) | st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_is_a_map_or_a_sentence(text: str) -> None:
    map = tried(lambda: parse_map(text))
    if map is not None:
        assert parse_map(map.text()) == map
        world_or_sentence(map)


@given(maps(), st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 6), st.sampled_from(".#SGHCPx")), max_size=8))
@settings(max_examples=60)
def test_edits_keep_a_map_legal(map: Map, edits: list[tuple[int, int, str]]) -> None:
    for row, column, sign in edits:
        changed = map
        if inner := tried(lambda: changed.with_cell(row, column, sign)):  # noqa: B023 - called at once
            map = tried(lambda: inner.with_reward(row, column, float(row - column))) or inner  # noqa: B023
            starts = sum(map.tile(r, c).start for r in range(map.height) for c in range(map.width))
            assert sign != "S" or map.start != "one" or starts == 1
        assert parse_map(map.text()) == map
        world_or_sentence(map)


def test_a_large_map_compiles_in_bounded_memory() -> None:
    rows = ["".join("." if (r * 7 + c * 3) % 11 else "#" for c in range(100)) for r in range(50)]
    rows[0] = "S" + rows[0][1:]
    rows[-1] = rows[-1][:-1] + "G"
    map = Map(tuple(rows), moves="king-stay", slip=0.3, wind=(1, -1) * 50, gusts=0.5, limit=100)
    tracemalloc.start()
    world = compile_map(map)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert world.process.size > 4_000
    assert np.diff(world.process.first).max() <= 9
