"""The side of the pattern: the tokens likely to follow the cursor's row, and one of several tables (tables.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from txlab.drawing.formatting import share
from txlab.drawing.text import label, width
from txlab.engine.explain import Explanation
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.attention.source import AttentionViewer, NextTokens
from txlab.tui.screens.attention.tables import TABS, SideTable, explain_row, is_ready, side_table
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.terminal import is_ascii

# The changes that require a new table, by tab; a new source requires one for every tab.
FOLLOWS = {"heads": ("head", "scores"), "lens": ("cell",), "direct": ("cell",), "circuits": ("head",)}
WAITING = SideTable(waiting="…")


class SidePanel(Panel):
    """Next tokens as bars, a line of tabs, the table of the selected one and its legend."""

    KEYS: ClassVar = (bind("i", "tab", "turn to the next page of the side panel", "side", id="attention.tab"),)

    def __init__(self, viewer: AttentionViewer) -> None:
        super().__init__(id="side")
        self.viewer = viewer
        self.next, self.second, self.rows = Bars(id="next"), Bars(id="next-second"), Table(id="rows")
        self.result = Words(id="result")  # of the guessing game
        self.legend = Words(legend(TABS[0]), id="legend")
        self.tab = TABS[0]
        self.table = SideTable()
        self.asking = LatestTask(self, "side", lambda sentence: self.show(SideTable(waiting=sentence)))

    def compose(self) -> ComposeResult:
        yield self.next
        yield self.second
        yield self.result
        yield TabLine(id="tabs")
        yield self.rows
        yield self.legend

    def show_next(self, following: NextTokens, second: NextTokens | None = None) -> None:
        """Show the candidates, with their probabilities before the edits if there are any; when comparing, the second
        source's below them."""
        self.show_bars(self.next, following, "first: " if second is not None else "")
        if second is not None:
            self.show_bars(self.second, second, "second: ")

    def show_bars(self, bars: Bars, following: NextTokens, which: str) -> None:
        ascii = is_ascii(self)
        after = label(following.after, ascii)
        lead = f"{following.lead} {after}" if following.candidates else "no next tokens recorded"
        kl = f"KL {nats(following.kl)}" if following.kl is not None else ""
        shorter = kl.removesuffix(" nats")
        parts = (lead, kl), (lead, shorter), (after, shorter)  # the number is never cut
        titles = [which + "  ".join(filter(None, each)) for each in parts]
        room = bars.size.width or width(titles[0])
        title = next((each for each in titles if width(each) <= room), titles[-1])
        before = [one.before for one in following.candidates if one.before is not None]
        bars.set_bars(title, [(one.token, one.probability) for one in following.candidates], before)

    def say_result(self, sentence: str) -> None:
        """Show the result of the guessing game; "" hides the line."""
        self.result.display = bool(sentence)
        self.result.say(Content.styled(sentence, "$accent"))

    # The table.

    def follow(self, change: str) -> None:
        """Rebuild the table if it depends on the change: the "cell", the "head" or the "scores"."""
        if change in FOLLOWS.get(self.tab, ()):
            self.ask()

    def ask(self) -> None:
        """Build the table of the selected tab, in a thread if the model has to compute it."""
        source, tab, cell = self.viewer.source, self.tab, self.viewer.cell
        if source is None:
            return
        if is_ready(source, tab):
            self.asking.forget()
            self.show(side_table(source, tab, cell))
        else:
            self.asking.want(lambda _: side_table(source, tab, cell), self.show)

    def show(self, table: SideTable) -> None:
        self.table, source = table, self.viewer.source
        scored = self.tab != "heads" or bool(table.rows) or source is None
        cell = self.viewer.cell
        self.legend.say(legend(self.tab, cell.site, scored, (cell.layer, cell.head)))
        self.screen.set_class(not scored, "-unscored")
        self.rows.waiting = table.waiting
        self.rows.set_table(table.columns, table.rows, table.marked)
        self.rows.refresh()
        many = len(source.edits) if source is not None else 0
        words = [(name, f"{name} {many}" if name == "edits" and many else name) for name in TABS]
        self.query_one(TabLine).set_tabs(words, self.tab)

    def show_edits(self) -> None:
        """Switch from the heads to the edits when an edit is made."""
        if self.tab == "heads":
            self.tab, self.table = "edits", WAITING

    def choose_tab(self, name: str) -> None:
        self.tab = name
        self.show(WAITING)
        self.ask()

    def action_tab(self) -> None:
        """Go to the next tab; when comparing without room for this panel, to the second pattern or the difference."""
        if self.viewer.comparing and not self.display:
            self.screen.toggle_class("-difference")
        else:
            self.choose_tab(TABS[(TABS.index(self.tab) + 1) % len(TABS)])

    @on(TabLine.Chosen)
    def tab_clicked(self, event: TabLine.Chosen) -> None:
        self.choose_tab(event.name)

    # Explanations, and undoing edits.

    @property
    def chosen_edit(self) -> int | None:
        """The edit under the cursor of the list, if the list has the focus."""
        return self.rows.cursor if self.tab == "edits" and self.rows.has_focus else None

    def question(self) -> Callable[[], Explanation] | None:
        """Return the subject of `w` in the focused widget: a next token, or a row of the table."""
        source, tab, cell, keys = self.viewer.source, self.tab, self.viewer.cell, self.table.keys
        if source is None:
            return None
        if self.next.has_focus and self.next.bars:
            rank = self.next.cursor
            return lambda: source.explain_next(cell.site, cell.row, rank)
        if self.rows.has_focus and keys:
            key = keys[min(self.rows.cursor, len(keys) - 1)]
            return lambda: explain_row(source, tab, cell, key)
        return None


def nats(kl: float) -> str:
    """Format a divergence briefly.

    >>> nats(0.8412), nats(0.00002), nats(0.0), nats(12.31)
    ('.841 nats', '<.001 nats', '0 nats', '12.310 nats')
    """
    return f"{share(kl, 3) if kl >= 0.0005 else '<.001' if kl > 0 else '0'} nats"


# The legend of each tab for new users: (term, the rest of the sentence).
LEGENDS: dict[str, tuple[tuple[str, str], ...]] = {
    "heads": (
        ("induction", " looks at what came after the same token before: it copies. "),
        ("previous", " looks at the token just before. The score is the mean weight there; p or i stands under a "),
        ("", "head that has .30 or more. {head} Each row of the pattern sums to 1."),
    ),
    "edits": (
        ("x", "   head off\n"),
        ("+ -", " scale it\n"),
        ("m", "   cut or allow an edge\n"),
        ("b", "   block off\n"),
        ("p", "   patch from a second text\n"),
        ("e", "   change a weight\n"),
        ("E", "   an erratum of the lecture texts\n"),
        ("0", "   all back\n"),
        ("KL", " is from what came next before to what comes next now."),
    ),
    "lens": (
        ("lens", " what would come next if this layer were the last. "),
        ("KL", " in nats: the distance from the final prediction."),
    ),
    "direct": (
        ("direct", " what each head and branch adds to this logit by itself, the last norm's scale held; "),
        ("", "all parts sum to the logit."),
    ),
    "circuits": (
        ("copying", " 1: what is looked at becomes likelier, by its embedding alone: a head may copy by what "),
        ("", "earlier layers wrote there, and have a score below 0. "),
        ("matching", " 1: like looks at like. "),
        ("Q K V", " how much it reads of what that head wrote, compared with random matrices. "),
        ("λ", " largest eigenvalues. Edits are ignored."),
    ),
}


def legend(tab: str, site: str = "", scored: bool = True, head: tuple[int, int] = (0, 0)) -> Content:
    """Return the legend of a tab; a site without scores gets an explanation of the rows and columns instead. `head` is
    the selected (layer, head), from 0, which explains how heads are named."""
    layer, which = head[0] + 1, head[1] + 1
    named = f"{layer}.{which} is head {which} of layer {layer}."
    parts = tuple((term, rest.replace("{head}", named)) for term, rest in LEGENDS[tab])
    if tab == "heads" and not scored:
        between = site == "cross"
        parts = (
            ("rows", " are the tokens of the target, " if between else " are the tokens that look, "),
            ("columns", " those of the source. " if between else " those that are looked at. "),
            ("", "Each row sums to 1. " + ("Between two texts there is no token before." if between else "")),
        )
    styled = [(Content.styled(term, "$foreground"), Content.styled(rest, "$quiet")) for term, rest in parts]
    return Content.assemble(*(part for pair in styled for part in pair))
