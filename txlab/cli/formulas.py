"""`txlab formulas`: the formulas that screens, scenarios and the code cite as "MATH T1", and an example of each."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_csv, print_json, print_rows, table
from txlab.cli.terminal import ascii_only, columns
from txlab.errors import LabError, choices

if TYPE_CHECKING:
    from txlab.experiments.formulas.content import Formula
    from txlab.experiments.formulas.example import Given


def formulas(
    number: Annotated[str | None, typer.Argument(metavar="NUMBER", help="show this formula in full, e.g. T1")] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="by the sections of a lecture text: wang, yang, …")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="compute its example step by step")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="INPUT=VALUE", help='an input of the example, e.g. q="1,0; 0,1; 1,1"'),
    ] = None,
    erratum: Annotated[bool, typer.Option("--erratum", help="the example next to its misprinted forms")] = False,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """The numbered formulas, with errata and live examples."""
    from txlab.experiments.formulas.content import content, formula_named

    if example or inputs or erratum:
        if number is None or text is not None:
            raise LabError("an example is of one formula; for example: txlab formulas T1 --example")
        show_example(formula_named(number), settings_of(inputs or []), erratum, json, csv)
        return
    if number is not None and text is not None:
        raise LabError("give a NUMBER or a --text, not both")
    chosen = list(content()[0].values()) if number is None else [formula_named(number)]
    groups = by_section(text) if text is not None else by_chapter()
    if text is not None:
        chosen = list({each.number: each for _, members in groups for each in members}.values())
    if print_rows(map(asdict, chosen), json, csv):
        return
    if number is None:
        print_all(groups, letters=text is None)
    else:
        print_one(chosen[0])


def by_chapter() -> list[tuple[str, list[Formula]]]:
    """The chapters, each with its formulas."""
    from txlab.experiments.formulas.content import content
    from txlab.experiments.schema import CHAPTERS

    known = content()[0].values()
    return [
        (f"{chapter}  {title}", [each for each in known if each.number.startswith(chapter)])
        for chapter, title in CHAPTERS.items()
    ]


def by_section(text: str) -> list[tuple[str, list[Formula]]]:
    """The sections of a lecture text, each with its formulas."""
    from txlab.experiments.formulas.content import content, lecture_texts

    if text not in lecture_texts():
        raise LabError(f"no lecture text is called {text!r}{choices(text, lecture_texts())}")
    return [(title, [content()[0][each] for each in numbers]) for title, numbers in lecture_texts()[text].sections]


def print_all(groups: Sequence[tuple[str, Sequence[Formula]]], letters: bool) -> None:
    """Print number, title, whether it is misprinted somewhere, and first equation of each, by group; and the
    letters."""
    from txlab.experiments.formulas.content import content

    head = [Column("number"), Column("title"), Column("erratum"), Column("formula", loose=True)]
    members = [each for _, some in groups for each in some]
    rows = [
        [each.number, spell(each.title), "erratum" if each.erratum else "", spell(each.formulas[0])] for each in members
    ]
    title, *lines = table(head, rows).splitlines()
    for name, some in groups:
        shown, lines = lines[: len(some)], lines[len(some) :]
        print("\n".join([spell(name), title, *shown]), end="\n\n")
    if letters:
        meanings = [[spell(letter), spell(meaning)] for letter, meaning in content()[1].items()]
        print(table([Column("letter"), Column("meaning")], meanings) + "\n")
    print("txlab formulas NUMBER shows one in full, with --example in numbers.")


def print_one(formula: Formula) -> None:
    from txlab.drawing.explanation import formula_lines
    from txlab.experiments.formulas.content import used_by

    room = min(columns() - 1, 100)
    print(f"{formula.number}  {spell(formula.title)}\n")
    for equation in formula.formulas:
        print("\n".join(f"  {line}" for line in formula_lines(spell(equation), room - 2)))
    if formula.letters:
        rows = [[f"  {spell(letter)}", spell(meaning)] for letter, meaning in formula.letters.items()]
        print("\n" + table([Column(""), Column("", loose=True)], rows).strip("\n"))
    relations = [("Uses", formula.uses), ("Used by", used_by(formula.number))]
    told = "; ".join(f"{word} {', '.join(numbers)}" for word, numbers in relations if numbers)
    for name, text in (("", formula.meaning), ("Erratum: ", formula.erratum), ("Source: ", formula.source), ("", told)):
        if text:
            print("\n" + textwrap.fill(spell(name + text), room))


# The example.


def settings_of(inputs: Sequence[str]) -> dict[str, str]:
    """The inputs that --set names, as text. LabError for one without a value."""
    for each in inputs:
        if "=" not in each:
            raise LabError(f'--set {each!r} has no value; an example: --set q="1,0; 0,1"')
    return {name.strip(): value for name, _, value in (each.partition("=") for each in inputs)}


def show_example(formula: Formula, given: Mapping[str, str], erratum: bool, json: bool, csv: bool) -> None:
    """Compute and print the example, and with `erratum` also its misprinted forms."""
    from txlab.experiments.formulas.example import example_of, where_they_part

    example = example_of(formula.number)
    values = example.values(given)
    if erratum:
        example.misprint()  # LabError if there is none
    right = example.explain(**values)
    wrong = {name: each.explain(**values) for name, each in example.misprints.items()} if erratum else {}
    if json:
        answer: dict[str, Any] = {"number": formula.number, "inputs": values, "explanation": right.as_json()}
        if erratum:
            parts = {name: where_they_part(right, each) for name, each in wrong.items()}
            answer["errata"] = {
                name: {
                    "says": example.misprint(name).says,
                    "parts": part.name if (part := parts[name]) else None,
                    "explanation": each.as_json(),
                }
                for name, each in wrong.items()
            }
        print_json(answer)
        return
    if csv:
        forms = {"": right, **wrong}
        print_csv({"form": name, **step} for name, each in forms.items() for step in each.as_json()["steps"])
        return
    print_example(formula, values, right, {name: (example.misprint(name).says, each) for name, each in wrong.items()})


def print_example(formula: Formula, values: Given, right: Any, wrong: Mapping[str, tuple[str, Any]]) -> None:
    from txlab.cli.models import STYLES, print_explanation
    from txlab.cli.terminal import print_lines
    from txlab.drawing.explanation import comparison_lines, wrap_text
    from txlab.experiments.formulas.example import format_value

    room = min(120, columns() - 1)
    print_explanation(right)
    for name, (says, other) in wrong.items():
        print(f"\n{name}")
        print("\n".join(wrap_text(spell(says), room)))
        print_lines(comparison_lines(right, other, room, STYLES, ascii_only()))
    settings = [shlex.quote(f"{name}={spell(format_value(value))}") for name, value in values.items()]
    print("\n" + " --set ".join([f"txlab formulas {formula.number}", *settings]))


def spell(text: str) -> str:
    """Return the text with its symbols spelt in ASCII where needed."""
    from txlab.drawing.text import formula

    return formula(text, ascii_only())
