"""Screen 2, Tokens: a text as tokens of one or several tokenizers; the merges behind a token; training an encoding.

The text is in the middle and everything else describes the token under the cursor; the training (t) and the languages
(l) replace it. This file switches between the three and passes results on: the text and its lanes to the detail, the
preview and the languages, the trained encoding to the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content

from txlab.drawing.captions import language as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count
from txlab.drawing.spark import bar
from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.tokenizers.trees import explain_token
from txlab.errors import LabError
from txlab.experiments.schema import several
from txlab.tui.bindings import MOVING, WHY, bind
from txlab.tui.panel import ROUTED, Panel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.plain_text import Words, fitting
from txlab.tui.screens.tokens.detail_panel import DetailPanel, brief
from txlab.tui.screens.tokens.encoded_text import EDITABLE, TextDocument, explain_character_of
from txlab.tui.screens.tokens.languages_panel import LanguagesPanel
from txlab.tui.screens.tokens.text_panel import TRAINED, TextPanel
from txlab.tui.screens.tokens.training_panel import TrainingPanel
from txlab.tui.widgets.why import ask_why


class TokensScreen(BenchScreen):
    """The text, the training (t) or the languages (l)."""

    CSS_PATH = "tokens.tcss"
    AUTO_FOCUS = "#view"
    HELP_ABOUT = (
        "Each stretch of colour is a token; the arrows move from one to the next, w lists the merges that made it. "
        "Invisible characters are written as signs: · a space, ↵ a line feed, ⇥ a tab, ␀ NUL, ◌ before a mark without "
        "its letter, \\xe2 a byte that is not a character; above such bytes is the character that they encode. Paste "
        "a text, press e to write, o to open a file; c compares it with other tokenizers and marks where they split "
        "differently. t shows how the tokenizer is trained: space runs, . merges once, a comma takes a merge back."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (TrainingPanel, TextPanel, DetailPanel, LanguagesPanel)
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "tokens.run", "tokens.step", "tokens.back", "tokens.edit", "tokens.open", "tokens.compare", "tokens.training",
        "tokens.languages", "screen.why", "tokens.side", "tokens.next-tokenizer", "tokens.previous-tokenizer",
        "tokens.special", "tokens.new", "tokens.ids", "tokens.borders", "tokens.go-to", "tokens.cancel",
        "tokens.vocabulary", "tokens.sizes", "tokens.keep", "tokens.pattern", "tokens.slower", "tokens.faster",
        "tokens.first", "tokens.last", "tokens.card-up", "tokens.card-down", "tokens.card-left", "tokens.card-right",
        "tokens.leave",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("o", "open", "open a text or a tokenizer", "open", id="tokens.open", synonyms="file load"),
        bind("t", "view('training')", "see how merges are learnt", "training", id="tokens.training"),
        bind("l", "view('languages')", "compare languages", "languages", id="tokens.languages"),
        WHY,
        bind("v", "side", "show the details of the token", "token", id="tokens.side"),
        bind("tab", "front(1)", "go to the next tokenizer", "tokenizer", id="tokens.next-tokenizer"),
        bind("shift+tab", "front(-1)", "go to the tokenizer before", id="tokens.previous-tokenizer"),
        bind("x", "cancel", "cancel what is being computed", "cancel", id="tokens.cancel"),
        bind("left", "beside(-1)", "token before", id="tokens.card-left", heading=MOVING),
        bind("right", "beside(1)", "next token", id="tokens.card-right", heading=MOVING),
        bind("escape", "leave", "go back to the text", "done", id="tokens.leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.refresh_rate = 4.0
        self.text, self.detail, self.languages = TextPanel(), DetailPanel(), LanguagesPanel()
        self.training = TrainingPanel(lambda: self.refresh_rate)
        self.view = self.text.view
        self.looked_at = "text"  # or training, or languages
        self.was_busy = False

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Rule()
        with Horizontal(id="text"):
            yield self.text
            yield self.detail
        yield self.languages
        yield self.training
        yield Rule(id="brief-rule")
        yield Words(id="brief")

    def on_mount(self) -> None:
        self.refresh_rate = float(getattr(self.app, "refresh_rate", 4.0))
        self.set_class(self.ascii, "-ascii")
        self.set_interval(1 / self.refresh_rate, self.tick)
        self.show_header()

    # Drawing.

    def tick(self) -> None:
        """Show the progress of the present work, and once more when it has ended."""
        busy = self.text.encoding or self.training.learning
        if (busy or self.was_busy) and self.app.screen is self:
            changed, self.was_busy = busy != self.was_busy, busy
            self.show_header()
            if changed:
                self.refresh_bindings()

    def show_header(self) -> None:
        document = self.text.document
        if not self.is_attached:
            return
        cells = self.size.width - 2
        if self.looked_at == "training":
            content = self.training.header(self.ascii, cells)
        elif self.text.encoding:
            content = working(*self.text.progress, self.ascii)
        elif self.looked_at == "languages":
            words = ["   tokens of the same sentences", "; × English: how many times as many"]
            content = fitting([Content.styled("languages", "bold"), *map(Content, words)], cells)
        elif document is not None:
            content = header(document, self.tokenizer_in_use(), self.text.special, self.view.editing, self.ascii, cells)
        else:
            content = Content.styled("learning a first encoding from Python's documentation…", "$quiet")
        self.query_one("#header", Words).say(content)
        self.caption.say(self.sentence())

    def tokenizer_in_use(self) -> tuple[str, str]:
        """Return the name of the tokenizer in front, and what it was learnt from, or its size."""
        text, at = self.text, self.view.front
        if not text.lanes:
            return "", ""
        lane, state = text.lanes[at], self.training.state
        several = f"{at + 1} of {len(text.lanes)}: " if len(text.lanes) > 1 else ""
        about = f"{count(lane.tokenizer.vocabulary)} tokens"
        if text.shown[at] == TRAINED and state is not None:
            about = f"on {visible(Path(str(state.frame.facts['corpus'])).name, self.ascii) or 'this text'}"
        return several + visible(lane.name, self.ascii), about

    def sentence(self) -> Sentence:
        """Return the caption of the text, or of the training."""
        document, state = self.text.document, self.training.state
        if self.looked_at == "training":
            return () if state is None or self.training.counting is not None else state.sentence(self.ascii)
        if self.looked_at == "languages" or document is None or self.text.encoding:
            return ()
        lanes = [(lane.name, len(lane)) for lane in self.text.lanes]
        return captions.tokens(len(document.data), document.words, lanes, self.view.front)

    @on(TextPanel.Shown)
    def show_text(self) -> None:
        """Show everything about the text and the token under the cursor."""
        document, lanes = self.text.document, self.text.lanes
        if document is None or not lanes:
            return
        front, token = self.view.front, self.view.cursor
        if len(lanes[front]):
            token = min(token, len(lanes[front]) - 1)
        self.detail.show(document, lanes, front, token, self.ascii)
        self.text.share_room()
        self.query_one("#brief", Words).say(brief(document, lanes, front, token, self.ascii))
        self.show_header()
        if self.looked_at == "languages":
            self.show_languages()
        elif self.looked_at == "training" and document is not self.training.document:
            self.training.show_text(document)

    def show_languages(self) -> None:
        self.languages.show(self.text.current_tokenizers(), self.view.front, self.ascii)

    @on(TrainingPanel.Learned)
    def take_tokenizer(self) -> None:
        """Use the trained encoding for the text as soon as the text is shown and the training is paused."""
        state = self.training.state
        if state is not None:
            self.text.use_trained(state.tokenizer, state.experiment.text)
            # The last merge may be reported once while the training still runs and once more after its end.
            if self.text.outdated and self.looked_at != "training" and not self.training.session.running:
                self.text.wish()
        self.show_header()
        self.refresh_bindings()

    def action_view(self, name: str) -> None:
        """Show the training or the languages; the same key again returns to the text."""
        before, self.looked_at = self.looked_at, "text" if self.looked_at == name else name
        for each in ("training", "languages"):
            self.set_class(each == self.looked_at, f"-{each}")
        self.text.active = self.detail.active = self.looked_at == "text"
        self.query_one({"text": "#view", "training": "#pairs", "languages": "#languages"}[self.looked_at]).focus()
        if before == "training":
            self.training.leave()
        if self.looked_at == "training":
            self.training.enter(self.text.document)
        else:
            self.text.wish()
            if self.looked_at == "languages":
                self.show_languages()
        self.show_header()
        self.refresh_bindings()

    def action_leave(self) -> None:
        """End editing; from another view return to the text."""
        if self.view.editing:
            self.view.edit(False)
            self.show_text()
            self.refresh_bindings()
        elif self.looked_at != "text":
            self.action_view(self.looked_at)
        elif self.has_class("-side"):
            self.action_side()
        else:
            self.action_cancel()

    def action_side(self) -> None:
        """Show the details of the token, or the curves, instead of the text or the tables on a narrow terminal."""
        self.toggle_class("-side")
        if not self.has_class("-side"):
            self.query_one("#pairs" if self.looked_at == "training" else "#view").focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    def word_for(self, binding: Binding) -> str:
        if self.view.editing or binding.id == "tokens.leave":  # letters are text now
            return "end editing" if self.view.editing and binding.id == "tokens.leave" else ""
        training = self.looked_at == "training"
        words = {
            "tokens.training": "text" if training else "training",
            "tokens.languages": "text" if self.looked_at == "languages" else "languages",
            "tokens.next-tokenizer": "table" if training else "tokenizer",
            "tokens.open": "learn from" if training else "open",
            "tokens.side": "curves" if training else "token",
        }
        return words.get(binding.id or "") or super().word_for(binding)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        where = self.looked_at
        if action == "front":
            return where == "training" or len(self.text.lanes) > 1
        if action == "open":
            return where != "languages"
        if action == "side":
            return where != "languages" and (self.has_class("-narrow") or self.has_class("-tiny"))
        if action == "beside":
            return where == "text"
        if action == "cancel":
            busy = self.text.encoding or self.training.learning
            self.was_busy |= busy  # the cancel key is shown, and has to be removed again
            return busy
        if action == ROUTED and parameters[1] == "compare":
            return where != "training"
        return super().check_action(action, parameters)

    # Keys with a meaning in several views.

    def on_paste(self, event: events.Paste) -> None:
        """Handle a paste while another widget has the focus."""
        if self.looked_at == "text":
            self.text.take_paste(event.text)

    def action_open(self) -> None:
        """Open a file; in the training view, choose the training text."""
        if self.looked_at == "training":
            self.training.ask_for_corpus()
        else:
            self.text.ask_for_file()

    def action_cancel(self) -> None:
        self.training.cancel()
        if self.text.cancel():
            self.tell("cancelled; the text before it stays")

    def action_front(self, by: int) -> None:
        """Move the cursor to the next tokenizer's lane; in training, to another table."""
        if self.looked_at != "training":
            self.text.to_next_lane(by)
        elif by > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_beside(self, by: int) -> None:
        """Go to the next token while the text itself is folded away."""
        self.view.action_across(by)

    def action_why(self) -> None:
        """Explain why a character is several tokens, and the merges that made the token; or why a pair is next."""
        if self.looked_at == "training":
            try:
                answer = self.training.why()
            except LabError as error:
                self.tell(str(error))
            else:
                ask_why(self.app, lambda: answer)
            return
        lane = self.view.lane
        if lane is None or not len(lane):
            self.tell("there is no token here yet to ask about")
            return
        document, token = self.view.document, self.view.cursor

        def answers() -> list[Explanation] | Explanation | str:
            character, merged = (
                explain_character_of(document, lane, token),
                explain_token_of(lane.tokenizer, int(lane.ids[token])),
            )
            if character is None:
                return merged
            return [character, *([] if isinstance(merged, str) else [merged])]

        ask_why(self.app, answers)


def explain_token_of(tokenizer: Tokenizer, token: int) -> Explanation | str:
    """Return the engine's explanation of a token; a sentence if nothing was merged."""
    if isinstance(tokenizer, BytePairTokenizer):
        return explain_token(tokenizer, token)
    kind = visible(type(tokenizer).__name__.removesuffix("Tokenizer").lower())
    return f"Token {token} of {kind}: it is in the vocabulary as it is, and nothing was merged (MATH K1)."


def header(
    document: TextDocument, tokenizer: tuple[str, str], special: bool, editing: bool, ascii: bool, cells: int
) -> Content:
    """Return `trained 1 024 on python-docs   sample   233 characters · 301 bytes · 33 words   special tokens are plain
    text`, without the least important parts where there is no room."""
    counts = (document.characters, "character"), (len(document.data), "byte"), (document.words, "word")
    sizes = " · ".join(several(number, thing) for number, thing in counts)
    name, about = tokenizer
    state = Content("")
    if editing:
        state = Content.styled("   editing, esc ends it", "bold $accent")
    elif not document.editable:
        state = Content.styled(f"   view only, above {count(EDITABLE // 1000)} kB", "$accent")
    optional = {
        "about": Content.styled(f" {about}", "$quiet"),
        "document": Content.styled(f"{visible(document.name, ascii)}   ", "bold"),
        "special": Content.styled(f"   special tokens {'allowed' if special else 'are plain text'}", "$quiet"),
    }
    while True:
        parts = [
            Content.styled(name, "bold $accent"),
            optional.get("about", Content("")),
            Content("   " if name else ""),
        ]
        parts += [optional.get("document", Content("")), Content(sizes), state, optional.get("special", Content(""))]
        content = Content.assemble(*parts)
        if content.cell_length <= cells or not optional:
            return content
        optional.popitem()


def working(what: str, done: int, total: int, ascii: bool = False) -> Content:
    """Return `encoding  ████░░  45 %   x cancels`."""
    share = done / total if total else 0.0
    return Content.assemble(
        Content.styled(f"{visible(what, ascii)}  ", "bold"),
        Content.styled(f"{bar(share, 20, ascii):<20}", "$accent"),
        Content(f" {share:>4.0%}"),
        Content.styled("   x cancels", "$quiet"),
    )
