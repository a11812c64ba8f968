"""`txlab scenarios`: the scenarios, their subjects and approximate durations."""

from __future__ import annotations

import json as json_
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import columns, sanitize
from txlab.drawing.formatting import about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from txlab.runs.scenario import CatalogueEntry

BESIDE = 28
"""The column at which the comment after `key = value` begins."""


def scenarios(
    name: Annotated[str | None, typer.Argument(metavar="SCENARIO", help="show this scenario in full")] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """List the scenarios with their durations."""
    from txlab.runs.scenario import CatalogueEntry, catalogue, find_scenario, load_scenario

    if name is not None:
        path = find_scenario(name)
        loaded = load_scenario(path)
        entries = [CatalogueEntry(loaded.name, path, loaded.scenario)]
    else:
        entries = catalogue()
    rows = ({"name": each.name, "path": str(each.path), **each.scenario.model_dump(mode="json")} for each in entries)
    if print_rows(rows, json, csv):
        return
    if name is not None:
        print_one(entries[0])
    else:
        print_catalogue(entries)


def print_catalogue(entries: list[CatalogueEntry]) -> None:
    from txlab.experiments.schema import CATALOGUE_ORDER, CHAPTERS

    head = [Column("scenario"), Column("time", "right"), Column("device"), Column("what happens", loose=True)]
    for chapter in CATALOGUE_ORDER:
        members = [entry for entry in entries if entry.scenario.about.chapter == chapter]
        if not members:
            continue
        print(f"{chapter}  {CHAPTERS[chapter]}\n")
        rows = [
            [
                sanitize(entry.name),
                about(entry.scenario.about.minutes),
                entry.scenario.about.device,
                sanitize(entry.scenario.about.title),
            ]
            for entry in members
        ]
        print(textwrap.indent(table(head, rows), "   "), end="\n\n")
    print("txlab scenarios NAME shows one in full; txlab run NAME runs it. Times are for two CPU cores.")


def print_one(entry: CatalogueEntry) -> None:
    from txlab.experiments.schema import CHAPTERS
    from txlab.runs.scenario import dump_scenario

    says = entry.scenario.about
    room = min(columns() - 1, 100)

    def paragraph(title: str, text: str) -> None:
        if text:
            print(
                f"\n{title}\n"
                + textwrap.fill(sanitize(" ".join(text.split())), room, initial_indent="  ", subsequent_indent="  ")
            )

    print(sanitize(f"{entry.name}: {says.title}" if says.title else entry.name))
    time = about(says.minutes)
    facts = [f"chapter {says.chapter}, {CHAPTERS[says.chapter]}", f"MATH {', '.join(says.math)}" if says.math else ""]
    facts += [f"about {time} on two CPU cores" if time else "", "needs a GPU" if says.device == "gpu" else ""]
    print(sanitize("; ".join(fact for fact in facts if fact)))
    paragraph("what it shows", says.shows)
    paragraph("what to expect", says.expect)
    if says.formulas:
        print("\nformulas\n" + "\n".join(f"  {sanitize(formula)}" for formula in says.formulas))
    paragraph("source", says.source)
    settings = dump_scenario(entry.scenario.model_copy(update={"about": type(says)()}))
    print(f"\nsettings, any of which --set changes ({sanitize(str(entry.path))})")
    parts = [part.splitlines() for part in settings.split("\n\n") if not part.startswith("[about]")]
    heads = [part[0] for part in parts]
    lines = []
    for number, part in enumerate(parts):  # of several tables of a list, the first is explained
        again = part[0] in heads[:number]
        lines += [*(part if again else explain_table(type(entry.scenario), part, room - 2)), ""]
    print("\n".join(f"  {sanitize(line)}".rstrip() for line in lines).rstrip())


def explain_table(schema: type[BaseModel], lines: list[str], room: int) -> Iterator[str]:
    """The lines of one table of TOML, each key with its meaning, bounds and default in a comment after it, or below it
    where there is no room."""
    from txlab.runs.scenario_errors import choices, describe_allowed, is_table, table_in_list

    owner: type[BaseModel] | None = schema
    for line in lines:
        if line.startswith("["):
            field = schema.model_fields.get(line.strip("[]"))
            inner = field and (table_in_list(field.annotation) or field.annotation)
            owner = inner if inner and is_table(inner) else None  # type: ignore[assignment]
        field = owner.model_fields.get(line.partition(" = ")[0]) if owner else None
        if field is None:
            yield line
            continue
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        plain = isinstance(default, bool | int | float | str) and default != ""
        words = [
            field.description or "",
            describe_allowed(field) if field.metadata or choices(field.annotation) else "",
        ]
        if not any(words):
            words = [describe_allowed(field)]
        words.append(f"default {json_.dumps(default, ensure_ascii=False)}" if plain else "")
        remarks = "; ".join(dict.fromkeys(word for word in words if word))
        beside = len(line) <= BESIDE
        indent = f"{line:<{BESIDE}}  # "
        yield from [line] if not beside else []
        yield from textwrap.wrap(
            remarks,
            room,
            initial_indent=indent if beside else " " * BESIDE + "  # ",
            subsequent_indent=" " * BESIDE + "  # ",
        )
