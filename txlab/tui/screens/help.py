"""The help overlay: the keys of the screen it was opened on; i adds the ids used to remap them."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen

from txlab.experiments.formulas.content import content
from txlab.tui.bindings import HEADINGS, active_keys
from txlab.tui.formula_links import link_citations
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.manual import open_manual
from txlab.tui.screens.plain_text import Words
from txlab.tui.settings import log_file, settings_file


@runtime_checkable
class HasHelp(Protocol):
    """HELP_ABOUT: what is written above the keys of a screen."""

    HELP_ABOUT: str


class HelpScreen(Dialog[None]):
    """Lists the keys that work on the screen `of` in groups, and where to change them."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "close", id="help.close"),
        Binding("enter", "manual", "manual", id="help.manual"),
        Binding("i", "ids", "ids", id="help.ids"),
        Binding("M", "formula", "the formulas", id="help.formula"),
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

    @property
    def formulas(self) -> list[str]:
        """The numbers of the formulas whose place is the screen below."""
        here = self.app.current_mode
        return [each.number for each in content()[0].values() if each.place.screen == here]

    async def action_formula(self) -> None:
        """Open the first of the formulas at work on the screen."""
        if self.formulas:
            await self.run_action(f"app.open_formula({self.formulas[0]!r})")

    def action_ids(self) -> None:
        """Show the ids by which config.toml changes keys, or hide them."""
        self.ids = not self.ids
        self.query_one("#keys", Words).say(self.text())

    def action_manual(self) -> None:
        """Close this, and open the page of the manual about the screen."""
        self.dismiss()
        self.app.call_later(open_manual, self.app)

    def rows(self) -> dict[str, list[tuple[str, str, str]]]:
        """Return (keys, what they do, id) of each action after remapping, by group, in the order of the bottom line."""
        groups: dict[str, dict[tuple[str, str], list[str]]] = {heading: {} for heading in HEADINGS}
        for key in active_keys(self.of):
            if key.binding.id:
                known = groups[key.heading].setdefault((key.sentence, key.binding.id), [])
                if key.display not in known:
                    known.append(key.display)
        return {
            heading: [(" ".join(keys), sentence, ident) for (sentence, ident), keys in rows.items()]
            for heading, rows in groups.items()
            if rows
        }

    def text(self) -> Content:
        about = self.of.HELP_ABOUT if isinstance(self.of, HasHelp) else ""
        if self.formulas:
            about = f"{about} At work here: MATH {', '.join(self.formulas)}.".strip()
        parts = [link_citations(Content(about + "\n"))] if about else []
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
        ids = "hide ids" if self.ids else "ids, to change keys"
        keys = ("↑ ↓", "scroll"), ("i", ids), ("esc", "close")
        formulas = [("M", "the first formula")] if self.formulas else []
        return Content.assemble(*parts, "\n", key_hints(*keys, *formulas))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            title = Content.styled("Keys on this screen   ", "bold")
            yield Words(title + key_hints(("enter", "the manual about it")), classes="dialog-title")
            yield Words(self.text(), id="keys", classes="dialog-body")
