"""The help overlay: the keys of the screen it was opened on, with the ids used to remap them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen

from txlab.tui.screens.dialogs import Dialog
from txlab.tui.screens.words import Words
from txlab.tui.settings import log_file, settings_file


class HelpScreen(Dialog[None]):
    """Lists the keys that work on the screen `of`, and where to change them."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "close", id="help.close"),
    ]

    def __init__(self, of: Screen[None]) -> None:
        super().__init__()
        self.of = of

    def begin(self) -> None:
        """Start from the top, with the keys that work now."""
        super().begin()
        if self.is_mounted:
            self.query_one("#keys", Words).say(self.text())
            self.query_one(VerticalScroll).scroll_home(animate=False)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (keys, what they do, id) of each action after remapping, in the order of the screen's bottom line."""
        keys: dict[tuple[str, str], list[str]] = {}
        for active in self.of.active_bindings.values():
            binding = active.binding
            if binding.description and binding.id:
                shown = binding.key_display or self.app.get_key_display(binding)
                known = keys.setdefault((binding.id, binding.description), [])
                if shown not in known:
                    known.append(shown)
        own = [binding.id for binding in type(self.of).__dict__.get("BINDINGS", [])]
        found = [(" ".join(shown), description, ident) for (ident, description), shown in keys.items()]
        return sorted(found, key=lambda row: own.index(row[2]) if row[2] in own else len(own))

    def text(self) -> Content:
        about = getattr(self.of, "HELP_ABOUT", "")
        parts = [Content.styled(about + "\n\n", "")] if about else []
        rows = self.rows()
        wide = max((len(shown) for shown, _, _ in rows), default=0)
        long = max((len(word) for _, word, _ in rows), default=0)
        for shown, word, ident in rows:
            parts += [
                Content.styled(f"{shown:>{wide}}", "bold $accent"),
                Content(f"   {word:<{long}}   "),
                Content.styled(ident + "\n", "$quiet"),
            ]
        parts += [
            Content.styled("\nKeys are changed by their id in [keys] of\n", "$quiet"),
            Content(f"{settings_file()}\n"),
            Content.styled('for example   "run.step" = "full_stop,n"\nTracebacks are kept in\n', "$quiet"),
            Content(f"{log_file()}"),
        ]
        return Content.assemble(*parts)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            yield Words(Content.styled("Keys on this screen", "bold"), classes="dialog-title")
            yield Words(self.text(), id="keys", classes="dialog-body")
