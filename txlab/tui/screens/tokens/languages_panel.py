"""A comparison of the tokenizers on the same sentences in many languages."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.experiments.sentences import LanguageStatistics, by_language
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.tokens.detail_panel import ratio
from txlab.tui.widgets.table import Column, Table


class LanguagesPanel(Panel):
    """`show(tokenizers, front)` counts in a thread, once for each set of tokenizers."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = LatestTask(self, "languages", lambda sentence: self.tell(sentence, "error"))
        self.table = Table(id="languages", waiting="counting…")
        self.tokenizers: tuple[Tokenizer, ...] = ()
        self.found: list[LanguageStatistics] = []
        self.front = 0

    def compose(self) -> ComposeResult:
        yield self.table

    def show(self, tokenizers: tuple[Tokenizer, ...], front: int, ascii: bool) -> None:
        self.front = front
        if tokenizers == self.tokenizers:
            self.draw(ascii)
            return
        self.tokenizers, self.found = tokenizers, []  # the old numbers go while these are counted
        self.draw(ascii)

        def take(statistics: list[LanguageStatistics] | None) -> None:
            if statistics is not None:
                self.found = statistics
                self.draw(ascii)

        self.counter.want(lambda task: by_language(tokenizers, lambda: not task.late), take)

    def draw(self, ascii: bool) -> None:
        columns, rows = language_table(self.found, self.front, ascii)
        english = [place for place, row in enumerate(rows) if row[0] == "English"]
        self.table.set_table(columns, rows, marked=english)


def language_table(
    languages: Sequence[LanguageStatistics], front: int, ascii: bool
) -> tuple[list[Column], list[list[str]]]:
    """Return languages sorted by the front tokenizer's tokens for the same sentences, with ratios to English."""
    if not languages or not languages[0].statistics:
        return [], []
    several = len(languages[0].statistics) > 1
    order = [front, *(lane for lane in range(len(languages[0].statistics)) if lane != front)]
    english = languages[0].statistics
    most = max(each.statistics[front].tokens for each in languages) or 1
    columns = [Column("language", right=False)]
    for lane in order:
        mark = f"{lane + 1} " if several else ""
        columns += [Column(f"{mark}tokens"), Column("/word"), Column("× English")]
        if lane == front:
            columns.append(Column("", right=False, quiet=True))
    columns.append(Column("script", right=False, quiet=True))
    rows = []
    for each in sorted(languages, key=lambda each: each.statistics[front].tokens):
        row = [visible(each.language.name, ascii)]
        for lane in order:
            here = each.statistics[lane]
            row += [count(here.tokens), ratio(here.tokens_per_word), ratio(here.tokens / max(1, english[lane].tokens))]
            if lane == front:
                row.append(bar_of_lines(here.tokens / most, 16, ascii))
        rows.append([*row, visible(each.language.script, ascii)])
    return columns, rows


def bar_of_lines(value: float, cells: int, ascii: bool = False) -> str:
    """Return a bar that leaves space above and below, so that equal bars in adjacent rows stay separate."""
    length = max(1, round(min(1.0, value) * cells)) if value > 0 else 0
    return f"{('-' if ascii else '━') * length:<{cells}}"
