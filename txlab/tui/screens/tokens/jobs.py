"""The Tokens screen's work on the text: which text, which tokenizers, and one worker at a time that encodes.

Notable: what comes while a worker is busy only changes what is wanted; the worker notices at its next piece and the
next one begins with the newest wish. What is on the screen stays until there is something to take its place, so a
cancelled text leaves the one before. Lanes that did not change are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual import events, on
from textual.worker import get_current_worker

from txlab.drawing.formatting import count
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.errors import LabError
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.tokens.encoding import (
    Choice,
    Stopped,
    document_of,
    lane_of,
    read_text,
    specials_of,
    tokenizer_of,
)
from txlab.tui.screens.tokens.layout import EDITABLE, Document, Lane
from txlab.tui.screens.tokens.view import TokensView

LANES = 4

SAMPLE = """The cat that chased the mice was tired; unbelievably tired.
def half(x):\n\treturn x / 2      # 12345678 and 3.14159
Straße, naïve, Привет, नमस्ते, 日本語; e\u0301 is é in two characters.
An invisible no\u00a0break, a family 👩\u200d👧 of three characters, an end <|endoftext|>
"""


def lines_of(pasted: str) -> str:
    """A paste with its own line ends: terminals send what enter would, a carriage return."""
    return pasted.replace("\r\n", "\n").replace("\r", "\n")


class EncodingScreen(BenchScreen):
    """A screen with a TokensView `#view` whose text and tokenizers change."""

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = [Choice("trained")]
        self.special = False
        self.source: tuple[str, bytes | str | None] | None = ("sample", SAMPLE)
        """(name, text) that is wanted; None as text: the name is a path to be read."""
        self.document: Document | None = None
        self.lanes: list[Lane] = []
        self.shown: list[Choice] = []
        self.generation = 0
        self.encoding = False
        self.progress: tuple[str, int, int] = ("", 0, 1)
        self.tokenizers: dict[Choice, Tokenizer] = {}
        self.trained: Tokenizer | None = None
        self.made: dict[Choice, tuple[Document, Tokenizer, bool, Lane]] = {}
        self.reads = 0
        """Texts that were read and encoded by a worker."""

    # What is wanted.

    def look_at_text(self, name: str, data: bytes | str | None) -> None:
        """Another text: its bytes, what was pasted, or None where `name` is a path."""
        self.source = (name, data)
        self.wish()

    def wish(self) -> None:
        """Something is wanted that is not on the screen yet: begin, or tell the worker that it is late."""
        self.generation += 1
        self.begin()

    def begin(self) -> None:
        if self.encoding or not self.is_attached or not self.ready():
            return
        self.encoding = True
        self.run_worker(self.encode, thread=True, group="encode", exit_on_error=False)
        self.show_header()

    def ready(self) -> bool:
        """Whether the tokenizers that are wanted can be had by now."""
        return self.trained is not None or Choice("trained") not in self.choices

    def cancel(self) -> bool:
        """Leave everything as it is on the screen; whether there was anything to cancel."""
        if not self.encoding or self.document is None:
            return False
        self.source, self.choices = None, list(self.shown)
        self.generation += 1
        return True

    # In the worker.

    def encode(self) -> None:
        worker, generation = get_current_worker(), self.generation
        source, choices, special = self.source, list(self.choices), self.special

        def progress(what: str) -> Any:
            def tell(done: int, total: int) -> None:
                if worker.is_cancelled or generation != self.generation:
                    raise Stopped
                self.progress = (what, done, total)

            return tell

        try:
            document = self.document
            if source is not None:
                name, data = source
                if data is None:
                    data = read_text(name, progress("reading"))
                    name = Path(name).name
                elif isinstance(data, str):
                    data = lines_of(data).encode(errors="replace")
                document = document_of(name, data, progress("counting"))
            assert document is not None
            lanes, failed = [], []
            for choice in choices:
                try:
                    lanes.append(self.lane(choice, document, special, progress(f"encoding, {choice.title}")))
                except LabError as error:
                    failed.append((choice, str(error)))
            self.app.call_later(self.take, generation, document, [c for c in choices if c not in dict(failed)], lanes)
            for choice, sentence in failed:
                self.app.call_later(self.refused, choice, sentence)
        except Stopped:
            pass
        except LabError as error:
            if generation == self.generation:
                self.source = None
            if not worker.is_cancelled:
                self.app.call_later(self.tell, str(error), "error")
        finally:
            self.encoding = False
            if not worker.is_cancelled:
                self.app.call_later(self.after_encoding, generation)

    def lane(self, choice: Choice, document: Document, special: bool, progress: Any) -> Lane:
        """The tokens of one tokenizer, if nothing about them is known yet."""
        tokenizer = self.trained if choice.kind == "trained" else self.tokenizers.get(choice)
        if tokenizer is None:
            progress(0, 1)
            tokenizer = self.tokenizers[choice] = tokenizer_of(choice, self.corpus, self.trained)
        special = special and bool(specials_of(tokenizer))
        known = self.made.get(choice)
        if known is not None and known[0] is document and known[1] is tokenizer and known[2] == special:
            return known[3]
        name = f"trained {count(tokenizer.vocabulary)}" if choice.kind == "trained" else choice.title
        self.reads += 1
        lane = lane_of(name, tokenizer, document, special, progress)
        self.made[choice] = (document, tokenizer, special, lane)
        return lane

    def corpus(self) -> str:
        """The text that characters and words are those of. Called in a worker."""
        raise NotImplementedError

    # Back on the event loop.

    def take(self, generation: int, document: Document, choices: list[Choice], lanes: list[Lane]) -> None:
        if generation != self.generation or not self.is_attached:
            return
        fresh = document is not self.document
        editing = self.query_one("#view", TokensView).editing
        self.document, self.lanes, self.shown, self.choices = document, lanes, choices, list(choices)
        self.source = None
        self.made = {choice: made for choice, made in self.made.items() if choice in choices}
        self.query_one("#view", TokensView).show(document, lanes, home=fresh and not editing)
        self.show_words()

    def after_encoding(self, generation: int) -> None:
        if generation != self.generation:
            self.begin()
        self.show_header()
        self.refresh_bindings()

    def refused(self, choice: Choice, sentence: str) -> None:
        """A tokenizer that cannot be used is said and left out."""
        self.tokenizers.pop(choice, None)
        self.choices = [each for each in self.choices if each != choice]
        self.tell(sentence, "error")

    def show_header(self) -> None:
        raise NotImplementedError

    def show_words(self) -> None:
        raise NotImplementedError

    @property
    def looked_at(self) -> str:
        """text, training or languages."""
        return next((name for name in ("training", "languages") if self.has_class(f"-{name}")), "text")

    # Typing and pasting.

    @on(TokensView.Edited)
    def edited(self, event: TokensView.Edited) -> None:
        event.stop()
        self.look_at_text("your text", self.query_one("#view", TokensView).text)

    @on(TokensView.Pasted)
    def pasted(self, event: TokensView.Pasted) -> None:
        event.stop()
        self.take_paste(event.text)

    def on_paste(self, event: events.Paste) -> None:
        """A paste while something else has the focus."""
        if self.looked_at == "text":
            self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """A paste is the new text; one that can be edited goes in at the caret instead (see TokensView)."""
        self.query_one("#view", TokensView).edit(False)
        self.look_at_text("pasted", text)

    def action_edit(self) -> None:
        view = self.query_one("#view", TokensView)
        if not view.edit(not view.editing):
            self.tell(f"a text of more than {EDITABLE // 1000} kB can be looked at, not edited; n begins a new one")
        view.focus()
        self.show_header()
        self.refresh_bindings()

    def action_new(self) -> None:
        """An empty text, to be written."""
        view = self.query_one("#view", TokensView)
        view.text, view.undone = b"", []
        view.caret = 0
        view.focus()
        self.refresh_bindings()
        self.look_at_text("your text", b"")

    # Choosing tokenizers.

    def toggle(self, choice: Choice) -> None:
        """Put a tokenizer beside the others, or take it away; there is always one, and never more than four."""
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
        """Choose a tokenizer; choosing one that is there takes it away."""

        def find() -> None:
            from txlab.experiments.tokenizer_store import saved_tokenizers

            names = saved_tokenizers()
            self.app.call_later(self.ask_which, names)

        self.run_worker(find, thread=True, group="shelf", exit_on_error=False)

    def ask_which(self, saved: list[str]) -> None:
        from txlab.tui.screens.dialogs import AskValue, Choose

        known = {
            "trained here": (Choice("trained"), "the byte pair encoding on the bench (t)"),
            "bytes": (Choice("bytes"), "256 tokens, nothing learnt"),
            "characters": (Choice("characters"), "those of the text that is trained on"),
            "words": (Choice("words"), "those of the text that is trained on"),
            **{name: (Choice("saved", name), "saved") for name in saved if name not in ("trained here", "a file…")},
        }
        known |= {each.name: (each, "file") for each in self.choices if each.kind == "file"}
        rows = [(name, about, choice in self.choices) for name, (choice, about) in known.items()]
        other = "a file of others…"

        def chosen(name: str | None) -> None:
            if name == other:
                about = "tokenizer.json, *.tiktoken, a folder with vocab.json and merges.txt, or a file of ours"
                self.app.push_screen(AskValue("Which tokenizer?", about), self.file_chosen)
            elif name in known:
                self.toggle(known[name][0])

        self.app.push_screen(Choose("Beside each other, up to four", [*rows, (other, "a path", False)]), chosen)

    def file_chosen(self, path: str | None) -> None:
        if path and path.strip():
            self.toggle(Choice("file", path.strip()))
