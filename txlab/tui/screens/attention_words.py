"""What the Attention screen says around its patterns: the line above them, the names of heads, what scores mean."""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from txlab.drawing.numerals import share
from txlab.drawing.text import fit, width
from txlab.tui.screens.attention_frame import SCORES, WORTH_A_NOTE, Attention
from txlab.tui.widgets.facts import Fact
from txlab.tui.widgets.painted import Painted

STRONGEST = 3  # heads that are named for each score


class HeadLine(Painted, can_focus=False):
    """`"the cat …"   gpt-docs @ 1 200   causal        head 2.3 · induction .91`: what does not fit is shortened from
    the left, so that the head is always said."""

    COMPONENT_CLASSES = {"headline--quiet", "headline--here"}
    DEFAULT_CSS = """
    HeadLine { height: 1; width: 1fr; padding: 0 1; color: $foreground; }
    HeadLine > .headline--quiet { color: $text-muted; }
    HeadLine > .headline--here { color: $accent; text-style: bold; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.parts: tuple[str, str, str, str] = ("", "", "", "")

    def say(self, probe: str, run: str, mask: str, head: str) -> None:
        """All four are visible text."""
        if self.parts != (probe, run, mask, head):
            self.parts = (probe, run, mask, head)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        quiet = self.part("quiet")
        here = self.part("here")
        probe, run, mask, head = self.parts
        ellipsis = "~" if self.ascii else "…"
        head = fit(head, min(size, width(head)), ellipsis=ellipsis)
        left: list[Segment] = []
        room = size - width(head) - 3
        for text, style, spare in ((run, surface, 0), (mask, quiet, min(width(probe), 24))):
            if text and width(text) + 3 + spare <= room:
                left.append(Segment(text + "   ", style))
                room -= width(text) + 3
        if probe and room >= 8:
            text = fit(probe, min(room - 3, width(probe)), ellipsis=ellipsis)
            left.insert(0, Segment(text + "   ", surface))
            room -= width(text) + 3
        gap = size - sum(width(segment.text) for segment in left) - width(head)
        return Strip([*left, Segment(" " * max(0, gap), surface), Segment(head, here)]).adjust_cell_length(
            size, surface
        )


def legend() -> Content:
    """What the scores measure, for who meets them the first time."""
    return Content.assemble(
        Content.styled("induction", "$foreground"),
        Content.styled(" looks at what came after the same token before: it copies. ", "$quiet"),
        Content.styled("previous", "$foreground"),
        Content.styled(
            " looks at the token just before. The score is the mean weight there, and p or i stands under a head that "
            "has .30 or more; 4.1 is head 1 of layer 4. Each row of the pattern sums to 1.",
            "$quiet",
        ),
    )


def note(seen: Attention, layer: int, head: int) -> str:
    """What a head is called after: `i.91` induction, `p.85` previous token, whichever is stronger; '' below .3."""
    known = [(seen.score(name, layer, head), name[0]) for name in SCORES]
    best, letter = max(((score, letter) for score, letter in known if np.isfinite(score)), default=(0.0, ""))
    return f"{letter}{share(best)}" if best >= WORTH_A_NOTE else ""


def strongest(seen: Attention, chosen: tuple[int, int]) -> list[Fact]:
    """For each score the heads that have most of it; the one that is shown stands out."""
    facts: list[Fact] = []
    for name in SCORES:
        for place, (layer, head) in enumerate(seen.strongest(name, STRONGEST)):
            value = share(seen.score(name, layer, head))
            level = "accent" if (layer, head) == chosen else "plain"
            facts.append(Fact(name if not place else "", value, f"in {layer + 1}.{head + 1}", level=level))
    return facts
