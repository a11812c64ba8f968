"""Compile a map to a world: every cell that can be occupied becomes a state, in reading order (MATH M1).

A move and the wind are one displacement, as S&B add them up: first sideways, then up or down. Only walls and
the edge block it, each component separately, so that a blocked move slides along them; cells flown over are not
entered. All cells are computed in one batch, because a map is recompiled after each edit on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from txlab.engine.rl.maps.drawn import ACTIONS, STEPS, Map, Moves
from txlab.engine.rl.maps.tiles import START, Tile
from txlab.engine.rl.process import Process, check
from txlab.engine.rl.world import Layout, World
from txlab.errors import LabError

ENDLESS = 1000  # steps after which an episode that nothing can end is cut off
WORTHLESS = "the map has neither a goal nor a reward: all actions are worth the same"
MOST_ROWS = 4_000_000  # of outcomes before equal ones are merged: a few hundred MB for a moment


@dataclass(frozen=True)
class Ground:
    """The cells of a map as arrays (height, width): walls, tile numbers and state numbers (−1 = none)."""

    tiles: list[Tile]
    tile: np.ndarray
    wall: np.ndarray
    state: np.ndarray


def compile_map(drawn: Map, name: str = "map", title: str = "", source: str = "", draft: bool = False) -> World:
    """The world of a map. LabError, naming the cell (row, column from 0), if it is not a process: no start or two, an
    unreachable goal, a cell from which no episode can end, a jump to nowhere.

    A world without an end is cut off after ENDLESS steps, and its notes say so. A `draft` may also be without any
    reward (its notes say that, too): during editing, the goal may be removed before there is another one.
    """
    ground = ground_of(drawn)
    row, column = np.nonzero(ground.state >= 0)  # in reading order, like the states
    starts = starts_of(drawn, ground)
    actions = ACTIONS[drawn.moves]
    exits = np.array([ground.tiles[t].exit for t in ground.tile[row, column]], dtype=bool)
    pair, probability, next, reward = outcomes_of(drawn, ground, row, column, exits, starts)
    start = np.zeros(len(row))
    start[starts] = 1 / len(starts)
    process = Process(
        actions=actions,
        states=tuple(f"({r},{c})" for r, c in zip(row.tolist(), column.tolist(), strict=True)),
        first=np.searchsorted(pair, np.arange(len(row) * len(actions) + 1)),
        next=next,
        probability=probability,
        reward=reward,
        done=exits[next],
        start=start,
        discount=drawn.discount,
        limit=drawn.limit or (0 if exits.any() else ENDLESS),
    )
    check(process)
    worthless = not exits.any() and not np.ptp(reward)
    if worthless and not draft:
        raise LabError(f"{WORTHLESS}; a cell must be a goal G, or pay something else than a step does")
    notes = notes_of(drawn, ground, process)
    if worthless:
        notes = (*notes, f"{WORTHLESS[0].upper()}{WORTHLESS[1:]}.")
    place = np.stack([np.zeros_like(row), row, column], axis=1)
    marks = {(r, c): sign for r, line in enumerate(drawn.rows) for c, sign in enumerate(line) if sign != "."}
    layout = Layout(height=drawn.height, width=drawn.width, place=place, marks=marks)
    return World(name, title or drawn.title or "a map", process, layout, source, map=drawn, notes=notes)


def ground_of(drawn: Map) -> Ground:
    """The map as arrays; LabError where a sign leads to a cell that does not exist, or to more than one."""
    signs = list(drawn.tiles)
    tiles = [drawn.tiles[sign] for sign in signs]
    number = {sign: n for n, sign in enumerate(signs)}
    tile = np.array([[number[sign] for sign in line] for line in drawn.rows])
    stood = np.array([t.stood for t in tiles])[tile]
    state = np.where(stood, np.cumsum(stood).reshape(stood.shape) - 1, -1)
    ground = Ground(tiles, tile, np.array([t.wall for t in tiles])[tile], state)
    for sign, n in number.items():
        for target in {tiles[n].leads, tiles[n].leaving_leads} - {"", START}:
            if (tile == n).any():
                target_of(ground, drawn, sign, target)
    return ground


def target_of(ground: Ground, drawn: Map, sign: str, target: str) -> int:
    """The state of the one cell with the sign `target`, that `sign` leads to."""
    places = [(r, c) for r, line in enumerate(drawn.rows) for c, sign_there in enumerate(line) if sign_there == target]
    if len(places) != 1:
        raise LabError(f"{sign} leads to {target}, of which the map has {len(places)} cells; it must have exactly one")
    state = int(ground.state[places[0]])
    if state < 0:
        raise LabError(f"{sign} leads to {target}, which cannot be occupied; it must be floor, a start or an exit")
    return state


def starts_of(drawn: Map, ground: Ground) -> np.ndarray:
    """The numbers of the states in which an episode begins."""
    if drawn.start == "everywhere":
        stays = np.array([t.stood and not t.exit for t in ground.tiles])[ground.tile]
        if not stays.any():
            raise LabError("there is no cell to start in: every one is a wall, an exit, or a jump to another cell")
        everywhere: np.ndarray = ground.state[stays]
        return everywhere
    where = np.argwhere(np.array([t.start for t in ground.tiles])[ground.tile])
    if not len(where):
        raise LabError("the map has no start: one cell must be S, or its head must say `start: everywhere`")
    if drawn.start == "one" and len(where) > 1:
        (a, b), (c, d) = where[:2].tolist()
        raise LabError(
            f"the map has {len(where)} starts, at ({a},{b}) and ({c},{d})"
            f"{' and elsewhere' if len(where) > 2 else ''}; only one is allowed unless its head says `start: any`"
        )
    return ground.state[where[:, 0], where[:, 1]]


def apply_move(
    drawn: Map, ground: Ground, move: str, row: np.ndarray, column: np.ndarray, gust: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a move and the wind carry from each cell: row, column, whether anything blocked it."""
    height, width = ground.wall.shape

    def free(r: np.ndarray, c: np.ndarray) -> np.ndarray:
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        open: np.ndarray = inside & ~ground.wall[np.clip(r, 0, height - 1), np.clip(c, 0, width - 1)]
        return open

    down, right = STEPS[move]
    wind = np.array(drawn.wind or (0,) * width)[column]
    fall = down - np.where(wind != 0, wind + gust, 0)
    # A diagonal move without wind goes straight to its cell if that is free, like a king in chess.
    slanted = free(row + down, column + right) & (np.sign(fall) == down) & bool(down and right)
    sideways = ~slanted & free(row, column + right)
    blocked = ~slanted & ~sideways
    row, column = np.where(slanted, row + down, row), np.where(slanted | sideways, column + right, column)
    fall = np.where(slanted, fall - down, fall)
    for far in range(1, int(abs(fall).max(initial=0)) + 1):
        below = row + np.sign(fall)
        goes, way = abs(fall) >= far, free(below, column)
        blocked |= goes & ~way
        row = np.where(goes & way, below, row)
    return row, column, blocked


def sides(moves: Moves, action: str) -> tuple[str, str]:
    """The moves to the left and right of a move: a quarter turn with 4, an eighth with the king's. With sideways moves
    only, a slip goes to the other side; `stay` does not slip.

    >>> sides("4", "up")
    ('left', 'right')
    """
    if action == "stay":
        return ("stay", "stay")
    if moves == "sideways":
        other = "right" if action == "left" else "left"
        return (other, other)
    ring = [name for name in ACTIONS[moves] if name != "stay"]
    at = ring.index(action)
    return ring[at - 1], ring[(at + 1) % len(ring)]


def drifts(drawn: Map, action: str) -> list[tuple[str, int, float]]:
    """(move, gust, probability) of each possible result of an action, the intended one first."""
    left, right = sides(drawn.moves, action)
    ways = [(action, 1 - drawn.slip), (left, drawn.slip / 2), (right, drawn.slip / 2)]
    gusts = [(0, 1 - drawn.gusts), (1, drawn.gusts / 2), (-1, drawn.gusts / 2)] if any(drawn.wind) else [(0, 1.0)]
    return [(way, gust, p * q) for way, p in ways for gust, q in gusts if p * q > 0]


def outcomes_of(
    drawn: Map, ground: Ground, row: np.ndarray, column: np.ndarray, exits: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(pair, probability, next, reward) of all outcomes, ordered by pair; equal ones are merged."""

    def each(value: object, kind: type = float) -> np.ndarray:
        """One value per tile, looked up at cells."""
        return np.array([getattr(t, str(value)) or 0 for t in ground.tiles], dtype=kind)

    A = len(ACTIONS[drawn.moves])
    paid = np.array([t.pays is not None for t in ground.tiles])
    leaves = np.array([bool(t.leaving_leads) for t in ground.tiles])
    leaves_paid = np.array([t.leaving_pays is not None for t in ground.tiles])
    home = np.array([t.leads == START for t in ground.tiles])
    jump, leap = (
        np.array([target_at(ground, drawn, getattr(t, key)) for t in ground.tiles])
        for key in ("leads", "leaving_leads")
    )
    s = np.flatnonzero(~exits)
    row, column = row[s], column[s]
    old = ground.tile[row, column]
    parts: list[tuple[np.ndarray, ...]] = []
    total = 0
    for a, action in enumerate(ACTIONS[drawn.moves]):
        for move, gust, p in drifts(drawn, action):
            r, c, blocked = apply_move(drawn, ground, move, row, column, gust)
            new = ground.tile[r, c]
            reward = np.where(paid[new], each("pays")[new], drawn.step + each("adds")[new])
            if drawn.bump is not None and move != "stay":
                reward[blocked & (r == row) & (c == column)] = drawn.bump
            reward = np.where(leaves_paid[old], each("leaving_pays")[old], np.where(leaves[old], drawn.step, reward))
            to = np.where(jump[new] >= 0, jump[new], ground.state[r, c])
            to = np.where(leaves[old], leap[old], to)
            back = home[new] & ~leaves[old]
            copies = np.where(back, len(starts), 1)
            total += int(copies.sum())
            if total > MOST_ROWS:
                raise LabError(
                    f"the map has more than {MOST_ROWS} outcomes; fewer starts, or cells back to them, are needed"
                )
            k = np.repeat(np.arange(len(s)), copies)
            which = np.arange(len(k)) - np.repeat(np.cumsum(copies) - copies, copies)
            to = np.where(back[k], starts[np.minimum(which, len(starts) - 1)], to[k])
            parts.append((s[k] * A + a, p / copies[k], to, reward[k]))
    pair, probability, next, reward = (np.concatenate(column) for column in zip(*parts, strict=True))
    return merge_outcomes(pair, probability, next, reward)


def target_at(ground: Ground, drawn: Map, target: str) -> int:
    """The state of the cell with that sign; −1 if a tile leads nowhere (or to the start, which may be several)."""
    cells = [(r, line.index(target)) for r, line in enumerate(drawn.rows) if target in line] if target else []
    return int(ground.state[cells[0]]) if cells and target != START else -1


def merge_outcomes(
    pair: np.ndarray, probability: np.ndarray, next: np.ndarray, reward: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sort outcomes by pair and merge those with the same next state and reward, the intended one first."""
    order = np.lexsort((reward, next, pair))  # stable: equal ones stay in the order in which they were found
    p, n, r = pair[order], next[order], reward[order]
    new = np.concatenate([[True], (np.diff(p) != 0) | (np.diff(n) != 0) | (np.diff(r) != 0)])[: len(p)]
    begin = np.flatnonzero(new)
    sums = np.add.reduceat(probability[order], begin) if len(begin) else probability
    again = np.lexsort((order[begin], p[begin]))
    kept = begin[again]
    return p[kept], sums[again], n[kept], r[kept]


def notes_of(drawn: Map, ground: Ground, process: Process) -> tuple[str, ...]:
    """Notes for users of the world. LabError where an episode could never end, or a goal is out of reach."""
    reached = reachable(process)
    goals = np.array([t.goal for t in ground.tiles])[ground.tile]
    for r, c in np.argwhere(goals).tolist():
        if not reached[ground.state[r, c]]:
            raise LabError(f"the goal at ({r},{c}) cannot be reached from the start by any actions")
    if not process.terminal.any():
        return (f"Nothing ends an episode here: it is cut off after {process.limit} steps.",)
    stuck = ~can_end(process)
    if not stuck.any():
        return ()
    cell = process.states[int(stuck.argmax())]
    if not drawn.limit:
        raise LabError(
            f"from the cell at {cell} no end of an episode can be reached; open a way out,"
            " or the head must set a `limit` of steps"
        )
    return (f"From {cell} no end of an episode can be reached: it is cut off after {drawn.limit} steps.",)


def reachable(process: Process) -> np.ndarray:
    """(S) bool: the states that some choice of actions can reach from a start, including slips and wind."""
    state = process.pair // process.choices
    possible = process.probability > 0
    return spread(process.size, state[possible], process.next[possible], np.flatnonzero(process.start > 0))


def can_end(process: Process) -> np.ndarray:
    """(S) bool: the states from which some choice of actions ends the episode with positive probability."""
    state = process.pair // process.choices
    possible = process.probability > 0
    ends = possible & (process.done | process.terminal[process.next])
    begin = np.flatnonzero(process.terminal | np.isin(np.arange(process.size), state[ends]))
    return spread(process.size, process.next[possible], state[possible], begin)


def spread(size: int, tail: np.ndarray, head: np.ndarray, begin: Iterable[int]) -> np.ndarray:
    """(size) bool: the nodes reachable from `begin` along the edges tail → head."""
    order = np.argsort(tail, kind="stable")
    heads: Sequence[int] = head[order].tolist()
    first: Sequence[int] = np.searchsorted(tail[order], np.arange(size + 1)).tolist()
    reached = bytearray(size)
    waiting = [int(each) for each in begin]
    for each in waiting:
        reached[each] = 1
    while waiting:
        at = waiting.pop()
        for there in heads[first[at] : first[at + 1]]:
            if not reached[there]:
                reached[there] = 1
                waiting.append(there)
    return np.frombuffer(bytes(reached), dtype=np.uint8).astype(bool)


def match_states(old: World, new: World) -> np.ndarray:
    """(S of new) int64: the state of `old` at the same cell and layer with the same actions; −1 where there was
    none, so that nothing can be carried over. Worlds with different moves have nothing in common."""
    matches = np.full(new.process.size, -1, dtype=np.int64)
    if old.process.actions != new.process.actions:
        return matches
    where = {tuple(place): s for s, place in enumerate(old.layout.place.tolist())}
    for s, place in enumerate(new.layout.place.tolist()):
        before = where.get(tuple(place), -1)
        if before >= 0 and (old.process.allowed[before] == new.process.allowed[s]).all():
            matches[s] = before
    return matches
