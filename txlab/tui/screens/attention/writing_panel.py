"""What the model writes behind the text: token by token, along a path of the tree, or in a game beside a person.

Notable: every key waits until the model has read what the keys before it asked for, so that they may come as fast as
they like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from textual.binding import Binding

from txlab.errors import LabError
from txlab.tui.panel import Panel
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.attention.continuation_tree import ContinuationTree
from txlab.tui.screens.attention.guessing_dialog import GuessingDialog, check_continues
from txlab.tui.screens.attention.model_panel import ModelPanel
from txlab.tui.screens.attention.side_panel import SidePanel


class WritingPanel(Panel):
    """Its keys write behind the text of the `model`, and ask what may come there."""

    KEYS: ClassVar = (
        Binding("full_stop", "write", "write", id="attention.write", key_display=". ,"),
        Binding("greater_than_sign", "write(True)", "write a drawn token", id="attention.draw", show=False),
        Binding("comma", "take_back", "take a token back", id="attention.take-back", show=False),
        Binding("T", "tree", "tree", id="attention.tree"),
        Binding("G", "guess", "guess", id="attention.guess"),
    )
    DEFAULT_CSS = "WritingPanel { display: none; }"

    def __init__(self, model: ModelPanel, side: SidePanel) -> None:
        super().__init__()
        self.model, self.side = model, side
        self.draws = np.random.default_rng(0)  # of the tokens that are drawn, one after the other
        self.passages = 0  # that were guessed

    def action_write(self, drawn: bool = False) -> None:
        """Append the likeliest token, or one drawn from the distribution; in a masked model, fill the next mask."""
        self.when_read(lambda live: self.append(live, (live.next_token(self.draws if drawn else None),)))

    def when_read(self, then: Callable[[LiveAttention], None]) -> None:
        """Call `then` once the model has read what was asked for, and tell the user if it says that it cannot be."""

        def attempt(live: LiveAttention) -> None:
            try:
                then(live)
            except LabError as error:
                self.model.waiting.clear()  # what was to be written behind it
                self.tell(str(error))

        self.model.with_newest(attempt)

    def append(self, live: LiveAttention, ids: tuple[int, ...]) -> None:
        self.model.do(replace(live.task, written=(*live.task.written, *ids)))

    def action_take_back(self) -> None:
        """Take back the token that was written last."""
        task = self.model.wanted
        if task is not None and task.written:
            self.model.do(replace(task, written=task.written[:-1]))

    def action_tree(self) -> None:
        """Open the tree of the likeliest continuations; the path that is chosen is written."""

        def choose(live: LiveAttention) -> None:
            live.writes()
            self.app.push_screen(ContinuationTree(live), lambda path: self.append(live, path) if path else None)

        self.when_read(choose)

    def action_guess(self) -> None:
        """Guess a text beside the model, character by character; the result stays beside the pattern."""

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
