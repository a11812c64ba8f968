"""The guessing game: the user guesses a text unknown to both, character by character, against the model.

Notable: every typed character is a guess, so letters are not keys here, and a new line is guessed with enter. The model
reads the whole text before the game, without the edits that name positions, which belong to the text on the screen
behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.formatting import count, number
from txlab.drawing.text import fit, label, visible, visible_lines
from txlab.engine.guessing import GUESSES, GuessingGame, Stretch, stretches, why_guessing
from txlab.errors import LabError
from txlab.tui.latest_task import LatestTask
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.terminal import is_ascii
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from torch import Tensor

MOST_TOKENS = 400  # of a passage
MOST_GIVEN = 64  # tokens shown at the beginning; at most a third of the passage
OF_POSITIONS = ("edge", "patch")  # kinds of edits that name positions of a text


@dataclass
class Passage:
    """A text to guess, and the model's prediction at each position.

    given    its beginning, which is shown; the parts to guess follow it
    ids      its tokens
    logp     (T, V), ln p of the token after each position, float64
    """

    live: LiveAttention
    what: str
    given: str
    ids: tuple[int, ...]
    logp: Tensor
    game: GuessingGame

    def predictions_at(self, stretch: Stretch, most: int) -> tuple[list[tuple[str, float]], int, int]:
        """Return the model's prediction at the beginning of a part, a limited number of (token, p), likeliest first and
        including the true one; the index of the true one; and its rank, 1 = the likeliest."""
        row, true = self.logp[stretch.first - 1], self.ids[stretch.first]
        rank = int((row > row[true]).sum()) + 1
        shown = row.topk(min(most, len(row))).indices.tolist()
        if true not in shown:
            shown[-1] = true
        labels = self.live.opened.target_labels(shown)
        return list(zip(labels, row[shown].exp().tolist(), strict=True)), shown.index(true), rank


def check_continues(live: LiveAttention) -> None:
    """Raise LabError for a model that does not continue texts."""
    live.writes()
    if live.opened.kind != "gpt":
        raise LabError(f"{live.opened.name} translates a text; the game is for models that continue one")


def find_passage(live: LiveAttention, which: int) -> Passage:
    """Choose a passage of a text that is new to the model, and let the model read it; called in a thread.

    `which` is the seed of the choice. LabError if there is no text to guess.
    """
    from txlab.engine.interpret.interventions import from_json, intervening
    from txlab.engine.interpret.sites import Text, run
    from txlab.engine.tokenizers.tokenizer import first_digit, parts
    from txlab.runs.models import held_out_text

    opened = live.opened
    whole, what = held_out_text(opened)
    most = min(MOST_TOKENS, opened.context or MOST_TOKENS) + 1  # the last one is not read, only guessed
    ids = opened.ids(beginning_with_a_line(whole, 4 * most, np.random.default_rng(which)))[:most]
    pieces = list(parts(ids, opened.tokenizer.token_bytes, first_digit(opened.tokenizer)))
    pieces = [b"" if token in opened.special.names else piece for token, piece in zip(ids, pieces, strict=True)]
    passages = stretches(b"".join(pieces).decode(errors="ignore"), [len(piece) for piece in pieces])
    given = max(1, min(MOST_GIVEN, len(ids) // 3))
    ahead = [one for one in passages if one.first >= given]
    if not ahead:
        raise LabError(f"{what} is too short to guess it")
    edits = tuple(from_json(edit) for edit in live.edits if edit["kind"] not in OF_POSITIONS)
    read = Text(ids[:-1])
    with live.lock, intervening(opened.model, read, edits) as hooks:
        logp = run(opened.model, read, hooks).double().log_softmax(-1).cpu()
    bits = [-sum(float(logp[at - 1, ids[at]]) for at in range(one.first, one.end)) / log(2) for one in ahead]
    given_text = "".join(one.text for one in passages[: len(passages) - len(ahead)])
    return Passage(live, what, given_text, ids, logp, GuessingGame(ahead, bits))


def beginning_with_a_line(text: str, length: int, random: np.random.Generator) -> str:
    """Return about `length` characters from a place chosen at random, from the next beginning of a line or a word on.

    >>> beginning_with_a_line("one two", 100, np.random.default_rng(0))
    'one two'
    """
    if len(text) <= length:
        return text
    start = int(random.integers(0, len(text) - length))
    for sign in "\n ":
        at = text.find(sign, start, start + length // 2)
        if at >= 0:
            start = at + 1
            break
    return text[start : start + length]


class GuessingDialog(Dialog[str]):
    """Answers with the result in a sentence, or None if nothing was guessed."""

    CSS_PATH = ["../dialogs.tcss", "continuations.tcss"]
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", id="guessing.leave"),
        Binding("f1,ctrl+w", "why", "why", id="guessing.why"),
    ]

    def __init__(self, live: LiveAttention, which: int = 0) -> None:
        super().__init__()
        self.live, self.which = live, which
        self.passage: Passage | None = None
        self.finding = LatestTask(self, "passage", self.show_failure)
        self.wrong = ""
        self.result: str | None = None
        self.said, self.bars = Page(id="said"), Bars(id="expected")
        self.bars.can_focus = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog continuations"):
            yield Words("Guess what comes next", classes="dialog-title")
            yield Words("", id="what")
            yield self.said
            yield Words("", id="tried")
            yield Words("", id="score")
            yield self.bars
            hints = (
                ("any key", "guess"),
                ("enter", "new line"),
                ("tab", "show it"),
                ("F1", "why"),
                ("esc", "leave"),
            )
            yield Words(key_hints(*hints), classes="dialog-keys")

    def on_mount(self) -> None:
        self.begin_passage()

    def begin_passage(self) -> None:
        """Find a passage and begin to guess it."""
        self.passage, self.wrong = None, ""
        self.say()
        which = self.which
        self.finding.want(lambda _: find_passage(self.live, which), self.begin_game, holds_keys=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self.say)

    def begin_game(self, passage: Passage) -> None:
        self.passage = passage
        self.say()

    def show_failure(self, sentence: str) -> None:
        self.wrong = sentence
        self.say()

    # Drawing.

    def say(self) -> None:
        if not self.is_attached:
            return
        passage, ascii = self.passage, is_ascii(self)
        if passage is None:
            self.said.say(Content.styled(visible(self.wrong, ascii), "$error") if self.wrong else "the model reads…")
            return
        game = passage.game
        what = visible(f"{self.live.name} against you, {passage.what}", ascii)
        what = fit(what, max(1, self.bars.size.width), ellipsis="~" if ascii else "…")
        self.query_one("#what", Words).say(Content.styled(what, "$quiet"))
        cursor = "" if game.over else "_" if ascii else "█"
        given, guessed = ("\n".join(visible_lines(text, ascii)) for text in (passage.given, game.text))
        self.said.say(
            Content.assemble(Content.styled(given, "$quiet"), guessed, Content.styled(cursor, "$accent")), home=True
        )
        self.said.scroll_lines(1_000_000)
        self.query_one("#tried", Words).say(self.wrong_guesses(game, ascii))
        self.query_one("#score", Words).say(self.score(game, ascii))
        self.say_expected(passage, ascii)

    def wrong_guesses(self, game: GuessingGame, ascii: bool) -> Content:
        """The wrong guesses of the present character, or that the passage is over."""
        if game.over:
            return Content.styled("The passage is over; enter begins another one.", "bold $accent")
        if not game.tried:
            return Content.styled(f"which character comes next? {GUESSES} guesses", "$quiet")
        tried = " ".join(label(each, ascii) for each in game.tried)
        left = GUESSES - len(game.tried)
        return Content.styled(f"not {tried}", "bold $error") + Content.styled(f"   {left} more", "$quiet")

    def score(self, game: GuessingGame, ascii: bool) -> Content:
        """`12 bytes     you 2.31   model 1.92   bits/byte`, and the same of the last character or token in bits."""
        if not game.done:
            return Content.styled("bits for each byte: you and the model, on the same bytes\n", "$quiet")
        text, mine, its = game.last
        ranks = [game.ranks.count(one) for one in (*range(1, GUESSES + 1), 0)]
        counts = ", ".join(f"{many} at guess {at}" for at, many in enumerate(ranks[:-1], 1) if many)
        lines = [
            (f"last: {label(text, ascii)}", mine, its, "bits"),
            (f"{count(game.size)} byte{'s' * (game.size > 1)}", game.person, game.model, "bits/byte"),
        ]
        parts: list[Content] = []
        for name, you, model, unit in lines:
            parts += [
                Content.styled(fit(name, 14, ellipsis="~" if ascii else "…"), "$quiet"),
                Content("you "),
                Content.styled(fit(number(you, 3), 6, "right"), "bold"),
                Content("   model "),
                Content.styled(fit(number(model, 3), 6, "right"), "bold"),
                Content.styled(f"   {unit}\n", "$quiet"),
            ]
        missed = f"{ranks[-1]} not guessed" if ranks[-1] else ""
        return Content.assemble(*parts, Content.styled(", ".join(filter(None, (counts, missed))), "$quiet"))

    def say_expected(self, passage: Passage, ascii: bool) -> None:
        """Show the model's prediction at the beginning of the last part, which the user knows by now."""
        game = passage.game
        if not game.done:
            self.bars.set_bars("the model's predictions appear here afterwards", [])
            return
        stretch = game.ahead[game.done - 1]
        bars, true, rank = passage.predictions_at(stretch, max(1, self.bars.size.height - 1))
        before = passage.live.token(passage.ids[stretch.first - 1])
        title = f"the model, after {label(before, ascii)}: {label(bars[true][0], ascii)} had rank {count(rank)}"
        self.bars.set_bars(title, bars, marked=true)

    # Typing.

    def on_key(self, event: events.Key) -> None:
        """Take a character as a guess. All keys of a guess are handled here, so that none overtakes another."""
        sign = {"enter": "\n", "tab": "\t"}.get(event.key, event.character if event.is_printable else None)
        if sign is None:
            return
        event.stop()
        event.prevent_default()
        if self.passage is None:
            return
        game = self.passage.game
        if game.over:
            if event.key == "enter":
                self.which += 1
                self.begin_passage()
            return
        if event.key == "tab":
            game.give_up()
        else:
            game.guess(sign)
        if game.size:
            self.result = result(game)
        self.say()

    def action_why(self) -> None:
        """Explain the bits of the user and of the model."""
        if self.passage is not None and self.passage.game.ranks:
            explanation = why_guessing(self.passage.game)
            ask_why(self.app, lambda: explanation)

    def action_leave(self) -> None:
        self.dismiss(self.result)


def result(game: GuessingGame) -> str:
    """Return the result of a game in a line."""
    size = f"{count(game.size)} byte{'s' * (game.size > 1)}"
    return f"{size} guessed: you {number(game.person, 3)}, the model {number(game.model, 3)} bits per byte"
