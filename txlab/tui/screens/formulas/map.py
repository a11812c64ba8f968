"""The map of the formulas: which is made of which; arrows go from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.explanation import formula_lines
from txlab.drawing.formula_map import ROLES, FormulaMap, formula_map, neighbour
from txlab.drawing.text import formula
from txlab.experiments.formulas.content import content, used_by
from txlab.experiments.schema import CHAPTERS
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.terminal import is_ascii


class MapView(Painted, can_focus=True):
    """The picture; a click on a formula chooses it."""

    COMPONENT_CLASSES = {f"map--{role}" for role in ROLES}
    DEFAULT_CSS = """
    MapView { width: 1fr; height: 1fr; }
    MapView > .map--line { color: $accent; }
    MapView > .map--heading { color: $quiet; text-style: italic; }
    MapView > .map--number { color: $quiet; }
    MapView > .map--near { color: $foreground; text-style: bold; }
    MapView > .map--here { color: $accent; text-style: bold reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up,k", "move(0, -1)", "to the formula above", id="map.up", heading=MOVING),
        bind("down,j", "move(0, 1)", "to the formula below", id="map.down", heading=MOVING),
        bind("left,h", "move(-1, 0)", "to the chapter on the left", id="map.left", heading=MOVING),
        bind("right,l", "move(1, 0)", "to the chapter on the right", id="map.right", heading=MOVING),
        bind("enter,escape", "leave", "look at the chosen formula", "look at it", id="map.leave", key_display="enter"),
    ]

    class Moved(Message):
        """Another formula was chosen."""

        def __init__(self, number: str) -> None:
            super().__init__()
            self.number = number

    class Left(Message):
        """The map is no longer wanted."""

    def __init__(self) -> None:
        super().__init__(id="map-view")
        self.number = "F1"
        self.drawn = FormulaMap([], {})

    def draw(self, number: str) -> None:
        self.number = number
        formulas = content()[0]
        titles = {each.number: formula(each.title, self.ascii) for each in formulas.values()}
        uses = {each.number: each.uses for each in formulas.values()}
        chapters = {letter: formula(title, self.ascii) for letter, title in CHAPTERS.items()}
        self.drawn = formula_map(
            number, titles, uses, chapters, *self.size, ascii=self.ascii, legibility=self.legibility
        )
        self.refresh()

    def on_resize(self) -> None:
        self.draw(self.number)

    def render_line(self, y: int) -> Strip:
        lines = self.drawn.lines
        return self.strip([Segment(text, self.part(role)) for text, role in (lines[y] if y < len(lines) else [])])

    def action_move(self, across: int, down: int) -> None:
        self.post_message(self.Moved(neighbour(self.number, list(content()[0]), across, down)))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_click(self, event: events.Click) -> None:
        for number, (line, first, end) in self.drawn.places.items():
            if event.y == line and first <= event.x < end:
                self.post_message(self.Moved(number))


class FormulaMapPanel(Panel):
    """Takes the whole screen while it is shown."""

    DEFAULT_CSS = """
    FormulaMapPanel { display: none; width: 1fr; height: 1fr; padding: 0 1; }
    FormulaMapPanel > #map-about { height: 4; }
    """
    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "g",
            "show",
            "the map: which formula is made of which",
            "map",
            id="formulas.map",
            synonyms="graph uses chapters picture overview",
        ),
    )

    class Shown(Message):
        """The map was opened or closed."""

    def __init__(self) -> None:
        super().__init__(id="map")
        self.view, self.about = MapView(), Words(id="map-about")

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.about

    def on_map_view_left(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        self.display = not self.display
        self.post_message(self.Shown())

    def draw(self, number: str) -> None:
        """Show the formula, its first equation, what it uses, and what uses it."""
        self.view.draw(number)
        shown, ascii = content()[0][number], is_ascii(self)
        equation = formula_lines(formula(shown.formulas[0], ascii), max(20, self.view.size.width - 4))[0]
        relations = [("uses", shown.uses), ("used by", used_by(number))]
        told = "   ".join(f"{word} {', '.join(numbers)}" for word, numbers in relations if numbers)
        self.about.say(
            Content.assemble(
                Content.styled(f"\n{number}  {formula(shown.title, ascii)}\n", "bold"),
                Content.styled(f"    {equation}\n", "bold $accent"),
                Content.styled(f"    {told or 'uses no other, and no other uses it'}", "$quiet"),
            )
        )

    def word_for(self, binding: Binding) -> str:
        return "list" if self.display else super().word_for(binding)
