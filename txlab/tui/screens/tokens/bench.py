"""The training view of the Tokens screen: commands to the trainer, the worker that does them, and what is seen of it.

Notable: commands wait in a row and one worker does them in their order, so that keys that come quickly are counted and
not lost. A running training shows itself as often as the screen may change, however many merges that was.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from textual.worker import get_current_worker

from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.errors import LabError
from txlab.tui.screens.tokens.encoding import Stopped, document_of, lane_of
from txlab.tui.screens.tokens.jobs import EncodingScreen
from txlab.tui.screens.tokens.layout import Document, Lane
from txlab.tui.screens.tokens.training import PACES, Bench, Look, Recipe, Size, curve_points
from txlab.tui.screens.tokens.view import TokensView
from txlab.tui.screens.tokens.words import merge_table, pair_table, size_table, training_header
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.table import Table

PREVIEW = 1500  # bytes of the text on the screen that are shown as the merges have it
THIS_TEXT = ""


class TrainingScreen(EncodingScreen):
    """A screen that also has the widgets of the training view: #pairs, #made, #sizes, #length, #found, #preview."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.look: Look | None = None
        self.sizes: list[Size] = []
        self.todo: deque[tuple[Any, ...]] = deque()
        self.learning = False
        self.running = False
        self.stop_learning = False
        self.pace = 10.0
        self.doing = ""
        self.counting: tuple[int, int] = (0, 0)

    # Commands.

    def train(self, *command: Any) -> None:
        """Put a command in the row: ("prepare", recipe), ("step", n), ("back", n), ("run", pace), sizes, look."""
        self.running = False
        self.todo.append(command)
        self.begin_learning()

    def begin_learning(self) -> None:
        if not self.learning and self.todo and self.is_attached:
            self.learning = True
            self.stop_learning = False
            self.run_worker(self.learn, thread=True, group="training", exit_on_error=False)

    def learn(self) -> None:
        """In a worker: what is in the row, until it is empty."""
        worker = get_current_worker()

        def progress(done: int, total: int) -> None:
            if worker.is_cancelled or self.stop_learning:
                raise Stopped
            self.counting = (done, total)

        try:
            while self.todo and not worker.is_cancelled:
                name, *arguments = self.todo.popleft()
                try:
                    self.command(name, arguments, progress, lambda: not worker.is_cancelled)
                except Stopped:
                    self.todo.clear()
                except LabError as error:
                    if not worker.is_cancelled:
                        self.app.call_later(self.tell, str(error), "error")
        finally:
            self.learning, self.doing, self.counting = False, "", (0, 0)
            if not worker.is_cancelled:
                self.app.call_later(self.after_learning)

    def command(self, name: str, arguments: list[Any], progress: Any, alive: Callable[[], bool]) -> None:
        if name == "prepare":
            recipe: Recipe = arguments[0]
            self.doing = "counting pairs"
            if recipe.text == THIS_TEXT:
                data = self.document.data if self.document is not None else b""
                text = data.decode(errors="replace")
            else:
                from txlab.experiments.corpora import load_corpus

                text = load_corpus(recipe.text).text
            self.bench.prepare(recipe, text, progress)
            self.sizes = []
            for choice in [choice for choice in self.tokenizers if choice.kind in ("characters", "words")]:
                self.tokenizers.pop(choice, None)
        elif name == "step":
            self.bench.step(arguments[0])
        elif name == "back":
            self.bench.back(arguments[0])
        elif name == "aim":
            self.bench.aim(arguments[0])
        elif name == "sizes":
            self.doing = "comparing vocabularies"
            data = self.document.data if self.document is not None else b""
            found = self.bench.sizes(data.decode(errors="replace"), progress)
            self.app.call_later(self.take_sizes, found)
        elif name == "run":
            self.doing, self.running = "learning", True
            shown = time.monotonic()
            every = 1 / float(getattr(self.app, "refresh_rate", 4.0))
            for _ in self.bench.advance(lambda: alive() and self.running and not self.stop_learning, arguments[0]):
                if time.monotonic() - shown >= every:
                    shown = time.monotonic()
                    self.announce(progress)
            self.running = False
        self.announce(progress)

    def announce(self, progress: Any) -> None:
        """In the worker: what the training looks like now, and the text as its tokens."""
        look = self.bench.look()
        if look is None:
            return
        tokenizer = self.bench.tokenizer()
        document, lane = None, None
        if self.document is not None:
            data = self.document.data[:PREVIEW].decode(errors="ignore").encode()
            document = document_of(self.document.name, data, lambda done, total: None)
            lane = lane_of("trained", tokenizer, document, False, lambda done, total: None)
        self.app.call_later(self.take_look, look, tokenizer, document, lane)

    def take_look(self, look: Look, tokenizer: Any, document: Document | None, lane: Lane | None) -> None:
        if not self.is_attached:
            return
        first = self.trained is None
        self.look, self.trained = look, tokenizer
        if document is not None and lane is not None:
            self.query_one("#preview", TokensView).show(document, [lane], home=False)
        self.show_training()
        if first and not self.running:
            self.wish()

    def after_learning(self) -> None:
        if self.todo:
            self.begin_learning()
        elif not self.has_class("-training"):
            self.wish()  # the lane that is trained here has other tokens now
        self.show_header()
        self.refresh_bindings()

    def take_sizes(self, sizes: list[Size]) -> None:
        self.sizes = sizes
        self.show_training()

    # What is seen.

    def training_words(self) -> Any:
        doing = self.doing
        if doing and self.counting[1]:
            doing = f"{doing} {self.counting[0] / self.counting[1]:.0%}"
        return training_header(self.look, doing, self.pace, self.ascii)

    def show_training(self) -> None:
        look = self.look
        if look is None or not self.has_class("-training"):
            return
        self.show_header()
        ascii = self.ascii
        columns, rows = pair_table(look.runners_up, ascii)
        self.query_one("#pairs", Table).set_table(columns, rows, marked=[0] if rows else [])
        columns, rows = merge_table(look.newest, look.merges, ascii)
        self.query_one("#made", Table).set_table(columns, rows)
        columns, rows = size_table(self.sizes, ascii)
        self.query_one("#sizes", Table).set_table(columns, rows, marked=[len(rows) - 1] if rows else [])
        self.set_class(bool(self.sizes), "-sizes")
        steps = curve_points(look.lengths)
        self.query_one("#length", Chart).set_series(
            [ChartSeries("tokens of the text", steps, look.lengths)], "tokens after so many merges"
        )
        vocabulary = steps + look.vocabulary - look.merges
        found = [ChartSeries("times the pair was found", steps[1:], look.counts)] if len(look.counts) else []
        self.query_one("#found", Chart).set_series(
            [*found, ChartSeries("vocabulary", steps, vocabulary, 1, "dashed")], "count, log"
        )

    # Keys.

    def action_run(self) -> None:
        """Run, or pause what runs."""
        if self.learning and (self.running or self.doing == "learning"):
            self.running = False
        elif self.look is not None and self.look.done:
            self.tell(f"the vocabulary of {self.look.recipe.target} is full: z aims higher, comma takes merges back")
        else:
            self.train("run", self.pace)

    def action_learn(self, merges: int) -> None:
        self.train("step" if merges > 0 else "back", abs(merges))

    def action_first(self) -> None:
        """Before the first merge."""
        if self.look is not None:
            self.train("back", self.look.merges)

    def action_last(self) -> None:
        """As fast as it goes to the vocabulary that is aimed for."""
        self.train("run", 0.0)

    def action_pace(self, by: int) -> None:
        at = PACES.index(self.pace) + by
        self.pace = PACES[max(0, min(at, len(PACES) - 1))]
        if self.running:
            self.train("run", self.pace)
        self.show_header()

    def action_sizes(self) -> None:
        if self.sizes:
            self.sizes = []
            self.set_class(False, "-sizes")
            self.show_training()
        else:
            self.train("sizes")

    def action_aim(self) -> None:
        """The vocabulary that a run stops at."""
        from txlab.tui.screens.dialogs import AskValue

        def check(text: str) -> str:
            target = whole_number(text)
            return f"a run goes on until there are {target} tokens"

        def aim(text: str | None) -> None:
            if text:
                self.train("aim", whole_number(text))

        about = "The number of tokens that a run stops at, the 256 bytes included"
        self.app.push_screen(AskValue("Vocabulary", about, str(self.bench.recipe.target), check), aim)

    def action_pattern(self) -> None:
        """The pattern that cuts the text into chunks; no merge crosses a cut."""
        from txlab.tui.screens.dialogs import Choose

        about = {
            "gpt2": "GPT-2's",
            "gpt4": "GPT-4's of 2023",
            "cl100k": "GPT-4's today",
            "none": "merges may cross words",
        }
        now = self.bench.recipe.pattern
        rows = [(name, about.get(name, ""), name == now) for name in PATTERNS]

        def choose(name: str | None) -> None:
            if name in PATTERNS:
                self.train("prepare", replace(self.bench.recipe, pattern=name))

        self.app.push_screen(Choose("Which pattern cuts the text?", rows), choose)

    def learn_from(self, text: str) -> None:
        self.train("prepare", replace(self.bench.recipe, text=text))

    def action_keep(self) -> None:
        """Save what has been learnt under a name that a scenario may say."""
        from txlab.experiments.tokenizer_store import place_for
        from txlab.tui.screens.dialogs import AskValue, Confirm

        if self.look is None:
            return
        tokenizer = self.bench.tokenizer()

        def check(name: str) -> str:
            where = place_for(name.strip(), overwrite=True)
            return f"{where} is there already and would be replaced" if where.exists() else f"written to {where}"

        def save(name: str, overwrite: bool) -> None:
            def write() -> None:
                from txlab.experiments.tokenizer_store import save_named

                save_named(tokenizer, name, overwrite)
                self.app.call_later(
                    self.tell, f"saved: txlab run gpt-docs --set data.tokenizer={name}   (c puts it beside others)"
                )

            self.run_worker(write, thread=True, group="keep", exit_on_error=False)

        def named(name: str | None) -> None:
            if not name:
                return
            name = name.strip()
            if place_for(name, overwrite=True).exists():
                question = Confirm(
                    f"Replace the tokenizer {name}?",
                    "A run that was made with it cannot be resumed then.",
                    "replace",
                )
                self.app.push_screen(question, lambda sure: save(name, True) if sure else None)
            else:
                save(name, False)

        start = f"bpe-{self.look.vocabulary}"
        self.app.push_screen(
            AskValue("Save this tokenizer as", "A name that data.tokenizer may say", start, check), named
        )


def whole_number(text: str) -> int:
    """A vocabulary that can be aimed for; LabError says what would be one."""
    try:
        number = int(text.replace(" ", ""))
    except ValueError:
        number = 0
    if not 257 <= number <= 200_000:
        raise LabError(f"{text.strip()!r} is no vocabulary; allowed: 257 … 200000")
    return number
