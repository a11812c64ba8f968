"""Screen 2, Tokens: a text as its tokens, by one tokenizer or by several; how a token grew; how an encoding is learnt.

Notable: the text is the middle of the screen and everything else says more about the token under the cursor. Reading,
encoding and training are in worker threads (tokens_jobs, tokens_bench); this file has the keys and what is seen.
"""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.errors import LabError
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.tokens.answers import AnsweringScreen
from txlab.tui.screens.tokens.bench import THIS_TEXT
from txlab.tui.screens.tokens.encoding import specials_of
from txlab.tui.screens.tokens.training import Recipe
from txlab.tui.screens.tokens.view import TokensView
from txlab.tui.screens.tokens.words import brief, card, header, lane_table, working
from txlab.tui.screens.words import Words
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.table import Table

TRAINING = {"run", "learn", "first", "last", "pace", "pattern", "aim", "sizes", "keep"}
TEXT = {"edit", "new", "go_to", "borders", "ids"}


class TokensScreen(AnsweringScreen):
    """The text, the training (t) or the languages (l)."""

    CSS_PATH = "tokens.tcss"
    AUTO_FOCUS = "#view"
    HELP_ABOUT = (
        "Each stretch of colour is a token; the arrows go from one to the next, w says which merges made it. What "
        "cannot be seen is written: · a space, ↵ a line feed, ⇥ a tab, ␀ NUL, ◌ before a mark without its letter, "
        "\\xe2 a byte that is no character. Paste a text, press e to write, o to open a file; c puts other tokenizers "
        "beside this one. t shows how it is learnt: space runs, . merges once, a comma takes a merge back."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "run", "run", id="tokens.run", key_display="space"),
        Binding("full_stop", "learn(1)", "merge", id="tokens.step", key_display="."),
        Binding("comma", "learn(-1)", "back", id="tokens.back", key_display=","),
        Binding("e", "edit", "edit", id="tokens.edit"),
        Binding("o", "open", "open", id="tokens.open"),
        Binding("c", "compare", "compare", id="tokens.compare"),
        Binding("t", "view('training')", "training", id="tokens.training"),
        Binding("l", "view('languages')", "languages", id="tokens.languages"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("v", "side", "token", id="tokens.side"),
        Binding("tab", "front(1)", "tokenizer", id="tokens.next-tokenizer"),
        Binding("shift+tab", "front(-1)", "tokenizer before", id="tokens.previous-tokenizer", show=False),
        Binding("a", "special", "special tokens", id="tokens.special"),
        Binding("n", "new", "new", id="tokens.new"),
        Binding("i", "ids", "ids", id="tokens.ids"),
        Binding("b", "borders", "borders", id="tokens.borders", show=False),
        Binding("g", "go_to", "go to", id="tokens.go-to", show=False),
        Binding("x", "cancel", "cancel", id="tokens.cancel"),
        Binding("z", "aim", "vocabulary", id="tokens.vocabulary"),
        Binding("m", "sizes", "sizes", id="tokens.sizes"),
        Binding("k", "keep", "save", id="tokens.keep"),
        Binding("p", "pattern", "pattern", id="tokens.pattern"),
        Binding("minus", "pace(-1)", "pace", id="tokens.slower", key_display="- +"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="tokens.faster", key_display="+", show=False),
        Binding("left_curly_bracket", "first", "first", id="tokens.first", key_display="{ }"),
        Binding("right_curly_bracket", "last", "to the end", id="tokens.last", key_display="}", show=False),
        Binding("up,shift+up", "card(-1)", "tree up", id="tokens.card-up", key_display="shift+up", show=False),
        Binding("down,shift+down", "card(1)", "tree down", id="tokens.card-down", key_display="shift+down", show=False),
        Binding("left", "beside(-1)", "token before", id="tokens.card-left", show=False),
        Binding("right", "beside(1)", "next token", id="tokens.card-right", show=False),
        Binding("escape", "leave", "done", id="tokens.leave", key_display="esc"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.busy_line = ""

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Rule()
        with Horizontal(id="text"):
            yield TokensView("learning a first encoding…", id="view")
            with Vertical(id="side"):
                yield Page(id="card")
                yield Rule()
                lanes = Table(id="lanes")
                lanes.can_focus = False
                yield lanes
        yield Table(id="languages", waiting="counting…")
        with Horizontal(id="training"):
            with Vertical(id="tables"):
                yield Table(id="pairs", waiting="counting pairs…")
                rule = Rule()
                rule.id = "made-rule"
                yield rule
                yield Table(id="made")
            with Vertical(id="curves"):
                for name in ("length", "found"):
                    chart = Chart(id=name)
                    chart.can_focus = False
                    yield chart
                yield Table(id="sizes")
        rule = Rule()
        rule.id = "preview-rule"
        yield rule
        preview = TokensView(id="preview")
        preview.can_focus = False
        yield preview
        rule = Rule()
        rule.id = "brief-rule"
        yield rule
        yield Words(id="brief")

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.query_one("#found", Chart).log_y = True
        self.set_interval(1 / float(getattr(self.app, "refresh_rate", 4.0)), self.tick)
        self.train("prepare", Recipe())
        self.train("run", 0.0)
        self.show_header()

    def corpus(self) -> str:
        return self.bench.text

    # What is seen.

    def tick(self) -> None:
        """The progress of what is being worked at."""
        if (self.encoding or self.learning or self.busy_line) and self.app.screen is self:
            self.show_header()

    def show_header(self) -> None:
        if not self.is_attached:
            return
        self.busy_line = ""
        if self.has_class("-training"):
            said = self.training_words()
        elif self.encoding:
            what, done, total = self.progress
            self.busy_line = what or "encoding"
            said = working(self.busy_line, done, total, self.ascii)
        elif self.has_class("-languages"):
            words = "tokens for the same sentences in every language; × English compares with the same tokenizer"
            said = Content.assemble(Content.styled("languages", "bold"), f"   {words}")
        elif self.document is not None:
            editing = self.query_one("#view", TokensView).editing
            said = header(self.document, self.special, editing, self.ascii)
        else:
            said = Content.styled("learning a first encoding from Python's documentation…", "$quiet")
        self.query_one("#header", Words).say(said, layout=False)

    @on(TokensView.Moved)
    def show_words(self) -> None:
        """Everything that is said about the token under the cursor."""
        document, lanes = self.document, self.lanes
        if document is None or not lanes:
            return
        view = self.query_one("#view", TokensView)
        front, token = view.front, view.cursor
        if len(lanes[front]):
            token = min(token, len(lanes[front]) - 1)
        self.query_one("#card", Page).say(card(document, lanes[front], token, self.ascii), home=True)
        columns, rows = lane_table(lanes, document, self.ascii)
        self.query_one("#lanes", Table).set_table(columns, rows, marked=[front] if len(lanes) > 1 else [])
        self.query_one("#brief", Words).say(brief(document, lanes, front, token, self.ascii), layout=False)
        self.show_header()
        if self.has_class("-languages"):
            self.count_languages()

    def action_view(self, name: str) -> None:
        """Look at the training or the languages; the same key again goes back to the text."""
        name = "text" if self.looked_at == name else name
        for each in ("training", "languages"):
            self.set_class(each == name, f"-{each}")
        self.query_one({"text": "#view", "training": "#pairs", "languages": "#languages"}[name]).focus()
        if name == "training":
            self.show_training()
            self.train("look")  # the text may be another one than the merges were last shown with
        elif name == "languages":
            self.count_languages()
        else:
            self.running = False
            self.wish()
        self.show_header()
        self.refresh_bindings()

    def action_leave(self) -> None:
        """End editing; from another view back to the text."""
        view = self.query_one("#view", TokensView)
        if view.editing:
            view.edit(False)
            self.show_words()
            self.refresh_bindings()
        elif self.looked_at != "text":
            self.action_view(self.looked_at)
        elif self.has_class("-side"):
            self.action_side()
        else:
            self.action_cancel()

    def action_side(self) -> None:
        """On a narrow terminal: what is said about the token, or the curves, in the place of the text or the tables."""
        self.toggle_class("-side")
        if not self.has_class("-side"):
            self.query_one("#pairs" if self.looked_at == "training" else "#view").focus()

    def action_card(self, by: int) -> None:
        self.query_one("#card", Page).scroll_lines(by)

    def action_beside(self, by: int) -> None:
        """The next token while the text itself is folded away."""
        self.query_one("#view", TokensView).action_across(by)

    def word_for(self, binding: Binding) -> str:
        editing = self.query_one("#view", TokensView).editing
        if editing or binding.id == "tokens.leave":  # letters are text now
            return "end editing" if editing and binding.id == "tokens.leave" else ""
        training = self.looked_at == "training"
        words = {
            "tokens.run": "pause" if self.running else "run",
            "tokens.training": "text" if training else "training",
            "tokens.languages": "text" if self.looked_at == "languages" else "languages",
            "tokens.next-tokenizer": "table" if training else "tokenizer",
            "tokens.open": "learn from" if training else "open",
            "tokens.side": "curves" if training else "token",
            "tokens.special": "special as text" if self.special else "special tokens",
        }
        return words.get(binding.id or "", binding.description)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        where = self.looked_at
        if action in TRAINING:
            return where == "training"
        if action == "front":
            return where == "training" or len(self.lanes) > 1
        if action in TEXT or action == "special":
            return where == "text"
        if action == "compare":
            return where != "training"
        if action == "open":
            return where != "languages"
        if action == "side":
            return where != "languages" and (self.has_class("-narrow") or self.has_class("-tiny"))
        if action in ("card", "beside"):
            return where == "text"
        if action == "cancel":
            return self.encoding or self.learning
        return True

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    # The text.

    def action_open(self) -> None:
        """A file to look at; in the training view, the text to learn from."""
        from txlab.tui.screens.dialogs import AskValue, Choose

        def read(path: str | None) -> None:
            if path and path.strip():
                self.query_one("#view", TokensView).edit(False)
                self.look_at_text(path.strip(), None)

        def learn(name: str | None) -> None:
            if name == "a file or folder…":
                question = AskValue("Learn from which text?", "a UTF-8 file, or a folder of them")
                self.app.push_screen(question, lambda path: self.learn_from(path.strip()) if path else None)
            elif name:
                self.learn_from(THIS_TEXT if name == "the text on the screen" else name)

        if self.looked_at != "training":
            self.app.push_screen(AskValue("Open which file?", "any file; what is no text is shown by its bytes"), read)
            return
        now = self.bench.recipe.text
        rows = [("python-docs", "the documentation of Python, 0.4 MB"), ("python-source", "its library, above 10 MB")]
        rows += [("the text on the screen", ""), ("a file or folder…", "")]
        self.app.push_screen(Choose("Learn from which text?", [(*row, row[0] == now) for row in rows]), learn)

    def action_cancel(self) -> None:
        self.stop_learning = self.learning
        self.running = False
        if self.cancel():
            self.tell("cancelled; the text before it stays")

    def action_front(self, by: int) -> None:
        """The cursor goes on in another tokenizer's tokens, at the same byte; in training, to another table."""
        view = self.query_one("#view", TokensView)
        if self.looked_at == "training":
            self.focus_next() if by > 0 else self.focus_previous()
        elif self.lanes:
            byte = view.byte
            view.front = (view.front + by) % len(self.lanes)
            view.go(byte)
            self.show_words()

    def action_borders(self) -> None:
        view = self.query_one("#view", TokensView)
        view.strokes = not view.with_strokes
        view.go(view.byte)

    def action_ids(self) -> None:
        """The id of each token below it."""
        view = self.query_one("#view", TokensView)
        view.with_ids = not view.with_ids
        view.go(view.byte)

    def action_special(self) -> None:
        """Whether the text of a special token is that token; as long as nobody asks for it, it is plain text."""
        named = {name for lane in self.lanes for name in specials_of(lane.tokenizer)}
        self.special = not self.special
        if self.special and not named:
            self.tell("none of these tokenizers has special tokens; c puts one beside them that has")
        self.wish()
        self.show_header()

    def action_go_to(self) -> None:
        from txlab.tui.screens.dialogs import AskValue

        def place(text: str) -> tuple[str, int]:
            kind, _, number = text.strip().rpartition(" ")
            if not number.isdecimal() or kind not in ("", "byte", "token"):
                raise LabError(f"{text!r} is no place; write a byte, as 1200, or a token, as token 300")
            return kind or "byte", int(number)

        def go(text: str | None) -> None:
            if text:
                view, (kind, number) = self.query_one("#view", TokensView), place(text)
                view.to_token(number - 1) if kind == "token" else view.go(number)

        check = lambda text: "" if not text.strip() else "{} {}".format(*place(text))  # noqa: E731
        self.app.push_screen(AskValue("Go to", "a byte, as 1200, or a token, as token 300", check=check), go)
