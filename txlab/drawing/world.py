"""A world of states as character cells: values as colour and number, arrows, traces, the agent, walls and goals.

Nothing here depends on Textual. A picture is rows of characters, each with a role (which decides its style) and a level
(the colour behind it). What a cell shows depends on its size: an arrow alone, an arrow next to or above a number,
arrows at the sides they point to, or a number for each of the four directions; a world of one long row is drawn as
bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from txlab.drawing.spark import BARS, RISING
from txlab.drawing.text import visible
from txlab.drawing.world_scene import CellSize, Scene, WorldAspect
from txlab.drawing.world_signs import action_sign, actions_sign, decimals_for, direction, mark_sign, short, whole
from txlab.engine.rl.world import World

Role = Literal[
    "plain", "strong", "shade", "bar", "mark", "goal", "hazard", "wall", "trace", "agent", "path", "cursor", "empty"
]
"""The role of a character: "shade" and "bar" have the colour of their level as ink, "bar" on the surface."""

SURFACE, WALL, HAZARD, GOAL, CURSOR = -1, -2, -3, -4, -5
"""Levels outside the ramp."""

ASCII_TRACES = "___:::!|"


@dataclass
class Canvas:
    """Rows of single characters, each with a role and a level."""

    columns: int
    rows: int
    text: list[list[str]] = field(default_factory=list)
    role: list[list[Role]] = field(default_factory=list)
    level: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = [[" "] * self.columns for _ in range(self.rows)]
        self.role = [["empty"] * self.columns for _ in range(self.rows)]
        self.level = [[SURFACE] * self.columns for _ in range(self.rows)]

    def fill(self, x: int, y: int, size: CellSize, level: int, sign: str = " ", role: Role = "plain") -> None:
        for row in range(y, y + size.tall):
            self.text[row][x : x + size.wide] = [sign] * size.wide
            self.role[row][x : x + size.wide] = [role] * size.wide
            self.level[row][x : x + size.wide] = [level] * size.wide

    def write(self, x: int, y: int, text: str, role: Role) -> None:
        line, roles = self.text[y], self.role[y]
        for at, character in enumerate(text, x):
            line[at], roles[at] = character, role


def states_of(world: World, layer: int) -> dict[tuple[int, int], int]:
    """Return the state at each (row, column) of a layer."""
    place = world.layout.place
    here = np.flatnonzero(place[:, 0] == layer)
    return {(row, column): s for s, (row, column) in zip(here.tolist(), place[here, 1:].tolist(), strict=True)}


def levels_of(scene: Scene, view: WorldAspect) -> list[int]:
    """Return the level of each state: of its value, or of its number of visits on a logarithmic scale."""
    if view.show == "visits" and scene.visits is not None:
        visits = np.nan_to_num(np.asarray(scene.visits, np.float64)).clip(0)
        most = max(1.0, float(visits.max(initial=1.0)))
        return view.ramp.level(np.log1p(visits) / np.log1p(most)).tolist()  # type: ignore[no-any-return]
    return view.ramp.level(view.scale.share(scene.value)).tolist()  # type: ignore[no-any-return]


def draw(world: World, scene: Scene, view: WorldAspect, states: Mapping[tuple[int, int], int]) -> Canvas:
    """Return the picture of the cells in the view."""
    size, (top, left), (tall, wide) = view.size, view.first, view.cells
    canvas = Canvas(wide * size.wide, tall * size.tall)
    brush = Brush(world, scene, view, canvas)
    for row in range(tall):
        for column in range(wide):
            place = (top + row, left + column)
            state = states.get(place)
            mark = world.layout.marks.get(place, "")
            x, y = column * size.wide, row * size.tall
            if state is None or world.process.terminal[state]:
                brush.thing(x, y, mark, state)
            else:
                brush.state(x, y, state, mark)
            if place == view.cursor:
                brush.cursor(x, y)
    for (row, column), (other_row, other_column) in world.layout.fences:
        if row == other_row and 0 <= row - top < tall and 0 <= (at := min(column, other_column) - left) < wide - 1:
            for y in range((row - top) * size.tall, (row - top + 1) * size.tall):
                canvas.write((at + 1) * size.wide - 1, y, "|" if view.ascii else "┃", "strong")
    return canvas


def profile(world: World, scene: Scene, view: WorldAspect, rows: int) -> Canvas:
    """Draw a world of one long row as bars, so that a hundred states fit (the gambler's)."""
    first, columns = view.first[1], view.cells[1]
    canvas = Canvas(columns * view.size.wide, rows)
    states = {column: state for (_, column), state in states_of(world, view.layer).items()}
    share = view.scale.share(scene.value)
    levels = view.ramp.level(share).tolist()
    zero = 0.5 if view.scale.signed else 0.0
    bars = RISING if view.ascii else BARS
    for column in range(columns):
        state = states.get(first + column)
        if state is None or world.process.terminal[state]:
            continue
        height = float(share[state]) if share[state] == share[state] else zero
        eighths = max(1, round(height * 8 * (rows - 1)))
        for row in range(rows - 1):
            part = min(8, eighths - 8 * row)
            if part <= 0:
                break
            for x in range(column * view.size.wide, (column + 1) * view.size.wide):
                canvas.text[rows - 2 - row][x] = bars[part - 1]
                canvas.role[rows - 2 - row][x] = "trace" if state == scene.updated else "bar"
                canvas.level[rows - 2 - row][x] = levels[state]
        sign = ("@" if view.ascii else "◉") if state == scene.agent else ""
        best = scene.best(state, world.process.actions)
        words = sign or actions_sign([world.process.actions[a] for a in best[:1]], view.size.wide, view.ascii)
        canvas.write(column * view.size.wide, rows - 1, words[: view.size.wide], "agent" if sign else "strong")
    return canvas


class Brush:
    """Draws one cell after another of a scene."""

    def __init__(self, world: World, scene: Scene, view: WorldAspect, canvas: Canvas) -> None:
        self.world, self.scene, self.view, self.canvas = world, scene, view, canvas
        self.actions = world.process.actions
        self.levels = levels_of(scene, view)
        self.values = np.asarray(scene.value, np.float64).tolist()
        self.path = frozenset(scene.path)
        self.ways = [direction(action) for action in self.actions]
        self.bare = view.ramp.fill[0] is None  # no background colours: shades replace them

    def thing(self, x: int, y: int, mark: str, state: int | None) -> None:
        """Draw a wall, a hole or a goal: a cell in which the agent cannot act."""
        size, ascii = self.view.size, self.view.ascii
        sign = mark_sign(mark, ascii, size.wide) if mark else " "
        reward = self.reward(mark, size.wide - 2 * (size.wide > 4)) if mark else ""
        if reward and mark not in "GH":
            sign = reward
        elif reward and len(sign) + 1 + len(reward) < size.wide - 2 and len(reward) > 1:
            sign = f"{sign} {reward}"
        middle = x + (size.wide - len(sign)) // 2, y + (size.tall - 1) // 2
        if mark == "#":
            self.canvas.fill(x, y, size, WALL, sign, "wall")
        elif self.hazard(mark, state):
            self.canvas.fill(x, y, size, HAZARD, "%" if ascii else "░", "hazard")
            if mark not in "C":
                wide = size.wide > 3
                self.canvas.write(middle[0] - wide, middle[1], f" {sign} " if wide else sign, "hazard")
        elif mark or state is not None:
            self.canvas.fill(x, y, size, GOAL if mark == "G" or state is not None else SURFACE)
            self.canvas.write(*middle, sign if mark else ("*" if ascii else "■"), "goal")
        if state is not None and state == self.scene.agent:
            self.agent(x, y)

    def reward(self, mark: str, cells: int) -> str:
        """Return the reward for arriving on a sign, +.25, or its sign alone where it does not fit; "" if it has none.

        The map's own letter says nothing: an edit takes the next one that is free.
        """
        tile = self.world.map.signs.get(mark) if self.world.map is not None else None
        value = 0.0 if tile is None else (tile.pays or 0.0) + tile.adds
        if not value:
            return ""
        text = f"{value:+g}".replace("+0.", "+.").replace("-0.", "-.")
        fitting = [each for each in (text, text.removeprefix("+")) if len(each) <= cells]
        text = fitting[0] if fitting and cells > 1 else text[0]
        return text if self.view.ascii else text.replace("-", "−")

    def hazard(self, mark: str, state: int | None) -> bool:
        """Whether a cell is bad to enter: a hole, a cliff, or a terminal state that costs."""
        if mark in ("H", "C"):
            return True
        tile = self.world.map.tiles.get(mark) if self.world.map is not None and mark else None
        return tile is not None and ((tile.pays or 0) + tile.adds < 0 and (tile.exit or bool(tile.leads)))

    def state(self, x: int, y: int, state: int, mark: str) -> None:
        view, size, scene = self.view, self.view.size, self.scene
        level = self.levels[state]
        shade = self.view.ramp.glyphs[level]
        self.canvas.fill(x, y, size, level, shade if self.bare and size.tall > 2 else " ", "shade")
        best = scene.best(state, self.actions)
        value = self.values[state]
        role: Role = "path" if state in self.path else "strong"
        if view.show in ("actions", "policy") and size.quad and self.quad(x, y, state, best, role):
            pass
        elif size.kind == "compass":
            self.compass(x, y, state, value, best, role)
        elif size.kind == "stacked":
            self.draw_stacked(x, y, state, value, best, role)
        else:
            marked = bool(mark) and mark not in ".#" and size.kind == "line"
            mark = mark if self.line(x, y, state, value, best, role, shade, marked) else ""
        if mark and mark not in ".#" and size.kind != "sign":
            own = self.reward(mark, 1 if size.kind == "line" else (size.wide - 1) // 2) or visible(mark, view.ascii)[:1]
            self.canvas.write(x + size.wide - len(own), y, own, "mark")
        if scene.trace is not None and scene.trace[state] > 1e-3:
            self.trace(x, y, float(scene.trace[state]))
        if state == scene.agent:
            self.agent(x, y)

    def number(self, state: int, value: float, cells: int) -> str:
        """Return the text of a cell: its value, its visits, or the probability of its most likely action."""
        view = self.view
        if view.show == "visits" and self.scene.visits is not None:
            return whole(float(self.scene.visits[state]), cells)
        if view.show == "policy" and self.scene.policy is not None:
            top = float(np.nanmax(self.scene.policy[state], initial=0.0))
            return next((text for text in (f"{100 * top:.0f}%", f"{100 * top:.0f}") if len(text) <= cells), "")
        return short(value, cells, self.decimals(cells), view.ascii)

    def decimals(self, cells: int) -> int:
        scale = self.view.scale
        return decimals_for(scale.size, cells, scale.low < 0, self.view.legibility.digits)

    def number_role(self, state: int) -> Role:
        return "strong" if state == self.scene.updated else "plain"

    def compass(self, x: int, y: int, state: int, value: float, best: list[int], role: Role) -> None:
        """Draw the number in the middle, and an arrow at each side that a best action points to."""
        size, middle = self.view.size, y + (self.view.size.tall - 1) // 2
        text = self.number(state, value, size.wide - 4)
        begin = x + (size.wide - len(text)) // 2
        if self.bare:
            self.canvas.write(x + 1, middle, " " * (size.wide - 2), "plain")
        self.canvas.write(begin, middle, text, self.number_role(state))
        if len(best) == len(self.actions) > 1 and len(best) > 2 and self.world.process.allowed[state].all():
            return  # no action is better than another yet
        others: list[str] = []
        centre = x + (size.wide - 1) // 2
        for action in best:
            way = self.ways[action]
            if way is None:
                others.append(self.actions[action])
                continue
            column = (x, centre, x + size.wide - 1)[way[1] + 1]
            row = (y, middle, y + size.tall - 1)[way[0] + 1] if way != (0, 0) else y
            self.canvas.write(column, row, action_sign(self.actions[action], 1, self.view.ascii), role)
        if others:
            words = actions_sign(others, size.wide, self.view.ascii)
            self.canvas.write(x + (size.wide - len(words)) // 2, y, words, role)

    def draw_stacked(self, x: int, y: int, state: int, value: float, best: list[int], role: Role) -> None:
        """Draw the arrows above the number."""
        size = self.view.size
        words = actions_sign([self.actions[a] for a in best], size.wide - 1, self.view.ascii)
        if len(best) > 2 and len(best) == len(self.actions):
            words = ""
        begin = x + (size.wide - len(words)) // 2
        if state == self.scene.agent and begin < x + 2:  # the agent's sign is there
            begin, words = x + 2, words[: size.wide - 2]
        self.canvas.write(begin, y, words, role)
        text = self.number(state, value, size.wide - 1)
        below = y + 1 + (size.tall > 3)
        if self.bare:
            self.canvas.write(x, below, " " * size.wide, "plain")
        self.canvas.write(x + (size.wide - len(text) + 1) // 2, below, text, self.number_role(state))

    def line(
        self, x: int, y: int, state: int, value: float, best: list[int], role: Role, shade: str, marked: bool
    ) -> bool:
        """Draw an arrow and, if it fits, the number or the shade of its level next to it.

        Returns whether the letter of the map, in the last cell, would be separate from the number.
        """
        size = self.view.size
        room = 1 if size.wide < 4 else 2
        words = actions_sign([self.actions[a] for a in best], room, self.view.ascii)
        if len(best) > 2 and len(best) == len(self.actions):
            words = "." if self.view.ascii else "·"
        if size.kind == "sign":
            self.canvas.write(x, y, words or " ", role)
            if size.wide > 1:
                self.canvas.write(x + 1, y, shade, "shade")
            return False
        # The last cell stays free for the next arrow, or a trace. A colon separates a numeric action from the value; if
        # the value does not fit, it replaces the action, unless the action is requested.
        agent = 2 * (state == self.scene.agent)  # its sign and a space, which replace the action
        words = "" if agent else words + ":" if words[-1:].isdigit() else words
        begin = max(agent, len(words) if size.wide < 6 else room, len(words))
        end = size.wide - 1  # with a mark, the cell before it stays free too, if a number fits into the rest
        text = self.number(state, value, end - begin)
        apart = marked and len(shorter := self.number(state, value, end - 1 - begin)) > 0
        if apart:
            text, end = shorter, end - 1
        elif not text and self.view.show in ("values", "visits"):
            words, begin = "", agent
            text = self.number(state, value, end - begin)
        self.canvas.write(x, y, words if text else words.rstrip(":"), role)
        self.canvas.write(x + begin, y, text.rjust(end - begin), self.number_role(state))
        return apart or not text

    def quad(self, x: int, y: int, state: int, best: list[int], role: Role) -> bool:
        """Draw at each side the number of the action pointing there; False if the actions are not four directions."""
        view, size = self.view, self.view.size
        table = self.scene.q if view.show == "actions" else self.scene.policy
        if table is None or any(way is None or 0 not in way or way == (0, 0) for way in self.ways):
            return False
        beside = (size.wide - 3) // 2  # characters of a number left and right of the middle
        middle = y + (size.tall - 1) // 2
        if self.bare:
            for row in (y, middle, y + size.tall - 1):
                self.canvas.write(x, row, " " * size.wide, "plain")
        for action, way in enumerate(self.ways):
            assert way is not None
            value = float(table[state, action])
            if view.show == "policy" and 0 <= value <= 1:
                text = f"{100 * value:.0f}%"
            else:
                cells = beside if way[1] else min(5, size.wide - 2)
                text = short(value, cells, self.decimals(cells), view.ascii)
            row = (y, middle, y + size.tall - 1)[way[0] + 1]
            column = (x + 1, x + (size.wide - len(text)) // 2, x + size.wide - 1 - len(text))[way[1] + 1]
            good = action in best and len(best) < len(self.actions)
            self.canvas.write(column, row, text, ("path" if role == "path" else "strong") if good else "plain")
        few = best if len(best) < len(self.actions) else []
        words = actions_sign([self.actions[a] for a in few], 1, view.ascii) or ("." if view.ascii else "·")
        self.canvas.write(x + (size.wide - 1) // 2, middle, words, role)
        return True

    def trace(self, x: int, y: int, share: float) -> None:
        """Draw the eligibility trace (the share of each error that this state receives) as a bar at the left side."""
        view, tall = self.view, self.view.size.tall
        bars = ASCII_TRACES if view.ascii else BARS
        eighths = max(1, min(8 * tall, round(min(1.0, share) * 8 * tall)))
        at = x if tall > 1 else x + view.size.wide - 1
        for row in range(tall):
            part, line = min(8, eighths - 8 * row), y + tall - 1 - row
            if part > 0 and self.canvas.role[line][at] not in ("strong", "path"):  # arrows take precedence
                self.canvas.write(at, line, bars[part - 1], "trace")

    def agent(self, x: int, y: int) -> None:
        size = self.view.size
        sign = "@" if self.view.ascii else "◉"
        if size.kind in ("sign", "line"):
            self.canvas.write(x, y, sign, "agent")
            if size.kind == "line":
                self.canvas.write(x + 1, y, " ", "agent")
        elif size.kind == "stacked":
            self.canvas.write(x, y, sign + " ", "agent")
        elif self.view.show in ("actions", "policy") and size.quad:
            self.canvas.write(x + (size.wide - 1) // 2, y + (size.tall - 1) // 2, sign, "agent")
        else:
            self.canvas.write(x + 1, y, f" {sign} ", "agent")

    def cursor(self, x: int, y: int) -> None:
        """Mark the chosen cell by its whole background, so that it is visible at any size."""
        size = self.view.size
        solid = "█▓▒░"  # would hide the background
        for row in range(y, y + size.tall):
            line = self.canvas.text[row]
            line[x : x + size.wide] = [" " if sign in solid else sign for sign in line[x : x + size.wide]]
            levels = self.canvas.level[row]
            levels[x : x + size.wide] = [at if at >= 0 else CURSOR for at in levels[x : x + size.wide]]
            self.canvas.role[row][x : x + size.wide] = ["cursor"] * size.wide
