"""What the Tokens screen answers when asked: what a language costs, and why a token or the next merge is as it is."""

from __future__ import annotations

from textual.worker import get_current_worker

from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.tui.screens.tokens.bench import TrainingScreen
from txlab.tui.screens.tokens.encoding import Counts, Stopped, by_language
from txlab.tui.screens.tokens.view import TokensView
from txlab.tui.screens.tokens.words import language_table, why_next
from txlab.tui.widgets.table import Table


class AnsweringScreen(TrainingScreen):
    """A screen that also has the table #languages."""

    def __init__(self) -> None:
        super().__init__()
        self.languages: list[tuple[str, str, list[Counts]]] = []
        self.languages_of: tuple[Tokenizer, ...] = ()

    # Languages.

    def count_languages(self) -> None:
        """What the tokenizers make of the same sentences in every language; counted in a thread, once for each set."""
        tokenizers = tuple(lane.tokenizer for lane in self.lanes)
        if tokenizers == self.languages_of:
            self.show_languages()
            return
        self.languages_of = tokenizers

        def count() -> None:
            worker = get_current_worker()

            def progress(done: int, total: int) -> None:
                if worker.is_cancelled:
                    raise Stopped

            try:
                found = by_language(tokenizers, progress)
            except Stopped:
                return
            self.app.call_later(self.take_languages, tokenizers, found)

        self.run_worker(count, thread=True, group="languages", exclusive=True, exit_on_error=False)

    def take_languages(self, tokenizers: tuple[Tokenizer, ...], found: list[tuple[str, str, list[Counts]]]) -> None:
        if tokenizers == self.languages_of and self.is_attached:
            self.languages = found
            self.show_languages()

    def show_languages(self) -> None:
        front = self.query_one("#view", TokensView).front
        columns, rows = language_table(self.languages, front, self.ascii)
        english = [place for place, row in enumerate(rows) if row[0] == "English"]
        self.query_one("#languages", Table).set_table(columns, rows, marked=english)

    # Why.

    def action_why(self) -> None:
        """The merges that made the token under the cursor, or why a pair is next."""
        from txlab.tui.widgets.why import ask_why

        if self.looked_at == "training":
            look, pairs, made = self.look, self.query_one("#pairs", Table), self.query_one("#made", Table)
            if look is None or not look.runners_up:
                self.tell("there is no pair to ask about yet")
            elif made.has_focus and look.newest:
                token, trained = look.newest[made.cursor].token, self.trained
                ask_why(self.app, lambda: explained(trained, token))
            else:
                sentence = why_next(look.runners_up, min(pairs.cursor, len(look.runners_up) - 1))
                ask_why(self.app, lambda: sentence)
            return
        view = self.query_one("#view", TokensView)
        lane = view.lane
        if lane is None or not len(lane):
            self.tell("there is no token here yet to ask about")
            return
        tokenizer, token = lane.tokenizer, int(lane.ids[view.cursor])
        ask_why(self.app, lambda: explained(tokenizer, token))


def explained(tokenizer: Tokenizer | None, token: int) -> Explanation | str | None:
    """The engine's answer for a token; a sentence where nothing was merged."""
    if tokenizer is None:
        return None
    if isinstance(tokenizer, BytePairTokenizer):
        from txlab.engine.tokenizers.trees import explain_token

        return explain_token(tokenizer, token)
    kind = visible(type(tokenizer).__name__.removesuffix("Tokenizer").lower())
    return f"Token {token} of {kind}: it is in the vocabulary as it is, and nothing was merged (MATH K1)."
