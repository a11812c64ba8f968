"""What a model writes without and with the edits, one below the other, token by token from the same text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.text import visible
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.train.text import after_solid, solid, wrap_lines
from txlab.tui.widgets.terminal import is_ascii

TOKENS = 40


@dataclass(frozen=True)
class Written:
    """The likeliest tokens after a text: `plain` without the edits, `edited` with them."""

    text: str
    plain: tuple[int, ...]
    edited: tuple[int, ...]
    edits: tuple[str, ...]

    @property
    def parts_at(self) -> int | None:
        """The index of the first token that differs; None = there is none."""
        pairs = zip(self.plain, self.edited, strict=False)
        differs = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
        shorter = min(len(self.plain), len(self.edited))
        return differs if differs is not None else None if len(self.plain) == len(self.edited) else shorter


def write_both(live: LiveAttention, tokens: int = TOKENS) -> Written:
    """Write `tokens` tokens without and with the edits, each the likeliest. LabError if the model does not write."""
    from txlab.engine.interpret.continuations import write_under

    opened, ways = live.opened, (((), None), (live.interventions, live.second))
    with live.lock:
        plain, edited = (
            tuple(
                write_under(
                    opened.model, live.text, tokens, given, second,
                    context=opened.context, end=opened.special.stops, never=opened.never,
                )
            )
            for given, second in (ways if live.edits else ways[:1] * 2)
        )  # fmt: skip
    return Written(live.texts[-1], plain, edited, tuple(wish.says for wish in live.interventions))


class WrittenDialog(Dialog[tuple[int, ...]]):
    """Answers with the tokens to append to the text: those written with the edits; None = none."""

    CSS_PATH = "../dialogs.tcss"
    DEFAULT_CSS = """
    WrittenDialog VerticalScroll { height: auto; max-height: 24; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,W", "leave", "leave it", id="written.leave"),
        Binding("enter", "keep", "append it to the text", id="written.keep"),
    ]

    def __init__(self, live: LiveAttention, written: Written) -> None:
        super().__init__()
        self.live, self.written = live, written

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Words(Content(self.title_text()), classes="dialog-title")
            with VerticalScroll():
                yield Words("", id="written")
            yield Words(key_hints(("enter", "append it to the text"), ("esc", "close")), classes="dialog-keys")

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def title_text(self) -> str:
        written, context = self.written, self.live.opened.context
        most = max(len(written.plain), len(written.edited))
        full = context is not None and len(self.live.text.predicting) + most > context
        ends = f" (the context of {count(context)} is full)" if full and context is not None else ""
        tokens = f"{count(most)} token{'s' if most != 1 else ''}, each the likeliest{ends}"
        if not written.edits:
            return f"{tokens}; without any edit"
        at = written.parts_at
        return f"{tokens}: {'no edit changes them' if at is None else f'the texts part at token {count(at + 1)}'}"

    def draw(self) -> None:
        written, cells = self.written, max(20, self.query_one(VerticalScroll).scrollable_content_region.width - 1)
        parts: list[Content] = []
        named = [("without the edits", written.plain)] if written.edits else []
        for title, ids in [*named, ("; ".join(written.edits) or "as the model is", written.edited)]:
            parts.append(Content.styled(visible(title) + "\n", "bold"))
            parts += [*self.continuation(ids, cells), Content("\n\n")]
        self.query_one("#written", Words).say(Content.assemble(*parts))

    def continuation(self, ids: Sequence[int], cells: int) -> list[Content]:
        """The text in quiet, what follows in plain, and in the accent colour from where the two texts part."""
        decode, text = self.live.opened.decode, self.written.text
        at = self.written.parts_at if self.written.edits else None
        ascii = is_ascii(self)
        body = "\n".join(wrap_lines(text + decode(ids), cells, ascii))
        first = after_solid(body, solid(text, ascii))
        parts_at = max(first, after_solid(body, solid(text + decode(ids[:at]), ascii))) if at is not None else len(body)
        styled = ((body[:first], "$quiet"), (body[first:parts_at], ""), (body[parts_at:], "bold $accent"))
        return [Content.styled(part, style) if style else Content(part) for part, style in styled if part]

    def action_keep(self) -> None:
        context, length = self.live.opened.context, len(self.live.text.predicting)
        self.dismiss(self.written.edited[: None if context is None else context - length])  # the last fills the context

    def action_leave(self) -> None:
        self.dismiss(None)
