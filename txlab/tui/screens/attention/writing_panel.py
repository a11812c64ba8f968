"""The model's continuation of the text: token by token, along a path of the tree, or in a game against the user.

Notable: every key waits until the model has handled the keys before it, so that they may come at any speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from txlab.errors import LabError
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.attention.continuation_tree import ContinuationTree
from txlab.tui.screens.attention.guessing_dialog import GuessingDialog, check_continues
from txlab.tui.screens.attention.model_panel import ModelPanel
from txlab.tui.screens.attention.side_panel import SidePanel
from txlab.tui.screens.attention.written_dialog import Written, WrittenDialog, write_both


class WritingPanel(Panel):
    """Its keys continue the text of the `model`, and open its possible continuations."""

    KEYS: ClassVar = (
        bind(
            "full_stop",
            "write",
            "let the model write its likeliest token; , takes it back",
            "write",
            id="attention.write",
            key_display=". ,",
            synonyms="generate continue complete",
        ),
        bind(
            "greater_than_sign",
            "write(True)",
            "let the model draw a token at random",
            id="attention.draw",
            synonyms="write sample generate temperature",
        ),
        bind(
            "W",
            "both",
            "write 40 tokens without and with the edits, one below the other",
            "40 tokens",
            id="attention.write-both",
            synonyms="generate compare before after continuation",
        ),
        bind("comma", "take_back", "take the last token back", id="attention.take-back"),
        bind(
            "T",
            "tree",
            "open the tree of likely continuations",
            "tree",
            id="attention.tree",
            synonyms="beam branches alternatives next tokens",
        ),
        bind(
            "G",
            "guess",
            "guess a text against the model, in bits per byte",
            "guess",
            id="attention.guess",
            synonyms="game shannon play entropy",
        ),
    )
    DEFAULT_CSS = "WritingPanel { display: none; }"

    def __init__(self, model: ModelPanel, side: SidePanel) -> None:
        super().__init__()
        self.model, self.side = model, side
        self.draws = np.random.default_rng(0)  # for the tokens that are sampled
        self.passages = 0  # guessed so far
        self.both = LatestTask(self, "two continuations", self.tell)

    def action_write(self, drawn: bool = False) -> None:
        """Append the likeliest token, or one drawn from the distribution; in a masked model, fill the next mask."""
        self.when_read(lambda live: self.append(live, (live.next_token(self.draws if drawn else None),)))

    def when_read(self, then: Callable[[LiveAttention], None]) -> None:
        """Call `then` once the model has read the request, and report it if that is impossible."""

        def attempt(live: LiveAttention) -> None:
            try:
                then(live)
            except LabError as error:
                self.model.waiting.clear()  # writing that depended on it
                self.tell(str(error))

        self.model.with_newest(attempt)

    def append(self, live: LiveAttention, ids: tuple[int, ...]) -> None:
        self.model.do(replace(live.task, written=(*live.task.written, *ids)))

    def action_both(self) -> None:
        """Write a continuation without and with the edits, and show both."""

        def show(live: LiveAttention, written: Written) -> None:
            self.app.push_screen(WrittenDialog(live, written), lambda ids: self.append(live, ids) if ids else None)

        def begin(live: LiveAttention) -> None:
            live.writes()
            self.both.want(lambda _: write_both(live), partial(show, live), holds_keys=True)

        self.when_read(begin)

    def action_take_back(self) -> None:
        """Take back the last written token."""
        task = self.model.wanted
        if task is not None and task.written:
            self.model.do(replace(task, written=task.written[:-1]))

    def action_tree(self) -> None:
        """Open the tree of the likeliest continuations; the chosen path is written."""

        def choose(live: LiveAttention) -> None:
            live.writes()
            self.app.push_screen(ContinuationTree(live), lambda path: self.append(live, path) if path else None)

        self.when_read(choose)

    def action_guess(self) -> None:
        """Guess a text against the model, character by character; the result stays next to the pattern."""

        def play(live: LiveAttention) -> None:
            check_continues(live)

            def left(result: str | None) -> None:
                self.passages = game.which + 1
                if result is not None:
                    self.tell(result)
                    self.side.say_result(result)

            game = GuessingDialog(live, self.passages)
            self.app.push_screen(game, left)

        self.when_read(play)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable a key that would do nothing."""
        return action != "take_back" or (self.model.wanted is not None and bool(self.model.wanted.written))
