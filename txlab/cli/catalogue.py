"""`txlab scenarios`: the scenarios, what each shows, and about how long it takes."""

from __future__ import annotations

import json as json_
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli.terminal import Column, columns, shown, table

if TYPE_CHECKING:
    from txlab.runs.scenario import CatalogueEntry


def scenarios(
    name: Annotated[str | None, typer.Argument(metavar="SCENARIO", help="show this one in full")] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """The catalogue: what can be run, and how long it takes."""
    from txlab.runs.scenario import CatalogueEntry, catalogue, find_scenario, load_scenario

    if name is not None:
        path = find_scenario(name)
        loaded = load_scenario(path)
        entries = [CatalogueEntry(loaded.name, path, loaded.scenario)]
    else:
        entries = catalogue()
    if json:
        for entry in entries:
            print(json_.dumps({"name": entry.name, "path": str(entry.path), **entry.scenario.model_dump(mode="json")}))
    elif name is not None:
        print_one(entries[0])
    else:
        print_catalogue(entries)


def print_catalogue(entries: list[CatalogueEntry]) -> None:
    from txlab.drawing.formatting import about
    from txlab.experiments.schema import CHAPTERS

    head = [Column("scenario"), Column("time", "right"), Column("device"), Column("what happens", loose=True)]
    for chapter, title in CHAPTERS.items():
        members = [entry for entry in entries if entry.scenario.about.chapter == chapter]
        if not members:
            continue
        print(f"{chapter}  {title}\n")
        rows = [
            [
                shown(entry.name),
                about(entry.scenario.about.minutes),
                entry.scenario.about.device,
                shown(entry.scenario.about.title),
            ]
            for entry in members
        ]
        print(textwrap.indent(table(head, rows), "   "), end="\n\n")
    print("txlab scenarios NAME shows one in full; txlab run NAME runs it. Times are for two CPU cores.")


def print_one(entry: CatalogueEntry) -> None:
    from txlab.drawing.formatting import about
    from txlab.experiments.schema import CHAPTERS
    from txlab.runs.scenario import dump_scenario

    says = entry.scenario.about
    room = min(columns() - 1, 100)

    def paragraph(title: str, text: str) -> None:
        if text:
            print(
                f"\n{title}\n"
                + textwrap.fill(shown(" ".join(text.split())), room, initial_indent="  ", subsequent_indent="  ")
            )

    print(shown(f"{entry.name}: {says.title}" if says.title else entry.name))
    time = about(says.minutes)
    facts = [f"chapter {says.chapter}, {CHAPTERS[says.chapter]}", f"MATH {', '.join(says.math)}" if says.math else ""]
    facts += [f"about {time} on two CPU cores" if time else "", "needs a GPU" if says.device == "gpu" else ""]
    print(shown("; ".join(fact for fact in facts if fact)))
    paragraph("what it shows", says.shows)
    paragraph("what to expect", says.expect)
    if says.formulas:
        print("\nformulas\n" + "\n".join(f"  {shown(formula)}" for formula in says.formulas))
    paragraph("source", says.source)
    settings = dump_scenario(entry.scenario.model_copy(update={"about": type(says)()}))
    print(f"\nsettings, any of which --set changes ({shown(str(entry.path))})")
    lines = [
        line for part in settings.split("\n\n") if not part.startswith("[about]") for line in [*part.splitlines(), ""]
    ]
    print("\n".join(f"  {shown(line)}".rstrip() for line in lines).rstrip())
