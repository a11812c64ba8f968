"""What the Attention screen says around its patterns: the line above them, the names of heads, what scores mean."""

from __future__ import annotations

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from txlab.drawing.text import fit, width
from txlab.tui.widgets.painted import Painted


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


def legend(tab: str, site: str = "", scored: bool = True) -> Content:
    """What a tab of the side measures, for who meets it the first time: (loud, quiet) by turns.

    A site without scores has none to explain: there it is said what the rows and columns are.
    """
    parts = {
        "heads": (
            *("induction", " looks at what came after the same token before: it copies. "),
            *(
                "previous",
                " looks at the token just before. The score is the mean weight there; p or i stands under a ",
            ),
            *("", "head that has .30 or more. 4.1 is head 1 of layer 4. Each row of the pattern sums to 1."),
        ),
        "edits": (
            *("x", " head off   "),
            *("+ -", " scale it   "),
            *("m", " cut or allow an edge   "),
            *("b", " block off   "),
            *("p", " patch from a second text   "),
            *("e", " a weight   "),
            *("E", " an erratum of the lecture texts   "),
            *("0", " all back. "),
            *("KL", " is from what came next before to what comes next now."),
        ),
        "lens": (
            *("lens", " what would come next if this layer were the last. "),
            *("KL", " in nats: how far it is from what is said in the end."),
        ),
        "direct": (
            *("direct", " what each head and branch adds to this logit by itself, the last norm's scale held; "),
            *("", "all parts sum to the logit."),
        ),
        "circuits": (
            *("copying", " 1: what is looked at becomes likelier. "),
            *("matching", " 1: like looks at like. "),
            *("Q K V", " how much it reads of what that head wrote, beside random matrices. "),
            *("λ", " largest eigenvalues. Edits do not count."),
        ),
    }[tab]
    if tab == "heads" and not scored:
        between = site == "cross"
        parts = (
            *("rows", " are the tokens of the target, " if between else " are the tokens that look, "),
            *("columns", " those of the source. " if between else " those that are looked at. "),
            *("", "Each row sums to 1. " + ("Between two texts there is no token before." if between else "")),
        )
    pairs = zip(parts[::2], parts[1::2], strict=True)
    said = [
        Content.assemble(Content.styled(loud, "$foreground"), Content.styled(quiet, "$quiet")) for loud, quiet in pairs
    ]
    return Content.assemble(*said)
