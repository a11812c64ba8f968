"""The choice of the objective: a typed function or a known one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from txlab.engine.descent.expressions import expression
from txlab.engine.descent.known import KNOWN, Known
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.dialogs import AskValue, Choose

if TYPE_CHECKING:
    from txlab.tui.screens.descent.interface import Descent
    from txlab.tui.screens.descent.live import LiveDescent
    from txlab.tui.screens.descent.map import MapPanel


class FunctionPanel(Panel):
    """Types a function with t or e, and offers known ones with o."""

    KEYS: ClassVar = (
        bind(
            "t,e",
            "type",
            "type a function of x, or of x and y",
            "type f",
            id="descent.type",
            key_display="t",
            synonyms="function formula expression enter edit",
        ),
        bind(
            "o",
            "open",
            "choose a function that is known, or data",
            "functions",
            id="descent.open",
            synonyms="rosenbrock himmelblau regression examples",
        ),
    )
    DEFAULT_CSS = "FunctionPanel { display: none; }"

    def __init__(self, descent: Descent, map: MapPanel) -> None:
        super().__init__()
        self.descent, self.map = descent, map

    def action_type(self) -> None:
        shown = self.descent.shown
        data = shown is not None and shown.u is not None
        present = shown.f if shown is not None and not data else ""
        about = "of x, or of x and y: (1 - x)**2 + 100*(y - x**2)**2, sin(x)*exp(-x**2), abs(x)"

        def check(text: str) -> str:
            two = "y" in expression(text).variables
            return "of two variables: a map" if two else "of one variable: a graph"

        self.app.push_screen(
            AskValue("f = ", about, present, check), lambda text: self.minimise(text) if text else None
        )

    def minimise(self, text: str) -> None:
        """Minimise a checked function, from the present start if that fits."""
        shown = self.descent.shown
        two = "y" in expression(text).variables
        start = shown.walkers[0].path[0].tolist() if shown is not None else []
        if len(start) != 1 + two:
            start = [1.0, 1.0] if two else [1.0]

        def make(_: LiveDescent) -> LiveDescent:
            from txlab.tui.screens.descent.live import live

            return live(text, start)

        self.begin(make)

    def begin(self, make: Callable[[LiveDescent], LiveDescent]) -> None:
        self.map.cursor = None
        self.descent.begin(make)

    def action_open(self) -> None:
        shown = self.descent.shown
        now = shown.f if shown is not None else ""
        data = shown is not None and shown.u is not None
        rows = [(each.name, each.about, each.f == now or (data and each.data is not None)) for each in KNOWN]
        self.app.push_screen(Choose("Which function?", rows), lambda name: self.open(name) if name else None)

    def open(self, name: str) -> None:
        known: Known = next(each for each in KNOWN if each.name == name)

        def make(_: LiveDescent) -> LiveDescent:
            from txlab.tui.screens.descent.live import live

            return live(known.f, known.start, known, known.data)

        self.begin(make)
