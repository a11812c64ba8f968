"""A page of the manual in front of a screen, with a list of all pages and sections that searches their text."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Markdown

from txlab.manual import Page, page_of_screen, pages
from txlab.tui.screens.dialogs import Choose, Dialog, key_hints
from txlab.tui.screens.plain_text import Words


class ManualScreen(Dialog[None]):
    """Shows `page`; `/` lists every page and section, and finds those with the words that are typed."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close", id="manual.close"),
        Binding("slash,o", "find", "find", id="manual.find"),
        Binding("backspace", "back", "page before", id="manual.back"),
    ]

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page
        self.before: list[Page] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog manual"):
            with VerticalScroll():
                yield Markdown(self.page.text, open_links=False)
            keys = ("↑ ↓", "scroll"), ("/", "all pages, search"), ("backspace", "page before"), ("esc", "close")
            yield Words(key_hints(*keys), classes="dialog-keys")

    def action_find(self) -> None:
        """Choose a page or a section, by its name or by any words in it."""
        places = {}
        for page in pages().values():
            for section in page.sections:
                value = page.name if section is page.sections[0] else f"{page.name}: {section.title}"
                places[value] = section
        rows = [(value, pages()[value].about if value in pages() else "", False) for value in places]

        async def go(value: str | None) -> None:
            if value in places:
                section = places[value]
                await self.open(section.page, "" if value in pages() else section.anchor)

        choose = Choose("The manual", rows)
        choose.synonyms = {value: section.text for value, section in places.items()}
        self.app.push_screen(choose, go)

    async def action_back(self) -> None:
        """Go back to the page before, if there is one."""
        if self.before:
            await self.show(self.before.pop())

    async def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        name, _, anchor = event.href.partition("#")
        await self.open(name.removesuffix(".md"), anchor)

    async def open(self, name: str, anchor: str) -> None:
        """Open a page at a heading; files that are not in the manual, such as README.md, are not opened."""
        if name in pages():
            if name != self.page.name:
                self.before.append(self.page)
            await self.show(pages()[name], anchor)

    async def show(self, page: Page, anchor: str = "") -> None:
        """Show a page from the top or from a heading."""
        text = self.query_one(Markdown)
        if page is not self.page:
            self.page = page
            await text.update(page.text)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        if anchor:
            self.call_after_refresh(text.goto_anchor, anchor)


def open_manual(app: App[Any]) -> None:
    """Open the page about the screen of the app."""
    app.push_screen(ManualScreen(page_of_screen(app.current_mode)))
