"""Looking at a source: which site, view and head, the window of it that is drawn, and what the side says about it.

Notable: what lies ready is drawn at once; what a model has to be asked for comes through a lane, newest wish first, and
what is on the screen stays until it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from textual import on
from textual.content import Content
from textual.widgets import Static

from txlab.drawing.formatting import share
from txlab.drawing.text import fit, label, visible, width
from txlab.tui.latest_task import Lane
from txlab.tui.screens.attention.bench import BenchSource
from txlab.tui.screens.attention.frame import Attention
from txlab.tui.screens.attention.side import TABS, Answer, Question, answer, ready
from txlab.tui.screens.attention.source import (
    SCORES,
    VIEW_WORDS,
    VIEWS,
    AttentionSource,
    Following,
    Sight,
    View,
    Wish,
    note,
    sight,
)
from txlab.tui.screens.attention.words import HeadLine, legend
from txlab.tui.screens.base_screens import RunScreen
from txlab.tui.screens.words import Words
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.thumbnails import Thumbnails


class LookingScreen(RunScreen):
    """Has `#heads`, `#pattern`, `#next`, `#tabs`, `#rows`, a HeadLine, and a source behind them."""

    EMPTY: ClassVar[Following] = Following()

    def __init__(self) -> None:
        super().__init__()
        self.attention: Attention | None = None  # the recorded frame
        self.bench: BenchSource | None = None  # the model, once one pokes at it
        self.wanted_site = ""
        self.view: View = VIEWS[0]
        self.without_first = False
        self.placed = False  # whether the cursor has been put somewhere in what is looked at
        self.placing = False  # whether the next answer says where
        self.following = self.EMPTY
        self.tab = TABS[0]
        self.side: Answer = Answer()
        self.looking = Lane(self, "look", self.could_not)
        self.heading = Lane(self, "heads", self.could_not)
        self.asking = Lane(self, "side", self.could_not_say)

    @property
    def source(self) -> AttentionSource | None:
        return self.bench or self.attention

    @property
    def site(self) -> str:
        """The kind of attention that is looked at: the one that was chosen, where the source has it, else its first."""
        source = self.source
        if source is None or self.wanted_site in source.sites:
            return self.wanted_site
        return source.sites[0]

    @property
    def chosen(self) -> tuple[int, int]:
        """The layer and head that are shown large, from 0."""
        return self.query_one(Thumbnails).chosen

    @property
    def pattern(self) -> Heatmap:
        return self.query_one("#pattern", Heatmap)

    def could_not(self, sentence: str) -> None:
        self.tell(sentence, "error")

    def could_not_say(self, sentence: str) -> None:
        self.side = Answer(waiting=sentence)
        self.show_side()

    # A source comes.

    def show_source(self) -> None:
        """What is looked at has changed, as a whole."""
        source = self.source
        if source is None:
            return
        self.remove_class("-empty")
        self.show_heads()
        self.pattern.expect(source.rows(self.site), source.columns(self.site))
        if not self.placed:
            self.placed = self.placing = True
            self.pattern.move_to(len(source.rows(self.site)) - 1, 0)
        self.want_sight()
        self.want_heads()
        self.want_side()

    def show_heads(self) -> None:
        source = self.source
        if source is None:
            return
        layers, heads = source.shape(self.site)
        scores = source.scores(self.site)
        touched = self.bench.touched(self.site) if self.bench is not None else {}
        notes = [
            [touched.get((layer, head)) or note(scores, layer, head) for head in range(heads)]
            for layer in range(layers)
        ]
        self.query_one(Thumbnails).set_patterns(source.thumbnails(self.site), notes)

    def want_heads(self) -> None:
        """Of a model every head is formed once, layer by layer, each shown as it comes."""
        bench, site = self.bench, self.site
        if bench is None:
            self.heading.forget()
            return

        def work(lane: Lane) -> None:
            for layer in range(bench.shape(site)[0]):
                if lane.late:
                    return
                bench.look_at_layer(site, layer)
                lane.say(self.heads_came, bench)

        self.heading.want(work, lambda _: None)

    def heads_came(self, bench: BenchSource) -> None:
        if bench is self.bench:
            self.show_heads()
            self.show_words()
            if self.tab == "heads":
                self.want_side()

    # The window that is seen.

    def want_sight(self) -> None:
        source = self.source
        if source is None:
            return
        pattern = self.pattern
        rows, columns = pattern.wanted
        layer, head = self.chosen
        wish = Wish(
            self.site, self.view, layer, head, rows, columns, pattern.cursor[0], self.without_first, self.placing
        )
        if source.instant(self.view):
            self.looking.forget()
            self.show_sight(source, sight(source, wish))
        else:
            self.looking.want(lambda _: sight(source, wish), lambda found: self.show_sight(source, found))

    def show_sight(self, source: AttentionSource, found: Sight) -> None:
        if source is not self.source or found.wish.site != self.site:
            return
        pattern = self.pattern
        rows, columns = source.rows(self.site), source.columns(self.site)
        pattern.set_values(found.values, rows, columns, found.blank, found.sums, at=found.at, marks=found.marks)
        self.following = found.following
        if found.column is not None and self.placing:
            self.placing = False
            if pattern.cursor == (found.wish.row, 0):  # else the person was faster
                pattern.move_to(found.wish.row, found.column)
        pattern.ask()
        self.show_words()

    @on(Heatmap.Wanted, "#pattern")
    def another_window(self) -> None:
        self.want_sight()

    @on(Heatmap.CursorMoved, "#pattern")
    def cell_chosen(self, event: Heatmap.CursorMoved) -> None:
        source = self.source
        if source is None:
            return
        if source.instant(self.view):
            self.following = source.following(self.site, event.row)
            self.show_words()
        else:
            self.want_sight()
        if self.tab in ("lens", "direct"):
            self.want_side()

    @on(Thumbnails.Selected)
    def head_chosen(self) -> None:
        self.want_sight()
        self.show_words()
        if self.tab in ("heads", "circuits"):
            self.want_side()

    # Words.

    def show_words(self) -> None:
        source = self.source
        if source is None:
            return
        layer, head = self.chosen
        dot = " - " if self.ascii else " · "
        scores = source.scores(self.site)
        said = [f"head {layer + 1}.{head + 1}"]
        known = [(name, float(scores[name][layer, head])) for name in SCORES if name in scores]
        said += [f"{name} {share(score)}" for name, score in known if np.isfinite(score)]
        site = "" if len(source.sites) == 1 else self.site
        view = VIEW_WORDS[self.view] + (", first token left out" if self.without_first else "")
        mask = dot.join(part for part in (site, visible(source.mask(self.site), self.ascii), view) if part)
        self.query_one(HeadLine).say(self.quoted(source), visible(source.name, self.ascii), mask, dot.join(said))
        self.show_next()

    def quoted(self, source: AttentionSource) -> str:
        """The text; of a translator what becomes what, of a pair both."""
        arrow = " -> " if self.ascii else " → "
        between = arrow if "cross" in source.sites else " + "
        return between.join(f'"{visible(text, self.ascii)}"' for text in source.texts)

    def show_next(self) -> None:
        """What comes next after the row of the cursor, with what it was before if something is switched."""
        found = self.following
        title = f"{found.lead} {label(found.after, self.ascii)}" if found.candidates else "no next tokens recorded"
        if found.kl is not None:
            title = f"{title}  KL {nats(found.kl)}"
        before = [one.before for one in found.candidates if one.before is not None]
        self.query_one("#next", Bars).set_bars(
            title, [(one.token, one.probability) for one in found.candidates], before
        )

    # The side: one of several tables.

    def want_side(self) -> None:
        """The chosen tab about the chosen head and row; what takes a model some time comes through a lane."""
        source = self.source
        if source is None:
            return
        question = Question(self.tab, self.site, *self.chosen, *self.pattern.cursor)
        if ready(source, question):
            self.asking.forget()
            self.side = answer(source, question)
            self.show_side()
        else:
            self.asking.want(lambda _: answer(source, question), self.side_came)

    def side_came(self, found: Answer) -> None:
        self.side = found
        self.show_side()

    def show_side(self) -> None:
        table = self.query_one("#rows", Table)
        scored = self.tab != "heads" or bool(self.side.rows) or self.source is None
        self.query_one("#legend", Words).say(legend(self.tab, self.site, scored))
        self.set_class(not scored, "-unscored")
        table.waiting = self.side.waiting
        table.set_table(self.side.columns, self.side.rows, self.side.marked)
        table.refresh()
        many = len(self.bench.interventions) if self.bench else 0
        words = [(name, f"{name} {many}" if name == "edits" and many else name) for name in TABS]
        self.query_one(TabLine).set_tabs(words, self.tab)

    @on(TabLine.Chosen)
    def tab_clicked(self, event: TabLine.Chosen) -> None:
        self.choose_tab(event.name)

    def choose_tab(self, name: str) -> None:
        self.tab = name
        self.side = Answer(waiting="…")
        self.show_side()
        self.want_side()

    def action_tab(self, by: int = 1) -> None:
        self.choose_tab(TABS[(TABS.index(self.tab) + by) % len(TABS)])

    # Choosing what is looked at.

    def action_site(self) -> None:
        source = self.source
        if source is None or len(source.sites) < 2:
            return
        self.wanted_site = source.sites[(source.sites.index(self.site) + 1) % len(source.sites)]
        self.placed = False
        self.show_source()

    def action_view(self) -> None:
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.want_sight()
        self.show_words()

    def action_head(self, down: int, right: int) -> None:
        heads = self.query_one(Thumbnails)
        if down:
            heads.choose(heads.chosen[0] + down, heads.chosen[1])
        else:
            heads.next_head(right)

    def action_first(self) -> None:
        """Leave out the first token, where heads rest that have nothing to look at; the weights stay as they are."""
        self.without_first = not self.without_first
        self.want_sight()
        self.show_words()

    def action_numbers(self) -> None:
        for heatmap in self.query(Heatmap):
            heatmap.numbers = not heatmap.numbers

    def say_empty(self, sentences: Sequence[str]) -> None:
        """In place of the panels: why there is nothing to see, and what would change that."""
        cells = max((width(line) for line in sentences), default=0)
        lines = [fit(visible(line, self.ascii), cells) for line in sentences]
        self.query_one("#empty", Static).update(Content("\n".join(lines)))
        self.add_class("-empty")

    def forget_view(self) -> Any:
        """Another thing will be looked at: nothing that was wanted of the old one is wanted any more."""
        for lane in (self.looking, self.heading, self.asking):
            lane.forget()
        self.placed, self.following = False, self.EMPTY
        self.view = VIEWS[0]


def nats(kl: float) -> str:
    """A divergence as it is read at a glance.

    >>> nats(0.8412), nats(0.00002), nats(0.0), nats(12.31)
    ('.841 nats', '<.001 nats', '0 nats', '12.310 nats')
    """
    return f"{share(kl, 3) if kl >= 0.0005 else '<.001' if kl > 0 else '0'} nats"
