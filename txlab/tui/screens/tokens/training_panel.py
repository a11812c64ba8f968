"""Byte pair encoding trained step by step: the next merge, those made, the curves, and the text as encoded so far.

A session steps a `TokenizerTraining`; a thread turns each of its frames into a tokenizer, which gives the tables and
the first lines of the text on the screen.

Notable: a vocabulary of k tokens is the first merges of any larger one, so comparing sizes needs no further
training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf
from pathlib import Path
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message

from txlab.drawing.captions import language as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.engine.tokenizers.trees import explain_token
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.experiments.tokenizer_store import place_for, save_named
from txlab.experiments.tokenizer_training import TokenizerTraining, TrainingRecipe, tokenizer_of_frame
from txlab.sources.live import PACES, Picture, next_pace
from txlab.tui.bindings import bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.dialogs import AskValue, Choose, Confirm
from txlab.tui.screens.plain_text import fitting
from txlab.tui.screens.tokens.detail_panel import ratio
from txlab.tui.screens.tokens.encoded_text import TextDocument, TokenLane, index, lane_of
from txlab.tui.screens.tokens.languages_panel import bar_of_lines
from txlab.tui.screens.tokens.text_panel import there
from txlab.tui.screens.tokens.token_layout import show_bytes
from txlab.tui.screens.tokens.token_view import TokensView
from txlab.tui.session import Session
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.table import Column, Table
from txlab.tui.widgets.terminal import is_ascii

PREVIEW = 1500  # bytes of the text on the screen to show as encoded so far
NEWEST = 200  # merges in the table of those made
THIS_TEXT = ""
SOURCES = {
    "python-docs": "the documentation of Python, 0.4 MB",
    "python-source": "its library, above 10 MB",
    "the text on the screen": "",
    "a file or folder…": "",
}
PATTERN_NOTES = {
    "gpt2": "GPT-2's",
    "gpt4": "GPT-4's of 2023",
    "cl100k": "GPT-4's today",
    "none": "merges may cross words",
}


@dataclass(frozen=True)
class TrainingState:
    """A frame of the training, the encoding trained so far, and the beginning of the text encoded by it."""

    experiment: TokenizerTraining
    frame: Frame
    tokenizer: BytePairTokenizer
    preview: tuple[TextDocument, TokenLane] | None

    @property
    def merges(self) -> int:
        return self.frame.step

    @property
    def size(self) -> int:
        """Size of the training text in bytes."""
        return int(self.frame.facts["bytes"])

    @property
    def lengths(self) -> np.ndarray:
        return np.asarray(self.frame.tensors["lengths"])

    @property
    def candidates(self) -> list[tuple[int, int, int]]:
        """(left, right, count) of the pairs that could be merged now, the next merge first."""
        return [(left, right, times) for left, right, times in np.asarray(self.frame.tensors["next"]).tolist()]

    @property
    def done(self) -> bool:
        full = self.tokenizer.vocabulary >= self.frame.facts["vocabulary"]
        return full or not self.candidates or self.candidates[0][2] < 2

    def pair(self, left: int, right: int, ascii: bool = False) -> tuple[str, str]:
        """Return a pair, and the token it becomes."""
        first, second = self.tokenizer.token_bytes(left), self.tokenizer.token_bytes(right)
        return f"{show_bytes(first, ascii)} + {show_bytes(second, ascii)}", show_bytes(first + second, ascii)

    def sentence(self, ascii: bool) -> Sentence:
        """Return the caption of the training."""
        left, right, times = self.candidates[0] if self.candidates else (0, 0, 0)
        pair, becomes = self.pair(left, right, ascii) if self.candidates and not self.done else ("", "")
        return captions.merging(self.merges, self.lengths, self.size, pair, becomes, times)


@dataclass(frozen=True)
class VocabularySize:
    """One of several vocabularies: its encodings of the training text and of the text on the screen."""

    vocabulary: int
    corpus_tokens: int
    text_tokens: int
    longest: bytes


class TrainingPanel(Panel):
    """Its keys make and undo merges; it posts `Learned` whenever the encoding changes."""

    KEYS: ClassVar = (
        bind("space", "run", "let the training run, or pause it", "run", id="tokens.run"),
        bind("full_stop", "learn(1)", "learn one merge", "merge", id="tokens.step"),
        bind("comma", "learn(-1)", "forget the last merge", "back", id="tokens.back"),
        bind("z", "aim", "set the size of the vocabulary", "vocabulary", id="tokens.vocabulary"),
        bind("m", "sizes", "compare sizes of vocabularies", "sizes", id="tokens.sizes"),
        bind("k", "keep", "save the tokenizer under a name", "save", id="tokens.keep"),
        bind("p", "pattern", "choose how text is split before merging", "pattern", id="tokens.pattern"),
        bind("minus", "pace(-1)", "go slower or faster", "pace", id="tokens.slower", key_display="- +"),
        bind("plus,equals_sign", "pace(1)", "go faster", id="tokens.faster", key_display="+"),
        bind(
            "left_curly_bracket",
            "first",
            "go to the first merge, or the last",
            "first",
            id="tokens.first",
            key_display="{ }",
        ),
        bind("right_curly_bracket", "last", "learn all merges", id="tokens.last", synonyms="end"),
    )

    class Learned(Message):
        """`state` or the present activity has changed."""

    def __init__(self, rate: Callable[[], float]) -> None:
        super().__init__()
        self.rate = rate
        self.session: Session[TokenizerTraining] = Session(self, self.take_picture, self.show_failure, record=False)
        self.deriving = LatestTask(self, "training", self.show_failure)
        self.comparing = LatestTask(self, "sizes", self.show_failure)
        self.active = False
        self.recipe = TrainingRecipe()
        self.state: TrainingState | None = None
        self.document: TextDocument | None = None  # the text on the screen
        self.sizes: list[VocabularySize] = []
        self.pace = 15.0  # merges a second
        self.counting: tuple[int, int] | None = None  # (characters counted, total)
        self.cancelled = False

    def compose(self) -> ComposeResult:
        with Horizontal(id="training"):
            with Vertical(id="tables"):
                yield Table(id="pairs", waiting="counting pairs…")
                yield Rule(id="made-rule")
                yield Table(id="made")
            with Vertical(id="curves"):
                for name in ("length", "found"):
                    chart = Chart(id=name)
                    chart.can_focus = False
                    yield chart
                yield Table(id="sizes")
        yield Rule(id="preview-rule")
        preview = TokensView(id="preview")
        preview.can_focus = False
        yield preview

    def on_mount(self) -> None:
        self.session.pictures = self.rate()
        self.query_one("#found", Chart).log_y = True
        self.begin(self.recipe)
        self.session.run()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.active

    def word_for(self, binding: Binding) -> str:
        return "pause" if binding.id == "tokens.run" and self.session.running else binding.description

    # The training.

    @property
    def learning(self) -> bool:
        """Whether there is work that can be cancelled."""
        return self.counting is not None or self.session.running or not self.comparing.idle

    @property
    def quiet(self) -> bool:
        """Whether nothing is being done and the screen is up to date."""
        return not self.learning and self.session.idle and self.deriving.idle

    def begin(self, recipe: TrainingRecipe) -> None:
        """Start before the first merge of another text, or of the same one cut by another pattern."""
        shown = b"" if self.document is None else self.document.data
        self.session.pause()
        self.recipe, self.cancelled, self.counting = recipe, False, (0, 0)

        def progress(done: int, total: int) -> None:
            if self.cancelled:
                raise LabError("cancelled; what was learnt before stays")
            self.counting = (done, total)

        def make(before: TokenizerTraining | None) -> TokenizerTraining:
            from txlab.experiments.corpora import load_corpus

            try:
                text = shown.decode(errors="replace") if recipe.corpus == THIS_TEXT else load_corpus(recipe.corpus).text
                return TokenizerTraining(recipe, text, progress)
            except LabError:
                if before is not None:
                    self.recipe = before.recipe
                raise
            finally:
                self.counting = None

        self.session.begin(make)

    def cancel(self) -> None:
        self.cancelled = True
        self.session.pause()
        self.comparing.forget()

    def show_failure(self, sentence: str) -> None:
        self.tell(sentence, "error")
        self.post_message(self.Learned())

    def take_picture(self, picture: Picture[TokenizerTraining]) -> None:
        """Build the tokenizer of a picture; while merges continue, only as often as the thread keeps up."""
        before, document = self.state, self.document
        same = before is not None and (before.experiment, before.merges) == (picture.experiment, picture.frame.step)
        if self.deriving.idle or not picture.running:
            work = partial(derive_state, picture, document, before if same else None)
            self.deriving.want(lambda task: work(), self.take_state, holds_keys=before is None)

    def take_state(self, state: TrainingState) -> None:
        if self.state is not None and state.experiment is not self.state.experiment:
            self.sizes = []
        self.state = state
        self.draw()
        self.post_message(self.Learned())

    # Drawing.

    def enter(self, document: TextDocument | None) -> None:
        """Show the training, with this text as its preview."""
        self.active = True
        self.show_text(document)
        self.draw()

    def show_text(self, document: TextDocument | None) -> None:
        """Take another text as preview; the counts of the previous one are dropped."""
        if document is not self.document:
            self.document, self.sizes = document, []
            self.comparing.forget()
        self.session.look()

    def leave(self) -> None:
        self.active = False
        if self.session.running:
            self.session.pause()

    def header(self, ascii: bool, cells: int) -> Content:
        """`python-docs   vocabulary 312 of 1 024   learning   98 765 tokens, 4.71 bytes/token   pattern gpt4`."""
        state = self.state
        doing = "learning" if self.session.running else "" if self.comparing.idle else "comparing vocabularies"
        if self.counting is not None:
            doing = "counting pairs" + (f" {self.counting[0] / self.counting[1]:.0%}" if self.counting[1] else "")
        if state is None:
            return Content.styled(doing or "nothing to learn from yet: press o", "$quiet")
        corpus, full, length = str(state.frame.facts["corpus"]), state.frame.facts["vocabulary"], int(state.lengths[-1])
        parts = [
            Content.styled(visible(Path(corpus).name, ascii) if corpus else "the text on the screen", "bold"),
            Content(f"   vocabulary {count(state.tokenizer.vocabulary)} of {count(full)}"),
            Content.styled(
                "   " + (doing or ("done" if state.done else "paused")), "bold $accent" if doing else "$quiet"
            ),
            Content(f"   {count(length)} tokens, {ratio(state.size / max(1, length))} bytes/token"),
            Content.styled(f"   pattern {visible(str(state.frame.facts['pattern']))}", "$quiet"),
            Content.styled(f"   {'full speed' if isinf(self.pace) else f'{self.pace:.0f} merges/s'}", "$quiet"),
        ]
        return fitting(parts, cells)

    def draw(self) -> None:
        state = self.state
        if state is None or not self.active:
            return
        ascii = is_ascii(self)
        if state.preview is not None:
            self.query_one("#preview", TokensView).show(state.preview[0], [state.preview[1]], home=False)
        rows = candidate_rows(state, ascii)
        columns = [Column("next merge", right=False), Column("becomes", right=False), Column("found")]
        columns.append(Column("", right=False, quiet=True))
        self.query_one("#pairs", Table).set_table(columns, rows, marked=[0] if rows else [])
        columns = [Column("merges so far", right=False), Column("becomes", right=False), Column("found")]
        columns += [Column("token"), Column("merge")]
        self.query_one("#made", Table).set_table(columns, merge_rows(state, ascii))
        self.draw_sizes(state, ascii)
        lengths, counts = state.lengths, np.asarray(state.frame.tensors["counts"])
        steps = np.arange(len(lengths), dtype=np.int64)
        self.query_one("#length", Chart).set_series(
            [ChartSeries("tokens of the text", steps, lengths)], "tokens after this many merges"
        )
        series = [ChartSeries("times the pair was found", steps[1:], counts)] if len(counts) else []
        vocabulary = steps + state.tokenizer.vocabulary - state.merges
        self.query_one("#found", Chart).set_series(
            [*series, ChartSeries("vocabulary", steps, vocabulary, 1, "dashed")], "count, log"
        )

    def draw_sizes(self, state: TrainingState, ascii: bool) -> None:
        """Show the vocabularies side by side."""
        columns = [Column("vocabulary"), Column("tokens"), Column("bytes/token"), Column("this text")]
        columns += [Column("bytes/token"), Column("longest token", right=False, quiet=True)]
        shown = 0 if self.document is None else len(self.document.data)
        rows = [
            [
                count(size.vocabulary),
                count(size.corpus_tokens),
                ratio(state.size / max(1, size.corpus_tokens)),
                count(size.text_tokens),
                ratio(shown / size.text_tokens) if size.text_tokens else "–",
                show_bytes(size.longest[:24], ascii),
            ]
            for size in self.sizes
        ]
        self.query_one("#sizes", Table).set_table(columns, rows, marked=[len(rows) - 1] if rows else [])
        self.screen.set_class(bool(rows), "-sizes")

    def why(self) -> Explanation | str:
        """Explain the token under the cursor by its merges, or the rank of a pair; LabError if there is neither."""
        state, made = self.state, self.query_one("#made", Table)
        if state is None or not state.candidates:
            raise LabError("there is no pair to ask about yet")
        if made.has_focus and state.merges:
            return explain_token(state.tokenizer, state.tokenizer.made[-1 - made.cursor])
        return why_next(state, min(self.query_one("#pairs", Table).cursor, len(state.candidates) - 1))

    # Keys.

    def action_run(self) -> None:
        """Run or pause."""
        if self.session.running:
            self.session.pause()
        elif self.state is not None and self.state.done:
            full = self.state.frame.facts["vocabulary"]
            self.tell(f"the vocabulary of {full} is full: z aims higher, comma takes merges back")
        else:
            self.session.pace = self.pace
            self.session.run()

    def action_learn(self, merges: int) -> None:
        if merges > 0:
            self.session.step(merges)
        else:
            self.session.running = False
            self.session.edit(lambda training: training.back(-merges))

    def action_first(self) -> None:
        """Undo all merges."""
        self.session.running = False
        self.session.edit(lambda training: training.back(training.step_count))

    def action_last(self) -> None:
        """Train at full speed up to the target vocabulary."""
        self.session.pace = inf
        self.session.run()

    def action_pace(self, by: int) -> None:
        self.session.pace = self.pace = next_pace(self.pace, by, PACES[1:])
        self.post_message(self.Learned())

    def action_sizes(self) -> None:
        """Compare vocabularies of 256, 512, 1024 … tokens up to the present one."""
        state, document = self.state, self.document
        if self.sizes or state is None:
            self.take_sizes([])
        else:
            text = "" if document is None else document.data.decode(errors="replace")
            self.comparing.want(lambda task: compare_sizes(state, text, lambda: task.late), self.take_sizes)

    def take_sizes(self, sizes: list[VocabularySize]) -> None:
        self.sizes = sizes
        self.draw()
        self.post_message(self.Learned())

    def action_aim(self) -> None:
        """Ask for the vocabulary at which a run stops."""

        def aim(text: str | None) -> None:
            if text:
                self.recipe = replace(self.recipe, vocabulary=whole_number(text))
                self.session.adjust("vocabulary", self.recipe.vocabulary)

        def check(text: str) -> str:
            return f"a run continues until there are {whole_number(text)} tokens"

        about = "The number of tokens that a run stops at, the 256 bytes included"
        self.app.push_screen(AskValue("Vocabulary", about, str(self.recipe.vocabulary), check), aim)

    def action_pattern(self) -> None:
        """Choose the pattern that cuts the text into chunks; no merge crosses a cut."""
        rows = [(name, PATTERN_NOTES.get(name, ""), name == self.recipe.pattern) for name in PATTERNS]

        def choose(name: str | None) -> None:
            if name in PATTERNS:
                self.begin(replace(self.recipe, pattern=name))

        self.app.push_screen(Choose("Which pattern cuts the text?", rows), choose)

    def ask_for_corpus(self) -> None:
        def learn(name: str | None) -> None:
            if name == "a file or folder…":
                about = "a UTF-8 file, or a folder of them"
                question = AskValue("Learn from which text?", about, check=there, path=True)
                self.app.push_screen(
                    question, lambda path: self.learn_from(path.strip()) if path and path.strip() else None
                )
            elif name:
                self.learn_from(THIS_TEXT if name == "the text on the screen" else name)

        rows = [(name, about, name == self.recipe.corpus) for name, about in SOURCES.items()]
        self.app.push_screen(Choose("Learn from which text?", rows), learn)

    def learn_from(self, corpus: str) -> None:
        self.begin(replace(self.recipe, corpus=corpus))

    def action_keep(self) -> None:
        """Save the tokenizer under a name that scenarios can use."""
        if self.state is None:
            return
        tokenizer = self.state.tokenizer

        def check(name: str) -> str:
            where = place_for(name.strip(), overwrite=True)
            return f"{where} is there already and would be replaced" if where.exists() else f"written to {where}"

        def save(name: str, overwrite: bool) -> None:
            def write() -> None:
                save_named(tokenizer, name, overwrite)
                message = f"saved: txlab run gpt-docs --set data.tokenizer={name}   (c compares it with others)"
                self.app.call_later(self.tell, message)

            run_in_thread(self.screen, write, "keep", keys=False)

        def take_name(name: str | None) -> None:
            if not name:
                return
            name = name.strip()
            if place_for(name, overwrite=True).exists():
                about = "A run that was made with it cannot be resumed then."
                question = Confirm(f"Replace the tokenizer {name}?", about, "replace")
                self.app.push_screen(question, lambda sure: save(name, True) if sure else None)
            else:
                save(name, False)

        start, about = f"bpe-{tokenizer.vocabulary}", "A name that data.tokenizer may say"
        self.app.push_screen(AskValue("Save this tokenizer as", about, start, check), take_name)


def derive_state(
    picture: Picture[TokenizerTraining], document: TextDocument | None, same: TrainingState | None
) -> TrainingState:
    """In a thread: return a frame's state: its encoding (that of `same`, if known) and the beginning of a text by
    it."""
    tokenizer = tokenizer_of_frame(picture.frame) if same is None else same.tokenizer
    preview = None
    if document is not None:
        beginning = index(document.data[:PREVIEW].decode(errors="ignore").encode(), document.name)
        preview = beginning, lane_of("trained", tokenizer, beginning, False, lambda done, total: None)
    return TrainingState(picture.experiment, picture.frame, tokenizer, preview)


def compare_sizes(state: TrainingState, text: str, late: Callable[[], bool]) -> list[VocabularySize]:
    """Compare the base vocabulary, the powers of two above it, and the one with all merges. For a worker thread."""
    whole, sizes = state.tokenizer, []
    base = whole.vocabulary - state.merges
    powers = (1 << power for power in range(whole.vocabulary.bit_length() + 1))
    for size in sorted({base, whole.vocabulary, *(size for size in powers if base < size < whole.vocabulary)}):
        if late():
            break
        tokenizer = BytePairTokenizer(whole.merges[: size - base], whole.pattern)
        longest = max(map(tokenizer.token_bytes, range(base, size)), key=len, default=b"")
        sizes.append(VocabularySize(size, int(state.lengths[size - base]), len(tokenizer.encode_long(text)), longest))
    return sizes


def candidate_rows(state: TrainingState, ascii: bool) -> list[list[str]]:
    """Return the pairs that could be merged now, in order of preference."""
    most = max((times for *_, times in state.candidates), default=1)
    return [
        [*state.pair(left, right, ascii), count(times), bar_of_lines(times / most, 10, ascii)]
        for left, right, times in state.candidates
    ]


def merge_rows(state: TrainingState, ascii: bool) -> list[list[str]]:
    """Return the merges made so far, newest first."""
    tokenizer = state.tokenizer
    return [
        [*state.pair(*tokenizer.merges[rank], ascii), *map(count, (tokenizer.counts[rank], tokenizer.made[rank], rank))]
        for rank in range(state.merges - 1, max(-1, state.merges - 1 - NEWEST), -1)
    ]


def why_next(state: TrainingState, at: int) -> str:
    """Explain in sentences why a pair has its rank among the candidates."""
    left, right, frequency = state.candidates[at]
    sentences = [f"{state.pair(left, right)[0]}, tokens {left} and {right}, are adjacent {count(frequency)} times."]
    if at == 0:
        rivals: Sequence[int] = [times for *_, times in state.candidates[1:2]]
        if rivals and rivals[0] == frequency:
            sentences.append("Another pair is as frequent; a tie goes to the lower pair of ids.")
        elif rivals:
            sentences.append(f"No pair is more frequent; the second one is found {count(rivals[0])} times.")
        sentences.append(f"So it is merged next and becomes token {state.tokenizer.vocabulary}.")
    else:
        sentences.append(f"{count(at)} pairs come before it. Merging one of them may take away some of its places.")
    sentences.append("The most frequent pair becomes a token, again and again, until the vocabulary is full: MATH K2.")
    return "\n".join(sentences)


def whole_number(text: str) -> int:
    """Parse a vocabulary size; LabError with the allowed range."""
    try:
        number = int(text.replace(" ", ""))
    except ValueError:
        number = 0
    if not 257 <= number <= 200_000:
        raise LabError(f"{text.strip()!r} is not a vocabulary size; allowed: 257 … 200000")
    return number
