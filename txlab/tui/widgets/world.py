"""A world on the screen: the cells of one learner, redrawing only the rows that changed.

txlab/drawing/world.py defines the look of a cell; this file handles colours, the cursor and the mouse. A world that
does not fit is shown in part, with the cursor, or else the agent, in view.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.diverging import Scale, ramp_for
from txlab.drawing.palette import Ramp, contrast
from txlab.drawing.text import fit
from txlab.drawing.world import CURSOR, GOAL, HAZARD, SURFACE, WALL, Canvas, Role, draw, profile, states_of
from txlab.drawing.world_scene import CellSize, Scene, Show, WorldAspect, cell_size
from txlab.engine.rl.world import World
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import ink

Row = tuple[tuple[str, ...], tuple[Role, ...], tuple[int, ...]]
Place = tuple[int, int]
LONG = 12  # cells: a one-row world longer than this may be drawn as bars


class WorldView(Painted, can_focus=False):
    """`show(world, scene, scale, …)` draws a world; `Pointed(row, column)` reports the cell that was clicked."""

    COMPONENT_CLASSES = {
        *("worldview--strong", "worldview--mark", "worldview--goal", "worldview--hazard", "worldview--wall"),
        *("worldview--trace", "worldview--agent", "worldview--cursor", "worldview--quiet"),
    }
    DEFAULT_CSS = """
    WorldView { width: 1fr; height: 1fr; color: $foreground; }
    WorldView > .worldview--strong { color: $foreground; text-style: bold; }
    WorldView > .worldview--mark { color: $text-muted; }
    WorldView > .worldview--goal { color: $success; text-style: bold; }
    WorldView > .worldview--hazard { color: $error; }
    WorldView > .worldview--wall { color: $rule; }
    WorldView > .worldview--trace { color: $success; text-style: bold; }
    WorldView > .worldview--agent { color: $accent; text-style: bold; }
    WorldView > .worldview--cursor { color: $background; background: $foreground; text-style: bold; }
    WorldView > .worldview--quiet { color: $text-muted; }
    """

    class Pointed(Message):
        """A cell was clicked."""

        def __init__(self, view: WorldView, row: int, column: int) -> None:
            super().__init__()
            self.view, self.row, self.column = view, row, column

        @property
        def control(self) -> WorldView:
            return self.view

    def __init__(self, waiting: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.waiting = waiting
        self.world: World | None = None
        self.scene: Scene | None = None
        self.scale = Scale()
        self.showing: Show = "values"
        self.chosen: Place | None = None
        self.depth = 0
        self.states: Mapping[Place, int] = {}
        self.states_for: tuple[World | None, int] = (None, -1)
        self.cell = CellSize(2, 1)
        self.first: Place = (0, 0)
        self.counted: Place = (0, 0)  # visible rows and columns of cells
        self.corner: Place = (0, 0)  # of the picture in the widget: line, column
        self.rows: list[Row] = []
        self.ramp: Ramp | None = None
        self.inks: dict[tuple[Role, int], Style] = {}

    def show(
        self,
        world: World,
        scene: Scene,
        scale: Scale,
        showing: Show = "values",
        chosen: Place | None = None,
        layer: int | None = None,
    ) -> None:
        """Draw one learner in its world. `chosen` is the cell under the cursor; `layer` selects one of the world's
        layers: by default the agent's, or else the first in which an action is possible."""
        self.world, self.scene, self.scale, self.showing, self.chosen = world, scene, scale, showing, chosen
        self.depth = self.depth_of(world, scene, layer)
        self.redraw()

    def depth_of(self, world: World, scene: Scene, layer: int | None) -> int:
        layout = world.layout
        if len(layout.layers) < 2:
            return 0
        if layer is not None:
            return layer % len(layout.layers)
        if 0 <= scene.agent < len(layout.place):
            return int(layout.place[scene.agent, 0])
        open_layers = layout.place[~world.process.terminal, 0]
        return int(open_layers.min()) if len(open_layers) else 0

    def say(self, waiting: str) -> None:
        """Show a sentence instead of a world."""
        self.world, self.scene, self.waiting, self.rows = None, None, waiting, []
        self.refresh()

    # Drawing.

    def redraw(self) -> None:
        world, scene = self.world, self.scene
        if world is None or scene is None or not self.is_mounted or not self.size.width or not self.size.height:
            return
        layout = world.layout
        if self.states_for != (world, self.depth):
            self.states, self.states_for = states_of(world, self.depth), (world, self.depth)
        self.cell = cell_size(layout.height, layout.width, self.size.width, self.size.height)
        bars = layout.height == 1 and layout.width > LONG and self.size.height > 2 and self.cell.kind == "sign"
        if bars:
            self.cell = CellSize(max(1, min(self.cell.wide, self.size.width // layout.width)), 1)
        fits = self.size.height // self.cell.tall, self.size.width // self.cell.wide
        self.counted = max(1, min(layout.height, fits[0])), max(1, min(layout.width, fits[1]))
        self.keep_in_view(layout.height, layout.width)
        ramp = ramp_for(self.scale, self.colours, self.dark, self.ascii)
        if ramp is not self.ramp:
            self.ramp, self.rows = ramp, []
            self.inks.clear()
        view = WorldAspect(
            *(self.cell, self.first, self.counted, self.showing, self.scale, ramp),
            layer=self.depth, cursor=self.chosen, ascii=self.ascii, legibility=self.legibility,
        )  # fmt: skip
        canvas = (
            profile(world, scene, view, min(self.size.height, 10)) if bars else draw(world, scene, view, self.states)
        )
        self.take(canvas)

    def keep_in_view(self, height: int, width: int) -> None:
        """Scroll the picture so that the cursor, or else the agent, is visible: for the agent by half pages, so that
        the picture depends on its current place only."""
        assert self.world is not None
        assert self.scene is not None
        target = self.chosen
        if target is None and 0 <= self.scene.agent < len(self.world.layout.place):
            _, row, column = self.world.layout.place[self.scene.agent].tolist()
            target = (row, column)
        origin = []
        for at, (first, seen, all_of_them) in enumerate(zip(self.first, self.counted, (height, width), strict=True)):
            if target is not None and self.chosen is None:
                half = max(1, seen // 2)
                first = max(0, target[at] - seen // 4) // half * half
            elif target is not None:
                first = max(target[at] - seen + 1, min(first, target[at]))
            origin.append(max(0, min(first, all_of_them - seen)))
        self.first = origin[0], origin[1]

    def take(self, canvas: Canvas) -> None:
        """Store the picture and redraw only the rows that differ."""
        offset = (max(0, self.size.height - canvas.rows) // 2, max(0, self.size.width - canvas.columns) // 2)
        rows: list[Row] = [
            (tuple(text), tuple(role), tuple(level))
            for text, role, level in zip(canvas.text, canvas.role, canvas.level, strict=True)
        ]
        if offset != self.corner or len(rows) != len(self.rows):
            self.corner, self.rows = offset, rows
            self.refresh()
            return
        old, self.rows = self.rows, rows
        self.refresh_changed(old, rows, offset[0])

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.ramp = None
        self.inks.clear()

    def style_of(self, role: Role, level: int) -> Style:
        """Return the style of a role on the background of a level; cached, since there are few of them."""
        style = self.inks.get((role, level))
        if style is None:
            style = self.inks[role, level] = self.mix_style(role, level)
        return style

    def mix_style(self, role: Role, level: int) -> Style:
        surface, ramp = self.surface, self.ramp
        if role == "cursor" and level >= 0 and ramp is not None and (fill := ramp.fill[level]) is not None:
            return ink(fill, surface, contrast(fill)) + Style(bold=True)  # swaps the colours of cell and ink
        if role == "cursor" or level == CURSOR:
            return self.part("cursor") + Style(reverse=True) if self.colours == "none" else self.part("cursor")
        if role == "agent":
            return self.part("agent") + Style(reverse=self.colours == "none")
        if role in ("wall", "hazard", "goal", "trace"):
            if level < 0 or ramp is None or ramp.fill[level] is None:
                return self.part(role)
            return self.part(role) + Style(bgcolor=ink(None, surface, ramp.fill[level]).bgcolor)
        if level in (SURFACE, WALL, HAZARD, GOAL) or ramp is None:
            return surface
        fill, shade = ramp.fill[level], ramp.ink[level]
        if role == "bar":
            return ink(fill or shade, surface)
        if role == "shade":
            return ink(shade, surface, fill)
        if fill is None:  # with 16 colours or none, the number itself has the level's colour
            style = ink(shade, surface) if role != "mark" else self.part("mark")
        else:
            style = ink(contrast(fill), surface, fill)
        if role == "path":
            return style + Style(reverse=True, bold=True)
        return style + Style(bold=True) if role == "strong" else style

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        if self.world is None or not self.rows:
            words = self.waiting if y == self.size.height // 2 else ""
            return Strip([Segment(fit(words, size, "center"), self.part("quiet"))])
        if self.ramp is None:  # the styles have changed
            self.call_after_refresh(self.redraw)
            self.ramp = ramp_for(self.scale, self.colours, self.dark, self.ascii)
        at = y - self.corner[0]
        if not 0 <= at < len(self.rows):
            return Strip.blank(size, surface)
        text, roles, levels = self.rows[at]
        segments = [Segment(" " * self.corner[1], surface)]
        begin = 0
        for end in range(1, len(text) + 1):
            if end == len(text) or roles[end] != roles[begin] or levels[end] != levels[begin]:
                style = self.style_of(roles[begin], levels[begin])
                segments.append(Segment("".join(text[begin:end]), style))
                begin = end
        return self.strip(segments)

    def on_resize(self) -> None:
        self.rows = []
        self.redraw()

    # The mouse.

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.world is None:
            return
        row = (offset.y - self.corner[0]) // self.cell.tall
        column = (offset.x - self.corner[1]) // self.cell.wide
        if 0 <= row < self.counted[0] and 0 <= column < self.counted[1]:
            self.post_message(self.Pointed(self, self.first[0] + row, self.first[1] + column))
