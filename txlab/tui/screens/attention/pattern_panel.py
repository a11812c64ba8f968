"""The patterns: every head small, the selected one large under a cursor, next to it a second one and the difference.

Notable: data in memory is drawn immediately; a model's results come from a thread, newest request first, and the screen
stays unchanged until then. A second source is queried for the same window as the first; cells that only one of them has
are blank in the difference, which is drawn by magnitude with its sign in the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from txlab.drawing.captions import language as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import share
from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.tui.bindings import bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.attention.source import (
    SCORES,
    VIEW_WORDS,
    VIEWS,
    AttentionSource,
    Cell,
    NextTokens,
    PatternWindow,
    View,
    WindowRequest,
    head_notes,
    read_window,
    row_to_begin,
)
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.terminal import is_ascii, is_dark
from txlab.tui.widgets.thumbnails import Thumbnails


class PatternPanel(Panel):
    """Shows an AttentionSource. `changed` is called with what is new: "cell", "head", "site", "window" or "scores";
    `beside` is the widget to the right of the patterns."""

    KEYS: ClassVar = (
        bind("h", "head(0, -1)", "previous and next head", "head", id="attention.previous-head", key_display="h l"),
        bind("l", "head(0, 1)", "next head", id="attention.next-head"),
        bind("j", "head(1, 0)", "layer below and above", "layer", id="attention.next-layer", key_display="j k"),
        bind("k", "head(-1, 0)", "layer above", id="attention.previous-layer"),
        bind("a", "site", "turn to cross-attention, or another site", "site", id="attention.site"),
        bind("v", "view", "show this head, the mean of its layer, or rollout", "view", id="attention.view"),
        bind(
            "f", "first", "leave out the first token, where idle heads look", "first token", id="attention.first-token"
        ),
        bind("n", "numbers", "write the numbers into the pattern", "numbers", id="attention.numbers"),
    )

    def __init__(self, changed: Callable[[str], None], beside: Widget) -> None:
        super().__init__(id="panels")
        self.changed, self.beside = changed, beside
        self.heads = Thumbnails(id="heads")
        self.pattern, self.other, self.difference = (Heatmap(id=name) for name in ("pattern", "other", "difference"))
        self.source: AttentionSource | None = None
        self.second: AttentionSource | None = None  # the source that the first is compared with
        self.second_window: PatternWindow | None = None
        self.next_tokens = NextTokens()
        self.wanted_site = ""
        self.view: View = VIEWS[0]
        self.without_first = False
        self.early: list[tuple[int, int]] = []  # moves to other heads before there are any
        self.placed = False  # whether the cursor has a place in the present source
        self.placing = False  # whether the next answer provides the place
        self.reading, self.forming, self.reading_second = (
            LatestTask(self, name, lambda sentence: self.tell(sentence, "error"))
            for name in ("window", "heads", "second")
        )

    def compose(self) -> ComposeResult:
        yield from (self.heads, self.pattern, self.other, self.difference, self.beside)

    @property
    def site(self) -> str:
        """The kind of attention shown: the selected one if the source has it, else its first."""
        if self.source is None or self.wanted_site in self.source.sites:
            return self.wanted_site
        return next(iter(self.source.sites))

    @property
    def cell(self) -> Cell:
        """The cell under the cursor."""
        return Cell(self.site, *self.heads.chosen, *self.pattern.cursor)

    # A new source.

    def show(self, source: AttentionSource) -> None:
        """Show a source, possibly the present one or the same with other edits."""
        self.source = source
        self.show_titles()
        site = source.sites[self.site]
        self.show_heads()
        self.pattern.expect(site.rows, site.columns)
        if not self.placed:
            self.placed = self.placing = True
            self.pattern.move_to(row_to_begin(site), 0)
        self.want_window()
        self.want_heads()

    def forget(self) -> None:
        """Forget the source and everything requested of it."""
        for lane in (self.reading, self.forming):
            lane.forget()
        self.placed, self.next_tokens, self.view = False, NextTokens(), VIEWS[0]

    def show_heads(self) -> None:
        if self.source is not None:
            notes = head_notes(self.source, self.site)
            off = [(layer, head) for layer, row in enumerate(notes) for head, note in enumerate(row) if note == "off"]
            self.heads.set_patterns(self.source.thumbnails(self.site), notes, off)
            early, self.early = self.early, []
            for move in early:
                self.action_head(*move)

    def want_heads(self) -> None:
        """Compute the heads of a model once, layer by layer, and show each layer as it comes."""
        source, site = self.source, self.site
        if source is None or source.stored:
            self.forming.forget()
            return

        def work(lane: LatestTask) -> None:
            for layer in range(source.sites[site].layers):
                if lane.late:
                    return
                source.form_layer(site, layer)
                lane.say(self.layer_formed, source)

        self.forming.want(work, lambda _: None)

    def layer_formed(self, source: AttentionSource) -> None:
        if source is self.source:
            self.show_heads()
            self.changed("scores")

    # The visible window.

    def want_window(self) -> None:
        source = self.source
        if source is None:
            return
        request = WindowRequest(self.cell, self.view, *self.pattern.wanted, self.without_first, self.placing)
        if self.instant:
            self.reading.forget()
            self.show_window(source, read_window(source, request))
        else:
            show = partial(self.show_window, source)
            self.reading.want(lambda _: read_window(source, request), show, holds_keys=self.placing)

    @property
    def instant(self) -> bool:
        """Whether the answers are in memory; a rollout always has to be computed."""
        return self.source is not None and self.source.stored and self.view != "rollout"

    def show_window(self, source: AttentionSource, window: PatternWindow) -> None:
        cell = window.request.cell
        if source is not self.source or cell.site != self.site:
            return
        draw(self.pattern, source, window)
        self.next_tokens = window.next_tokens
        if window.column is not None and self.placing:
            self.placing = False
            if self.pattern.cursor == (cell.row, 0):  # otherwise the user has moved the cursor
                self.pattern.move_to(cell.row, window.column)
        self.pattern.ask()
        self.changed("window")
        self.want_second(window)

    @on(Heatmap.Wanted, "#pattern")
    def another_window(self) -> None:
        self.want_window()

    @on(Heatmap.CellMoved, "#pattern")
    def cursor_moved(self) -> None:
        if self.source is None:
            return
        if self.instant and self.second is None:
            self.next_tokens = self.source.next_tokens(self.site, self.pattern.cursor[0])
        else:
            self.want_window()
        if self.second is not None:
            self.follow_first()
        self.changed("cell")

    @on(Thumbnails.HeadChosen)
    def head_chosen(self) -> None:
        self.want_window()
        self.changed("head")

    # A second source next to the first.

    def compare(self, second: AttentionSource | None) -> None:
        """Show a second source next to the first; None removes it."""
        self.second = second
        self.show_titles()
        self.screen.set_class(second is not None, "-comparing")
        if second is not None:
            self.call_after_refresh(self.want_window)
        else:
            self.second_window = None
            self.reading_second.forget()
        self.changed("window")

    def show_titles(self) -> None:
        """Name the sources above each pattern."""
        ascii, titles = is_ascii(self), ("", "", "")
        if self.source is not None and self.second is not None:
            first, second = (visible(each.name, ascii) for each in (self.source, self.second))
            titles = first, second, "second − first: + orange, − blue"
        for heatmap, title in zip((self.pattern, self.other, self.difference), titles, strict=True):
            heatmap.border_title = Text(title)  # type: ignore[assignment]

    def want_second(self, first: PatternWindow) -> None:
        """Request the second source's part of the first source's window."""
        second, request = self.second, first.request
        if second is None or request.cell.site not in second.sites:
            return
        site = second.sites[request.cell.site]
        many_rows, many_columns = len(site.rows), len(site.columns)
        cell = replace(
            request.cell,
            layer=min(request.cell.layer, site.layers - 1),
            head=min(request.cell.head, site.heads - 1),
            row=min(request.cell.row, many_rows - 1),
        )
        rows = min(request.rows[0], many_rows), min(request.rows[1], many_rows)
        columns = min(request.columns[0], many_columns), min(request.columns[1], many_columns)
        if rows[0] < rows[1] and columns[0] < columns[1]:
            same = replace(request, cell=cell, rows=rows, columns=columns, place=False)
            self.reading_second.want(
                lambda _: read_window(second, same), lambda window: self.show_second(second, first, window)
            )

    def show_second(self, second: AttentionSource, first: PatternWindow, window: PatternWindow) -> None:
        source, name = self.source, window.request.cell.site
        if source is None or second is not self.second or name not in source.sites:
            return
        draw(self.other, second, window)
        high, wide = (min(a, b) for a, b in zip(first.values.shape, window.values.shape, strict=True))
        difference = window.values[:high, :wide] - first.values[:high, :wide]
        hidden = first.blank[:high, :wide] & window.blank[:high, :wide]
        one, two = source.sites[name], second.sites[name]
        rows, columns = pairs(one.rows, two.rows), pairs(one.columns, two.columns)
        self.difference.set_values(difference, rows, columns, hidden, at=first.at, signed=True)
        self.second_window = window
        self.follow_first()
        self.changed("window")

    def follow_first(self) -> None:
        """Use one cursor for all three patterns."""
        for heatmap in (self.other, self.difference):
            heatmap.move_to(*self.pattern.cursor)

    @on(Heatmap.CellMoved, "#other, #difference")
    def first_follows(self, event: Heatmap.CellMoved) -> None:
        if self.second is not None and event.heatmap.has_focus:
            self.pattern.move_to(event.row, event.column)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable choosing the kind of attention if there is only one."""
        return action != "site" or (self.source is not None and len(self.source.sites) > 1)

    def action_head(self, down: int, right: int) -> None:
        if not self.heads.patterns.size:
            self.early.append((down, right))
        elif down:
            self.heads.choose(self.heads.chosen[0] + down, self.heads.chosen[1])
        else:
            self.heads.next_head(right)

    def action_site(self) -> None:
        if self.source is not None and len(self.source.sites) > 1:
            names = list(self.source.sites)
            self.wanted_site = names[(names.index(self.site) + 1) % len(names)]
            self.placed = False
            self.show(self.source)
            self.changed("site")

    def action_view(self) -> None:
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.want_window()
        self.changed("window")

    def action_first(self) -> None:
        """Leave out the first token, where idle heads put their weight; the weights are not rescaled."""
        self.without_first = not self.without_first
        self.want_window()
        self.changed("window")

    def action_numbers(self) -> None:
        for heatmap in (self.pattern, self.other, self.difference):
            heatmap.numbers = not heatmap.numbers

    def question(self) -> Callable[[], Explanation] | None:
        """Return the subject of `w`: the weight under the cursor."""
        source, view, cell = self.source, self.view, self.cell
        if self.second is not None and self.other.has_focus and cell.site in self.second.sites:
            row, column = self.other.cursor
            source, cell = self.second, replace(cell, row=row, column=column)
        return None if source is None else lambda: source.explain_cell(view, cell)

    # Describing and saving it.

    def words(self) -> tuple[str, str, str, str]:
        """Return the parts of the line above: texts, names, mask and view, head; when comparing, both weights."""
        source, second, ascii = self.source, self.second, is_ascii(self)
        if source is None:
            return "", "", "", ""
        cell, dot = self.cell, " - " if ascii else " · "
        head = f"head {cell.layer + 1}.{cell.head + 1}"
        if second is not None:
            texts = " | ".join(dict.fromkeys(quote_texts(each, ascii) for each in (source, second)))
            names = " | ".join(dict.fromkeys([source.name, second.name]))
            weights = [heatmap.weight for heatmap in (self.pattern, self.other, self.difference)]
            first, other, between = (share(weight) if np.isfinite(weight) else "-" for weight in weights)
            words = f"{head}   {first} | {other}  differ by {between}"
            return texts, visible(names, ascii), "", words
        scores = source.scores.get(cell.site, {})
        known = [(name, float(scores[name][cell.layer, cell.head])) for name in SCORES if name in scores]
        words = dot.join([head, *(f"{name} {share(score)}" for name, score in known if np.isfinite(score))])
        kind = "" if len(source.sites) == 1 else cell.site
        view = VIEW_WORDS[self.view] + (", first token left out" if self.without_first else "")
        mask = source.sites[cell.site].mask
        mask = dot.join(part for part in (kind, "no mask" if mask == "none" else visible(mask, ascii), view) if part)
        return quote_texts(source, ascii), visible(source.name, ascii), mask, words

    def sentence(self) -> Sentence:
        """Return the caption: what the edits have done, or where the head looks, and what comes next."""
        source, cell, ahead = self.source, self.cell, self.next_tokens
        if source is None:
            return ()
        site = source.sites[cell.site]
        first = ahead.candidates[0] if ahead.candidates else None
        candidate = (first.token, first.probability, first.before) if first is not None else None
        after = captions.prediction(ahead.lead, ahead.after, candidate, ahead.kl, len(source.edits))
        if source.edits and ahead.kl is not None:
            return after
        scores = {
            name: float(values[cell.layer, cell.head]) for name, values in source.scores.get(cell.site, {}).items()
        }
        if self.view != "pattern":
            return after
        weights = self.pattern.row_values(cell.row)
        return (*captions.head(cell.layer, cell.head, scores, site.rows, site.columns, cell.row, weights), *after)

    def save_picture(self, path: Path) -> None:
        """Save the selected head as PNG and SVG, drawn in a thread."""
        source, view, cell = self.source, self.view, self.cell
        if source is None:
            return
        theme, site = "dark" if is_dark(self) else "light", source.sites[cell.site]

        def save() -> None:
            from txlab.drawing.picture import draw_attention

            everything = (0, len(site.rows)), (0, len(site.columns))
            weights = source.pattern(view, cell.site, cell.layer, cell.head, *everything)
            kind = "" if len(source.sites) == 1 else f"{cell.site} "
            for where in (path, path.with_name(f"{path.stem}-head.svg")):
                draw_attention(
                    weights,
                    where,
                    queries=site.rows,
                    keys=site.columns,
                    title=f"{source.name}, {kind}head {cell.layer + 1}.{cell.head + 1}",
                    causal=site.mask == "causal",
                    theme=theme,  # type: ignore[arg-type]
                )
            self.app.call_from_thread(self.tell, f"picture saved: {path}")

        run_in_thread(self, save, "picture", keys=False)


def draw(heatmap: Heatmap, source: AttentionSource, window: PatternWindow) -> None:
    site = source.sites[window.request.cell.site]
    heatmap.set_values(
        window.values, site.rows, site.columns, window.blank, window.sums, at=window.at, marks=window.marks
    )


def quote_texts(source: AttentionSource, ascii: bool) -> str:
    """Return the text; source and target of a translator, both of a pair."""
    between = (" -> " if ascii else " → ") if "cross" in source.sites else " + "
    return between.join(f'"{visible(text, ascii)}"' for text in source.texts)


def pairs(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels for both sources: one where they agree, both where they differ."""
    return tuple(a if a == b else f"{a}|{b}" for a, b in zip(first, second, strict=False))
