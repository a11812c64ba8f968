"""The Lab's description of a scenario or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual.content import Content

from txlab.drawing import curve
from txlab.drawing.curve import Curve
from txlab.drawing.explanation import formula_lines, wrap_text
from txlab.drawing.formatting import STATES, about, calendar, count, duration, number
from txlab.drawing.plot import Furniture, margin, plot_lines
from txlab.drawing.text import formula, sentences, visible, width
from txlab.experiments.kind import kind_of_run
from txlab.experiments.schema import CATALOGUE_ORDER
from txlab.runs.summary import RunSummary
from txlab.tui.formula_links import link_citations
from txlab.tui.theme import Signs

if TYPE_CHECKING:
    from txlab.runs.scenario import CatalogueEntry


TOUR = (
    "A small GPT learns to copy, here, within a minute. You start it, watch a head appear that does the copying, turn "
    "the learning rate, switch the head off, go back in time, and ask why a number is what it is. Press enter: a line "
    "above the keys says what to press next."
)


SHORTEST = 40  # characters of a sentence that says something alone


def paragraph(text: str, ascii: bool = False) -> str:
    """Return a file's text made safe to show; its own line breaks are kept."""
    return "\n\n".join(formula(" ".join(part.split()), ascii) for part in text.strip().split("\n\n"))


def hanging(text: str, cells: int, indent: int, first: str = "") -> str:
    """Fold a text to `cells` with a hanging indent; `first` precedes the first line.

    >>> print(hanging("one two three", 9, 2))
    one two
      three
    """
    room = max(8, cells - indent)
    lines = wrap_text(text, room)
    if not first and len(lines) > 1 and width(lines[0]) <= room:
        whole = wrap_text(text, max(8, cells))  # without a prefix the first line has the full width
        rest = text[len(whole[0]) :].strip()
        lines = [whole[0], *(wrap_text(rest, room) if rest else [])]
    return first + f"\n{' ' * indent}".join(lines)


def describe_scenario(entry: CatalogueEntry, cells: int = 84, ascii: bool = False) -> Content:
    """Return title, purpose, formulas, sources, what to look for and the duration, `cells` wide."""
    described = entry.scenario.about
    dot = Signs.dot
    parts = [Content.styled(formula(described.title or entry.name, ascii), "bold"), Content("\n\n")]
    first, rest = first_sentence(paragraph(described.shows, ascii))
    if first:
        parts.append(Content(first + "\n\n"))
    for equation in described.formulas:
        for line in formula_lines(formula(equation, ascii), cells - 2):
            parts.append(Content.styled(f"  {line}\n", "$accent"))
    where = [
        *([formula(described.source, ascii)] if described.source else []),
        *([f"MATH {', '.join(described.math)}"] if described.math else []),
    ]
    for part in where:
        parts.append(link_citations(Content.styled("  " + hanging(part, cells - 2, 4) + "\n", "$quiet")))
    if described.math:
        parts += [Content.styled("  M", "bold $accent"), Content.styled(f" opens {described.math[0]}\n", "$quiet")]
    if described.formulas or where:
        parts.append(Content("\n"))
    takes = about(described.minutes)
    length = f"about {takes} on two CPU cores" if takes else ""
    length = dot.join(part for part in (length, " needs a GPU" if described.device == "gpu" else "") if part).strip()
    seen, more = first_sentence(paragraph(described.expect, ascii))
    if seen:
        parts += [Content.styled("You will see\n", "$quiet")]
        parts.append(Content(f"  {hanging(seen, cells, 2, ' ')[1:]}\n\n"))
    outline = [(name, formula(visible(text), ascii)) for name, text in entry.scenario.outline()]
    for name, text in [*outline, ("Takes", length)]:
        if text:
            parts.append(Content.styled(f"{name:<10}", "$quiet"))
            parts.append(Content(hanging(text, cells, 10, " ")[1:] + "\n"))
    parts.append(Content.styled(f"\n{visible(entry.name)}.toml {dot} ", "$quiet"))
    for key, does in (("enter", " starts it, "), ("e", " changes it first, "), ("w", " says how large it is")):
        parts += [Content.styled(key, "bold $accent"), Content.styled(does, "$quiet")]
    for heading, text in (("More about it", rest), ("More of what you will see", more)):
        if text:
            parts += [Content.styled(f"\n\n{heading}\n", "$quiet"), Content(text)]
    return Content.assemble(*parts)


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, with the next one if it is short, and the rest.

    >>> first_sentence("Ten sweeps. After them the values are exact to three digits. Others follow.")
    ('Ten sweeps. After them the values are exact to three digits.', 'Others follow.')
    """
    first, *more = sentences(text)
    while len(first) < SHORTEST and more:
        first = f"{first} {more.pop(0)}"
    return first, " ".join(more)


def describe_run(run: RunSummary, cells: int = 84, lines: int = 0, ascii: bool = False) -> Content:
    """Return a run's description, progress, reason of its end, advice, and its curve in `lines` lines."""
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
    source = run.facts.get("source")
    place = f"{source.get('path', '')}" if run.source and isinstance(source, dict) else str(run.path)
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
    """Return one sentence of advice on the state of a run; "" if nothing is needed."""
    if run.source:
        return f"{run.source}'s log; txlab only reads it."
    if run.recorded:
        return "Its process ended without a message." if run.status == "lost" else ""
    return {
        "lost": "Its process ended without a message; r resumes it from its last checkpoint.",
        "interrupted": "r resumes it where it was.",
        "stopped": "r resumes it where it was.",
        "failed": "r continues from the last checkpoint; log.txt in its folder has the details.",
        "created": "The process starts; the first step comes after the probe has chosen how to compute.",
        "paused": "r continues it.",
    }.get(run.status, "")


NO_RUNS = "no runs yet: enter starts one"
NO_MATCH = Content.assemble(
    Content.styled("No match\n\n", "bold"),
    Content.styled("esc clears the filter; a scenario file of your own is started with\n", "$quiet"),
    Content("txlab run FILE.toml"),
)


def describe_tour(cells: int = 84) -> Content:
    """Return what the tour is, and the other lectures."""
    from txlab.runs.lecture import FIRST_STEPS, shipped_lectures

    others = ", ".join(name for name in shipped_lectures() if name != FIRST_STEPS)
    return Content.assemble(
        Content.styled("A tour of ten minutes", "bold"),
        "\n\n",
        hanging(TOUR, cells, 0),
        "\n\n",
        Content.styled(hanging(f"The other lectures: {others}. The palette (:) opens them too.", cells, 0), "$quiet"),
    )


def place_of(entry: CatalogueEntry) -> tuple[int, bool, float]:
    """Sort key: by chapter; GPU scenarios last; quick ones first, unknown durations after them."""
    described = entry.scenario.about
    return CATALOGUE_ORDER.index(described.chapter), described.device == "gpu", described.minutes or float("inf")
