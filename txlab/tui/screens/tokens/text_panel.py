"""The text and its tokens by up to four tokenizers: the choice of both, and the thread that encodes.

Notable: a request while the thread is busy only replaces the pending one; the thread notices at its next part and
starts again with the newest request. The screen stays unchanged until there is a result, so cancelling keeps the
previous text. Unchanged lanes are reused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message

from txlab.drawing.formatting import count
from txlab.engine.tokenizers.tokenizer import Tokenizer, specials_of
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import DEFAULT, names_of_saved
from txlab.tui.bindings import bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.dialogs import AskValue, Choose, Confirm
from txlab.tui.screens.tokens.chunk_page import merging
from txlab.tui.screens.tokens.encoded_text import (
    EDITABLE,
    Progress,
    Stopped,
    TextDocument,
    TokenizerChoice,
    TokenLane,
    document_of,
    lane_of,
    read_text,
    tokenizer_of,
)
from txlab.tui.screens.tokens.token_view import TokensView
from txlab.tui.widgets.page import BESIDE, Page
from txlab.tui.widgets.terminal import is_ascii

LANES = 4
LEAST = 5  # lines below a short text
OWN = ("your text", "pasted")  # the names of texts without a file
TRAINED = TokenizerChoice("trained")
SAMPLE = """The cat that chased the mice was tired; unbelievably tired.
def half(x):\n\treturn x / 2      # 12345678 and 3.14159
Straße, naïve, Привет, नमस्ते, 日本語; e\u0301 is é in two characters.
An invisible no\u00a0break, a family 👩\u200d👧 of three characters, an end <|endoftext|>
"""


class TextPanel(Panel):
    """The view of the tokens; `document` and `lanes` are shown on the screen."""

    KEYS: ClassVar = (
        bind("e", "edit", "edit the text", "edit", id="tokens.edit"),
        bind(
            "c",
            "compare",
            "compare with another tokenizer",
            "compare",
            id="tokens.compare",
            synonyms="tiktoken gpt-2 gpt-4",
        ),
        bind("a", "special", "read spellings of special tokens as these tokens", "special tokens", id="tokens.special"),
        bind("n", "new", "begin a new text", "new", id="tokens.new"),
        bind("i", "ids", "show the ids under the tokens", "ids", id="tokens.ids"),
        bind("b", "borders", "draw borders between tokens", id="tokens.borders"),
        bind("g", "go_to", "go to a byte or a token", id="tokens.go-to"),
    )
    DEFAULT_CSS = """
    TextPanel { width: 1fr; height: 1fr; }
    TextPanel #chunk { padding: 0 0 0 1; }
    TextPanel #chunk-rule, TextPanel #chunk { display: none; }
    TextPanel.-short #chunk-rule, TextPanel.-short #chunk { display: block; }
    """

    class Shown(Message):
        """The text, its tokens or the token under the cursor has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.view = TokensView("learning a first encoding…", id="view")
        self.chunk = Page(id="chunk")
        self.encoder = LatestTask(self, "encode", self.show_failure)
        self.active = True  # this view is the visible one
        self.choices = [TRAINED]
        self.special = False
        self.source: tuple[str, bytes | str | None] | None = ("sample", SAMPLE)
        """The requested (name, text); None as text: the name is a path."""
        self.document: TextDocument | None = None
        self.lanes: list[TokenLane] = []
        self.shown: list[TokenizerChoice] = []
        self.progress: tuple[str, int, int] = ("", 0, 1)
        self.tokenizers: dict[TokenizerChoice, Tokenizer] = {}
        self.trained: Tokenizer | None = None
        self.corpus, self.corpus_bytes = "", b""  # that the trained encoding is learnt from
        self.made: dict[TokenizerChoice, tuple[TextDocument, Tokenizer, bool, TokenLane]] = {}

    def compose(self) -> ComposeResult:
        yield self.view
        yield Rule(id="chunk-rule")
        yield self.chunk

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.active or action == "compare"

    def word_for(self, binding: Binding) -> str:
        return "special as text" if binding.id == "tokens.special" and self.special else binding.description

    # Requests.

    @property
    def encoding(self) -> bool:
        return not self.encoder.idle

    def look_at_text(self, name: str, data: bytes | str | None) -> None:
        """Request another text: its bytes, the pasted text, or None if `name` is a path."""
        self.source = (name, data)
        self.wish()

    @property
    def outdated(self) -> bool:
        """Whether the text should be shown with the trained encoding but is not shown with the newest one."""
        shown = {choice: lane.tokenizer for choice, lane in zip(self.shown, self.lanes, strict=True)}
        return TRAINED in self.choices and shown.get(TRAINED) is not self.trained

    def use_trained(self, tokenizer: Tokenizer, corpus: str) -> None:
        """Note that another encoding was trained; `wish` shows the text with it."""
        if corpus is not self.corpus:
            self.corpus, self.corpus_bytes = corpus, corpus.encode(errors="surrogateescape")
            self.tokenizers = {
                choice: known for choice, known in self.tokenizers.items() if choice.kind not in ("characters", "words")
            }
        self.trained = tokenizer

    def wish(self) -> None:
        """Show the requested text as soon as the tokenizers are available."""
        if self.trained is not None or TRAINED not in self.choices:
            self.encoder.want(self.encode, self.take, holds_keys=self.document is None)

    def cancel(self) -> bool:
        """Keep the shown text; return whether there was anything to cancel."""
        if not self.encoding or self.document is None:
            return False
        self.source, self.choices = None, list(self.shown)
        self.encoder.forget()
        return True

    def current_tokenizers(self) -> tuple[Tokenizer, ...]:
        """Return the tokenizers of the lanes, with the current trained one, which the text may not show yet."""
        pairs = zip(self.shown, self.lanes, strict=True)
        return tuple(self.trained or lane.tokenizer if choice == TRAINED else lane.tokenizer for choice, lane in pairs)

    # In the thread.

    def encode(self, task: LatestTask) -> Any:
        """Return the document, its lanes by choice, and why others were refused; None when no longer wanted."""
        source, choices, special, document = self.source, list(self.choices), self.special, self.document

        def progress(what: str) -> Progress:
            def tell(done: int, total: int) -> None:
                if task.late:
                    raise Stopped
                self.progress = (what, done, total)

            return tell

        try:
            if source is not None:
                name, data = source
                if data is None:
                    data = read_text(name, progress("reading"))
                    name = Path(name).name
                elif isinstance(data, str):  # terminals send a carriage return for each line break
                    data = data.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace")
                document = document_of(name, data, progress("counting"))
            assert document is not None
            lanes: dict[TokenizerChoice, TokenLane] = {}
            refused: dict[TokenizerChoice, str] = {}
            for choice in choices:
                try:
                    lanes[choice] = self.lane(choice, document, special, progress(f"encoding, {choice.title}"))
                except LabError as error:
                    refused[choice] = str(error)
            return document, lanes, refused
        except Stopped:
            return None

    def lane(self, choice: TokenizerChoice, document: TextDocument, special: bool, progress: Progress) -> TokenLane:
        """Return the tokens of one tokenizer, reusing known ones."""
        tokenizer = self.trained if choice == TRAINED else self.tokenizers.get(choice)
        if tokenizer is None:
            progress(0, 1)
            tokenizer = self.tokenizers[choice] = tokenizer_of(choice, self.corpus, self.trained)
        special = special and bool(specials_of(tokenizer))
        known = self.made.get(choice)
        if known is not None and known[0] is document and known[1] is tokenizer and known[2] == special:
            return known[3]
        name = f"trained {count(tokenizer.vocabulary)}" if choice == TRAINED else choice.title
        lane = replace(lane_of(name, tokenizer, document, special, progress), corpus=self.training_text(choice))
        self.made[choice] = (document, tokenizer, special, lane)
        return lane

    def training_text(self, choice: TokenizerChoice) -> bytes | None:
        """Return the text that a tokenizer was learnt from, None if it is not known."""
        if choice == TRAINED:
            return self.corpus_bytes
        if choice == TokenizerChoice("saved", DEFAULT):
            from txlab.experiments.corpora import python_docs

            return python_docs().text.encode()
        return None

    # Back on the event loop.

    def take(self, encoded: Any) -> None:
        if encoded is None:
            return
        document, lanes, refused = encoded
        fresh = document is not self.document
        self.document, self.lanes, self.shown = document, list(lanes.values()), list(lanes)
        self.choices, self.source = list(lanes), None
        self.made = {choice: made for choice, made in self.made.items() if choice in lanes}
        for choice, sentence in refused.items():
            self.tokenizers.pop(choice, None)
            self.tell(sentence, "error")
        self.view.show(document, self.lanes, home=fresh and not self.view.editing)
        self.post_message(self.Shown())
        self.screen.refresh_bindings()

    def show_failure(self, sentence: str) -> None:
        """Report that the text cannot be read; the previous one stays."""
        self.source = None
        self.tell(sentence, "error")

    def on_resize(self) -> None:
        self.share_room()

    def share_room(self) -> None:
        """Below a short text, show how the chunk under the cursor becomes its tokens."""
        room = self.size.height
        lines = self.view.lines_of_text(room)
        short = bool(self.lanes) and lines + 1 + LEAST <= room
        self.set_class(short, "-short")
        self.view.styles.height = lines if short else "1fr"
        if short and self.document is not None:
            lane = self.lanes[self.view.front]
            cells = min(self.size.width - 1, self.chunk.MOST + BESIDE) - BESIDE
            text = merging(self.document, lane, self.view.cursor, cells, room - lines - 1, is_ascii(self))
            self.chunk.say(text, home=True)

    # Typing and pasting.

    @on(TokensView.Moved)
    def show_cursor(self, event: TokensView.Moved) -> None:
        event.stop()
        self.post_message(self.Shown())

    @on(TokensView.Edited)
    def take_edit(self, event: TokensView.Edited) -> None:
        event.stop()
        self.look_at_text(OWN[0], self.view.text)

    @on(TokensView.Pasted)
    def take_pasted_file(self, event: TokensView.Pasted) -> None:
        event.stop()
        self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """Make a paste the new text; in an editable one it is inserted at the caret instead (see TokensView)."""
        self.view.edit(False)
        self.look_at_text(OWN[1], text)

    def action_edit(self) -> None:
        if not self.view.edit(not self.view.editing):
            self.tell(f"a text of more than {EDITABLE // 1000} kB can be looked at, not edited; n begins a new one")
        self.view.focus()
        self.post_message(self.Shown())
        self.refresh_bindings()

    def action_new(self) -> None:
        """Start an empty text; a typed text, which has no other copy, is erased only after a confirmation."""
        if self.view.text and self.document is not None and self.document.name in OWN:
            about = f"{count(len(self.view.text))} bytes that were typed or pasted are kept nowhere else."
            question = Confirm("Erase this text and begin a new one?", about, "erase it")
            self.app.push_screen(question, lambda sure: self.begin_new() if sure else None)
        else:
            self.begin_new()

    def begin_new(self) -> None:
        view = self.view
        view.text, view.undone = b"", []
        view.caret = 0
        view.focus()
        self.refresh_bindings()
        self.look_at_text(OWN[0], b"")

    def ask_for_file(self) -> None:
        def read(path: str | None) -> None:
            if path and path.strip():
                self.view.edit(False)
                self.look_at_text(path.strip(), None)

        about = "any file; bytes that are not text are shown as such"
        self.app.push_screen(AskValue("Open which file?", about, check=there, path=True), read)

    # The display of tokens.

    def to_next_lane(self, by: int) -> None:
        """Move the cursor to the next tokenizer's lane, at the same byte."""
        if self.lanes:
            byte = self.view.byte
            self.view.front = (self.view.front + by) % len(self.lanes)
            self.view.go(byte)
            self.post_message(self.Shown())

    def action_borders(self) -> None:
        self.view.strokes = not self.view.with_strokes
        self.view.go(self.view.byte)

    def action_ids(self) -> None:
        """Show or hide the id of each token below it."""
        self.view.with_ids = not self.view.with_ids
        self.view.go(self.view.byte)

    def action_special(self) -> None:
        """Switch whether spellings of special tokens are encoded as these tokens; the default is plain text."""
        self.special = not self.special
        if self.special and not any(specials_of(lane.tokenizer) for lane in self.lanes):
            self.tell("none of these tokenizers has special tokens; c adds one that has")
        self.wish()

    def action_go_to(self) -> None:
        def place(text: str) -> tuple[str, int]:
            kind, _, number = text.strip().rpartition(" ")
            if not number.isdecimal() or kind not in ("", "byte", "token"):
                raise LabError(f"{text!r} is not a position; write a byte, as 1200, or a token, as token 300")
            return kind or "byte", int(number)

        def check(text: str) -> str:
            return "{} {}".format(*place(text)) if text.strip() else ""

        def go(text: str | None) -> None:
            if text:
                kind, number = place(text)
                self.view.to_token(number - 1) if kind == "token" else self.view.go(number)

        self.app.push_screen(AskValue("Go to", "a byte, as 1200, or a token, as token 300", check=check), go)

    # Choosing tokenizers.

    def toggle(self, choice: TokenizerChoice) -> None:
        """Add a tokenizer or remove it; there is always one, and never more than four."""
        if choice in self.choices:
            if len(self.choices) == 1:
                self.tell("the last tokenizer stays; choose another one first")
                return
            self.choices = [each for each in self.choices if each != choice]
            self.tokenizers.pop(choice, None)
        elif len(self.choices) >= LANES:
            self.tell(f"{LANES} tokenizers at a time; take one away first")
            return
        else:
            self.choices = [*self.choices, choice]
        self.wish()

    def action_compare(self) -> None:
        """Choose a tokenizer to add; choosing a present one removes it."""

        def find() -> None:
            self.app.call_later(self.ask_which, names_of_saved())

        saved = run_in_thread(self.screen, find, "saved tokenizers", keys=False)
        keys_wait(self, saved)

    def ask_which(self, saved: list[str]) -> None:
        known = {
            "trained here": (TRAINED, "the byte pair encoding on the bench (t)"),
            "bytes": (TokenizerChoice("bytes"), "256 tokens, nothing learnt"),
            "characters": (TokenizerChoice("characters"), "those of the text that is trained on"),
            "words": (TokenizerChoice("words"), "those of the text that is trained on"),
            DEFAULT: (TokenizerChoice("saved", DEFAULT), "4 096 byte pairs, learnt from Python's documentation"),
        }
        known |= {name: (TokenizerChoice("saved", name), "saved") for name in saved if name not in known}
        known |= {each.name: (each, "file") for each in self.choices if each.kind == "file"}
        rows = [(name, about, choice in self.choices) for name, (choice, about) in known.items()]
        other = "a file of others…"

        def add_file(path: str | None) -> None:
            if path and path.strip():
                self.toggle(TokenizerChoice("file", path.strip()))

        def choose(name: str | None) -> None:
            if name == other:
                about = "tokenizer.json, *.tiktoken, a folder with vocab.json and merges.txt, or a file of txlab"
                self.app.push_screen(AskValue("Which tokenizer?", about, check=there, path=True), add_file)
            elif name in known:
                self.toggle(known[name][0])

        self.app.push_screen(Choose("Compare tokenizers, up to four", [*rows, (other, "a path", False)]), choose)


def there(path: str) -> str:
    """Check a path while it is typed, so that the dialog stays open for a mistyped one."""
    try:
        exists = not path.strip() or Path(path.strip()).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long; an unknown user; a NUL
        exists = False
    if not exists:
        raise LabError(f"{path.strip()!r} is not there")
    return ""
