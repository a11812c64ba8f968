"""What the Lab says about a scenario or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual.content import Content

from txlab.drawing import curve
from txlab.drawing.curve import Curve
from txlab.drawing.explanation import folded
from txlab.drawing.formatting import STATES, about, calendar, count, duration, number
from txlab.drawing.plot import Furniture, margin, plot_lines
from txlab.drawing.text import formula, visible, width
from txlab.experiments.kind import kind_of_run
from txlab.experiments.schema import CHAPTERS
from txlab.runs.summary import RunSummary
from txlab.tui.theme import glyphs

if TYPE_CHECKING:
    from txlab.runs.scenario import CatalogueEntry


def paragraph(text: str, ascii: bool = False) -> str:
    """Return a file's text made safe to show; its own line breaks are kept."""
    return "\n\n".join(formula(" ".join(part.split()), ascii) for part in text.strip().split("\n\n"))


def hanging(text: str, cells: int, indent: int, first: str = "") -> str:
    """Fold a text to `cells` with a hanging indent; `first` stands before the first line.

    >>> print(hanging("one two three", 9, 2))
    one two
      three
    """
    room = max(8, cells - indent)
    lines = folded(text, room)
    if not first and len(lines) > 1 and width(lines[0]) <= room:
        whole = folded(text, max(8, cells))  # without a prefix the first line has the full width
        rest = text[len(whole[0]) :].strip()
        lines = [whole[0], *(folded(rest, room) if rest else [])]
    return first + f"\n{' ' * indent}".join(lines)


def formula_lines(equation: str, cells: int) -> list[str]:
    """Break a formula between its equations if it does not fit, and inside one only if it must, indented.

    >>> formula_lines("x ← x + Attn(LN x);  x ← x + W₂ h", 24)
    ['x ← x + Attn(LN x);', 'x ← x + W₂ h']
    """
    whole = " ".join(equation.split())
    if width(equation) <= cells:
        return [equation]
    if width(whole) <= cells:
        return [whole]
    parts = [part.strip() for part in equation.split("  ") if part.strip()]
    return [line for part in parts for line in hanging(part, cells, 4).split("\n")]


def describe_scenario(entry: CatalogueEntry, cells: int = 84, ascii: bool = False) -> Content:
    """Return title, purpose, formulas, sources, what to look for and the duration, `cells` wide."""
    said = entry.scenario.about
    dot = glyphs(ascii).dot
    parts = [Content.styled(formula(said.title or entry.name, ascii), "bold"), Content("\n\n")]
    if said.shows:
        parts.append(Content(paragraph(said.shows, ascii) + "\n\n"))
    for equation in said.formulas:
        for line in formula_lines(formula(equation, ascii), cells - 2):
            parts.append(Content.styled(f"  {line}\n", "$accent"))
    where = [
        *([formula(said.source, ascii)] if said.source else []),
        *([f"MATH {', '.join(said.math)}"] if said.math else []),
    ]
    for part in where:
        parts.append(Content.styled("  " + hanging(part, cells - 2, 4) + "\n", "$quiet"))
    if said.formulas or where:
        parts.append(Content("\n"))
    takes = about(said.minutes)
    length = f"about {takes} on two CPU cores" if takes else ""
    length = dot.join(part for part in (length, " needs a GPU" if said.device == "gpu" else "") if part).strip()
    if said.expect:
        parts += [Content.styled("You will see\n", "$quiet")]
        parts.append(Content(f"  {hanging(paragraph(said.expect, ascii), cells, 2, ' ')[1:]}\n\n"))
    outline = [(name, formula(visible(text), ascii)) for name, text in entry.scenario.outline()]
    for name, text in [*outline, ("Takes", length)]:
        if text:
            parts.append(Content.styled(f"{name:<10}", "$quiet"))
            parts.append(Content(hanging(text, cells, 10, " ")[1:] + "\n"))
    parts.append(Content.styled(f"\n{visible(entry.name)}.toml {dot} ", "$quiet"))
    for key, does in (("enter", " starts it, "), ("e", " changes it first, "), ("w", " says how large it is")):
        parts += [Content.styled(key, "bold $accent"), Content.styled(does, "$quiet")]
    return Content.assemble(*parts)


def describe_run(run: RunSummary, cells: int = 84, lines: int = 0, ascii: bool = False) -> Content:
    """Return what a run is, its progress, why it ended, what can be done about that, and its curve in `lines` lines."""
    parts = [Content.styled(visible(run.title or run.scenario), "bold"), Content("\n\n")]
    if run.label.name:
        parts = [Content.styled(visible(run.label.name) + "\n", "bold $accent"), *parts]
    if run.label.note:
        parts.append(Content(hanging(visible(run.label.note), cells, 0) + "\n\n"))
    state = STATES.get(run.status, run.status)
    steps = f"step {count(run.step)}" + (f" of {count(run.steps)}" if run.steps else "")
    bad = run.status in ("failed", "lost", "unreadable")
    parts.append(Content.styled(state, "bold $error" if bad else "bold"))
    parts.append(Content(f"  {steps}\n"))
    if run.reason:
        parts.append(Content.styled(visible(run.reason) + "\n", "$error" if bad else ""))
    if run.stale and run.going:
        parts.append(Content.styled(visible(run.stale) + "\n", "bold $error"))
    if (advice := what_to_do(run)) and not run.machine:
        parts.append(Content.styled(advice + "\n", "$quiet"))
    rows = [
        ("scenario", visible(run.scenario)),
        ("changed", visible(run.changes)),
        ("machine", visible(run.machine)),
        ("started", calendar(run.created) if run.created else ""),
        ("took" if not run.going else "runs for", duration(run.seconds) if run.seconds else ""),
        ("to go", duration(run.seconds_left) if run.going and run.seconds_left is not None else ""),
        (visible(run.metric), number(run.value) if run.value is not None else ""),
        ("parameters", count(run.facts["parameters"]) if isinstance(run.facts.get("parameters"), int) else ""),
    ]
    parts.append(Content("\n"))
    for name, value in rows:
        if value:
            parts += [Content.styled(f"{name:<12}", "$quiet"), Content(hanging(value, cells, 12, " ")[1:] + "\n")]
    told = run.facts.get("source")
    place = f"{told.get('path', '')}" if run.source and isinstance(told, dict) else str(run.path)
    parts.append(Content.styled(f"\n{visible(place)}", "$quiet"))
    parts.append(Content("\n\n"))
    for key, does in (("enter", " opens it, "), ("w", " says why it is where it is")):
        parts += [Content.styled(key, "bold $accent"), Content.styled(does, "$quiet")]
    if lines > 5:
        parts += [Content("\n\n"), *small_chart(run, cells, lines - 2, ascii)]
    return Content.assemble(*parts)


def small_chart(run: RunSummary, cells: int, lines: int, ascii: bool = False) -> list[Content]:
    """Return the list's small curve with axes; [] if there is none."""
    if len(run.curve) < 3:
        return []
    values = np.array(run.curve)
    steps = np.linspace(run.first, run.step, len(values))
    size = max(2, lines - 3)
    drawn = curve.draw([Curve("", steps, values, "line")], max(8, cells - 8), size, ascii=ascii)
    if drawn is not None:  # the labels of the y axis determine how many columns are left
        drawn = curve.draw([Curve("", steps, values, "line")], max(8, cells - margin(drawn)), size, ascii=ascii)
    if drawn is None:
        return []
    unit = kind_of_run(run.kind).metric(run.metric).unit
    named = visible(run.metric) + (f", {unit}" if unit else "")
    role = {"axis": "$quiet", "unit": "$quiet"}
    return [
        Content.styled(text, role.get(str(piece), "" if piece == "empty" else "$accent"))
        for line in plot_lines(drawn, Furniture(named), ascii)
        for text, piece in [*line, ("\n", "empty")]
    ]


def what_to_do(run: RunSummary) -> str:
    """Return one sentence on what can be done about the state of a run; "" if nothing is needed."""
    if run.source:
        return f"{run.source}'s log; txlab only reads it."
    if run.recorded:
        return "Its process ended without a message." if run.status == "lost" else ""
    return {
        "lost": "Its process ended without a message; r resumes it from its last checkpoint.",
        "interrupted": "r resumes it where it was.",
        "stopped": "r resumes it where it was.",
        "failed": "r goes on from the last checkpoint; log.txt in its folder has the details.",
        "created": "The process starts; the first step comes after the probe has chosen how to compute.",
        "paused": "r lets it go on.",
    }.get(run.status, "")


NO_RUNS = "no runs yet: enter starts one"
NO_MATCH = Content.assemble(
    Content.styled("No match\n\n", "bold"),
    Content.styled("esc clears the filter; a scenario file of your own is started with\n", "$quiet"),
    Content("txlab run FILE.toml"),
)


def place_of(entry: CatalogueEntry) -> tuple[int, bool, float]:
    """Sort key: by chapter; those that need a GPU last; quick ones first, those of unknown duration after them."""
    said = entry.scenario.about
    return list(CHAPTERS).index(said.chapter), said.device == "gpu", said.minutes or float("inf")
