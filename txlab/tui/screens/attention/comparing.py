"""Two patterns side by side under one cursor, and their difference: two texts, or two checkpoints of a run.

Notable: the second source is asked for the same window as the first. Cells that only one of them has are blank in the
difference, which is drawn by its size with its sign in the cell, so that it can be read without colour.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from textual import on

from txlab.drawing.formatting import share
from txlab.drawing.text import visible
from txlab.tui.latest_task import Lane
from txlab.tui.screens.attention.actions import HandsScreen
from txlab.tui.screens.attention.bench import BenchSource, Task, Workbench
from txlab.tui.screens.attention.source import AttentionSource, Sight, sight
from txlab.tui.screens.attention.switches import one_line
from txlab.tui.screens.attention.words import HeadLine
from txlab.tui.screens.dialogs import AskValue, Choose
from txlab.tui.theme import plain_signs
from txlab.tui.widgets.heatmap import Heatmap

A_TEXT, UNTOUCHED = "another text", "without what is switched"


class ComparingScreen(HandsScreen):
    """Has `#other` and `#difference` beside `#pattern`."""

    def __init__(self) -> None:
        super().__init__()
        self.second_bench = Workbench()
        self.second: AttentionSource | None = None
        self.second_sight: Sight | None = None
        self.opening = Lane(self, "second", self.could_not)
        self.beside = Lane(self, "beside", self.could_not)

    @property
    def comparing(self) -> bool:
        return self.second is not None

    def stop_comparing(self) -> None:
        for lane in (self.opening, self.beside):
            lane.forget()
        self.second = self.second_sight = None
        self.remove_class("-comparing")

    def action_compare(self) -> None:
        """Choose what is put beside it; while something is, take it away again."""
        if self.comparing:
            self.stop_comparing()
            self.show_words()
            return
        task = self.base()
        if task is None or self.source is None:
            self.tell("There is nothing here yet to compare.")
            return
        steps: tuple[int, ...] = self.bench.opened.steps if self.bench is not None else self.checkpoint_steps()
        here = self.bench.opened.step if self.bench is not None else None
        choices = [(A_TEXT, "read by the same model", False)]
        if task.switched:
            choices.append((UNTOUCHED, "the same text and model", False))
        choices += [
            (f"checkpoint {step}", "the same text", False) for step in sorted(steps, reverse=True) if step != here
        ]

        def chosen(what: str | None) -> None:
            if what == A_TEXT:
                self.app.push_screen(
                    AskValue("A second text", "Its pattern stands beside the first.", one_line(task.source or "")),
                    lambda text: self.compare_with(replace(task, source=text)) if text else None,
                )
            elif what == UNTOUCHED:
                self.compare_with(replace(task, switched=()))
            elif what is not None and what.startswith("checkpoint "):
                self.compare_with(replace(task, at=int(what.split(" ")[1])))

        self.app.push_screen(Choose("Put beside it", choices), chosen)

    def checkpoint_steps(self) -> tuple[int, ...]:
        """Those of the run that is looked at, from its folder."""
        folder = self.run_path / "checkpoints" if self.run_path is not None else None
        if folder is None or not folder.is_dir():
            return ()
        return tuple(int(each.name) for each in folder.iterdir() if each.name.isdecimal())

    def compare_with(self, task: Task) -> None:
        if self.bench is not None and self.bench.opened.step is not None and task.at is None:
            task = replace(task, at=self.bench.opened.step)
        self.opening.want(lambda _: self.second_bench.see(task), self.second_came)

    def second_came(self, second: BenchSource) -> None:
        self.second = second
        self.add_class("-comparing")
        self.call_after_refresh(self.want_sight)

    # The second window follows the first.

    def want_second(self, found: Sight) -> None:
        """The other source's part of what is drawn of the first."""
        second, wish = self.second, found.wish
        if second is None or wish.site not in second.sites:
            return
        layers, heads = second.shape(wish.site)
        rows, columns = len(second.rows(wish.site)), len(second.columns(wish.site))
        same = replace(
            wish,
            layer=min(wish.layer, layers - 1),
            head=min(wish.head, heads - 1),
            rows=(min(wish.rows[0], rows), min(wish.rows[1], rows)),
            columns=(min(wish.columns[0], columns), min(wish.columns[1], columns)),
            row=min(wish.row, rows - 1),
            place=False,
        )
        if same.rows[0] == same.rows[1] or same.columns[0] == same.columns[1]:
            return
        self.beside.want(lambda _: sight(second, same), lambda other: self.show_second(found, other))

    def show_second(self, first: Sight, other: Sight) -> None:
        source, second, site = self.source, self.second, other.wish.site
        if source is None or second is None or site not in source.sites:
            return
        right, between = self.query_one("#other", Heatmap), self.query_one("#difference", Heatmap)
        rows, columns = second.rows(site), second.columns(site)
        right.set_values(other.values, rows, columns, other.blank, other.sums, at=other.at, marks=other.marks)
        high, wide = (min(a, b) for a, b in zip(first.values.shape, other.values.shape, strict=True))
        difference = other.values[:high, :wide] - first.values[:high, :wide]
        hidden = first.blank[:high, :wide] & other.blank[:high, :wide]
        rows, columns = pairs(source.rows(site), rows), pairs(source.columns(site), columns)
        between.set_values(difference, rows, columns, hidden, at=first.at, signed=True)
        self.second_sight = other
        self.follow_first()

    def follow_first(self) -> None:
        """One cursor for all three."""
        for name in ("#other", "#difference"):
            self.query_one(name, Heatmap).move_to(*self.pattern.cursor)
        self.show_words()

    def show_sight(self, source: AttentionSource, found: Sight) -> None:
        super().show_sight(source, found)
        if self.comparing and source is self.source:
            self.want_second(found)

    @on(Heatmap.CursorMoved, "#pattern")
    def others_follow(self) -> None:
        if self.comparing:
            self.follow_first()

    @on(Heatmap.CursorMoved, "#other")
    @on(Heatmap.CursorMoved, "#difference")
    def first_follows(self, event: Heatmap.CursorMoved) -> None:
        if self.comparing and event.heatmap.has_focus:
            self.pattern.move_to(event.row, event.column)

    @on(Heatmap.Wanted, "#other")
    @on(Heatmap.Wanted, "#difference")
    def first_moves_on(self) -> None:
        """The cursor is one, so the first's window is the right one for all, unless a smaller panel shows more."""

    def show_words(self) -> None:
        """In the headline both names, and the weights under the one cursor: `.62 | .40  −.22`."""
        super().show_words()
        if self.second is None or self.source is None:
            return
        texts = " | ".join(dict.fromkeys(self.quoted(each) for each in (self.source, self.second)))
        names = list(dict.fromkeys([self.source.name, self.second.name]))
        weights = [self.query_one(f"#{name}", Heatmap).weight for name in ("pattern", "other", "difference")]
        shown = [share(weight) if np.isfinite(weight) else "-" for weight in weights]
        layer, head = self.chosen
        said = f"head {layer + 1}.{head + 1}   {shown[0]} | {shown[1]}  differ by {shown[2]}"
        self.query_one(HeadLine).say(texts, visible(" | ".join(names), self.ascii), "", plain_signs(said, self.ascii))

    def action_tab(self, by: int = 1) -> None:
        """Where there is no room for three, the difference in the place of the second."""
        if self.comparing and not self.query_one("#side").display:
            self.toggle_class("-difference")
        else:
            super().action_tab(by)


def pairs(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Labels of what both have: one where they agree, both where they do not."""
    return tuple(a if a == b else f"{a}|{b}" for a, b in zip(first, second, strict=False))
