"""`txlab help`: the pages of the manual."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from txlab.cli.output import Column, table
from txlab.cli.terminal import ascii_only, columns, depth
from txlab.manual import Page, Section, find_sections, page_about, pages, unknown_topic

WIDEST = 120  # columns: as wide as the lines of a page


def help(
    topic: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="the name of a page, or words to search for")
    ] = None,
) -> None:
    """Print a page of the manual, or find it by any words."""
    asked = " ".join(topic or [])
    page = page_about(asked)
    found = [] if page else find_sections(asked)
    if page is None and len({section.page for section in found}) == 1:
        page = pages()[found[0].page]
    if page is not None:
        print_page(page)
    elif not asked:
        print(table([Column("topic"), Column("", loose=True)], [[each.name, each.about] for each in pages().values()]))
        print("\ntxlab help TOPIC prints one; a topic may be any words, such as slurm or learning rate.")
    elif found:
        print_found(found)
    else:
        raise unknown_topic(asked)


def print_page(page: Page) -> None:
    """Print a page, laid out for a terminal, or as it is written."""
    from txlab.drawing.text import formula

    text = "\n".join(formula(line, ascii_only()) for line in page.text.splitlines())
    if not sys.stdout.isatty():
        print(text)
        return
    text = re.sub(r"\[([^]]+)\]\((\w[\w-]*)\.md[^)]*\)", r"\1 (`txlab help \2`)", text)
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text)
    from rich.console import Console
    from rich.markdown import Markdown

    systems = {"truecolor": "truecolor", "256": "256", "16": "standard"}
    console = Console(
        color_system=systems.get(depth()),  # type: ignore[arg-type]  # a string that rich knows
        force_terminal=depth() != "none",
        width=min(columns() - 1, WIDEST),
        safe_box=True,
    )
    console.print(Markdown(text, code_theme="ansi_dark"))


def print_found(found: list[Section]) -> None:
    """Print where the words occur."""
    print(table([Column("topic"), Column("section", loose=True)], [[each.page, each.title] for each in found]))
    print("\ntxlab help TOPIC prints the page.")
