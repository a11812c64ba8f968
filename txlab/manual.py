"""The manual: the pages of docs/, found by their name, by a synonym, by screen, or by their text.

A page is Markdown. It begins with `<!-- words: slurm torchrun -->` and, if screens belong to it, with
`<!-- screens: lab -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from txlab.errors import LabError, nearest
from txlab.files import shipped_path

LIST = ("console", "commands", "scenarios", "runs")  # the pages to read first; the others follow by name


@dataclass(frozen=True)
class Section:
    """A heading with the text below it; `anchor` is what a link to it says after the page: `runs.md#alerts`."""

    page: str
    title: str
    anchor: str
    text: str


@dataclass(frozen=True)
class Page:
    """A page without its comments and pictures."""

    name: str
    title: str
    about: str
    """Its first sentence."""
    text: str
    words: tuple[str, ...]
    screens: tuple[str, ...]
    sections: tuple[Section, ...]


@cache
def pages() -> dict[str, Page]:
    """The pages by name, those to read first at the beginning."""
    paths = {path.stem: path for path in shipped_path("docs").glob("*.md")}
    order = sorted(paths, key=lambda name: (LIST.index(name) if name in LIST else len(LIST), name))
    return {name: page_of(name, paths[name].read_text(encoding="utf-8")) for name in order}


def page_of(name: str, source: str) -> Page:
    """Read a page."""
    given = {key: tuple(words.split()) for key, words in re.findall(r"^<!-- (words|screens): (.*?) -->$", source, re.M)}
    text = re.sub(r"^(<!--.*?-->|!\[.*?\]\(.*?\))\n+", "", source, flags=re.M)
    sections = tuple(sections_of(name, text))
    about = re.split(r"(?<=\.)\s", sections[0].text.split("\n\n")[0])[0].replace("\n", " ")
    return Page(name, sections[0].title, about, text, given.get("words", ()), given.get("screens", ()), sections)


def sections_of(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of a page; a line of a block of code is no heading."""
    title, lines, code = "", list[str](), False
    for line in [*text.splitlines(), "# "]:
        code ^= line.startswith("```")
        if line.startswith("#") and not code:
            if title:
                yield Section(page, title, anchor(title), "\n".join(lines).strip())
            title, lines = line.lstrip("#").strip(), []
        else:
            lines.append(line)


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and Textual make it.

    >>> anchor("What they reach: the others")
    'what-they-reach-the-others'
    """
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def page_about(topic: str) -> Page | None:
    """Return the page of that name, or that has the topic among its words.

    >>> page_about("Slurm").name
    'processes'
    """
    word = "-".join(topic.lower().removesuffix(".md").split())
    return next((page for page in pages().values() if word == page.name or word in page.words), None)


def page_of_screen(screen: str) -> Page:
    """Return the page that a screen belongs to; of a screen that no page names, the console's."""
    return next((page for page in pages().values() if screen in page.screens), pages()["console"])


def find_sections(topic: str) -> list[Section]:
    """Return the sections in which every word of a topic occurs, those with more of them in the heading first."""
    wanted = topic.lower().split()
    found = [
        (sum(word in section.title.lower() for word in wanted), section)
        for page in pages().values()
        for section in page.sections
        if all(word in f"{section.title} {section.text}".lower() for word in wanted)
    ]
    return [section for _, section in sorted(found, key=lambda each: -each[0])] if wanted else []


def unknown_topic(topic: str) -> LabError:
    """The error about a topic that is not in the manual."""
    words = [word for page in pages().values() for word in (page.name, *page.words)]
    close = nearest(topic.lower(), words)
    return LabError(f"the manual has nothing about {topic!r}{close}; txlab help lists its pages")
