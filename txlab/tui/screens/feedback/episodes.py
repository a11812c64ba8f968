"""Answers of an update token by token, coloured by KL, reward, advantage or value; w explains a token's numbers.

Notable: a frame is drawn as far as it is complete. An answer is one line per row of the terminal; its tokens show their
signs (a space, a line's end), so that each of them has a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content

from txlab.drawing.diverging import Scale, scale_of
from txlab.drawing.explanation import wrap_text
from txlab.drawing.formatting import number
from txlab.drawing.text import formula, label, visible, width
from txlab.engine.rlhf.why import (
    Settings,
    TokenNumbers,
    explain_advantage,
    explain_delta,
    explain_kl,
    explain_ratio,
)
from txlab.experiments.protocol import Frame
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.feedback.snapshot import Snapshot
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.facts import Fact, FactTable, columns
from txlab.tui.widgets.token_strips import TokenRow, TokenStrips
from txlab.tui.widgets.why import Answer, ask_why

VIEWS = (
    ("advantage", "advantage A"),
    ("kl_token", "KL, ln π − ln π_ref, nats"),
    ("reward", "reward r"),
    ("value", "value V"),
)
NARROWEST_NOTE = 12  # cells
WITH_TWO_COLUMNS = 100  # cells from which there are two columns of numbers next to the answers
NUMBERS = ("reward", "value", "delta", "advantage", "whitened", "logprob", "reference", "ratio")
TOLD = {
    "reward": ("reward r", "−β KL, and the score on the last token"),
    "value": ("value V", "expected from here on"),
    "delta": ("δ", "r + γ V of the next token − V"),
    "advantage": ("advantage A", "Σ (γλ)ᵏ δ"),
    "whitened": ("A whitened", "(A − μ) / σ"),
    "return": ("return", "A + V, what V should have been"),
    "kl_token": ("KL of the token", "ln π − ln π_ref, nats"),
    "exact_kl": ("KL, exact", "over the vocabulary, nats"),
    "ratio": ("ratio", "π / π_old after the update"),
    "clipped": ("policy clipped", ""),
    "value_clipped": ("value clipped", ""),
}
# Without a value function all tokens of an answer have one advantage, and these numbers do not exist (None).
WITHOUT_VALUES: dict[str, dict[str, str | None]] = {
    "rloo": {"advantage": "score − β KL, less the mean of the other answers'"},
    "grpo": {"advantage": "(score − mean) / sd of its group", "reward": None},
}
ABSENT: dict[str, str | None] = dict.fromkeys(("value", "delta", "whitened", "return"))


class Episodes:
    """The episodes of a frame, checked: `tokens[i]` are the labels, `arrays[name][i]` (T,) the numbers of episode i."""

    def __init__(self, frame: Frame) -> None:
        self.facts = frame.facts
        self.tokens: list[list[str]] = []
        while f"episode/{len(self.tokens)}" in frame.tokens:
            self.tokens.append([str(token) for token in frame.tokens[f"episode/{len(self.tokens)}"]])
        self.prompts = [frame.texts.get(f"episode/prompt/{i}", "") for i in range(len(self.tokens))]
        longest = max(map(len, self.tokens), default=0)
        arrays = {name.removeprefix("episode/"): np.asarray(each) for name, each in frame.tensors.items()}
        fits = (len(self.tokens), longest)
        self.arrays = {
            name: each.astype(np.float64)
            for name, each in arrays.items()
            if each.ndim == 2 and each.shape[0] >= fits[0] and each.shape[1] >= fits[1]
        }
        self.scores = {
            name: arrays[name].astype(np.float64)
            for name in ("score", "gold")
            if name in arrays and arrays[name].ndim == 1 and len(arrays[name]) >= len(self.tokens)
        }

    def row(self, name: str, episode: int) -> np.ndarray:
        """The numbers of an episode's tokens; NaN if they are unknown."""
        size = len(self.tokens[episode])
        array = self.arrays.get(name)
        return np.full(size, np.nan) if array is None else array[episode, :size]

    def heading(self, episode: int, ascii: bool) -> str:
        """The scores and the prompt of an episode, in a line."""
        scores = "  ".join(f"{name} {number(float(each[episode]), 3)}" for name, each in self.scores.items())
        prompt = visible(self.prompts[episode].replace("\n", " "), ascii)
        return f"{formula(scores, ascii)}   {prompt}"  # what is cut on a narrow terminal is the prompt

    def settings(self) -> Settings:
        def real(name: str, otherwise: float) -> float:
            value = self.facts.get(name)
            return float(value) if isinstance(value, (int, float)) else otherwise

        return Settings(
            real("gamma", 1.0), real("lambda", 0.95), real("beta", 0.0), real("clip", 0.2), real("whiten_mean", 0.0),
            real("whiten_sd", 0.0), self.method,
        )  # fmt: skip

    @property
    def method(self) -> str:
        return str(self.facts.get("method", "ppo"))

    def answers(self, episode: int, t: int) -> list[Answer]:
        """The explanations of a token's numbers; none if the frame lacks some."""
        rows = [self.row(name, episode) for name in NUMBERS]
        if any(not np.isfinite(row).all() for row in rows):
            return []
        lists = [[float(value) for value in row] for row in rows]
        names = [label(token) for token in self.tokens[episode]]
        numbers, of = TokenNumbers(names, *lists), self.settings()
        explained = () if self.method in WITHOUT_VALUES else (explain_advantage, explain_delta)
        return [explain(numbers, t, of) for explain in (*explained, explain_ratio, explain_kl)]


class EpisodesPanel(Panel):
    """The answers, and the numbers of the token under the cursor."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "left",
            "token(-1)",
            "go to the token before, or the next one",
            "token, answer",
            id="feedback.token-before",
            key_display="arrows",
        ),
        bind("right", "token(1)", "go to the next token", id="feedback.token-next"),
        bind("up", "episode(-1)", "go to the answer before, or the next one", id="feedback.episode-before"),
        bind("down", "episode(1)", "go to the next answer", id="feedback.episode-next"),
        bind("v", "view", "colour tokens by advantage, KL, reward or value", "KL, reward, value", id="feedback.view"),
    )

    def __init__(self) -> None:
        super().__init__(id="episodes")
        self.strips, self.legend, self.facts = TokenStrips(id="strips"), Words(id="legend"), FactTable(id="token-facts")
        self.facts.can_focus = False
        self.view = 0
        self.forget()

    def compose(self) -> ComposeResult:
        yield self.legend
        with Horizontal():
            yield self.strips
            yield self.facts

    def forget(self) -> None:
        self.episodes: Episodes | None = None
        self.episode = self.token = 0
        self.facts.set_facts(())
        if self.is_mounted:
            self.strips.show((), Scale())
            self.legend.say("")

    def show(self, snap: Snapshot) -> None:
        episodes = Episodes(snap.frame) if snap.frame is not None else None
        self.episodes = episodes if episodes is not None and episodes.tokens and episodes.arrays else None
        self.draw()

    def draw(self) -> None:
        if not self.is_mounted:
            return
        episodes = self.episodes
        name, title = VIEWS[self.view]
        if episodes is None:
            self.legend.say(Content.styled("The policy draws answers; at this step there are none yet.", "$quiet"))
            self.facts.set_facts(())
            self.strips.show((), Scale())
            return
        episode, token = self.here(episodes)
        scale = scale_of(episodes.arrays.get(name, np.empty(0)))
        self.legend.say(self.strips.legend(title, scale, self.legend.size.width or self.app.size.width))
        rows = [
            TokenRow(episodes.heading(i, self.strips.ascii), episodes.tokens[i], episodes.row(name, i))
            for i in range(len(episodes.tokens))
        ]
        self.strips.show(rows, scale, episode, token)
        facts = self.numbers(episodes, episode, token) if episodes.tokens[episode] else []
        below = self.size.width < WITH_TWO_COLUMNS and len(facts) > self.size.height - 2
        if self.size.height and below != self.has_class("-below"):
            self.set_class(below, "-below")
            self.call_after_refresh(self.draw)  # the notes that fit are others
        self.facts.set_facts(whole_notes(facts, self.facts.size.width, self.size.height - 2, self.strips.ascii))

    def here(self, episodes: Episodes) -> tuple[int, int]:
        """The answer and the token under the cursor: the last ones if the frame has fewer."""
        episode = min(self.episode, len(episodes.tokens) - 1)
        return episode, max(0, min(self.token, len(episodes.tokens[episode]) - 1))

    def numbers(self, episodes: Episodes, episode: int, token: int) -> list[Fact]:
        """The numbers of a token."""
        tokens = episodes.tokens[episode]
        facts = [Fact("token", label(tokens[token], self.strips.ascii), f"{token + 1} of {len(tokens)}")]
        absent = WITHOUT_VALUES.get(episodes.method)
        notes = {} if absent is None else ABSENT | absent
        for name, (title, usual) in TOLD.items():
            if (note := notes.get(name, usual)) is None:
                continue
            value = float(episodes.row(name, episode)[token])
            if not np.isfinite(value):
                continue
            if name in ("clipped", "value_clipped"):
                facts.append(Fact(title, "yes" if value else "no", level="accent" if value else "quiet"))
            else:
                level = "accent" if name == VIEWS[self.view][0] else "plain"
                facts.append(Fact(title, number(value, 3), note, level=level))
        return facts

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.display and self.episodes is not None

    def word_for(self, binding: Binding) -> str:
        if binding.id == "feedback.view":
            return VIEWS[(self.view + 1) % len(VIEWS)][0].removesuffix("_token")
        return binding.description

    def action_token(self, by: int) -> None:
        if (episodes := self.episodes) is not None:
            episode, token = self.here(episodes)
            self.token = max(0, min(token + by, len(episodes.tokens[episode]) - 1))
            self.draw()

    def action_episode(self, by: int) -> None:
        if (episodes := self.episodes) is not None:
            self.episode = (self.here(episodes)[0] + by) % len(episodes.tokens)
            self.draw()

    def action_view(self) -> None:
        """Colour the tokens by another of their numbers."""
        self.view = (self.view + 1) % len(VIEWS)
        self.draw()
        self.screen.refresh_bindings()

    def action_why(self) -> None:
        """Explain the token's advantage, δ, ratio and KL."""
        episodes = self.episodes
        episode, token = self.here(episodes) if episodes is not None else (0, 0)
        answers = episodes.answers(episode, token) if episodes is not None and episodes.tokens[episode] else []
        if not answers:
            self.tell("There is no token here whose numbers are recorded.")
            return
        ask_why(self.app, lambda: answers, again=self.action_why)


def whole_notes(facts: Sequence[Fact], size: int, height: int, ascii: bool) -> list[Fact]:
    """The facts with notes that go on in the lines below; where that is too high, notes that are too long are left
    out."""
    names, values = columns(facts, ascii)
    room = max(0, size - names - values - 5)  # FactTable's mark and gaps
    lines: list[Fact] = []
    for fact in facts:
        first, *others = wrap_text(formula(fact.note, ascii), room) if room >= NARROWEST_NOTE else [""]
        lines += [replace(fact, note=first), *(Fact("", "", each) for each in others)]
    if len(lines) > height:
        return [fact if width(formula(fact.note, ascii)) <= room else replace(fact, note="") for fact in facts]
    return lines
