"""The help overlay: the keys of the screen it was opened on; i adds the ids used to remap them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen

from txlab.tui.phrases import GROUPS, group_of, phrase_of
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.words import Words
from txlab.tui.settings import log_file, settings_file


class HelpScreen(Dialog[None]):
    """Lists the keys that work on the screen `of` in groups, and where to change them."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "close", id="help.close"),
        Binding("i", "ids", "ids", id="help.ids"),
    ]

    def __init__(self, of: Screen[None]) -> None:
        super().__init__()
        self.of = of
        self.ids = False

    def begin(self) -> None:
        """Start from the top, with the keys that work now."""
        super().begin()
        self.ids = False
        if self.is_mounted:
            self.query_one("#keys", Words).say(self.text())
            self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_ids(self) -> None:
        """Show the ids by which config.toml changes keys, or hide them."""
        self.ids = not self.ids
        self.query_one("#keys", Words).say(self.text())

    def rows(self) -> dict[str, list[tuple[str, str, str]]]:
        """Return (keys, what they do, id) of each action after remapping, by group, in the order of the bottom line."""
        word_for = getattr(self.of, "word_for", lambda binding: binding.description)
        keys: dict[tuple[str, str], list[str]] = {}
        groups: dict[str, str] = {}
        for active in self.of.active_bindings.values():
            binding = active.binding
            if binding.description and binding.id and active.enabled:
                shown = binding.key_display or self.app.get_key_display(binding)
                known = keys.setdefault((binding.id, phrase_of(binding, word_for(binding))), [])
                groups[binding.id] = group_of(binding)
                if shown not in known:
                    known.append(shown)
        own = [binding.id for binding in type(self.of).__dict__.get("BINDINGS", [])]
        found = [(" ".join(shown), phrase, ident) for (ident, phrase), shown in keys.items()]
        found.sort(key=lambda row: own.index(row[2]) if row[2] in own else len(own))
        return {name: rows for name in GROUPS if (rows := [row for row in found if groups[row[2]] == name])}

    def text(self) -> Content:
        about = getattr(self.of, "HELP_ABOUT", "")
        parts = [Content.styled(about + "\n", "")] if about else []
        groups = self.rows()
        wide = max((len(shown) for rows in groups.values() for shown, _, _ in rows), default=0)
        for name, rows in groups.items():
            parts.append(Content.styled(f"\n{name}\n", "bold"))
            for shown, phrase, ident in rows:
                known = f"  {ident}" if self.ids else ""
                parts += [
                    Content.styled(f"{shown:>{wide}}", "bold $accent"),
                    Content(f"   {phrase}"),
                    Content.styled(f"{known}\n", "$quiet"),
                ]
        if self.ids:
            parts += [
                Content.styled("\nKeys are changed by these ids in [keys] of\n", "$quiet"),
                Content(f"{settings_file()}\n"),
                Content.styled('for example   "run.step" = "full_stop,n"\nTracebacks are kept in\n', "$quiet"),
                Content(f"{log_file()}\n"),
            ]
        keys = ("↑ ↓", "scroll"), ("i", "hide ids" if self.ids else "ids, to change keys"), ("esc", "close")
        return Content.assemble(*parts, "\n", key_hints(*keys))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            yield Words(Content.styled("Keys on this screen", "bold"), classes="dialog-title")
            yield Words(self.text(), id="keys", classes="dialog-body")
